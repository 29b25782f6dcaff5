"""Means of ratios in 32 bits, and exact ones of some items: pure functions on arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

from surerec.measures._values import WIDE_TILE
from surerec.precedence.kernels import load, pick

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.measures._tiles import LeftOut
    from surerec.precedence import Source


_TOGETHER = 4  # rows, each in two directions: of fewer, reads from memory come one after the other
_ADDED = 16  # sums of four ratios, or single ones, that are added up in 32 bits
ROUGH = 24 * 2.0**-23
"""The share that a rough total may be off the exact one by, twice."""


@njit(nogil=True, inline="always")
def _is_plain(source: Source, k: int) -> bool:
    """Tell whether a row lies in the matrix, or among those that were counted."""
    return bool(source.places[k] < len(source.matrix) + len(source.counted))


@njit(nogil=True, inline="always")
def _plain(source: Source, k: int) -> Any:
    """Give such a row where it lies."""
    place, n_dense = source.places[k], len(source.matrix)
    return source.matrix[place] if place < n_dense else source.counted[place - n_dense]


@njit(nogil=True, cache=True, error_model="numpy")
def _add_ratios_of(
    row: NDArray[Any],
    back: NDArray[Any],
    at: int,
    support: int,
    items: NDArray[np.int64],
    instants: NDArray[np.int64],
    counts: NDArray[np.int32],
    free: NDArray[np.int32],
    totals: NDArray[np.float64],
) -> None:
    """Add the ratios of some columns of a row, the user's own part left out on the way.

    Picked first, one by one, and then divided in vectors: `counts` and `free` are room for that.
    """
    n, taken = np.uint64(len(items)), np.int32(support)
    for j in range(n):
        item = np.uint64(items[j])
        counts[j] = row[item]
        free[j] = back[item]
    for j in range(n):
        instant = instants[j]
        counts[j] -= np.int32((at >= 0) & (at < instant))
        free[j] = taken - free[j] + np.int32((instant >= 0) & (instant < at))
    for j in range(n):
        totals[j] += np.float64(counts[j]) / np.maximum(np.float64(free[j]), 1.0)


@njit(nogil=True, cache=True)
def _add_ratios_at(
    source: Source,
    reverse: Source,
    out: LeftOut,
    k: int,
    items: NDArray[np.int64],
    instants: NDArray[np.int64],
    counts: NDArray[np.int32],
    free: NDArray[np.int32],
    totals: NDArray[np.float64],
) -> None:
    """Do the same for row `k`, wherever it lies."""
    at, support = out.of_rows[k], out.support[k]
    if _is_plain(source, k) and _is_plain(reverse, k):
        row, back = _plain(source, k), _plain(reverse, k)
        _add_ratios_of(row, back, at, support, items, instants, counts, free, totals)
    else:
        n = len(items)
        picked = np.empty((2, n), np.uint32)
        pick(source, k, items, picked[0])
        pick(reverse, k, items, picked[1])
        _add_ratios_of(
            picked[0], picked[1], at, support, np.arange(n), instants, counts, free, totals
        )


@njit(nogil=True, cache=True, error_model="numpy")
def total_ratios_of(
    source: Source,
    reverse: Source,
    out: LeftOut,
    items: NDArray[np.int64],
    instants: NDArray[np.int64],
    totals: NDArray[np.float64],
) -> None:
    """Add up the ratios of some items, which the user to leave out took at `instants` (−1: never).

    In the order of the rows, as for all items at once: equal to the last bit.
    """
    totals[:] = 0.0
    counts, free = np.empty(len(items), np.int32), np.empty(len(items), np.int32)
    for k in range(len(source.places)):
        if out.support[k]:
            _add_ratios_at(source, reverse, out, k, items, instants, counts, free, totals)


@njit(nogil=True, cache=True, error_model="numpy")
def _ratio(count: Any, taken: Any, back: Any) -> Any:
    """Give a ratio in 32 bits; where nobody is free to take it later, nobody did."""
    still = np.float32(np.int32(taken - np.int32(back)))
    return np.float32(count) / np.maximum(still, np.float32(1.0))


@njit(nogil=True, cache=True)
def _order_rows(
    source: Source, reverse: Source, support: NDArray[np.int64], rows: NDArray[np.int64]
) -> tuple[int, int]:
    """Write down the rows of some support: plain ones in order, then those compressed anywhere.

    Gives how many are plain, and how many there are.
    """
    n_plain = n = 0
    for wanted in (True, False):
        for k in range(len(support)):
            is_plain = _is_plain(source, k) and _is_plain(reverse, k)
            if support[k] and is_plain == wanted:
                rows[n] = k
                n += 1
        n_plain = n if wanted else n_plain
    return n_plain, n


@njit(nogil=True, cache=True, error_model="numpy")
def _add_four(
    source: Source,
    reverse: Source,
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
def _add_one(
    row: NDArray[Any], back: NDArray[Any], support: int, part: NDArray[np.float32]
) -> None:
    """Add the ratios of one row."""
    taken = np.int32(support)
    for j in range(np.uint64(len(part))):
        part[j] += _ratio(row[j], taken, back[j])


@njit(nogil=True, cache=True)
def _find_in_tile(
    items: NDArray[np.int64],
    instants: NDArray[np.int64],
    left: int,
    right: int,
    places: NDArray[np.int64],
    columns: NDArray[np.int64],
    when: NDArray[np.int64],
) -> int:
    """Find the items of a tile: their places, themselves and their instants; give their number."""
    n = 0
    for place in range(len(items)):
        if left <= items[place] < right:
            places[n], columns[n], when[n] = place, items[place], instants[place]
            n += 1
    return n


@njit(nogil=True, cache=True, error_model="numpy")
def rough_ratios(
    first: int,
    last: int,
    source: Source,
    reverse: Source,
    out: LeftOut,
    items: NDArray[np.int64],
    instants: NDArray[np.int64],
    totals: NDArray[np.float64],
    rough: NDArray[np.float64],
) -> None:
    """Add up the ratios of items `first` … `last` − 1 in 32 bits, in a third of the time.

    Nobody's part is left out: only items that the user to leave out did not take come out right.
    Exact totals of those of some `items` that are among them are added up beside it, as
    `total_ratios_of` does, since a row is in the cache only once.

    A count and what is free may be rounded once on their way to 32 bits, each quotient is rounded
    once, and a sum of four of them, which is one of two pairs, twice. Of up to 16 such sums, or
    single ratios, all but the first are rounded once more as they are added up, before all goes on
    in 64 bits. So the total is off by a share of at most 20 · 2⁻²⁴ and a little, and half of ROUGH
    is 24 · 2⁻²⁴. All terms are at least 0 and far from the smallest number there is: the total is 0
    only where the exact one is.
    """
    support, rows = out.support, np.empty(len(out.support), np.int64)
    n_plain, n_rows = _order_rows(source, reverse, support, rows)
    n_tiles = max(1, -(-(last - first) // WIDE_TILE))
    size = max(1, -(-(last - first) // n_tiles))  # of all tiles: short reads wait for memory
    some, here = np.empty(size, np.float32), np.empty(len(items), np.int64)
    row, back = np.empty(size, source.counts.dtype), np.empty(size, reverse.counts.dtype)
    columns, when = np.empty(len(items), np.int64), np.empty(len(items), np.int64)
    counts, free = np.empty(len(items), np.int32), np.empty(len(items), np.int32)
    exact = np.empty(len(items))
    for left in range(first, last, size):
        right = min(left + size, last)
        total, part, width = rough[left:right], some[: right - left], right - left
        total[:] = 0.0
        part[:] = np.float32(0.0)
        exact[:] = 0.0
        n = _find_in_tile(items, instants, left, right, here, columns, when)
        k, n_added, n_exact = 0, 0, 0
        while k < n_rows:
            if k + _TOGETHER <= n_plain:
                _add_four(source, reverse, support, rows[k : k + _TOGETHER], left, part)
                n_more = _TOGETHER
            else:
                load(source, rows[k], left, row[:width])
                load(reverse, rows[k], left, back[:width])
                _add_one(row, back, support[rows[k]], part)
                n_more = 1
            k += n_more
            n_added += 1
            # In the order of the rows, those that come last here in between.
            until = len(support) if k == n_rows else rows[k - 1] + 1
            for at in range(np.uint64(n_exact), np.uint64(until)):
                if support[at]:
                    there, yonder = source.places[at], reverse.places[at]
                    if there < len(source.matrix) and yonder < len(reverse.matrix):
                        # As in `_add_ratios_at`, but a call of it hands on twelve arrays.
                        _add_ratios_of(
                            source.matrix[there], reverse.matrix[yonder], out.of_rows[at],
                            support[at], columns[:n], when, counts, free, exact,
                        )  # fmt: skip
                    else:
                        _add_ratios_at(
                            source, reverse, out, at, columns[:n], when, counts, free, exact
                        )
            n_exact = max(n_exact, until)
            if n_added == _ADDED or k == n_rows:
                n_added = 0
                for j in range(np.uint64(width)):
                    total[j] += np.float64(part[j])
                    part[j] = np.float32(0.0)
        for j in range(n):
            totals[here[j]] = exact[j]
