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
def _age(
    begin: int,
    stop: int,
    days: NDArray[np.int32],
    limit: int,
    own: int,
    before: NDArray[np.int64],
    own_days: NDArray[np.int32],
) -> int:
    """Give how long before a day an item was first taken by somebody else: there is one."""
    first = begin
    while True:
        after = _place(days, first, stop, days[first] + 1)
        mine = _own_between(own, before, own_days, days[first], days[first] + 1)
        if after - first > mine:
            return int(limit - days[first])
        first = after


@njit(nogil=True, cache=True)
def _chained(
    n_items: int, own_items: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Chain the own takings of each item, as several users may have taken it: last, and before."""
    last_of, before = np.full(n_items, -1), np.empty(len(own_items), np.int64)
    for k in range(len(own_items)):
        before[k] = last_of[own_items[k]]
        last_of[own_items[k]] = k
    return last_of, before


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
    last_of, before = _chained(len(offsets) - 1, own_items)
    earliest = -(2**31)
    for j in range(len(columns)):
        begin, end, own = offsets[columns[j]], offsets[columns[j] + 1], last_of[columns[j]]
        for k in range(len(limits)):
            end = _place(days, begin, end, limits[k])  # the next limit is earlier
            counts[k, j] = end - begin - _own_between(own, before, own_days, earliest, limits[k])
        if counts[0, j] <= 0:
            counts[-1, j] = -1
            continue
        stop = offsets[columns[j] + 1]
        counts[-1, j] = _age(begin, stop, days, limits[0], own, before, own_days)


@njit(nogil=True, cache=True)
def note_counts(items_by_day: NDArray[np.uint32], step: int, noted: NDArray[np.int32]) -> None:
    """Write how often each item was taken in the first ``k · step`` takings, to ``noted[k]``."""
    for k in range(1, len(noted)):
        noted[k] = noted[k - 1]
        for item in items_by_day[(k - 1) * step : k * step]:
            noted[k, item] += 1


@njit(nogil=True, cache=True)
def count_all_by_day(
    offsets: NDArray[np.int64],
    days: NDArray[np.int32],
    items_by_day: NDArray[np.uint32],
    step: int,
    noted: NDArray[np.int32],
    limits: NDArray[np.int32],
    n_before: NDArray[np.int64],
    own_items: NDArray[np.int64],
    own_days: NDArray[np.int32],
    counts: NDArray[np.float32],
) -> None:
    """Do the same as `count_by_day` for every item, from what was noted of the days before.

    ``n_before[k]`` takings were before ``limits[k]``.
    """
    n_items = len(offsets) - 1
    counted = np.empty(n_items, np.int32)
    for k in range(len(limits)):
        nearest = n_before[k] // step
        counted[:] = noted[nearest]
        for item in items_by_day[nearest * step : n_before[k]]:
            counted[item] += 1
        for place in range(len(own_items)):
            counted[own_items[place]] -= own_days[place] < limits[k]
        row = counts[k]
        for j in range(np.uint64(n_items)):
            row[j] = np.float32(counted[j])
    ages, so_far = counts[-1], counts[0]
    for j in range(n_items):
        ages[j] = limits[0] - days[offsets[j]] if so_far[j] > 0 else -1
    last_of, before = _chained(n_items, own_items)
    for item in own_items:
        if so_far[item] > 0:
            ages[item] = _age(
                offsets[item],
                offsets[item + 1],
                days,
                limits[0],
                last_of[item],
                before,
                own_days,
            )
    for j in range(n_items, counts.shape[1]):
        counts[:-1, j] = np.float32(0.0)
        counts[-1, j] = np.float32(-1.0)
