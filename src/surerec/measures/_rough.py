"""Means of ratios in 32 bits, and exact ones of some items: pure functions on arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

from surerec.measures._values import WIDE_TILE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.measures._tiles import LeftOut
    from surerec.precedence import Source


_TOGETHER = 4  # rows, each in two directions: of fewer, reads from memory come one after the other
_ROUGH_ROWS = 64  # that are added up in 32 bits
ROUGH = 24 * 2.0**-23
"""The share that a rough total may be off the exact one by, twice."""


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
            row, back = source.matrix[source.places[k]], reverse.matrix[reverse.places[k]]
            at, support = out.of_rows[k], out.support[k]
            _add_ratios_of(row, back, at, support, items, instants, counts, free, totals)


@njit(nogil=True, cache=True, error_model="numpy")
def _ratio(count: Any, taken: Any, back: Any) -> Any:
    """Give a ratio in 32 bits; where nobody is free to take it later, nobody did."""
    still = np.float32(np.int32(taken - np.int32(back)))
    return np.float32(count) / np.maximum(still, np.float32(1.0))


@njit(nogil=True, cache=True, error_model="numpy")
def _add_four(
    source: Source,
    reverse: Source,
    support: NDArray[np.int64],
    group: NDArray[np.int64],
    left: int,
    part: NDArray[np.float32],
) -> None:
    """Add the ratios of four rows, in 32 bits."""
    right, (i, k, m, n) = left + len(part), (group[0], group[1], group[2], group[3])
    a, b = (
        source.matrix[source.places[i], left:right],
        reverse.matrix[reverse.places[i], left:right],
    )
    c, d = (
        source.matrix[source.places[k], left:right],
        reverse.matrix[reverse.places[k], left:right],
    )
    e, f = (
        source.matrix[source.places[m], left:right],
        reverse.matrix[reverse.places[m], left:right],
    )
    g, h = (
        source.matrix[source.places[n], left:right],
        reverse.matrix[reverse.places[n], left:right],
    )
    of_a, of_c = np.int32(support[i]), np.int32(support[k])
    of_e, of_g = np.int32(support[m]), np.int32(support[n])
    for j in range(np.uint64(len(part))):
        part[j] += (_ratio(a[j], of_a, b[j]) + _ratio(c[j], of_c, d[j])) + (
            _ratio(e[j], of_e, f[j]) + _ratio(g[j], of_g, h[j])
        )


@njit(nogil=True, cache=True, error_model="numpy")
def _add_one(
    source: Source,
    reverse: Source,
    support: NDArray[np.int64],
    k: int,
    left: int,
    part: NDArray[np.float32],
) -> None:
    """Add the ratios of one row."""
    right, taken = left + len(part), np.int32(support[k])
    row = source.matrix[source.places[k], left:right]
    back = reverse.matrix[reverse.places[k], left:right]
    for j in range(np.uint64(len(part))):
        part[j] += _ratio(row[j], taken, back[j])


@njit(nogil=True, cache=True)
def _add_group(
    source: Source,
    reverse: Source,
    support: NDArray[np.int64],
    group: NDArray[np.int64],
    left: int,
    part: NDArray[np.float32],
) -> None:
    if len(group) == _TOGETHER:
        _add_four(source, reverse, support, group, left, part)
    else:
        for k in group:
            _add_one(source, reverse, support, k, left, part)


@njit(nogil=True, cache=True)
def _find_in_tile(
    items: NDArray[np.int64], left: int, right: int, places: NDArray[np.int64]
) -> int:
    """Find the places of the items of a tile; give their number."""
    n = 0
    for place in range(len(items)):
        if left <= items[place] < right:
            places[n] = place
            n += 1
    return n


@njit(nogil=True, cache=True)
def rough_ratios(
    source: Source,
    reverse: Source,
    out: LeftOut,
    items: NDArray[np.int64],
    instants: NDArray[np.int64],
    totals: NDArray[np.float64],
    rough: NDArray[np.float64],
) -> None:
    """Add up the ratios of all items in 32 bits, which takes a third of the time.

    Nobody's part is left out: only items that the user to leave out did not take come out right.
    Exact totals of some `items` are added up beside it, as `total_ratios_of` does, since a row is
    in the cache only once.

    Counts of 16 bits are exact in 32-bit floats. What is free may be rounded once, each quotient is
    rounded once, and a sum of four of them, which is one of two pairs, twice. Of at most 64 rows,
    16 fours or 15 and three single ones, sums are rounded up to 17 times more, before all goes on
    in 64 bits. So the total is off by a share of at most 21 · 2⁻²⁴ and a little, and half of ROUGH
    is 24 · 2⁻²⁴. All terms are at least 0 and far from the smallest number there is: the total is 0
    only where the exact one is.
    """
    support = out.support
    live = np.flatnonzero(support)
    some, here = np.empty(WIDE_TILE, np.float32), np.empty(len(items), np.int64)
    columns, when = np.empty(len(items), np.int64), np.empty(len(items), np.int64)
    counts, free = np.empty(len(items), np.int32), np.empty(len(items), np.int32)
    exact = np.empty(len(items))
    for left in range(0, len(rough), WIDE_TILE):
        right = min(left + WIDE_TILE, len(rough))
        total, part = rough[left:right], some[: right - left]
        total[:] = 0.0
        part[:] = np.float32(0.0)
        n = _find_in_tile(items, left, right, here)
        columns[:n], when[:n], exact[:n] = items[here[:n]] - left, instants[here[:n]], 0.0
        for k in range(0, len(live), _TOGETHER):
            group = live[k : k + _TOGETHER]
            _add_group(source, reverse, support, group, left, part)
            for at in group:
                row = source.matrix[source.places[at], left:right]
                back = reverse.matrix[reverse.places[at], left:right]
                _add_ratios_of(
                    row, back, out.of_rows[at], support[at], columns[:n], when, counts, free, exact
                )
            if (k + _TOGETHER) % _ROUGH_ROWS == 0 or k + _TOGETHER >= len(live):
                for j in range(np.uint64(len(part))):
                    total[j] += np.float64(part[j])
                    part[j] = np.float32(0.0)
        totals[here[:n]] = exact[:n]
