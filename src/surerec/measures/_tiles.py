"""Rows of a profile without one user's own counts, as input of all kernels of measures.

Rows come from any store. The user's own counts are subtracted while rows are read, so that the
other kernels depend on neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numba import njit

from surerec.precedence.kernels import load

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.precedence import RowSource


COUNT, SHARE, RATIO, ABSENT = 0, 1, 2, 3
LOW, MIDDLE, TOTAL, HIGH = 1, 2, 4, 8

NARROW = 2  # bytes

Statistic = Literal["score", "count", "share", "ratio", "absent"]
Aggregate = Literal["top", "minimum", "median", "mean", "maximum"]


class LeftOutUser(NamedTuple):
    """Profile of the user to leave out, in time order, and the instants of the rows' items."""

    items: NDArray[np.uint32]
    instants: NDArray[np.int64]
    """An item precedes another if its instant is smaller."""
    of_rows: NDArray[np.int64]
    """Instant of each row's item; −1 if the user did not consume it."""
    support: NDArray[np.int64]
    """Support of the rows' items over the other users."""

    def without_own(self) -> LeftOutUser:
        """Return the same for rows from which the user is already left out."""
        return self._replace(items=self.items[:0], instants=self.instants[:0])


@njit(nogil=True, cache=True)
def leave_out(
    history: NDArray[np.int64],
    support: NDArray[np.uint32],
    items: NDArray[np.uint32],
    times: NDArray[np.int64],
    strict: bool,  # noqa: FBT001  # kernels have positional arguments only
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the instants of a user's items, those of the rows' items, and the rows' support."""
    instants = np.arange(len(items))
    if strict:
        for place in range(1, len(items)):
            instants[place] = instants[place - 1] + (times[place] != times[place - 1])
    when = np.full(len(support), -1)
    for place in range(len(items)):
        when[items[place]] = instants[place]
    of_rows = np.empty(len(history), np.int64)
    rest = np.empty(len(history), np.int64)
    for k in range(len(history)):
        of_rows[k] = when[history[k]]
        rest[k] = np.int64(support[history[k]]) - (of_rows[k] >= 0)
    return instants, of_rows, rest


@njit(nogil=True, cache=True)
def instants_of_columns(out: LeftOutUser, first: int, last: int) -> NDArray[np.uint32]:
    """Return the instants, from 1, of the items of some columns; 0 where the user has none."""
    when = np.zeros(last - first, np.uint32)
    for place in range(len(out.items)):
        item = np.int64(out.items[place])
        if first <= item < last:
            when[item - first] = out.instants[place] + 1
    return when


@njit(nogil=True, inline="always")  # a call would be slower than a short tile
def read_others(
    source: RowSource,
    k: int,
    left: int,
    at: int,
    columns: NDArray[np.int64],
    instants: NDArray[np.int64],
    following: bool,  # noqa: FBT001
    row: NDArray[Any],
) -> None:
    """Write the columns of row `k` from `left` on, without a user who consumed its item at `at`.

    The user is in the count if the column's item came later, or earlier if not `following`.
    `columns` and `instants` are those of the user's items, in time order.
    """
    load(source, k, left, row)
    begin = np.searchsorted(instants, at, side="right") if following else 0
    end = len(columns) if following else np.searchsorted(instants, at)
    for place in range(begin, end if at >= 0 else 0):
        row[columns[place]] -= 1


@njit(nogil=True, cache=True)
def own_columns(
    out: LeftOutUser, left: int, right: int, columns: NDArray[np.int64], instants: NDArray[np.int64]
) -> int:
    """Write the user's items among the columns of a tile, in time order; return their number."""
    n = 0
    for place in range(len(out.items)):
        item = np.int64(out.items[place])
        if left <= item < right:
            columns[n] = item - left
            instants[n] = out.instants[place]
            n += 1
    return n


@njit(nogil=True, cache=True)
def in_matrix(source: RowSource) -> bool:
    """Return whether all rows are in the matrix and have 16 bits."""
    inside = len(source.places) == 0 or source.places.max() < len(source.matrix)
    return inside and source.matrix.itemsize == NARROW


class OfCounts(NamedTuple):
    """Aggregation of counts."""

    statistic: int


class OfTotals(NamedTuple):
    """Totals of ratios over rows of 16-bit matrices (CM12)."""

    statistic: int


class OfValues(NamedTuple):
    """Aggregation of shares, ratios and absences over any rows."""

    statistic: int


Way = OfCounts | OfTotals | OfValues


class Task(NamedTuple):
    """One aggregate of a statistic over the rows of a profile."""

    way: Way
    kind: int
    """LOW, MIDDLE, TOTAL or HIGH."""
    following: bool
    """Whether `source` has followers of the rows' items; else predecessors."""
    source: RowSource
    reverse: RowSource
    """The other direction, used by RATIO only."""
    out: LeftOutUser
