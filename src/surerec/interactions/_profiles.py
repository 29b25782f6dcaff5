"""Profiles in time order, built from coded rows on all cores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from surerec._grouping import group_rows
from surerec._kernels import count_codes
from surerec._threads import equal_blocks, run_blocks
from surerec.interactions._kernels import compact_profiles, order_profiles

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Profiles:
    """Flat profiles, and which of the given users and items they are about."""

    offsets: NDArray[np.int64]
    items: NDArray[np.uint32]
    times: NDArray[np.int64]
    users_kept: NDArray[np.int64]
    """The given code of each user that is left."""
    items_kept: NDArray[np.int64]
    """The given code of each item that is left, the most consumed first."""
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
    """Group rows by user, sort by time (stable), and keep the first occurrence of each item."""
    offsets, order = group_rows(users, n_users)
    sorted_items = np.empty_like(items)
    sorted_times = np.empty_like(times)
    lengths = np.zeros(n_users, dtype=np.int64)

    def sort_block(block: tuple[int, int]) -> None:
        seen = np.zeros(n_items, dtype=np.uint32)
        order_profiles(
            *block, offsets, order, items, times, seen, sorted_items, sorted_times, lengths
        )

    list(run_blocks(sort_block, equal_blocks(np.diff(offsets))))
    kept = np.flatnonzero(lengths >= max(min_length, 1))
    new_offsets, kept_items, kept_times = _end_to_end(
        offsets[kept], lengths[kept], sorted_items, sorted_times
    )
    new_items, items_kept = popular_first(kept_items, n_items)
    return Profiles(
        new_offsets,
        new_items,
        kept_times,
        users_kept=kept,
        items_kept=items_kept,
        n_repeats=len(users) - int(lengths.sum()),
        n_short=int(np.count_nonzero(lengths)) - len(kept),
    )


def _end_to_end(
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    items: NDArray[np.uint32],
    times: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[np.int64]]:
    """Lay the profiles that begin at `starts` end to end; copy only if something was left out."""
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    if offsets[-1] == len(items):
        return offsets, items, times
    new_items = np.empty(offsets[-1], dtype=np.uint32)
    new_times = np.empty(offsets[-1], dtype=np.int64)
    list(
        run_blocks(
            lambda block: compact_profiles(
                *block, starts, offsets, items, times, new_items, new_times
            ),
            equal_blocks(lengths),
        )
    )
    return offsets, new_items, new_times


def popular_first(
    items: NDArray[np.uint32], n_items: int
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Give items codes by popularity, the most consumed first; leave out those never consumed.

    The popular items' counters then lie side by side and stay in cache while pairs are counted.
    Equally popular items keep their given order.

    Returns
    -------
    items : array of uint32
        The same items under their new codes.
    kept : array of int64
        The given code of each new one.
    """
    support = np.zeros(n_items, dtype=np.int64)
    count_codes(items, support)
    by_support = np.argsort(-support, kind="stable")
    kept = by_support[: np.count_nonzero(support)]
    new_codes = np.zeros(n_items, dtype=np.uint32)
    new_codes[kept] = np.arange(len(kept), dtype=np.uint32)
    return new_codes[items], kept
