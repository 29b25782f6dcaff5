"""Kernels of the recommenders: pure functions on arrays that release the GIL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from surerec._kernels import scramble, sort_columns

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LONGEST_TABLE = (
    1 << 20
)  # counts; beyond, which no count of a million users is, values are searched
_TILE = 512  # columns sorted at once: they stay in the second-level cache


@njit(nogil=True, cache=True)
def uniforms(
    seed: np.uint64, person: NDArray[np.int64], items: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Give for each item a random number in (0, 1] that depends on seed, person and item alone."""
    golden = np.uint64(0x9E3779B97F4A7C15)
    state = scramble(seed + golden)
    for part in person:
        state = scramble(state ^ (np.uint64(part) + golden))
    out = np.empty(len(items))
    for k in range(len(items)):
        bits = scramble(state ^ scramble(np.uint64(items[k]) + golden))
        out[k] = (np.float64(bits >> np.uint64(11)) + 1.0) / 9007199254740992.0
    return out


@njit(nogil=True, cache=True)
def rank_among(
    thresholds: NDArray[np.uint32], values: NDArray[np.uint32], ranks: NDArray[np.int32]
) -> None:
    """For each value, count the sorted thresholds that are not above it.

    A sorted search, tabulated: counts are small integers, so the answer for each of them up to the
    largest threshold is found once.
    """
    n = len(thresholds)
    largest = np.int64(thresholds[n - 1])
    if largest > _LONGEST_TABLE:
        ranks[:] = np.searchsorted(thresholds, values, side="right")
        return
    table = np.empty(largest + 1, np.int32)
    below = 0
    for count in range(largest + 1):
        while below < n and thresholds[below] <= count:
            below += 1
        table[count] = below
    for k in range(len(values)):
        value = np.int64(values[k])
        ranks[k] = n if value > largest else table[value]


@njit(nogil=True, cache=True)
def rank_by_comparing(
    thresholds: NDArray[np.uint32], values: NDArray[np.uint32], ranks: NDArray[np.int32]
) -> None:
    """Do the same by comparing every value with every threshold."""
    for k in range(len(values)):
        below = 0
        for threshold in thresholds:
            below += threshold <= values[k]
        ranks[k] = below


@njit(nogil=True, cache=True)
def middle_sums(ranks: NDArray[np.int32], out: NDArray[np.int64]) -> None:
    """Give for every column the sum of its two middle values, which is twice the median."""
    n_rows, n_columns = ranks.shape
    some = np.empty((n_rows, _TILE), np.int32)
    for left in range(0, n_columns, _TILE):
        width = min(_TILE, n_columns - left)
        for k in range(n_rows):
            some[k, :width] = ranks[k, left : left + width]
        sort_columns(some, width)
        for j in range(width):
            out[left + j] = some[(n_rows - 1) // 2, j] + some[n_rows // 2, j]
