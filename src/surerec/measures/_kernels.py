"""Aggregates over the rows of a profile: pure functions on arrays that release the GIL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

from surerec._kernels import sort_columns

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "ABSENT",
    "HIGH",
    "HUGE",
    "LOW",
    "MIDDLE",
    "RATIO",
    "SHARE",
    "TOTAL",
    "aggregate_counts",
    "aggregate_values",
    "gather_columns",
    "top_products",
]

SHARE, RATIO, ABSENT = 1, 2, 3
LOW, MIDDLE, TOTAL, HIGH = 1, 2, 4, 8

_SPILL = 4096  # rows whose counts, of a million users each, still sum up in 32 bits

_TILE = 1024  # columns: their accumulators stay in the first-level cache
_SORTED_TILE = 256  # columns that are sorted, whose values must stay in the second-level one
HUGE = 1e150  # products are scaled down beyond it, far from overflow whatever the next factor


@njit(nogil=True, cache=True)
def _select(values: NDArray[np.float64], n: int, rank: int) -> float:
    """Bring the value of that rank to its place, smaller ones before it (Hoare's quickselect)."""
    low, high = 0, n - 1
    while low < high:
        pivot = values[(low + high) >> 1]
        i, j = low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if rank <= j:
            high = j
        elif rank >= i:
            low = i
        else:
            break
    return float(values[rank])


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


@njit(nogil=True, cache=True)
def _middles_of_counts(
    counts: NDArray[np.uint32],
    picks: NDArray[np.int64],
    left: int,
    width: int,
    work: NDArray[np.uint32],
    middle: NDArray[np.float64],
) -> None:
    """Do the same for counts, by bisection of all columns at once, one bit after the other.

    Reading the rows once a bit takes m · log₂(largest count) steps in 32-bit lanes, where sorting
    takes m · log₂²(m) in wider ones: measured three times as fast, and more for long profiles.
    """
    n_rows, end = len(picks), np.uint64(width)
    lower, below, trial = work[0], work[1], work[2]
    largest = np.uint32(0)
    for pick in picks:
        row = counts[pick, left : left + width]
        for j in range(end):
            largest = np.maximum(largest, row[j])
    lower[:] = np.uint32(0)
    bit = np.uint32(1)
    while bit <= largest >> np.uint32(1):
        bit <<= np.uint32(1)
    rank = np.uint32((n_rows - 1) // 2 + 1)
    while bit and largest:
        for j in range(end):
            trial[j] = lower[j] + (bit - np.uint32(1))
            below[j] = np.uint32(0)
        for pick in picks:
            row = counts[pick, left : left + width]
            for j in range(end):
                below[j] += np.uint32(row[j] <= trial[j])
        for j in range(end):
            lower[j] += bit if below[j] < rank else np.uint32(0)
        bit >>= np.uint32(1)
    _add_upper_middle(counts, picks, left, width, work, middle)


@njit(nogil=True, cache=True)
def _add_upper_middle(
    counts: NDArray[np.uint32],
    picks: NDArray[np.int64],
    left: int,
    width: int,
    work: NDArray[np.uint32],
    middle: NDArray[np.float64],
) -> None:
    """Add to each lower middle the upper one: itself, or the next larger count."""
    n_rows, end = len(picks), np.uint64(width)
    lower, below, following = work[0], work[1], work[2]
    none = np.uint32(0xFFFFFFFF)
    below[:] = np.uint32(0)
    following[:] = none
    if n_rows % 2 == 0:
        for pick in picks:
            row = counts[pick, left : left + width]
            for j in range(end):
                inside = row[j] <= lower[j]
                below[j] += np.uint32(inside)
                following[j] = np.minimum(following[j], none if inside else row[j])
    half = np.uint32(n_rows // 2)
    for j in range(end):
        odd_or_same = n_rows % 2 == 1 or below[j] > half
        upper = lower[j] if odd_or_same else following[j]
        middle[j] = np.float64(lower[j]) + np.float64(upper)


@njit(nogil=True, cache=True)
def _fold(
    wanted: int,
    values: NDArray[Any],
    low: NDArray[Any],
    total: NDArray[Any],
    high: NDArray[Any],
    width: int,
) -> None:
    """Take one more row of values into the aggregates that are wanted."""
    end = np.uint64(width)
    if wanted & TOTAL:
        for j in range(end):
            total[j] += values[j]
    if wanted & LOW:
        for j in range(end):
            low[j] = np.minimum(low[j], values[j])
    if wanted & HIGH:
        for j in range(end):
            high[j] = np.maximum(high[j], values[j])


@njit(nogil=True, cache=True)
def aggregate_counts(
    wanted: int,
    counts: NDArray[np.uint32],
    picks: NDArray[np.int64],
    lows: NDArray[np.float64],
    middles: NDArray[np.float64],
    totals: NDArray[np.float64],
    highs: NDArray[np.float64],
) -> None:
    """Aggregate the counts of every item (column) over the items of a profile (rows).

    Row ``k`` is ``counts[picks[k]]``. `wanted` is the sum of LOW, MIDDLE, TOTAL and HIGH: only
    those are defined after. In 32-bit lanes; totals spill over before they could overflow.
    """
    n_rows, n_columns = len(picks), counts.shape[1]
    low = np.empty(_TILE, np.uint32)
    total, high = np.empty_like(low), np.empty_like(low)
    work = np.empty((3, _TILE), np.uint32)
    for left in range(0, n_columns, _TILE):
        width = min(_TILE, n_columns - left)
        low[:] = np.uint32(0xFFFFFFFF)
        total[:] = np.uint32(0)
        high[:] = np.uint32(0)
        totals[left : left + width] = 0.0
        for k in range(n_rows):
            row = counts[picks[k], left : left + width]
            _fold(wanted, row, low, total, high, width)
            if k % _SPILL == _SPILL - 1 or k == n_rows - 1:
                for j in range(width):
                    totals[left + j] += total[j]
                total[:] = np.uint32(0)
        for j in range(width):
            lows[left + j] = low[j]
            highs[left + j] = high[j]
        if wanted & MIDDLE:
            _middles_of_counts(counts, picks, left, width, work, middles[left : left + width])


@njit(nogil=True, cache=True, error_model="numpy")
def _fill(
    statistic: int,
    row: NDArray[np.uint32],
    back: NDArray[np.uint32],
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


@njit(nogil=True, cache=True)
def aggregate_values(
    statistic: int,
    wanted: int,
    counts: NDArray[np.uint32],
    picks: NDArray[np.int64],
    reverse: NDArray[np.uint32],
    reverse_picks: NDArray[np.int64],
    support: NDArray[np.int64],
    lows: NDArray[np.float64],
    middles: NDArray[np.float64],
    totals: NDArray[np.float64],
    highs: NDArray[np.float64],
) -> None:
    """Aggregate SHARE, RATIO or ABSENT of every item; see `aggregate_counts`.

    Row ``k`` of the other direction is ``reverse[reverse_picks[k]]`` (read for RATIO alone), and
    ``support[k]`` belongs to it. Totals are summed in the order of the rows.
    """
    n_rows, n_columns = len(picks), counts.shape[1]
    tile = _SORTED_TILE if wanted & MIDDLE else _TILE
    kept = np.empty((n_rows if wanted & MIDDLE else 1, tile))
    for left in range(0, n_columns, tile):
        right = min(left + tile, n_columns)
        low, total, high = lows[left:right], totals[left:right], highs[left:right]
        low[:] = np.inf
        total[:] = 0.0
        high[:] = -np.inf
        for k in range(n_rows):
            values = kept[k if wanted & MIDDLE else 0]
            row = counts[picks[k], left:right]
            back = reverse[reverse_picks[k], left:right]
            _fill(statistic, row, back, float(support[k]), values)
            _fold(wanted, values, low, total, high, right - left)
        if wanted & MIDDLE:
            _middles_of_values(kept, statistic != ABSENT, middles[left:right])


@njit(nogil=True, cache=True)
def top_products(
    counts: NDArray[np.uint32],
    picks: NDArray[np.int64],
    top: int,
    products: NDArray[np.float64],
    scaled: NDArray[np.float64],
) -> None:
    """Give for every column the product of its `top` largest counts, or of all of them.

    The product is ``products · HUGE ** scaled``: integers stay exact as long as their product does,
    so equal products tie, and however many factors there are, nothing overflows.
    """
    n_rows, n_columns = len(picks), counts.shape[1]
    if top >= n_rows:
        _whole_products(counts, picks, products, scaled)
        return
    column = np.empty(n_rows)
    for j in range(n_columns):
        for k in range(n_rows):
            column[k] = -float(counts[picks[k], j])
        _select(column, n_rows, top - 1)
        products[j] = 1.0
        scaled[j] = 0.0
        for value in np.sort(column[:top]):
            products[j] *= -value
            if products[j] > HUGE:
                products[j] /= HUGE
                scaled[j] += 1.0


@njit(nogil=True, cache=True)
def _whole_products(
    counts: NDArray[np.uint32],
    picks: NDArray[np.int64],
    products: NDArray[np.float64],
    scaled: NDArray[np.float64],
) -> None:
    n_columns = counts.shape[1]
    for left in range(0, n_columns, _TILE):
        right = np.minimum(left + _TILE, n_columns)
        product, scale = products[left:right], scaled[left:right]
        product[:] = 1.0
        scale[:] = 0.0
        for pick in picks:
            row = counts[pick, left:right]
            for j in range(right - left):
                value = product[j] * row[j]
                large = value > HUGE
                product[j] = value / HUGE if large else value
                scale[j] += large


@njit(nogil=True, cache=True)
def gather_columns(
    counts: NDArray[np.uint32],
    picks: NDArray[np.int64],
    columns: NDArray[np.int64],
    row_instants: NDArray[np.int64],
    column_instants: NDArray[np.int64],
    following: bool,  # noqa: FBT001
    out: NDArray[np.uint32],
) -> None:
    """Copy some columns without one user's contribution.

    That user took the item of column ``j`` at ``column_instants[j]`` and the item of row ``k`` at
    ``row_instants[k]``; an instant of −1 says that they did not.
    """
    for k in range(len(picks)):
        row = counts[picks[k]]
        at = row_instants[k]
        for j in range(len(columns)):
            earlier, later = at, column_instants[j]
            if not following:
                earlier, later = later, earlier
            out[k, j] = row[columns[j]] - np.uint32(0 <= earlier < later)
