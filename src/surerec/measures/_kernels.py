"""Aggregates over the rows of a profile: pure functions on arrays that release the GIL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

from surerec._kernels import sort_columns
from surerec.measures._tiles import mark_own, own_columns
from surerec.precedence._sources import load

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.measures._tiles import LeftOut
    from surerec.precedence import Source

__all__ = [
    "ABSENT",
    "COUNT",
    "HIGH",
    "HUGE",
    "LOW",
    "MIDDLE",
    "RATIO",
    "SHARE",
    "TOTAL",
    "aggregate_columns",
    "gather_columns",
    "top_products",
]

COUNT, SHARE, RATIO, ABSENT = 0, 1, 2, 3
LOW, MIDDLE, TOTAL, HIGH = 1, 2, 4, 8

_NARROW = 2  # bytes
_MOST_ONES = (1 << 16) - 1  # that a counter of 16 bits can count
_SPILL_NARROW = 1 << 16  # rows whose counts of 16 bits, and so many ones, still sum up in 32 bits
_SPILL = 1 << 8  # rows whose counts, of 16 million users each, do
_TILE = 1024  # columns: their accumulators stay in the first-level cache
_WIDE_TILE = 5120  # columns of ratios, which wait for the divider: long reads matter more
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
def _count_below(
    rows: NDArray[Any], trial: NDArray[Any], few: NDArray[Any], below: NDArray[np.uint32]
) -> None:
    """Count in each column the values that are not above a trial, in lanes as wide as the values.

    Narrow counters take so many rows as they can count, before they are added up.
    """
    width = np.uint64(len(trial))
    below[:] = np.uint32(0)
    for first in range(0, len(rows), _MOST_ONES):
        for j in range(width):
            few[j] = 0
        for k in range(first, min(first + _MOST_ONES, len(rows))):
            row = rows[k, : len(trial)]
            for j in range(width):
                few[j] += np.uint16(row[j] <= trial[j])
        for j in range(width):
            below[j] += np.uint32(few[j])


@njit(nogil=True, cache=True)
def _largest(rows: NDArray[Any], work: NDArray[Any]) -> int:
    work[:] = 0
    for k in range(len(rows)):
        row = rows[k, : len(work)]
        for j in range(np.uint64(len(work))):
            work[j] = np.maximum(work[j], row[j])
    return int(work.max())


@njit(nogil=True, cache=True)
def _middles_of_counts(
    rows: NDArray[Any],
    work: NDArray[Any],
    below: NDArray[np.uint32],
    middle: NDArray[np.float64],
) -> None:
    """Do the same for counts, by bisection of all columns at once, one bit after the other.

    Reading the rows once a bit takes m · log₂(largest count) steps in 16-bit lanes, where sorting
    takes m · log₂²(m) in wider ones: measured three times as fast, and more for long profiles.
    """
    n_rows, width = len(rows), np.uint64(len(middle))
    lower, trial, other = work[0, :width], work[1, :width], work[2, :width]
    largest = np.uint32(_largest(rows, other))
    lower[:] = 0
    bit = np.uint32(1)
    while bit <= largest >> np.uint32(1):
        bit <<= np.uint32(1)
    rank = np.uint32((n_rows - 1) // 2 + 1)
    while bit and largest:
        for j in range(width):
            trial[j] = lower[j] + (bit - np.uint32(1))
        _count_below(rows, trial, other, below)
        for j in range(width):
            lower[j] += bit if below[j] < rank else np.uint32(0)
        bit >>= np.uint32(1)
    for j in range(width):
        middle[j] = np.float64(lower[j])
    if n_rows % 2 == 0:
        _add_upper_middle(rows, work, below, middle)
    else:
        for j in range(width):
            middle[j] *= 2.0


@njit(nogil=True, cache=True)
def _add_upper_middle(
    rows: NDArray[Any],
    work: NDArray[Any],
    below: NDArray[np.uint32],
    middle: NDArray[np.float64],
) -> None:
    """Add to each lower middle the upper one: itself, or the next larger count."""
    n_rows, width = len(rows), np.uint64(len(middle))
    lower, following, few = work[0, :width], work[1, :width], work[2, :width]
    _count_below(rows, lower, few, below)
    for j in range(width):
        following[j] = ~(lower[j] ^ lower[j])  # all bits: above every count
    for k in range(n_rows):
        row = rows[k, :width]
        for j in range(width):
            larger = row[j] if row[j] > lower[j] else following[j]
            following[j] = np.minimum(following[j], larger)
    half = np.uint32(n_rows // 2)
    for j in range(width):
        middle[j] += np.float64(lower[j] if below[j] > half else following[j])


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
def _in_matrix(source: Source) -> bool:
    """Tell whether all rows are rows of the matrix, of 16 bits."""
    inside = len(source.places) == 0 or source.places.max() < len(source.matrix)
    return inside and source.matrix.itemsize == _NARROW


@njit(nogil=True, cache=True)
def _total_counts(
    source: Source, out: LeftOut, left: int, total: NDArray[np.uint32], totals: NDArray[np.float64]
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
    earlier = np.sort(out.of_rows)
    taken = np.searchsorted(earlier, 0)
    for place in range(len(out.items)):
        item = np.int64(out.items[place])
        if left <= item < right:
            totals[item - left] -= np.searchsorted(earlier, out.instants[place]) - taken


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
    width, spill = len(totals), _SPILL if source.counts.itemsize > _NARROW else _SPILL_NARROW
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
        if n_own:
            at = out.of_rows[k]
            done = mark_own(at, before, done, own[:n_own], instants[:n_own], following, minus)
            before = at
            for j in range(np.uint64(width)):
                row[j] -= minus[j]
        _fold(wanted, row, low, total, high, width)
        if k % spill == spill - 1 or k == len(source.places) - 1:
            for j in range(width):
                totals[j] += total[j]
            total[:] = np.uint32(0)


@njit(nogil=True, cache=True)
def _aggregate_counts(
    first: int,
    last: int,
    wanted: int,
    following: bool,  # noqa: FBT001
    source: Source,
    out: LeftOut,
    lows: NDArray[np.float64],
    middles: NDArray[np.float64],
    totals: NDArray[np.float64],
    highs: NDArray[np.float64],
) -> None:
    """Aggregate counts in lanes as wide as they are."""
    n_rows = len(source.places)
    size = _SORTED_TILE if wanted & MIDDLE else _TILE
    kept = np.empty((n_rows if wanted & MIDDLE else 1, size), source.counts.dtype)
    work = np.empty((3, size), kept.dtype)
    total = np.empty(size, np.uint32)
    own, instants = np.empty(size, np.int64), np.empty(size, np.int64)
    only_total = wanted == TOTAL and following and n_rows <= _SPILL_NARROW
    only_total = only_total and _in_matrix(source)
    for left in range(first, last, size):
        right = min(left + size, last)
        width = right - left
        if only_total:
            _total_counts(source, out, left, total, totals[left:right])
            continue
        _fold_counts(
            wanted, following, source, out, left, kept, work, total, own, instants,
            totals[left:right],
        )  # fmt: skip
        for j in range(width):
            lows[left + j] = work[1, j]
            highs[left + j] = work[2, j]
        if wanted & MIDDLE:
            _middles_of_counts(kept, work, total[:width], middles[left:right])


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
def _total_ratios(
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
    minus, minus_back = np.zeros(_WIDE_TILE, matrix.dtype), np.zeros(_WIDE_TILE, matrix.dtype)
    own, instants = np.empty(_WIDE_TILE, np.int64), np.empty(_WIDE_TILE, np.int64)
    for left in range(first, last, _WIDE_TILE):
        right = min(left + _WIDE_TILE, last)
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
def _aggregate_values(
    first: int,
    last: int,
    statistic: int,
    wanted: int,
    following: bool,  # noqa: FBT001
    source: Source,
    reverse: Source,
    out: LeftOut,
    lows: NDArray[np.float64],
    middles: NDArray[np.float64],
    totals: NDArray[np.float64],
    highs: NDArray[np.float64],
) -> None:
    """Aggregate SHARE, RATIO or ABSENT; totals are summed in the order of the rows."""
    n_rows = len(source.places)
    if statistic == RATIO and wanted == TOTAL and _in_matrix(source) and _in_matrix(reverse):
        _total_ratios(first, last, source, reverse, out, totals)
        return
    size = _SORTED_TILE if wanted & MIDDLE else _TILE
    kept = np.empty((n_rows if wanted & MIDDLE else 1, size))
    counts, back = np.empty(size, source.counts.dtype), np.empty(size, source.counts.dtype)
    minus, minus_back = np.zeros_like(counts), np.zeros_like(counts)
    own, instants = np.empty(size, np.int64), np.empty(size, np.int64)
    for left in range(first, last, size):
        right = min(left + size, last)
        width = right - left
        n_own, done, done_back, before = own_columns(out, left, right, own, instants), 0, 0, -1
        low, total, high = lows[left:right], totals[left:right], highs[left:right]
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
            _fold(wanted, values, low, total, high, width)
        for place in range(n_own):
            minus[own[place]] = 0
            minus_back[own[place]] = 0
        if wanted & MIDDLE:
            _middles_of_values(kept, statistic != ABSENT, middles[left:right])


@njit(nogil=True, cache=True)
def aggregate_columns(
    first: int,
    last: int,
    statistic: int,
    wanted: int,
    following: bool,  # noqa: FBT001
    source: Source,
    reverse: Source,
    out: LeftOut,
    lows: NDArray[np.float64],
    middles: NDArray[np.float64],
    totals: NDArray[np.float64],
    highs: NDArray[np.float64],
) -> None:
    """Aggregate a statistic of items `first` … `last` − 1 (columns) over a profile (rows).

    `wanted` is the sum of LOW, MIDDLE, TOTAL and HIGH: only those are defined after. The rows of
    `source` are of those that follow the rows' items, or precede if not `following`; `reverse` has
    the other direction, and is read for RATIO alone. A user's own part is left `out`.
    """
    if statistic == COUNT:
        _aggregate_counts(first, last, wanted, following, source, out, lows, middles, totals, highs)
    else:
        _aggregate_values(
            first, last, statistic, wanted, following, source, reverse, out,
            lows, middles, totals, highs,
        )  # fmt: skip


@njit(nogil=True, cache=True)
def top_products(
    counts: NDArray[Any],
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
    counts: NDArray[Any],
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
    counts: NDArray[Any],
    picks: NDArray[np.int64],
    columns: NDArray[np.int64],
    row_instants: NDArray[np.int64],
    column_instants: NDArray[np.int64],
    following: bool,  # noqa: FBT001
    out: NDArray[Any],
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
