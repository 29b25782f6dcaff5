"""Aggregates of shares, ratios and absences: pure functions on arrays that release the GIL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

from surerec._kernels import sort_columns
from surerec.measures._tiles import (
    ABSENT,
    MIDDLE,
    RATIO,
    SHARE,
    SORTED_TILE,
    TILE,
    fold,
    mark_own,
    own_columns,
)
from surerec.precedence.kernels import load

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.measures._tiles import Aggregates, LeftOut
    from surerec.precedence import Source


WIDE_TILE = 5120
"""Columns of ratios, which wait for the divider: long reads matter more."""


@njit(nogil=True, cache=True)
def _middles_of_values(
    values: NDArray[np.float64],
    zeros_lowest: bool,  # noqa: FBT001  # a kernel takes positional arguments only
    middle: NDArray[np.float64],
) -> None:
    """Give for each column the sum of its two middle values: twice the median, exactly."""
    n_rows, width = len(values), len(middle)
    if zeros_lowest:
        # Where few values are not zero, so is the middle: rare items need no sorting.
        most = 0
        for j in range(width):
            nonzero = 0
            for k in range(n_rows):
                nonzero += values[k, j] != 0
            most = max(most, nonzero)
        if most <= (n_rows - 1) // 2:
            middle[:] = 0.0
            return
    sort_columns(values, width)
    for j in range(width):
        middle[j] = values[(n_rows - 1) // 2, j] + values[n_rows // 2, j]


@njit(nogil=True, cache=True, error_model="numpy")
def _fill(
    statistic: int,
    row: NDArray[Any],
    back: NDArray[Any],
    taken: float,
    values: NDArray[np.float64],
) -> None:
    """Write the statistic of each column, from one row of counts and an item's support."""
    width = np.uint64(len(row))
    if statistic == ABSENT:
        for j in range(width):
            values[j] = taken - row[j]
    elif taken == 0.0:
        values[:] = 0.0
    elif statistic == SHARE:
        for j in range(width):
            values[j] = row[j] / taken
    else:
        for j in range(width):
            # Nobody still free to take it later: then nobody did, and the ratio is 0.
            values[j] = row[j] / np.maximum(taken - back[j], 1.0)


@njit(nogil=True, cache=True, error_model="numpy")
def _add_ratios(
    row: NDArray[Any],
    back: NDArray[Any],
    minus: NDArray[Any],
    minus_back: NDArray[Any],
    taken: float,
    total: NDArray[np.float64],
) -> None:
    """Add the ratios of a row to the totals, the user's own part left out on the way."""
    for j in range(np.uint64(len(total))):
        free = taken - np.int32(np.int32(back[j]) - np.int32(minus_back[j]))
        total[j] += np.int32(np.int32(row[j]) - np.int32(minus[j])) / np.maximum(free, 1.0)


@njit(nogil=True, cache=True)
def total_ratios(
    first: int,
    last: int,
    source: Source,
    reverse: Source,
    out: LeftOut,
    totals: NDArray[np.float64],
) -> None:
    """Add up the ratios over rows of 16-bit matrices, where they lie."""
    matrix, places = source.matrix, source.places
    other, other_places = reverse.matrix, reverse.places
    of_rows, support = out.of_rows, out.support
    minus, minus_back = np.zeros(WIDE_TILE, matrix.dtype), np.zeros(WIDE_TILE, matrix.dtype)
    own, instants = np.empty(WIDE_TILE, np.int64), np.empty(WIDE_TILE, np.int64)
    for left in range(first, last, WIDE_TILE):
        right = min(left + WIDE_TILE, last)
        n_own, done, done_back, before = own_columns(out, left, right, own, instants), 0, 0, -1
        mine, when = own[:n_own], instants[:n_own]
        total = totals[left:right]
        total[:] = 0.0
        for k in range(len(places)):
            if n_own:
                at = of_rows[k]
                done = mark_own(at, before, done, mine, when, True, minus)
                done_back = mark_own(at, before, done_back, mine, when, False, minus_back)
                before = at
            if support[k]:
                row, back = matrix[places[k], left:right], other[other_places[k], left:right]
                _add_ratios(row, back, minus, minus_back, float(support[k]), total)
        for place in range(n_own):
            minus[own[place]] = 0
            minus_back[own[place]] = 0


@njit(nogil=True, cache=True)
def aggregate_values(
    first: int,
    last: int,
    statistic: int,
    wanted: int,
    following: bool,  # noqa: FBT001
    source: Source,
    reverse: Source,
    out: LeftOut,
    result: Aggregates,
) -> None:
    """Aggregate SHARE, RATIO or ABSENT; totals are summed in the order of the rows."""
    n_rows = len(source.places)
    size = SORTED_TILE if wanted & MIDDLE else TILE
    kept = np.empty((n_rows if wanted & MIDDLE else 1, size))
    counts, back = np.empty(size, source.counts.dtype), np.empty(size, source.counts.dtype)
    minus, minus_back = np.zeros_like(counts), np.zeros_like(counts)
    own, instants = np.empty(size, np.int64), np.empty(size, np.int64)
    for left in range(first, last, size):
        right = min(left + size, last)
        width = right - left
        n_own, done, done_back, before = own_columns(out, left, right, own, instants), 0, 0, -1
        low, high = result.low[left:right], result.high[left:right]
        total = result.total[left:right]
        low[:] = np.inf
        total[:] = 0.0
        high[:] = -np.inf
        mine, when = own[:n_own], instants[:n_own]
        for k in range(n_rows):
            values = kept[k if wanted & MIDDLE else 0]
            load(source, k, left, counts[:width])
            if statistic == RATIO:
                load(reverse, k, left, back[:width])
            if n_own:
                at = out.of_rows[k]
                done = mark_own(at, before, done, mine, when, following, minus)
                done_back = mark_own(at, before, done_back, mine, when, not following, minus_back)
                before = at
                for j in range(np.uint64(width)):
                    counts[j] -= minus[j]
                    back[j] -= minus_back[j]
            taken = float(out.support[k])
            _fill(statistic, counts[:width], back[:width], taken, values)
            fold(wanted, values, low, total, high, width)
        for place in range(n_own):
            minus[own[place]] = 0
            minus_back[own[place]] = 0
        if wanted & MIDDLE:
            _middles_of_values(kept, statistic != ABSENT, result.middle[left:right])
