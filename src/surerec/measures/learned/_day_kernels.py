"""Takers of items counted by day, some users left out: kernels that release the GIL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray


@njit(nogil=True, cache=True)
def _place(days: NDArray[np.int32], begin: int, end: int, limit: int) -> int:
    """Give where the days before a limit end, among ascending ones."""
    while begin < end:
        middle = (begin + end) // 2
        if days[middle] < limit:
            begin = middle + 1
        else:
            end = middle
    return begin


@njit(nogil=True, cache=True)
def _own_between(
    last: int, before: NDArray[np.int64], own_days: NDArray[np.int32], begin: int, end: int
) -> int:
    """Count the own takings of an item, chained from the last, from one day to before another."""
    found = 0
    while last >= 0:
        if begin <= own_days[last] < end:
            found += 1
        last = before[last]
    return found


@njit(nogil=True, cache=True)
def count_by_day(
    offsets: NDArray[np.int64],
    days: NDArray[np.int32],
    columns: NDArray[np.int64],
    limits: NDArray[np.int32],
    own_items: NDArray[np.int64],
    own_days: NDArray[np.int32],
    counts: NDArray[np.float32],
) -> None:
    """Count the takers of each column before each day, and how old it was on the first of them.

    `days` of item ``j`` ascend at ``offsets[j]:offsets[j + 1]``; the latest limit is the first.
    Users who took `own_items` on `own_days` are left out. The last row of `counts` is the age in
    days on the first limit, −1 for what nobody had taken.
    """
    # The own takings of each item are chained, as several users may have taken it.
    last_of, before = np.full(len(offsets) - 1, -1), np.empty(len(own_items), np.int64)
    for k in range(len(own_items)):
        before[k] = last_of[own_items[k]]
        last_of[own_items[k]] = k
    earliest = -(2**31)
    for j in range(len(columns)):
        begin, end, own = offsets[columns[j]], offsets[columns[j] + 1], last_of[columns[j]]
        for k in range(len(limits)):
            end = _place(days, begin, end, limits[k])  # the next limit is earlier
            counts[k, j] = end - begin - _own_between(own, before, own_days, earliest, limits[k])
        if counts[0, j] <= 0:
            counts[-1, j] = -1
            continue
        first, stop = begin, offsets[columns[j] + 1]
        while True:  # a day on which somebody else took it: there is one
            after = _place(days, first, stop, days[first] + 1)
            mine = _own_between(own, before, own_days, days[first], days[first] + 1)
            if after - first > mine:
                break
            first = after
        counts[-1, j] = limits[0] - days[first]
