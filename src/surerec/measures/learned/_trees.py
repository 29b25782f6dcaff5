"""Trees of LightGBM: strict reading and writing of its text format, and fast evaluation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numba import njit
from numba.cpython.unsafe import numbers

from surerec._threads import run_together
from surerec.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray


MOST_LEAVES: Final = 64
"""Maximum number of leaves of a tree: one bit each."""
_SMALL: Final = 32
"""Maximum number of leaves for 32-bit masks, which are twice as fast as 64-bit masks."""
_TILE = 512  # columns evaluated together
_trailing_zeros: Any = numbers.trailing_zeros  # numba passes the other arguments
_PLAIN: Final = {0, 2}  # numerical splits without special handling of missing values
_PLAIN_SPLIT: Final = "2"


@dataclass(frozen=True)
class Tree:
    """A tree in LightGBM's numbering: a negative child is the leaf ``~child``."""

    features: list[int]
    thresholds: list[float]
    left: list[int]
    right: list[int]
    leaf_values: list[float]
    node_counts: list[int]
    """Number of training examples at each node; `leaf_counts` for leaves."""
    leaf_counts: list[int]

    def __post_init__(self) -> None:
        n_leaves, n_nodes = len(self.leaf_values), len(self.leaf_values) - 1
        nodes = (self.features, self.thresholds, self.left, self.right, self.node_counts)
        if not n_leaves or {len(field) for field in nodes} != {n_nodes}:
            raise ValueError("its fields are of different lengths")
        if len(self.leaf_counts) != n_leaves or min(self.node_counts + self.leaf_counts) < 0:
            raise ValueError("its counts are wrong")
        if not np.isfinite(self.thresholds + self.leaf_values).all():
            raise ValueError("a number is not finite")
        # A node with two parents, or a cycle, would cause an endless loop.
        children = sorted(self.left + self.right)
        once = [*range(-n_leaves, 0), *range(1, n_nodes)] if n_nodes else []
        if children != once or not self._descends():
            raise ValueError("its nodes make no tree")

    def renumbered(self, places: Sequence[int]) -> Tree:
        """Return the tree with other feature numbers."""
        return replace(self, features=[places[feature] for feature in self.features])

    def scaled(self, factor: float) -> Tree:
        """Return the tree with its leaf values multiplied by a factor."""
        return replace(self, leaf_values=[factor * value for value in self.leaf_values])

    def _descends(self) -> bool:
        """Return whether all nodes are below the root."""
        seen, ahead = 0, [0] if self.left else []
        while ahead:
            node = ahead.pop()
            seen += 1
            ahead += [child for child in (self.left[node], self.right[node]) if child > 0]
        return seen == len(self.left)


def read_trees(text: str, n_features: int | None = None) -> list[Tree]:
    """Read LightGBM's model text.

    Parameters
    ----------
    text : str
        Output of LightGBM's `model_to_string`.
    n_features : int, optional
        Number of features; splits by others are refused.

    Raises
    ------
    InputError
        If the text is damaged, or has splits that surerec does not support.
    """
    sections = text.split("end of trees", maxsplit=1)[0].split("Tree=")[1:]
    if not sections:
        raise InputError("The model text of LightGBM has no trees. Train the model again.")
    trees = []
    for number, section in enumerate(sections):
        lines = (line.partition("=") for line in section.splitlines())
        try:
            tree = _read_tree({name: value.split() for name, _, value in lines})
        except (KeyError, ValueError, OverflowError) as error:
            raise InputError(
                f"Tree {number} of the model text is damaged: {error}. Train the model again."
            ) from error
        highest = max(tree.features, default=0)
        if min(tree.features, default=0) < 0 or highest >= (n_features or highest + 1):
            raise InputError(
                f"Tree {number} of the model text splits by an unknown feature. Train the model "
                "again."
            )
        trees.append(tree)
    return trees


def _read_tree(fields: dict[str, list[str]]) -> Tree:
    values = [float(value) for value in fields["leaf_value"]]
    if len(values) == 1:
        return Tree([], [], [], [], values, [], [0])
    if len(values) > MOST_LEAVES:
        raise InputError(f"A tree has {len(values)} leaves; at most {MOST_LEAVES} are supported.")
    if not {int(kind) for kind in fields["decision_type"]} <= _PLAIN:
        raise InputError("A tree splits by categories or missing values, which is not supported.")

    def whole(name: str) -> list[int]:
        return [int(value) for value in fields[name]]

    thresholds = [float(value) for value in fields["threshold"]]
    return Tree(
        whole("split_feature"),
        thresholds,
        whole("left_child"),
        whole("right_child"),
        values,
        whole("internal_count"),
        whole("leaf_count"),
    )


def write_trees(trees: Sequence[Tree], feature_names: Sequence[str]) -> str:
    """Return trees as LightGBM's text, with only the fields that predictions need."""
    head = {
        "version": "v4",
        "num_class": 1,
        "num_tree_per_iteration": 1,
        "label_index": 0,
        "max_feature_idx": len(feature_names) - 1,
        "objective": "binary sigmoid:1",
        "feature_names": " ".join(feature_names),
        "feature_infos": " ".join("none" for _ in feature_names),
    }
    parts = ["tree", *(f"{name}={value}" for name, value in head.items()), ""]
    for number, tree in enumerate(trees):
        parts += [f"Tree={number}", *_tree_lines(tree), "", ""]
    return "\n".join([*parts, "end of trees", ""])


def _tree_lines(tree: Tree) -> list[str]:
    lines = [f"num_leaves={len(tree.leaf_values)}", "num_cat=0"]
    if tree.features:
        fields: dict[str, tuple[Sequence[float], Callable[[float], str]]] = {
            "split_feature": (tree.features, str),
            "threshold": (tree.thresholds, repr),
            "decision_type": (tree.features, lambda _: _PLAIN_SPLIT),
            "left_child": (tree.left, str),
            "right_child": (tree.right, str),
            "leaf_value": (tree.leaf_values, repr),
            "leaf_count": (tree.leaf_counts, str),
            "internal_count": (tree.node_counts, str),
        }
        lines += [f"{name}={' '.join(map(show, field))}" for name, (field, show) in fields.items()]
    else:
        lines.append(f"leaf_value={tree.leaf_values[0]!r}")
    return [*lines, "is_linear=0", "shrinkage=1"]


@dataclass(frozen=True)
class Trees:
    """Trees as flat arrays: the nodes of tree ``t`` are at ``starts[t]:starts[t + 1]``.

    Masks find a column's leaf (QuickScorer): each node whose test fails removes the leaves to its
    left, and the leftmost remaining leaf is the answer. The work is the same for all columns of
    a tile, so that it compiles to vector code.
    """

    starts: NDArray[np.int64]
    features: NDArray[np.int64]
    thresholds: NDArray[np.float32]
    keeps: NDArray[np.unsignedinteger]
    """Leaves that remain where a value is above the node's threshold."""
    rights: NDArray[np.unsignedinteger]
    """Leaves in the right subtree of a node."""
    leaf_values: NDArray[np.float64]
    """Leaf values of each tree (row), from left to right."""

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

    def add_to(self, scores: NDArray[np.float64], features: NDArray[np.float32]) -> None:
        """Add the trees' values to the score of each column of the features."""
        begins = np.arange(0, len(scores), _TILE)
        low = np.minimum.reduceat(features, begins, axis=1).T.copy()
        high = np.maximum.reduceat(features, begins, axis=1).T.copy()

        nodes = self.starts, self.features, self.thresholds, self.keeps, self.rights
        arrays: Any = *nodes, self.leaf_values, scores

        def add(tile: int) -> None:
            end = min((tile + 1) * _TILE, len(scores))
            _add_trees(features, tile * _TILE, end, low[tile], high[tile], *arrays)

        run_together(add, range(len(begins)))


def _flat(tree: Tree, whole: int) -> tuple[NDArray[np.float32], list[int], list[int], list[float]]:
    """Return a tree's thresholds, masks, and leaf values from left to right."""
    order: list[int] = []
    keeps, rights = [0] * len(tree.left), [0] * len(tree.left)

    def walk(node: int) -> int:
        """Return the bits of the leaves below a node, numbered from left to right."""
        if node < 0:
            order.append(~node)
            return 1 << (len(order) - 1)
        below = walk(tree.left[node])
        keeps[node] = ~below & whole
        rights[node] = walk(tree.right[node])
        return below | rights[node]

    walk(0 if tree.left else ~0)
    exact = np.array(tree.thresholds, dtype=np.float64)
    # Rounded down to 32 bits, so that 32-bit values compare as in LightGBM.
    with np.errstate(over="ignore"):  # infinite, or the largest that is finite
        thresholds = exact.astype(np.float32)
    above = thresholds.astype(np.float64) > exact
    thresholds[above] = np.nextafter(thresholds[above], np.float32(-np.inf))
    return thresholds, keeps, rights, [tree.leaf_values[leaf] for leaf in order]


@njit(nogil=True, cache=True)
def _pick_nodes(
    low: NDArray[np.float32],
    high: NDArray[np.float32],
    starts: NDArray[np.int64],
    features: NDArray[np.int64],
    thresholds: NDArray[np.float32],
    keeps: NDArray[np.unsignedinteger],
    rights: NDArray[np.unsignedinteger],
    picked: NDArray[np.int64],
    ends: NDArray[np.int64],
    common: NDArray[np.unsignedinteger],
    alive: NDArray[np.unsignedinteger],
) -> None:
    """Pick the nodes on which the columns of a tile differ.

    `common` has the leaves that remain after the nodes that all columns fail. Items of similar
    popularity agree on most nodes, and whole subtrees are then unreachable.
    """
    n = 0
    for tree in range(len(ends)):
        common[tree] = alive[tree] = -1  # all leaves
        for node in range(starts[tree], starts[tree + 1]):
            f, keep, here = features[node], keeps[node], alive[tree]
            if here & keep == here or not here & rights[node]:
                continue
            if low[f] > thresholds[node]:
                common[tree] &= keep
                alive[tree] &= keep
            elif high[f] <= thresholds[node]:
                alive[tree] &= ~rights[node]
            else:
                picked[n] = node
                n += 1
        ends[tree] = n


@njit(nogil=True, cache=True)
def _strike(
    values: NDArray[np.float32],
    others: NDArray[np.float32],
    threshold: float,
    other: float,
    keep: int,
    keep_other: int,
    left: NDArray[np.unsignedinteger],
) -> None:
    """Remove leaves where the values of one or of two nodes are above their thresholds."""
    whole = ~(keep ^ keep)
    for j in range(np.uint64(len(left))):
        left[j] = (
            left[j]
            & (keep if values[j] > threshold else whole)
            & (keep_other if others[j] > other else whole)
        )


@njit(nogil=True, cache=True)
def _add_trees(
    values: NDArray[np.float32],
    begin: int,
    end: int,
    low: NDArray[np.float32],
    high: NDArray[np.float32],
    starts: NDArray[np.int64],
    features: NDArray[np.int64],
    thresholds: NDArray[np.float32],
    keeps: NDArray[np.unsignedinteger],
    rights: NDArray[np.unsignedinteger],
    leaf_values: NDArray[np.float64],
    scores: NDArray[np.float64],
) -> None:
    """Add the value of every tree to the scores of a tile of columns.

    `low` and `high` are the minimum and maximum of each feature in the tile.
    """
    picked, ends = np.empty(len(features), np.int64), np.empty(len(leaf_values), np.int64)
    common, alive = np.empty(len(ends), keeps.dtype), np.empty(len(ends), keeps.dtype)
    _pick_nodes(low, high, starts, features, thresholds, keeps, rights, picked, ends, common, alive)
    left, total, first = np.empty(end - begin, keeps.dtype), scores[begin:end], 0
    for tree in range(len(ends)):
        left[:] = common[tree]
        for place in range(first, ends[tree], 2):  # two nodes at a time; the last may apply twice
            one, two = picked[place], picked[min(place + 1, ends[tree] - 1)]
            _strike(
                values[features[one], begin:end],
                values[features[two], begin:end],
                thresholds[one],
                thresholds[two],
                keeps[one],
                keeps[two],
                left,
            )
        first, of_leaves = ends[tree], leaf_values[tree]
        for j in range(np.uint64(len(left))):
            total[j] += of_leaves[_trailing_zeros(left[j])]
