"""From rows grouped by user to profiles in time order: pure functions on arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray


@njit(nogil=True, cache=True)
def number_in_order(
    values: NDArray[np.int64],
    lowest: int,
    first_seen: NDArray[np.uint32],
    codes: NDArray[np.uint32],
) -> int:
    """Write the code of each value, numbered in order of first appearance; give their number.

    `first_seen` has a place for each value from `lowest` on, filled with the largest uint32.
    """
    n_seen = np.uint32(0)
    for row in range(len(values)):
        place = values[row] - lowest
        if first_seen[place] == np.uint32(0xFFFFFFFF):
            first_seen[place] = n_seen
            n_seen += np.uint32(1)
        codes[row] = first_seen[place]
    return int(n_seen)


@njit(nogil=True, cache=True)
def order_profiles(
    first: int,
    last: int,
    offsets: NDArray[np.int64],
    order: NDArray[np.int64],
    row_items: NDArray[np.uint32],
    row_times: NDArray[np.int64],
    seen: NDArray[np.uint32],
    items: NDArray[np.uint32],
    times: NDArray[np.int64],
    lengths: NDArray[np.int64],
) -> None:
    """Sort the profiles of users `first` … `last` − 1 by time and keep first occurrences.

    Stable: rows of one instant stay in the order of the input. `seen` has a place
    for each item, all 0. A profile is written from the start of its user's slice; `lengths` says
    how far it reaches.
    """
    for user in range(first, last):
        start, stop = offsets[user], offsets[user + 1]
        ascending = True
        for place in range(start, stop):
            row = order[place]
            items[place] = row_items[row]
            times[place] = row_times[row]
            if place > start and times[place] < times[place - 1]:
                ascending = False
        if not ascending:
            # Copies, because the sorted values are written over the ones that are read.
            by_time = np.argsort(times[start:stop], kind="mergesort")
            old_items = items[start:stop].copy()
            old_times = times[start:stop].copy()
            for k in range(stop - start):
                items[start + k] = old_items[by_time[k]]
                times[start + k] = old_times[by_time[k]]
        kept = start
        for place in range(start, stop):
            item = items[place]
            if seen[item] != user + 1:
                seen[item] = user + 1
                items[kept] = item
                times[kept] = times[place]
                kept += 1
        lengths[user] = kept - start


@njit(nogil=True, cache=True)
def compact_profiles(
    first: int,
    last: int,
    sources: NDArray[np.int64],
    offsets: NDArray[np.int64],
    from_items: NDArray[np.uint32],
    from_times: NDArray[np.int64],
    items: NDArray[np.uint32],
    times: NDArray[np.int64],
) -> None:
    """Copy profile `p` from ``sources[p]`` to ``offsets[p]``."""
    for profile in range(first, last):
        source = sources[profile]
        start = offsets[profile]
        for k in range(offsets[profile + 1] - start):
            items[start + k] = from_items[source + k]
            times[start + k] = from_times[source + k]


@njit(nogil=True, cache=True)
def first_repeat(
    offsets: NDArray[np.int64], items: NDArray[np.uint32], last_owner: NDArray[np.int64]
) -> int:
    """Give the first profile that has an item twice, −1 if none has; `last_owner` starts at −1."""
    for owner in range(len(offsets) - 1):
        for place in range(offsets[owner], offsets[owner + 1]):
            if last_owner[items[place]] == owner:
                return owner
            last_owner[items[place]] = owner
    return -1
