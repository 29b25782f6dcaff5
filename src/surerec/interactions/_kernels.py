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
    n_before: int,
    first_seen: NDArray[np.uint32],
    codes: NDArray[np.uint32],
) -> int:
    """Write the code of each value, numbered in order of first appearance; give their number.

    `first_seen` has a place for each value from `lowest` on, filled with the largest uint32 but for
    the `n_before` values that have been numbered before.
    """
    n_seen = np.uint32(n_before)
    for row in range(len(values)):
        place = values[row] - lowest
        if first_seen[place] == np.uint32(0xFFFFFFFF):
            first_seen[place] = n_seen
            n_seen += np.uint32(1)
        codes[row] = first_seen[place]
    return int(n_seen)


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
def renumber(
    start: int,
    stop: int,
    codes: NDArray[np.uint32],
    new: NDArray[np.uint32],
    out: NDArray[np.uint32],
) -> None:
    """Write the new code of each code from `start` to `stop` − 1."""
    for place in range(np.uint64(start), np.uint64(stop)):
        out[place] = new[codes[place]]


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
