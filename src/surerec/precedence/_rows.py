"""Where rows of precedence counts come from: one protocol, several strategies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from surerec._memory import available_memory, in_words
from surerec.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.precedence._spans import Direction, Spans

__all__ = ["Block", "DenseRows", "LeftOutRows", "OnDemandRows", "RowStore"]

_AFTER_ALL = np.iinfo(np.int64).max
_SURELY_FITS = 1 << 26  # looking at the free memory costs more than so small a block


class RowStore(Protocol):
    """Gives rows of precedence counts; all that the rest of surerec knows of their storage.

    Rows are uint32, one count for each item, and not to be written to. A store answers the same
    whatever it holds and whatever it counts when asked.
    """

    def followers(self, item: int) -> NDArray[np.uint32]:
        """Give ``PC(item, ·)``: how many users took each item after this one."""

    def predecessors(self, item: int) -> NDArray[np.uint32]:
        """Give ``PC(·, item)``: how many users took each item before this one."""

    def block(self, direction: Direction, items: NDArray[np.integer]) -> Block:
        """Give the rows of several items at once, with no copy where the store holds them."""


class Block(NamedTuple):
    """Rows of counts for a kernel: row ``k`` is ``matrix[picks[k]]``."""

    matrix: NDArray[np.uint32]
    picks: NDArray[np.int64]


def check_fits(n_rows: int, n_items: int) -> None:
    """Refuse a profile whose rows would not fit in memory, before they are made."""
    needed = 4 * n_rows * n_items
    if needed < _SURELY_FITS:
        return
    free = available_memory()
    if needed > free:
        raise InputError(
            f"The rows of a profile of {n_rows:,} items need {in_words(needed)}, and "
            f"{in_words(free)} is free: give a shorter history."
        )


def stacked(rows: RowStore, direction: Direction, items: NDArray[np.integer]) -> Block:
    """Ask a store for rows one by one and stack them, within the free memory."""
    give = rows.followers if direction == "followers" else rows.predecessors
    first = give(int(items[0]))
    check_fits(len(items), len(first))
    matrix = np.empty((len(items), len(first)), dtype=np.uint32)
    matrix[0] = first
    for place in range(1, len(items)):
        matrix[place] = give(int(items[place]))
    return Block(matrix, np.arange(len(items)))


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

    def block(self, direction: Direction, items: NDArray[np.integer]) -> Block:
        """Give the whole matrix, and which of its rows are meant."""
        matrix = self._followers if direction == "followers" else self._predecessors
        return Block(matrix, np.asarray(items, dtype=np.int64))


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

    def block(self, direction: Direction, items: NDArray[np.integer]) -> Block:
        """Count the rows of several items."""
        return stacked(self, direction, items)


@dataclass(frozen=True)
class LeftOutRows:
    """Another store's rows without one user's contribution, subtracted when a row is asked for."""

    rows: RowStore
    items: NDArray[np.uint32]
    """What that user took, by code."""
    instants: NDArray[np.int64]
    """When: an item precedes another if its instant is smaller."""

    def followers(self, item: int) -> NDArray[np.uint32]:
        """Give ``PC(item, ·)`` over the other users."""
        row = self.rows.followers(item)
        return _minus_one(row, self.items[self.instants > self._instant(item, never=_AFTER_ALL)])

    def predecessors(self, item: int) -> NDArray[np.uint32]:
        """Give ``PC(·, item)`` over the other users."""
        row = self.rows.predecessors(item)
        return _minus_one(row, self.items[self.instants < self._instant(item, never=-1)])

    def block(self, direction: Direction, items: NDArray[np.integer]) -> Block:
        """Give the rows of several items over the other users."""
        return stacked(self, direction, items)

    def _instant(self, item: int, never: int) -> int:
        own = self.instants[self.items == item]
        return int(own[0]) if own.size else never


def _minus_one(row: NDArray[np.uint32], items: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Take one person out of a row: a profile holds no item twice, so each is subtracted once."""
    if not items.size:
        return row
    rest = row.copy()
    rest[items] -= np.uint32(1)
    return rest
