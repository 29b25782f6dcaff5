"""LightGBM's text of trees, read strictly and written anew: its own reader trusts what it reads."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from surerec.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


MOST_LEAVES: Final = 64
"""Leaves of a tree at the most: one bit each."""
_PLAIN: Final = {0, 2}  # a split by a number with no special place for missing ones
_PLAIN_SPLIT: Final = "2"


@dataclass(frozen=True)
class Tree:
    """A tree as LightGBM numbers it: children below 0 are leaves, ``~child``."""

    features: list[int]
    thresholds: list[float]
    left: list[int]
    right: list[int]
    leaf_values: list[float]
    node_counts: list[int]
    """Training examples that came by each node, and to each leaf."""
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
        # A node that had two parents, or led back, would be walked without end.
        children = sorted(self.left + self.right)
        once = [*range(-n_leaves, 0), *range(1, n_nodes)] if n_nodes else []
        if children != once or not self._descends():
            raise ValueError("its nodes make no tree")

    def among(self, places: Sequence[int]) -> Tree:
        """Give the same tree where its features are some of more, at these places."""
        return replace(self, features=[places[feature] for feature in self.features])

    def times(self, factor: float) -> Tree:
        """Give the same tree where its leaves weigh more, or less."""
        return replace(self, leaf_values=[factor * value for value in self.leaf_values])

    def _descends(self) -> bool:
        """Tell whether all nodes are below the first; each has one parent."""
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
        What `model_to_string` gave.
    n_features : int, optional
        How many features there are: a split by another is refused.

    Raises
    ------
    InputError
        If it is no such text, or has splits that surerec's own models never have.
    """
    sections = text.split("end of trees", maxsplit=1)[0].split("Tree=")[1:]
    if not sections:
        raise InputError("This is no text of a LightGBM model: it has no trees.")
    trees = []
    for number, section in enumerate(sections):
        lines = (line.partition("=") for line in section.splitlines())
        try:
            tree = _read_tree({name: value.split() for name, _, value in lines})
        except (KeyError, ValueError, OverflowError) as error:
            raise InputError(f"Tree {number} of the model text is damaged ({error}).") from error
        highest = max(tree.features, default=0)
        if min(tree.features, default=0) < 0 or highest >= (n_features or highest + 1):
            raise InputError(f"Tree {number} of the model text splits by a feature that is none.")
        trees.append(tree)
    return trees


def _read_tree(fields: dict[str, list[str]]) -> Tree:
    values = [float(value) for value in fields["leaf_value"]]
    if len(values) == 1:
        return Tree([], [], [], [], values, [], [0])
    if len(values) > MOST_LEAVES:
        raise InputError(f"A tree of {len(values)} leaves: {MOST_LEAVES} are possible here.")
    if not {int(kind) for kind in fields["decision_type"]} <= _PLAIN:
        raise InputError("A tree splits by categories or missing values, which are not known here.")

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
    """Write trees as LightGBM's text, with all that its predictions need and nothing else."""
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
