"""Kernels of precedence counts: pure functions on arrays that release the GIL.

Counting is row-wise (Gustavson): for each item, the spans of profiles that follow (or precede) it
are added to its row. Loop indices are unsigned, because numba checks signed ones for wrap-around.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

if TYPE_CHECKING:
    from numpy.typing import NDArray


_MOST_IN_16_BITS = 2**16 - 1
_NARROW = 2  # bytes
_GROUP = 16  # counts tested together, because most groups of a rare item are empty
_AHEAD = 6  # spans between a prefetch and its use; without it counting takes 1.5 times as long
_LINES = 4  # cache lines to prefetch per span; the processor prefetches longer spans itself
_LINE = 64  # bytes


@intrinsic
def _prefetch(_context: Any, array: Any, index: Any) -> Any:
    """Prefetch the cache line of ``array[index]``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array_type, index_type = signature.args
        view = context.make_array(array_type)(context, builder, arguments[0])
        position = context.cast(builder, arguments[1], index_type, types.intp)
        pointer = cgutils.get_item_pointer(
            context, builder, array_type, view, [position], wraparound=False, boundscheck=False
        )
        i32 = ir.IntType(32)
        byte = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte, i32, i32, i32])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        read, soon, data = (ir.Constant(i32, value) for value in (0, 3, 1))
        builder.call(function, [builder.bitcast(pointer, byte), read, soon, data])
        return context.get_dummy_value()

    return types.void(array, index), generate


@njit(nogil=True, cache=True)
def prefetch_span(items: NDArray[Any], place: Any) -> None:
    """Prefetch the first cache lines of a span."""
    for line in range(_LINES):
        _prefetch(items, np.uint64(place) + np.uint64(line * _LINE // items.itemsize))  # type: ignore[call-arg]  # numba adds the context


@njit(nogil=True, cache=True)
def count_rows(
    first: int,
    last: int,
    span_offsets: NDArray[np.int64],
    starts: NDArray[Any],
    stops: NDArray[Any],
    items: NDArray[Any],
    rows: NDArray[Any],
) -> None:
    """Count the rows of items `first` … `last` − 1 into ``rows``, which must be zero.

    The spans of item ``i`` are ``items[starts[k]:stops[k]]`` for ``k`` from ``span_offsets[i]``
    to ``span_offsets[i + 1] - 1``.
    """
    n_spans = np.uint64(len(starts))
    for item in range(first, last):
        row = rows[item - first]
        for k in range(np.uint64(span_offsets[item]), np.uint64(span_offsets[item + 1])):
            if k + np.uint64(_AHEAD) < n_spans:
                prefetch_span(items, starts[k + np.uint64(_AHEAD)])
            for place in range(np.uint64(starts[k]), np.uint64(stops[k])):
                row[items[place]] += np.uint16(1)  # whatever the width of the counter


@njit(nogil=True, cache=True)
def count_listed(
    listed: NDArray[np.int64],
    slots: NDArray[np.int64],
    span_offsets: NDArray[np.int64],
    starts: NDArray[Any],
    stops: NDArray[Any],
    items: NDArray[Any],
    rows: NDArray[Any],
) -> None:
    """Count the rows of items into their slots of ``rows``, which are overwritten."""
    for k in range(len(listed)):
        into = rows[slots[k] : slots[k] + 1]
        into[0, :] = 0
        count_rows(listed[k], listed[k] + 1, span_offsets, starts, stops, items, into)


@njit(nogil=True, cache=True)
def find_spans(
    first: int,
    last: int,
    offsets: NDArray[np.int64],
    times: NDArray[np.int64],
    strict: bool,  # noqa: FBT001  # a kernel takes positional arguments only
    following: bool,  # noqa: FBT001
    starts: NDArray[Any],
    stops: NDArray[Any],
) -> None:
    """Find the span that follows or precedes each position of users `first` … `last` − 1.

    With `strict`, items with the same time neither follow nor precede.
    """
    for user in range(first, last):
        begin, end = offsets[user], offsets[user + 1]
        if following:
            after = end
            for place in range(end - 1, begin - 1, -1):
                if not strict or (place + 1 < end and times[place + 1] != times[place]):
                    after = place + 1
                starts[place] = after
                stops[place] = end
        else:
            before = begin
            for place in range(begin, end):
                if not strict or (place > begin and times[place - 1] != times[place]):
                    before = place
                starts[place] = begin
                stops[place] = before


@njit(nogil=True, cache=True)
def subtract_users(
    offsets: NDArray[np.int64],
    consumed: NDArray[np.uint32],
    instants: NDArray[np.int64],
    items: NDArray[np.int64],
    following: bool,  # noqa: FBT001
    rows: NDArray[Any],
) -> None:
    """Subtract the contribution of users from the rows of items; ``rows[k]`` is that of items[k].

    User u consumed ``consumed[offsets[u]:offsets[u + 1]]``, each item once, in the order of
    ``instants``.
    """
    when = np.full(rows.shape[1], -1, np.int64)
    for user in range(len(offsets) - 1):
        begin, end = offsets[user], offsets[user + 1]
        for place in range(begin, end):
            when[consumed[place]] = instants[place]
        for k in range(len(items)):
            at = when[items[k]]
            if at < 0:
                continue
            for place in range(begin, end):
                if (instants[place] > at) if following else (instants[place] < at):
                    rows[k, consumed[place]] -= 1
        for place in range(begin, end):
            when[consumed[place]] = -1


@njit(nogil=True, cache=True)
def compress_rows(
    rows: NDArray[Any], most: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.uint32], NDArray[Any]]:
    """Return the nonzero counts: the end of each row, a mask of dense rows, items and counts.

    A row with more than `most` nonzero counts, none above 16 bits, stays dense, which is smaller;
    its counts are not returned.
    """
    n_rows, n_items = rows.shape
    ends, stay = np.zeros(n_rows + 1, np.int64), np.zeros(n_rows, np.bool_)
    for k in range(n_rows):
        n_found = np.count_nonzero(rows[k])
        stay[k] = n_found > most and (rows.itemsize == _NARROW or rows[k].max() <= _MOST_IN_16_BITS)
        ends[k + 1] = ends[k] + (0 if stay[k] else n_found)
    size = ends[n_rows] + 1
    items, counts = np.empty(size, np.uint32), np.empty(size, rows.dtype)
    for k in range(n_rows):
        place, row = np.uint64(ends[k]), rows[k]
        for left in range(0, n_items if ends[k + 1] > ends[k] else 0, _GROUP):
            right = min(left + _GROUP, n_items)
            seen = row[left]
            for j in range(np.uint64(left), np.uint64(right)):
                seen |= row[j]
            if seen:
                # Always written and overwritten after a zero: no branch to mispredict.
                for j in range(np.uint64(left), np.uint64(right)):
                    items[place], counts[place] = j, row[j]
                    place += np.uint64(row[j] != 0)
    return ends[1:], stay, items[: ends[n_rows]], counts[: ends[n_rows]]


@njit(nogil=True, cache=True)
def log_pairs(
    entries: NDArray[np.int32],
    previous: NDArray[np.int64],
    tails: NDArray[np.int64],
    filled: NDArray[np.int64],
    n_chunks: int,
    rows: NDArray[np.uint32],
    columns: NDArray[np.uint32],
    minus: bool,  # noqa: FBT001  # a kernel takes positional arguments only
) -> int:
    """Log +1, or −1, for pairs of rows and columns; return the number of chunks.

    Either `rows` or `columns` may have length one and is then broadcast. The log of a row is a list
    of chunks of `entries`, linked backwards. The last chunk of row ``r`` is ``tails[r]``, −1 for
    none, with ``filled[r]`` columns. Inverted bits mean −1.
    """
    n, size = max(len(rows), len(columns)), entries.shape[1]
    for k in range(n if min(len(rows), len(columns)) else 0):
        row = rows[k if len(rows) > 1 else 0]
        column = np.int32(columns[k if len(columns) > 1 else 0])
        if tails[row] < 0 or filled[row] == size:
            previous[n_chunks] = tails[row]
            tails[row] = n_chunks
            filled[row] = 0
            n_chunks += 1
        entries[tails[row], filled[row]] = ~column if minus else column
        filled[row] += 1
    return n_chunks


@njit(nogil=True, cache=True)
def add_logged(
    entries: NDArray[np.int32],
    previous: NDArray[np.int64],
    tails: NDArray[np.int64],
    filled: NDArray[np.int64],
    items: NDArray[np.int64],
    matrix: NDArray[Any],
) -> None:
    """Apply the log of item ``items[k]`` to row ``k`` of the matrix."""
    for k in range(len(items)):
        if items[k] >= len(tails):  # a new item, whose row is not logged
            continue
        row, chunk, n = matrix[k], tails[items[k]], filled[items[k]]
        while chunk >= 0:
            for j in range(n):
                column = entries[chunk, j]
                if column >= 0:
                    row[column] += np.uint16(1)
                else:
                    row[~column] -= np.uint16(1)
            chunk = previous[chunk]
            n = entries.shape[1]


@njit(nogil=True, cache=True)
def count_in_place(
    matrix: NDArray[Any],
    slots: NDArray[np.int64],
    rows: NDArray[np.uint32],
    columns: NDArray[np.uint32],
    minus: bool,  # noqa: FBT001
) -> None:
    """Count pairs as `log_pairs` does, directly in the rows that are in the matrix."""
    n = max(len(rows), len(columns)) if min(len(rows), len(columns)) else 0
    for k in range(n):
        slot = slots[rows[k if len(rows) > 1 else 0]]
        if slot >= 0:
            column = columns[k if len(columns) > 1 else 0]
            if minus:
                matrix[slot, column] -= np.uint16(1)
            else:
                matrix[slot, column] += np.uint16(1)


@njit(nogil=True, cache=True)
def move_in_order(
    order: NDArray[np.int64],
    places: NDArray[np.int64],
    support: NDArray[np.uint32],
    item: int,
    by: int,
) -> None:
    """Change an item's support by one, and keep `order` sorted by support, then by code."""
    new = np.int64(support[item]) + by
    support[item] = np.uint32(new)
    place = places[item]
    low, high = (0, place) if by > 0 else (place + 1, len(order))
    while low < high:  # find its new position
        middle = (low + high) >> 1
        other = order[middle]
        its = np.int64(support[other])
        if its < new or (its == new and other > item):
            high = middle
        else:
            low = middle + 1
    if by > 0:
        for k in range(place, low, -1):
            order[k] = order[k - 1]
            places[order[k]] = k
    else:
        low -= 1
        for k in range(place, low):
            order[k] = order[k + 1]
            places[order[k]] = k
    order[low] = item
    places[item] = low
