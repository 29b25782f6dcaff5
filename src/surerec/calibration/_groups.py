"""Groups of people by how much is known of them, each with a threshold of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class LengthGroups:
    """Groups by the number of known items; ``edges[g]`` is the smallest of group g + 1.

    Examples
    --------
    >>> groups = LengthGroups.equal(np.array([5, 6, 7, 20, 30, 40]), 2)
    >>> groups.of(np.array([7, 8, 100])).tolist(), groups.in_words(0), groups.in_words(1)
    ([0, 0, 1], 'fewer than 20 known items', '20 or more known items')
    >>> LengthGroups.equal(np.array([9, 9, 9]), 3).n
    1
    """

    edges: NDArray[np.int64]

    @classmethod
    def equal(cls, lengths: NDArray[np.int64], n_groups: int) -> LengthGroups:
        """Cut the lengths into groups of about equal size; fewer where many are alike."""
        if not lengths.size:
            return cls(np.empty(0, dtype=np.int64))
        n_groups = min(n_groups, len(lengths))  # more would be the same
        shares = np.arange(1, n_groups) / n_groups
        edges = np.unique(np.quantile(lengths, shares, method="higher"))
        # No group without people: the first edge lies above somebody.
        return cls(edges[edges > lengths.min()].astype(np.int64))

    @property
    def n(self) -> int:
        """How many groups there are."""
        return len(self.edges) + 1

    def of(self, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        """Give the group of each length."""
        return np.searchsorted(self.edges, lengths, side="right").astype(np.int64)

    def in_words(self, group: int) -> str:
        """Say who is in a group."""
        if self.n == 1:
            return "any number of known items"
        if group == 0:
            return f"fewer than {self.edges[0]:,} known items"
        if group == self.n - 1:
            return f"{self.edges[-1]:,} or more known items"
        return f"{self.edges[group - 1]:,} to {self.edges[group] - 1:,} known items"
