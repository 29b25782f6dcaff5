"""Aggregates of counts over the rows of a profile: pure functions that release the GIL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

from surerec.measures._medians import STRIP_BYTES, aligned_zeros, guessed_middles
from surerec.measures._strips import fits_strips, middles_of_rows
from surerec.measures._tiles import (
    MIDDLE,
    NARROW,
    SORTED_TILE,
    TILE,
    TOTAL,
    fold,
    in_matrix,
    mark_own,
    own_columns,
    subtract_own,
)
from surerec.precedence.kernels import load

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.measures._tiles import Aggregates, LeftOut
    from surerec.precedence import Source


_SPILL_NARROW = 1 << 16  # rows whose counts of 16 bits, and so many ones, still sum up in 32 bits
_SPILL = 1 << 8  # rows whose counts, of 16 million users each, do
_MOST_ROWS = (1 << 16) - 1  # that lanes of 16 bits can count
_SUM_TILE = 2048  # columns that are only added up: one accumulator each, and longer reads
_FEW_OWN = 8  # from so many columns to each of the user's own on, these are subtracted one by one
_KEPT_COUNTS = 1 << 18  # of a tile: they stay in the second-level cache
_WIDE = np.empty(0, np.uint32)


@njit(nogil=True, cache=True)
def _total_counts(
    source: Source, left: int, total: NDArray[np.uint32], totals: NDArray[np.float64]
) -> None:
    """Add up the columns of the rows of a matrix, four rows at a time, in 32-bit lanes."""
    right, width = left + len(totals), np.uint64(len(totals))
    places, matrix = source.places, source.matrix
    total[:] = np.uint32(0)
    k, n_rows = 0, len(places)
    while k < n_rows:
        a = matrix[places[k], left:right]
        if k + 4 <= n_rows:
            b = matrix[places[k + 1], left:right]
            c = matrix[places[k + 2], left:right]
            d = matrix[places[k + 3], left:right]
            for j in range(width):
                total[j] += (np.uint32(a[j]) + np.uint32(b[j])) + (
                    np.uint32(c[j]) + np.uint32(d[j])
                )
            k += 4
        else:
            for j in range(width):
                total[j] += np.uint32(a[j])
            k += 1
    for j in range(width):
        totals[j] = total[j]


@njit(nogil=True, cache=True)
def _leave_out_of_totals(out: LeftOut, first: int, last: int, totals: NDArray[np.float64]) -> None:
    """Subtract from the total of each item that the user took the rows whose items came before."""
    rows = np.sort(out.of_rows)
    taken = np.searchsorted(rows, 0)
    before = taken
    for place in range(len(out.items)):  # in time order, so that what came before only grows
        while before < len(rows) and rows[before] < out.instants[place]:
            before += 1
        item = np.int64(out.items[place])
        if first <= item < last:
            totals[item] -= before - taken


@njit(nogil=True, cache=True)
def _fold_counts(
    wanted: int,
    following: bool,  # noqa: FBT001
    source: Source,
    out: LeftOut,
    left: int,
    kept: NDArray[Any],
    work: NDArray[Any],
    total: NDArray[np.uint32],
    own: NDArray[np.int64],
    instants: NDArray[np.int64],
    totals: NDArray[np.float64],
) -> None:
    """Fold the rows of a tile into its lowest and highest counts, in `work`, and its totals.

    All rows are kept as far as there is room for them.
    """
    width, spill = len(totals), _SPILL if source.counts.itemsize > NARROW else _SPILL_NARROW
    minus, low, high = work[0, :width], work[1, :width], work[2, :width]
    n_own, done, before = own_columns(out, left, left + width, own, instants), 0, -1
    minus[:] = 0
    high[:] = 0
    for j in range(width):
        low[j] = ~(low[j] ^ low[j])  # all bits
    total[:] = np.uint32(0)
    totals[:] = 0.0
    for k in range(len(source.places)):
        row = kept[k % len(kept), :width]
        load(source, k, left, row)
        if n_own * _FEW_OWN <= width:
            subtract_own(out.of_rows[k], own[:n_own], instants[:n_own], following, row)
        else:
            at = out.of_rows[k]
            done = mark_own(at, before, done, own[:n_own], instants[:n_own], following, minus)
            before = at
            for j in range(np.uint64(width)):
                row[j] -= minus[j]
        fold(wanted, row, low, total, high, width)
        if k % spill == spill - 1 or k == len(source.places) - 1:
            for j in range(width):
                totals[j] += total[j]
            total[:] = np.uint32(0)


@njit(nogil=True, cache=True)
def _aggregate_tiles(
    first: int,
    last: int,
    wanted: int,
    following: bool,  # noqa: FBT001
    source: Source,
    out: LeftOut,
    kept: NDArray[Any],
    result: Aggregates,
) -> None:
    size, bits = kept.shape[1] - STRIP_BYTES // kept.itemsize, 8 * kept.itemsize
    work = np.empty((3, size), kept.dtype)
    total = np.empty(size, np.uint32)
    own, instants = np.empty(size, np.int64), np.empty(size, np.int64)
    for left in range(first, last, size):
        right = min(left + size, last)
        _fold_counts(
            wanted, following, source, out, left, kept, work, total, own, instants,
            result.total[left:right],
        )  # fmt: skip
        for j in range(right - left):
            result.low[left + j] = work[1, j]
            result.high[left + j] = work[2, j]
        if wanted & MIDDLE:
            bits = guessed_middles(kept, work, bits, result.middle[left:right])


@njit(nogil=True, cache=True)
def _kept_columns(n_rows: int, n_columns: int, itemsize: int) -> int:
    """Say how wide to keep all rows: as far as the cache goes, since short reads wait for memory.

    An odd number of cache lines, the last of them unused: so the rows of a strip are spread over
    all sets of the first-level cache.
    """
    strip = STRIP_BYTES // itemsize
    size = min(max(SORTED_TILE, _KEPT_COUNTS // max(n_rows, 1)), n_columns)
    return -(-size // (2 * strip)) * 2 * strip + strip


@njit(nogil=True, cache=True)
def _is_median_of_matrix(wanted: int, following: bool, source: Source) -> bool:  # noqa: FBT001
    few = len(source.places) <= _MOST_ROWS
    return wanted == MIDDLE and following and few and in_matrix(source)


@njit(nogil=True, cache=True)
def aggregate_counts(
    first: int,
    last: int,
    wanted: int,
    following: bool,  # noqa: FBT001
    source: Source,
    out: LeftOut,
    result: Aggregates,
) -> None:
    """Aggregate counts in lanes as wide as they are."""
    n_rows = len(source.places)
    if wanted == TOTAL and following and n_rows <= _SPILL_NARROW and in_matrix(source):
        total = np.empty(_SUM_TILE, np.uint32)
        for left in range(first, last, _SUM_TILE):
            _total_counts(source, left, total, result.total[left : min(left + _SUM_TILE, last)])
        _leave_out_of_totals(out, first, last, result.total)
    elif not wanted & MIDDLE:
        kept = np.empty((1, TILE + STRIP_BYTES // source.counts.itemsize), source.counts.dtype)
        _aggregate_tiles(first, last, wanted, following, source, out, kept, result)
    elif _is_median_of_matrix(wanted, following, source) and fits_strips(first, last, out):
        middles_of_rows(first, last, source, out, result.middle)
    elif n_rows <= _MOST_ROWS:
        n_kept = _kept_columns(n_rows, last - first, source.counts.itemsize)
        kept = aligned_zeros(n_rows, n_kept, source.counts)
        _aggregate_tiles(first, last, wanted, following, source, out, kept, result)
    else:
        n_kept = _kept_columns(n_rows, last - first, _WIDE.itemsize)
        wide = aligned_zeros(n_rows, n_kept, _WIDE)
        _aggregate_tiles(first, last, wanted, following, source, out, wide, result)
