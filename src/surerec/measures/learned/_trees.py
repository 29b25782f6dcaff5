"""LightGBM's trees, read from their own text and evaluated without LightGBM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from surerec.errors import InputError
from surerec.measures.learned._kernels import add_trees

if TYPE_CHECKING:
    from numpy.typing import NDArray


MOST_LEAVES: Final = 32
"""Leaves of a tree at the most: one bit each."""
_PLAIN: Final = {0, 2}  # a split by a number with no special place for missing ones
_DE_BRUIJN: Final = 0x077CB531
_PLACES: Final = np.zeros(32, dtype=np.int64)
for _bit in range(32):
    _PLACES[(((1 << _bit) * _DE_BRUIJN) & 0xFFFFFFFF) >> 27] = _bit


@dataclass(frozen=True)
class Trees:
    """Trees as flat arrays: the nodes of tree ``t`` stand at ``starts[t]:starts[t + 1]``."""

    starts: NDArray[np.int64]
    features: NDArray[np.int64]
    thresholds: NDArray[np.float32]
    keeps: NDArray[np.uint32]
    """The leaves that are left where a node's value is above its threshold."""
    leaf_values: NDArray[np.float64]

    @classmethod
    def from_text(cls, text: str) -> Trees:
        """Read LightGBM's model text.

        Raises
        ------
        InputError
            If it is no such text, or has splits that surerec's own models never have.
        """
        sections = text.split("end of trees", maxsplit=1)[0].split("Tree=")[1:]
        if not sections:
            raise InputError("This is no text of a LightGBM model: it has no trees.")
        starts, features, thresholds, keeps = [0], [], [], []
        leaf_values = np.zeros((len(sections), MOST_LEAVES))
        for number, section in enumerate(sections):
            lines = (line.partition("=") for line in section.splitlines())
            fields = {name: value.split() for name, _, value in lines}
            try:
                tree = _read_tree(fields)
            except (KeyError, ValueError, IndexError, RecursionError) as error:
                raise InputError(
                    f"Tree {number} of the model text is damaged ({error})."
                ) from error
            features += tree[0]
            thresholds.append(tree[1])
            keeps += tree[2]
            leaf_values[number, : len(tree[3])] = tree[3]
            starts.append(len(features))
        return cls(
            np.array(starts),
            np.array(features, dtype=np.int64),
            np.concatenate(thresholds),
            np.array(keeps, dtype=np.uint32),
            leaf_values,
        )

    def add_to(self, scores: NDArray[np.float64], features: NDArray[np.float32]) -> None:
        """Add what the trees say of each column of the features."""
        add_trees(
            features,
            self.starts,
            self.features,
            self.thresholds,
            self.keeps,
            self.leaf_values,
            _PLACES,
            scores,
        )


def _read_tree(
    fields: dict[str, list[str]],
) -> tuple[list[int], NDArray[np.float32], list[int], list[float]]:
    """Give a tree's features, thresholds and masks, and its leaves' values from left to right."""
    values = [float(value) for value in fields["leaf_value"]]
    if len(values) == 1:
        return [], np.empty(0, np.float32), [], values
    if len(values) > MOST_LEAVES:
        raise InputError(f"A tree of {len(values)} leaves: {MOST_LEAVES} are possible here.")
    if not {int(kind) for kind in fields["decision_type"]} <= _PLAIN:
        raise InputError("A tree splits by categories or missing values, which are not known here.")
    left, right = ([int(child) for child in fields[f"{side}_child"]] for side in ("left", "right"))
    order: list[int] = []
    keeps = [0] * len(left)

    def walk(node: int) -> int:
        """Give the bits of the leaves below, which are numbered from left to right."""
        if node < 0:
            order.append(~node)
            return 1 << (len(order) - 1)
        below = walk(left[node])
        keeps[node] = ~below & 0xFFFFFFFF
        return below | walk(right[node])

    walk(0)
    exact = np.array([float(value) for value in fields["threshold"]])
    # The largest 32-bit number not above: then 32-bit values compare as LightGBM compares them.
    thresholds = exact.astype(np.float32)
    above = thresholds.astype(np.float64) > exact
    thresholds[above] = np.nextafter(thresholds[above], np.float32(-np.inf))
    features = [int(feature) for feature in fields["split_feature"]]
    return features, thresholds, keeps, [values[leaf] for leaf in order]
