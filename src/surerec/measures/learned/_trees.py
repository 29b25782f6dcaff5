"""LightGBM's trees, evaluated without LightGBM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from surerec.measures.learned._kernels import add_trees
from surerec.measures.learned._text import MOST_LEAVES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from surerec.measures.learned._text import Tree


_SMALL: Final = 32
"""Leaves of trees whose masks take 32 bits, which are twice as fast as 64."""


@dataclass(frozen=True)
class _Bits:
    """Masks of some width, and how the place of their lowest bit is found (de Bruijn)."""

    width: int
    spread: int
    kind: type[np.unsignedinteger]

    @property
    def whole(self) -> int:
        """Give all bits."""
        return (1 << self.width) - 1

    @property
    def shift(self) -> int:
        """Give how far the highest bits, which tell places apart, are from the lowest."""
        return self.width - self.width.bit_length() + 1

    def constants(self) -> NDArray[np.unsignedinteger]:
        """Give what the kernel takes."""
        return np.array([self.whole, 0, self.spread, self.shift], dtype=self.kind)

    def places(self) -> NDArray[np.int64]:
        """Give the lowest bit by the highest bits of its product."""
        places = np.zeros(self.width, dtype=np.int64)
        for bit in range(self.width):
            places[((self.spread << bit) & self.whole) >> self.shift] = bit
        return places


_BITS: Final = (
    _Bits(_SMALL, 0x077CB531, np.uint32),
    _Bits(MOST_LEAVES, 0x03F79D71B4CB0A89, np.uint64),
)


@dataclass(frozen=True)
class Trees:
    """Trees as flat arrays: the nodes of tree ``t`` stand at ``starts[t]:starts[t + 1]``."""

    starts: NDArray[np.int64]
    features: NDArray[np.int64]
    thresholds: NDArray[np.float32]
    keeps: NDArray[np.unsignedinteger]
    """The leaves that are left where a node's value is above its threshold."""
    leaf_values: NDArray[np.float64]
    places: NDArray[np.int64]
    constants: NDArray[np.unsignedinteger]
    """What finds the lowest bit of a mask: see `add_trees`."""

    @classmethod
    def of(cls, trees: Sequence[Tree]) -> Trees:
        """Flatten trees."""
        most = max(len(tree.leaf_values) for tree in trees)
        bits = _BITS[most > _SMALL]
        flat = [_flat(tree, bits.whole) for tree in trees]
        leaf_values = np.zeros((len(trees), bits.width))
        for number, (_, _, values) in enumerate(flat):
            leaf_values[number, : len(values)] = values
        return cls(
            np.concatenate(([0], np.cumsum([len(tree.features) for tree in trees]))),
            np.array([feature for tree in trees for feature in tree.features], dtype=np.int64),
            np.concatenate([thresholds for thresholds, _, _ in flat]),
            np.array([keep for _, keeps, _ in flat for keep in keeps], dtype=bits.kind),
            leaf_values,
            bits.places(),
            bits.constants(),
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
            self.places,
            self.constants,
            scores,
        )


def _flat(tree: Tree, whole: int) -> tuple[NDArray[np.float32], list[int], list[float]]:
    """Give a tree's thresholds and masks, and its leaves' values from left to right."""
    order: list[int] = []
    keeps = [0] * len(tree.left)

    def walk(node: int) -> int:
        """Give the bits of the leaves below, which are numbered from left to right."""
        if node < 0:
            order.append(~node)
            return 1 << (len(order) - 1)
        below = walk(tree.left[node])
        keeps[node] = ~below & whole
        return below | walk(tree.right[node])

    walk(0 if tree.left else ~0)
    exact = np.array(tree.thresholds, dtype=np.float64)
    # The largest 32-bit number not above: then 32-bit values compare as LightGBM compares them.
    with np.errstate(over="ignore"):  # infinite, or the largest that is finite
        thresholds = exact.astype(np.float32)
    above = thresholds.astype(np.float64) > exact
    thresholds[above] = np.nextafter(thresholds[above], np.float32(-np.inf))
    return thresholds, keeps, [tree.leaf_values[leaf] for leaf in order]
