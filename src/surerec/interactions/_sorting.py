"""Rows in the order of users and, of each, in the order of time: pure functions on arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

DIGITS = 1 << 11
"""Places for counters that sorting by digits needs."""

_DIGIT_BITS = np.uint64(11)
_LOWER = np.uint64(2**32 - 1)
_SECOND = np.uint64(1_000_000)


@njit(nogil=True, cache=True)
def place_in_buckets(
    start: int,
    stop: int,
    bucket_of: NDArray[np.uint16],
    cursors: NDArray[np.int64],
    rows: tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.int64]],
    placed: tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.int64]],
) -> None:
    """Write users, items and times of some rows to the next free place of their user's bucket."""
    users, items, times = rows
    users_placed, items_placed, times_placed = placed
    for row in range(start, stop):
        bucket = bucket_of[users[row]]
        place = cursors[bucket]
        cursors[bucket] = place + 1
        users_placed[place] = users[row]
        items_placed[place] = items[row]
        times_placed[place] = times[row]


@njit(nogil=True, cache=True)
def order_by_time(
    times: NDArray[np.int64],
    words: NDArray[np.uint64],
    other: NDArray[np.uint64],
    starts: NDArray[np.int64],
) -> bool:
    """Write the places of times, from the earliest on and equal ones in their order.

    Sorts by digits of how much later each is than the earliest, in whole seconds where all are,
    which are few digits. A word has a place in its lower half and, in the upper one, first the
    lower half of the time, then, where it is needed, the upper half.

    Returns
    -------
    bool
        Whether the places are the lower halves of `words`; else those of `other`.
    """
    n, half = np.uint64(len(times)), np.uint64(32)
    earliest = latest = times[0]
    for place in range(n):
        earliest = min(earliest, times[place])
        latest = max(latest, times[place])
    seconds = True
    for place in range(n):
        # Modulo 2⁶⁴, as are all differences here: they may be larger than an int64 holds.
        seconds &= np.uint64(times[place] - earliest) % _SECOND == 0
    if seconds:
        for place in range(n):
            words[place] = (np.uint64(times[place] - earliest) // _SECOND) << half | place
    else:
        for place in range(n):
            words[place] = np.uint64(times[place] - earliest) << half | place
    span = np.uint64(latest - earliest) // (_SECOND if seconds else np.uint64(1))
    there = _sort_upper(words, other, n, min(span, _LOWER), starts)
    if span > _LOWER:
        by_lower, moved = (words, other) if there else (other, words)
        unit = _SECOND if seconds else np.uint64(1)
        for rank in range(n):
            place = by_lower[rank] & _LOWER
            later = np.uint64(times[place] - earliest) // unit
            by_lower[rank] = (later >> half) << half | place
        there ^= not _sort_upper(by_lower, moved, n, span >> half, starts)
    return there


@njit(nogil=True, cache=True)
def _sort_upper(
    words: NDArray[np.uint64],
    other: NDArray[np.uint64],
    n: np.uint64,
    highest: np.uint64,
    starts: NDArray[np.int64],
) -> bool:
    """Sort `n` words by their upper halves, of which none is above `highest`; stable.

    Returns whether they stand in `words` in the end; else they stand in `other`.
    """
    n_bits = np.uint64(0)
    while highest >> n_bits:
        n_bits += np.uint64(1)
    passes = (n_bits + _DIGIT_BITS - np.uint64(1)) // _DIGIT_BITS
    width = (n_bits + passes - np.uint64(1)) // max(passes, np.uint64(1))
    n_digits = np.uint64(1) << width
    for digit in range(passes):
        shift = np.uint64(32) + digit * width
        starts[:n_digits] = 0
        for place in range(n):
            starts[(words[place] >> shift) & (n_digits - np.uint64(1))] += 1
        begin = 0
        for value in range(n_digits):
            count = starts[value]
            starts[value] = begin
            begin += count
        for place in range(n):
            value = (words[place] >> shift) & (n_digits - np.uint64(1))
            to = starts[value]
            starts[value] = to + 1
            other[to] = words[place]
        words, other = other, words
    return bool(passes % np.uint64(2) == 0)


@njit(nogil=True, cache=True)
def sort_profiles(
    first: int,
    last: int,
    offsets: NDArray[np.int64],
    rows: tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.int64]],
    words: tuple[NDArray[np.uint64], NDArray[np.uint64]],
    sorted_items: NDArray[np.uint32],
    cursors: NDArray[np.int64],
    starts: NDArray[np.int64],
    seen: NDArray[np.uint32],
    lengths: NDArray[np.int64],
) -> None:
    """Sort the rows of users `first` … `last` − 1 by user and time, and keep first occurrences.

    Stable: rows of one instant stay in their order. `rows` are users, items and times, those of
    these users together in whatever order; they are written over, each profile from the start of
    its user's slice, and `lengths` says how far it reaches. `words` and `sorted_items` have a place
    for each row of these users, `cursors` for each of them; `seen` has one for each item, all 0.
    """
    users, items, times = rows
    begin, end = offsets[first], offsets[last]
    ascending = True
    for place in range(begin + 1, end):
        before, after = users[place - 1], users[place]
        if after < before or (after == before and times[place] < times[place - 1]):
            ascending = False
            break
    if not ascending:
        there = order_by_time(times[begin:end], *words, starts)
        by_time, sorted_times = words if there else (words[1], words[0])
        for user in range(first, last):
            cursors[user - first] = offsets[user] - begin
        for rank in range(end - begin):
            row = begin + np.int64(by_time[rank] & _LOWER)
            user = users[row] - first
            to = cursors[user]
            cursors[user] = to + 1
            sorted_items[to] = items[row]
            sorted_times[to] = np.uint64(times[row])
        for place in range(end - begin):
            items[begin + place] = sorted_items[place]
            times[begin + place] = np.int64(sorted_times[place])
    for user in range(first, last):
        kept = offsets[user]
        for place in range(kept, offsets[user + 1]):
            item = items[place]
            if seen[item] != user + 1:
                seen[item] = user + 1
                items[kept] = item
                times[kept] = times[place]
                kept += 1
        lengths[user] = kept - offsets[user]
