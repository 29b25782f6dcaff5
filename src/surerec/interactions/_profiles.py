"""Builds profiles in time order from coded rows, on all cores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from surerec._grouping import count_by_block, group_pairs
from surerec._threads import equal_blocks, run_blocks

if TYPE_CHECKING:
    from numpy.typing import NDArray


_SORTED_TOGETHER = 1 << 16  # rows whose keys fit into the second-level cache
_SECOND = 1_000_000
_BITS = 63


@dataclass(frozen=True)
class Profiles:
    """Concatenated profiles, and the original codes of their users and items."""

    offsets: NDArray[np.int64]
    items: NDArray[np.uint32]
    times: NDArray[np.int64]
    users_kept: NDArray[np.int64]
    """Original code of each remaining user."""
    items_kept: NDArray[np.int64]
    """Original code of each remaining item, most popular first."""
    n_repeats: int
    n_short: int
    """Users left out because their profile was too short."""


def build_profiles(
    users: NDArray[np.uint32],
    items: NDArray[np.uint32],
    times: NDArray[np.int64],
    n_users: int,
    n_items: int,
    *,
    min_length: int = 1,
) -> Profiles:
    """Group rows by user, sort by time (stable), and keep the first row of each item."""
    offsets, items, times = group_pairs(users, n_users, items, times)
    lengths = np.zeros(n_users, dtype=np.int64)

    def sort(block: tuple[int, int]) -> None:
        starts = offsets[block[0] : block[1] + 1]
        rows = slice(starts[0], starts[-1])
        order = _by_time(np.repeat(np.arange(len(starts) - 1), np.diff(starts)), times[rows])
        if order is not None:
            items[rows], times[rows] = items[rows][order], times[rows][order]
        keep_firsts(*block, offsets, items, times, np.zeros(n_items, np.uint32), lengths)

    list(run_blocks(sort, equal_blocks(np.diff(offsets), 1 + len(items) // _SORTED_TOGETHER)))
    kept = np.flatnonzero(lengths >= max(min_length, 1))
    if len(kept) < n_users or lengths.sum() < len(items):
        offsets, items, times = select_profiles(offsets[kept], lengths[kept], items, times)
    items, items_kept = popular_first(items, n_items)
    return Profiles(
        offsets,
        items,
        times,
        users_kept=kept,
        items_kept=items_kept,
        n_repeats=len(users) - int(lengths.sum()),
        n_short=int(np.count_nonzero(lengths)) - len(kept),
    )


def select_profiles(
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    items: NDArray[np.uint32],
    times: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[np.int64]]:
    """Concatenate the profiles that begin at `starts`; return offsets, items and times."""
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    places = np.repeat(starts - offsets[:-1], lengths)
    places += np.arange(len(places))
    return offsets, items[places], times[places]


def popular_first(
    items: NDArray[np.uint32], n_items: int
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Renumber items by popularity, most popular first; drop items without interactions.

    Counters of popular items are then adjacent and stay in cache while pairs are counted. Equally
    popular items keep their order.

    Returns
    -------
    items : array of uint32
        The items under their new codes.
    kept : array of int64
        Original code of each new code.
    """
    blocks, counts = count_by_block(items, n_items)
    support = counts.sum(axis=0)
    by_support = np.argsort(-support, kind="stable")
    kept = by_support[: np.count_nonzero(support)]
    new_codes = np.zeros(n_items, dtype=np.uint32)
    new_codes[kept] = np.arange(len(kept), dtype=np.uint32)
    new_items = np.empty_like(items)

    def write(block: tuple[int, tuple[int, int]]) -> None:
        _, (start, stop) = block
        np.take(new_codes, items[start:stop], out=new_items[start:stop], mode="clip")

    list(run_blocks(write, blocks))
    return new_items, kept


def _by_time(owners: NDArray[np.int64], times: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Return the stable order of rows by owner and time; None if they are sorted already.

    Owners ascend. Owner, time and position nearly always fit into one integer, and integers sort
    five times faster than pairs.
    """
    if not ((times[1:] < times[:-1]) & (owners[1:] == owners[:-1])).any():
        return None
    later = times - times.min()  # may overflow, which is checked below
    if not (later % _SECOND).any():
        later //= _SECOND
    place_bits, time_bits = len(times).bit_length(), int(later.max()).bit_length()
    if later.min() < 0 or place_bits + time_bits + int(owners[-1]).bit_length() >= _BITS:
        return np.lexsort((times, owners))
    keys = (owners << time_bits | later) << place_bits | np.arange(len(times))
    keys.sort()
    return np.asarray(keys & ((1 << place_bits) - 1))


@njit(nogil=True, cache=True)
def keep_firsts(
    first: int,
    last: int,
    offsets: NDArray[np.int64],
    items: NDArray[np.uint32],
    times: NDArray[np.int64],
    seen: NDArray[np.uint32],
    lengths: NDArray[np.int64],
) -> None:
    """Keep the first row of each item in the profiles of users `first` … `last` − 1, in place.

    Each profile begins at the start of its user's slice and has the length in `lengths`. `seen` has
    a zero for each item.
    """
    for user in range(first, last):
        begin, end = offsets[user], offsets[user + 1]
        kept = begin
        for place in range(begin, end):
            item = items[place]
            if seen[item] != user + 1:
                seen[item] = user + 1
                items[kept] = item
                times[kept] = times[place]
                kept += 1
        lengths[user] = kept - begin
