"""Means of ratios in 32 bits, and exact ones of some items: pure functions on arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

from surerec.measures._kernels import WIDE_TILE
from surerec.precedence.kernels import load, pick

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.measures._tiles import LeftOutUser
    from surerec.precedence import RowSource


_TOGETHER = 4  # rows, each in two directions: of fewer, reads from memory come one after the other
_ADDED = 16  # sums of four ratios, or single ones, that are added up in 32 bits
ROUGH = 24 * 2.0**-23
"""The share that a rough total may be off the exact one by, twice."""


@njit(nogil=True, inline="always")
def _plain(source: RowSource, k: int) -> Any:
    """Return a row of the matrix, or of those that were counted, where it lies."""
    place, n_dense = source.places[k], len(source.matrix)
    return source.matrix[place] if place < n_dense else source.counted[place - n_dense]


@njit(nogil=True, cache=True, error_model="numpy")
def _add_ratios_of(
    at: int,
    support: int,
    instants: NDArray[np.int64],
    counts: NDArray[np.int32],
    back: NDArray[np.int32],
    totals: NDArray[np.float64],
) -> None:
    """Add the ratios of some columns of a row, the user's own part left out on the way."""
    taken = np.int32(support)
    for j in range(np.uint64(len(totals))):
        instant = instants[j]
        count = counts[j] - np.int32((at >= 0) & (at < instant))
        free = taken - back[j] + np.int32((instant >= 0) & (instant < at))
        totals[j] += np.float64(count) / np.maximum(np.float64(free), 1.0)


@njit(nogil=True, cache=True, error_model="numpy")
def total_ratios_of(
    source: RowSource,
    reverse: RowSource,
    out: LeftOutUser,
    items: NDArray[np.int64],
    instants: NDArray[np.int64],
    totals: NDArray[np.float64],
) -> None:
    """Add up the ratios of some items, which the user to leave out took at `instants` (−1: never).

    In the order of the rows, as for all items at once: equal to the last bit.
    """
    totals[:] = 0.0
    n = len(items)
    counts, free = np.empty(n, np.int32), np.empty(n, np.int32)
    for k in range(len(source.places)):
        if out.support[k]:
            pick(source, k, items, counts)
            pick(reverse, k, items, free)
            _add_ratios_of(out.of_rows[k], out.support[k], instants, counts, free, totals)


@njit(nogil=True, cache=True, error_model="numpy")
def _ratio(count: Any, taken: Any, back: Any) -> Any:
    """Return a ratio in 32 bits; where nobody is free to take it later, nobody did."""
    still = np.float32(np.int32(taken - np.int32(back)))
    return np.float32(count) / np.maximum(still, np.float32(1.0))


@njit(nogil=True, cache=True, error_model="numpy")
def _add_four(
    source: RowSource,
    reverse: RowSource,
    support: NDArray[np.int64],
    group: NDArray[np.int64],
    left: int,
    part: NDArray[np.float32],
) -> None:
    """Add the ratios of four plain rows, in 32 bits."""
    right, (i, k, m, n) = left + len(part), (group[0], group[1], group[2], group[3])
    a, b = _plain(source, i)[left:right], _plain(reverse, i)[left:right]
    c, d = _plain(source, k)[left:right], _plain(reverse, k)[left:right]
    e, f = _plain(source, m)[left:right], _plain(reverse, m)[left:right]
    g, h = _plain(source, n)[left:right], _plain(reverse, n)[left:right]
    of_a, of_c = np.int32(support[i]), np.int32(support[k])
    of_e, of_g = np.int32(support[m]), np.int32(support[n])
    for j in range(np.uint64(len(part))):
        part[j] += (_ratio(a[j], of_a, b[j]) + _ratio(c[j], of_c, d[j])) + (
            _ratio(e[j], of_e, f[j]) + _ratio(g[j], of_g, h[j])
        )


@njit(nogil=True, cache=True, error_model="numpy")
def rough_ratios(
    first: int,
    last: int,
    source: RowSource,
    reverse: RowSource,
    out: LeftOutUser,
    items: NDArray[np.int64],
    instants: NDArray[np.int64],
    totals: NDArray[np.float64],
    rough: NDArray[np.float64],
) -> None:
    """Add up the ratios of items `first` … `last` − 1 in 32 bits, in a third of the time.

    Nobody's part is left out: only items that the user to leave out did not take come out right.
    Exact totals of those of some `items` that are among them are written beside it.

    A count and what is free may be rounded once on their way to 32 bits, each quotient is rounded
    once, and a sum of four of them, which is one of two pairs, twice. Of up to 16 such sums, or
    single ratios, all but the first are rounded once more as they are added up, before all goes on
    in 64 bits. So the total is off by a share of at most 20 · 2⁻²⁴ and a little, and half of ROUGH
    is 24 · 2⁻²⁴. All terms are at least 0 and far from the smallest number there is: the total is 0
    only where the exact one is.
    """
    here = np.flatnonzero((items >= first) & (items < last))
    exact = np.empty(len(here))
    total_ratios_of(source, reverse, out, items[here], instants[here], exact)
    totals[here] = exact
    support = out.support
    plain = source.places < len(source.matrix) + len(source.counted)
    plain &= reverse.places < len(reverse.matrix) + len(reverse.counted)
    some_rows, others = support * plain, support * ~plain
    n_plain = np.count_nonzero(some_rows)
    rows = np.concatenate((np.flatnonzero(some_rows), np.flatnonzero(others)))
    n_rows = len(rows)
    n_tiles = max(1, -(-(last - first) // WIDE_TILE))
    size = max(1, -(-(last - first) // n_tiles))  # of all tiles: short reads wait for memory
    some = np.empty(size, np.float32)
    row, back = np.empty(size, source.counts.dtype), np.empty(size, reverse.counts.dtype)
    for left in range(first, last, size):
        right = min(left + size, last)
        total, part, width = rough[left:right], some[: right - left], right - left
        total[:] = 0.0
        part[:] = np.float32(0.0)
        k, n_added = 0, 0
        while k < n_rows:
            if k + _TOGETHER <= n_plain:
                _add_four(source, reverse, support, rows[k : k + _TOGETHER], left, part)
                k += _TOGETHER
            else:
                load(source, rows[k], left, row[:width])
                load(reverse, rows[k], left, back[:width])
                taken = np.int32(support[rows[k]])
                for j in range(np.uint64(width)):
                    part[j] += _ratio(row[j], taken, back[j])
                k += 1
            n_added += 1
            if n_added == _ADDED or k == n_rows:
                n_added = 0
                for j in range(np.uint64(width)):
                    total[j] += np.float64(part[j])
                    part[j] = np.float32(0.0)
