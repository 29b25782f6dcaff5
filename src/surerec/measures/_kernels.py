"""Aggregates over the rows of a profile: pure functions on arrays that release the GIL.

Counts are aggregated in their own width; shares, ratios and absences as 64-bit floats.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

from surerec._kernels import sort_columns
from surerec.measures._tiles import (
    ABSENT,
    HIGH,
    LOW,
    MIDDLE,
    RATIO,
    SHARE,
    TOTAL,
    in_matrix,
    instants_of_columns,
    own_columns,
    read_others,
)
from surerec.measures._vectors import STRIP_BYTES, aligned_zeros, double_medians
from surerec.precedence.kernels import load, pick

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.measures._tiles import LeftOutUser, Task
    from surerec.precedence import RowSource


HUGE = 1e150
"""Larger products are scaled down, so that the next factor cannot overflow."""
WIDE_TILE = 5120
"""Columns of ratios: divisions dominate, so that long reads are better."""
_TILE = 1024  # columns: their accumulators stay in the first-level cache
_SORTED_TILE = 256  # columns of medians: all rows stay in the second-level cache
_SUM_TILE = 2048  # columns of sums: one accumulator each, and longer reads
_STRIPS = 16  # copied at once: shorter reads wait for memory, longer ones leave the cache
_MOST_SUMMED = 1 << 16  # rows of 16-bit counts whose sum fits in 32 bits
_BISECTION = 16  # approximate steps of a search for a column in a row
_NEVER = (1 << 16) - 1  # instant of an item that the left-out user did not consume
_MOST_ROWS = (1 << 16) - 1  # that 16-bit lanes can count
_WIDE = np.empty(0, np.uint32)


@njit(nogil=True, cache=True)
def _fold(kind: int, values: NDArray[Any], found: NDArray[Any]) -> None:
    """Update an aggregate with one more row of values."""
    width = np.uint64(len(found))
    if kind == TOTAL:
        for j in range(width):
            found[j] += values[j]
    elif kind == LOW:
        for j in range(width):
            found[j] = np.minimum(found[j], values[j])
    elif kind == HIGH:
        for j in range(width):
            found[j] = np.maximum(found[j], values[j])


@njit(nogil=True, cache=True)
def _total_counts(
    source: RowSource, left: int, total: NDArray[np.uint32], totals: NDArray[np.float64]
) -> None:
    """Sum the columns of rows of a matrix, four rows at a time, in 32-bit lanes."""
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
def _leave_out_of_totals(
    out: LeftOutUser, first: int, last: int, totals: NDArray[np.float64]
) -> None:
    """Subtract the left-out user from the totals of the items that the user consumed."""
    rows = np.sort(out.of_rows)
    consumed = np.searchsorted(rows, 0)
    for place in range(len(out.items)):
        item = np.int64(out.items[place])
        if first <= item < last:
            totals[item] -= np.searchsorted(rows, out.instants[place]) - consumed


@njit(nogil=True, cache=True)
def _copy_others(
    source: RowSource,
    left: int,
    width: int,
    at: NDArray[np.uint16],
    when: NDArray[np.uint16],
    tile: NDArray[Any],
) -> None:
    """Copy some columns of rows of a matrix, less one where the user consumed them later."""
    for k in range(len(at)):
        row, to, instant = source.matrix[source.places[k], left : left + width], tile[k], at[k]
        for j in range(np.uint64(width)):
            to[j] = row[j] - np.uint16(when[j] > instant)


@njit(nogil=True, cache=True)
def _middles_of_counts(
    first: int, last: int, task: Task, like: NDArray[Any], result: NDArray[np.float64]
) -> None:
    """Write the sum of the two middle counts of each column, computed in the type of `like`."""
    source, out, n_rows = task.source, task.out, len(task.source.places)
    strip = STRIP_BYTES // like.itemsize
    n_strips = min(_STRIPS, -(-(last - first) // strip))
    # An odd number of cache lines, so that a strip's rows are spread over the first-level cache.
    tile = aligned_zeros(n_rows, (n_strips // 2 * 2 + 1) * strip, like)
    work, bits, width = np.empty((2, strip), like.dtype), 8 * like.itemsize, n_strips * strip
    own, when = np.empty(len(out.items), np.int64), np.empty(len(out.items), np.int64)
    narrow = task.following and in_matrix(source) and len(out.items) < _NEVER
    at = np.where(out.of_rows >= 0, out.of_rows + 1, _NEVER).astype(np.uint16)
    columns = instants_of_columns(out, first, last).astype(np.uint16)
    for left in range(first, last, width):
        right = min(left + width, last)
        if narrow:
            _copy_others(source, left, right - left, at, columns[left - first :], tile)
        else:
            n = own_columns(out, left, right, own, when)
            for k in range(n_rows):
                row, instant = tile[k, : right - left], out.of_rows[k]
                read_others(source, k, left, instant, own[:n], when[:n], task.following, row)
        bits = double_medians(tile, work, bits, result[left:right])


@njit(nogil=True, cache=True)
def _fold_counts(first: int, last: int, task: Task, result: NDArray[np.float64]) -> None:
    """Write the minimum, maximum or total count of each column."""
    source, out, kind = task.source, task.out, task.kind
    row, best = np.empty(_TILE, source.counts.dtype), np.empty(_TILE, source.counts.dtype)
    own, when = np.empty(len(out.items), np.int64), np.empty(len(out.items), np.int64)
    for left in range(first, last, _TILE):
        right = min(left + _TILE, last)
        width, found = right - left, result[left:right]
        best[:] = 0
        found[:] = 0.0
        for j in range(width if kind == LOW else 0):
            best[j] = ~best[j]
        n = own_columns(out, left, right, own, when)
        for k in range(len(source.places)):
            at = out.of_rows[k]
            read_others(source, k, left, at, own[:n], when[:n], task.following, row[:width])
            if kind == TOTAL:
                _fold(kind, row, found)
            else:
                _fold(kind, row, best[:width])
        for j in range(width if kind != TOTAL else 0):
            found[j] = best[j]


@njit(nogil=True, cache=True)
def aggregate_counts(first: int, last: int, task: Task, result: NDArray[np.float64]) -> None:
    """Aggregate counts in their own width."""
    source, n_rows = task.source, len(task.source.places)
    few = task.following and n_rows <= _MOST_SUMMED and in_matrix(source)
    if task.kind == MIDDLE and n_rows <= _MOST_ROWS:
        _middles_of_counts(first, last, task, source.counts, result)
    elif task.kind == MIDDLE:
        _middles_of_counts(first, last, task, _WIDE, result)
    elif task.kind == TOTAL and few:
        total = np.empty(_SUM_TILE, np.uint32)
        for left in range(first, last, _SUM_TILE):
            _total_counts(source, left, total, result[left : min(left + _SUM_TILE, last)])
        _leave_out_of_totals(task.out, first, last, result)
    else:
        _fold_counts(first, last, task, result)


@njit(nogil=True, cache=True)
def _middles_of_values(
    values: NDArray[np.float64],
    zeros_lowest: bool,  # noqa: FBT001  # kernels have positional arguments only
    middle: NDArray[np.float64],
) -> None:
    """Write the sum of the two middle values of each column: exactly twice the median."""
    n_rows, width = len(values), len(middle)
    if zeros_lowest:
        # If most values are zero, so is the median: rare items need no sorting.
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
    consumed: float,
    values: NDArray[np.float64],
) -> None:
    """Write the statistic of each column from one row of counts and the item's support."""
    width = np.uint64(len(row))
    if statistic == ABSENT:
        for j in range(width):
            values[j] = consumed - row[j]
    elif consumed == 0.0:
        values[:] = 0.0
    elif statistic == SHARE:
        for j in range(width):
            values[j] = row[j] / consumed
    else:
        for j in range(width):
            # With no user left who could consume it later, the count and the ratio are 0.
            values[j] = row[j] / np.maximum(consumed - back[j], 1.0)


@njit(nogil=True, cache=True)
def aggregate_values(first: int, last: int, task: Task, result: NDArray[np.float64]) -> None:
    """Aggregate SHARE, RATIO or ABSENT, in the order of the rows."""
    source, out, kind, n_rows = task.source, task.out, task.kind, len(task.source.places)
    statistic, following = task.way.statistic, task.following
    size = _SORTED_TILE if kind == MIDDLE else _TILE
    kept = np.empty((n_rows if kind == MIDDLE else 1, size))
    counts, back = np.empty(size, source.counts.dtype), np.empty(size, source.counts.dtype)
    own, when = np.empty(len(out.items), np.int64), np.empty(len(out.items), np.int64)
    for left in range(first, last, size):
        right = min(left + size, last)
        width, found, n = right - left, result[left:right], own_columns(out, left, right, own, when)
        found[:] = np.inf if kind == LOW else -np.inf if kind == HIGH else 0.0
        for k in range(n_rows):
            values, at = kept[k if kind == MIDDLE else 0], out.of_rows[k]
            mine, then = own[:n], when[:n]
            read_others(source, k, left, at, mine, then, following, counts[:width])
            if statistic == RATIO:
                read_others(task.reverse, k, left, at, mine, then, not following, back[:width])
            _fill(statistic, counts[:width], back[:width], float(out.support[k]), values)
            _fold(kind, values, found)
        if kind == MIDDLE:
            _middles_of_values(kept, statistic != ABSENT, found)


@njit(nogil=True, cache=True, error_model="numpy")
def _add_ratios(
    row: NDArray[Any],
    back: NDArray[Any],
    mine: Any,
    when: NDArray[np.uint32],
    consumed: float,
    total: NDArray[np.float64],
) -> None:
    """Add the ratios of a row to the totals, without the left-out user."""
    for j in range(np.uint64(len(total))):
        later = np.int32(when[j] > mine)
        earlier = np.int32((when[j] > np.uint32(0)) & (when[j] < mine))
        free = consumed - np.int32(np.int32(back[j]) - earlier)
        total[j] += np.int32(np.int32(row[j]) - later) / np.maximum(free, 1.0)


@njit(nogil=True, cache=True)
def total_ratios(first: int, last: int, task: Task, result: NDArray[np.float64]) -> None:
    """Sum the ratios over rows of 16-bit matrices without copying them."""
    source, reverse, out = task.source, task.reverse, task.out
    when, no_instants = instants_of_columns(out, first, last), np.zeros(WIDE_TILE, np.uint32)
    for left in range(first, last, WIDE_TILE):
        right = min(left + WIDE_TILE, last)
        total = result[left:right]
        total[:] = 0.0
        for k in range(len(source.places)):
            if out.support[k]:
                row = source.matrix[source.places[k], left:right]
                back = reverse.matrix[reverse.places[k], left:right]
                is_own = out.of_rows[k] >= 0 and len(out.items) > 0
                own = when[left - first : right - first] if is_own else no_instants
                mine = np.uint32(out.of_rows[k] + 1)
                _add_ratios(row, back, mine, own, float(out.support[k]), total)


@njit(nogil=True, cache=True)
def _multiply(
    values: NDArray[Any], products: NDArray[np.float64], scaled: NDArray[np.float64]
) -> None:
    for j in range(np.uint64(len(products))):
        value = products[j] * values[j]
        large = value > HUGE
        products[j] = value / HUGE if large else value
        scaled[j] += large


@njit(nogil=True, cache=True)
def top_products(
    source: RowSource,
    out: LeftOutUser,
    top: int,
    products: NDArray[np.float64],
    scaled: NDArray[np.float64],
) -> None:
    """Write the product of the `top` largest counts of every column, or of all counts.

    The product is ``products · HUGE ** scaled``. Products of integers stay exact as long as they
    fit, so that equal products tie. Any number of factors is free of overflow.
    """
    n_rows, n_columns = len(source.places), len(products)
    size = _SORTED_TILE if top < n_rows else _TILE
    kept = np.empty((n_rows if top < n_rows else 0, size))
    row = np.empty(size, source.counts.dtype)
    own, when = np.empty(len(out.items), np.int64), np.empty(len(out.items), np.int64)
    products[:] = 1.0
    scaled[:] = 0.0
    for left in range(0, n_columns, size):
        right = min(left + size, n_columns)
        product, scale, width = products[left:right], scaled[left:right], right - left
        n = own_columns(out, left, right, own, when)
        for k in range(n_rows):
            at = out.of_rows[k]
            read_others(source, k, left, at, own[:n], when[:n], True, row[:width])
            if top < n_rows:
                for j in range(width):
                    kept[k, j] = row[j]
            else:
                _multiply(row, product, scale)
        if top < n_rows:
            sort_columns(kept, width)
            for k in range(n_rows - 1, n_rows - 1 - top, -1):
                _multiply(kept[k], product, scale)


@njit(nogil=True, cache=True)
def gather_columns(
    source: RowSource,
    out: LeftOutUser,
    n_items: int,
    columns: NDArray[np.int64],
    following: bool,  # noqa: FBT001
    result: NDArray[Any],
) -> None:
    """Copy some columns of all rows without one user's contribution."""
    n_plain = len(source.matrix) + len(source.counted)
    few = len(columns) * _BISECTION < n_items
    whole = np.empty(0 if few else n_items, result.dtype)
    when = instants_of_columns(out, 0, n_items)
    for k in range(len(source.places)):
        row, at = result[k], out.of_rows[k]
        if few or source.places[k] < n_plain:
            pick(source, k, columns, row)
        else:
            load(source, k, 0, whole)
            for j in range(len(columns)):
                row[j] = whole[columns[j]]
        for j in range(len(columns) if at >= 0 else 0):
            instant = np.int64(when[columns[j]]) - 1
            row[j] -= np.uint32(instant > at if following else 0 <= instant < at)
