"""Where rows of precedence counts come from: one protocol, several strategies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.precedence._spans import Spans, Ties

__all__ = ["DenseRows", "LeftOutRows", "OnDemandRows", "RowStore"]


class RowStore(Protocol):
    """Gives rows of precedence counts; all that the rest of surerec knows of their storage.

    Rows are uint32, one count for each item, and not to be written to. A store answers the same
    whatever it holds and whatever it counts when asked.
    """

    def followers(self, item: int) -> NDArray[np.uint32]:
        """Give ``PC(item, ·)``: how many users took each item after this one."""

    def predecessors(self, item: int) -> NDArray[np.uint32]:
        """Give ``PC(·, item)``: how many users took each item before this one."""


class DenseRows:
    """All rows of both directions in memory."""

    def __init__(
        self, followers: NDArray[np.uint32], predecessors: NDArray[np.uint32] | None = None
    ) -> None:
        self._followers = followers.view()
        self._predecessors = (
            np.ascontiguousarray(followers.T) if predecessors is None else predecessors.view()
        )
        self._followers.flags.writeable = False
        self._predecessors.flags.writeable = False

    @staticmethod
    def bytes_needed(n_items: int) -> int:
        """Give the memory that both directions of `n_items` items take."""
        return 2 * n_items * n_items * np.dtype(np.uint32).itemsize

    def followers(self, item: int) -> NDArray[np.uint32]:
        """Give ``PC(item, ·)``."""
        row: NDArray[np.uint32] = self._followers[item]
        return row

    def predecessors(self, item: int) -> NDArray[np.uint32]:
        """Give ``PC(·, item)``."""
        row: NDArray[np.uint32] = self._predecessors[item]
        return row


@dataclass(frozen=True)
class OnDemandRows:
    """No row in memory: each is counted from the profiles when it is asked for."""

    following: Spans
    preceding: Spans

    def followers(self, item: int) -> NDArray[np.uint32]:
        """Give ``PC(item, ·)``."""
        return self.following.count_row(item)

    def predecessors(self, item: int) -> NDArray[np.uint32]:
        """Give ``PC(·, item)``."""
        return self.preceding.count_row(item)


@dataclass(frozen=True)
class LeftOutRows:
    """Another store's rows without one user's contribution, subtracted when a row is asked for."""

    rows: RowStore
    items: NDArray[np.uint32]
    """That user's profile, in time order."""
    times: NDArray[np.int64]
    ties: Ties

    def followers(self, item: int) -> NDArray[np.uint32]:
        """Give ``PC(item, ·)`` over the other users."""
        row = self.rows.followers(item)
        place = self._place(item)
        if place is None:
            return row
        if self.ties == "strict":
            later = self.items[self.times > self.times[place]]
        else:
            later = self.items[place + 1 :]
        return _minus_one(row, later)

    def predecessors(self, item: int) -> NDArray[np.uint32]:
        """Give ``PC(·, item)`` over the other users."""
        row = self.rows.predecessors(item)
        place = self._place(item)
        if place is None:
            return row
        if self.ties == "strict":
            earlier = self.items[self.times < self.times[place]]
        else:
            earlier = self.items[:place]
        return _minus_one(row, earlier)

    def _place(self, item: int) -> int | None:
        places = np.flatnonzero(self.items == item)
        return int(places[0]) if places.size else None


def _minus_one(row: NDArray[np.uint32], items: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Take one person out of a row: a profile holds no item twice, so each is subtracted once."""
    rest = row.copy()
    rest[items] -= np.uint32(1)
    return rest
