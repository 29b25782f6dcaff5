"""LightGBM's trees, evaluated without LightGBM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from surerec._threads import run_together
from surerec.measures._aggregates import equal_columns
from surerec.measures._vectors import aligned_room
from surerec.measures.learned._text import MOST_LEAVES
from surerec.measures.learned._tree_kernels import STRIP, add_trees

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from surerec.measures.learned._text import Tree


_SMALL: Final = 32
"""Leaves of trees whose masks take 32 bits, which are twice as fast as 64."""
_NODE: Final = 0.035
"""Nanoseconds that a node takes in a column."""


@dataclass(frozen=True)
class Trees:
    """Trees as flat arrays: the nodes of tree ``t`` stand at ``starts[t]:starts[t + 1]``."""

    starts: NDArray[np.int64]
    features: NDArray[np.int64]
    thresholds: NDArray[np.float32]
    keeps: NDArray[np.unsignedinteger]
    """The leaves that are left where a node's value is above its threshold: all but those below it
    to the left."""
    rights: NDArray[np.unsignedinteger]
    """The leaves below a node to the right."""
    leaf_values: NDArray[np.float64]
    """Of each tree (row), from left to right."""

    @classmethod
    def of(cls, trees: Sequence[Tree]) -> Trees:
        """Flatten trees."""
        most = max(len(tree.leaf_values) for tree in trees)
        n_bits, kind = (_SMALL, np.uint32) if most <= _SMALL else (MOST_LEAVES, np.uint64)
        flat = [_flat(tree, (1 << n_bits) - 1) for tree in trees]
        leaf_values = np.zeros((len(trees), n_bits))
        for number, (*_, values) in enumerate(flat):
            leaf_values[number, : len(values)] = values
        return cls(
            np.concatenate(([0], np.cumsum([len(tree.features) for tree in trees]))),
            np.array([feature for tree in trees for feature in tree.features], dtype=np.int64),
            np.concatenate([thresholds for thresholds, *_ in flat]),
            np.array([keep for _, keeps, *_ in flat for keep in keeps], dtype=kind),
            np.array([right for *_, rights, _ in flat for right in rights], dtype=kind),
            leaf_values,
        )

    def add_to(
        self,
        scores: NDArray[np.float64],
        features: NDArray[np.float32],
        *,
        in_threads: bool = False,
    ) -> None:
        """Add what the trees say of each column of the features; other threads may help."""

        def add(columns: tuple[int, int]) -> None:
            add_trees(
                features,
                *columns,
                self.starts,
                self.features,
                self.thresholds,
                self.keeps,
                self.rights,
                self.leaf_values,
                aligned_room((len(features), STRIP), np.float32),
                scores,
            )

        work = len(scores) * len(self.features) if in_threads else 0.0
        run_together(add, equal_columns(len(scores), _NODE * work))


def _flat(tree: Tree, whole: int) -> tuple[NDArray[np.float32], list[int], list[int], list[float]]:
    """Give a tree's thresholds and masks, and its leaves' values from left to right."""
    order: list[int] = []
    keeps, rights = [0] * len(tree.left), [0] * len(tree.left)

    def walk(node: int) -> int:
        """Give the bits of the leaves below, which are numbered from left to right."""
        if node < 0:
            order.append(~node)
            return 1 << (len(order) - 1)
        below = walk(tree.left[node])
        keeps[node] = ~below & whole
        rights[node] = walk(tree.right[node])
        return below | rights[node]

    walk(0 if tree.left else ~0)
    exact = np.array(tree.thresholds, dtype=np.float64)
    # The largest 32-bit number not above: then 32-bit values compare as LightGBM compares them.
    with np.errstate(over="ignore"):  # infinite, or the largest that is finite
        thresholds = exact.astype(np.float32)
    above = thresholds.astype(np.float64) > exact
    thresholds[above] = np.nextafter(thresholds[above], np.float32(-np.inf))
    return thresholds, keeps, rights, [tree.leaf_values[leaf] for leaf in order]
