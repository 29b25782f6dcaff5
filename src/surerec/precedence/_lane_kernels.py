"""How sixteen rows are counted in one walk: pure functions on arrays that release the GIL.

What follows an item in a profile also follows each item before it. So the spans of sixteen items
in one profile are walked once, from the first of the items on, adding a vector of sixteen ones and
zeros, its lanes, at each place: a one for each of the items that was passed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from surerec.precedence._kernels import ask_for

if TYPE_CHECKING:
    from numpy.typing import NDArray


LANES = 16
"""Rows that are counted together: counters of 16 bits that fill a vector of 256."""

LANE_BITS = 4
"""The lowest bits of what `place_spans` writes as a start: the item's lane."""

_AHEAD = 12  # spans; the memory behind a span arrives while the ones before it are counted
_LINES = 4  # of the cache, asked for at the beginning of a span; longer ones the processor foresees


@intrinsic
def _add_lanes(_context: Any, items: Any, begin: Any, end: Any, lanes: Any, counters: Any) -> Any:
    """Add one to the counters of ``items[begin:end]``, in those lanes whose bit is set.

    Written as vectors, because the compiler keeps sixteen numbers of 16 bits that are added to
    memory neither together nor in a register.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        types_given = signature.args
        views = [context.make_array(types_given[k])(context, builder, arguments[k]) for k in (0, 4)]
        first, last, bits = (
            context.cast(builder, arguments[k], types_given[k], types.uint64) for k in (1, 2, 3)
        )
        i64, vector = ir.IntType(64), ir.VectorType(ir.IntType(16), LANES)
        mask = builder.bitcast(
            builder.trunc(bits, ir.IntType(LANES)), ir.VectorType(ir.IntType(1), LANES)
        )
        ones = builder.zext(mask, vector)
        base = builder.bitcast(views[1].data, vector.as_pointer())
        one = ir.Constant(i64, 1)
        with cgutils.for_range_slice(builder, first, last, one, inc=True) as (place, _):
            item = builder.load(builder.gep(views[0].data, [place]))
            where = builder.gep(base, [item if item.type == i64 else builder.zext(item, i64)])
            counted = builder.add(builder.load(where, align=2), ones)
            builder.store(counted, where, align=2)
        return context.get_dummy_value()

    return types.void(items, begin, end, lanes, counters), generate


@njit(nogil=True, cache=True)
def place_spans(
    first: int,
    last: int,
    offsets: NDArray[np.int64],
    times: NDArray[np.int64],
    strict: bool,  # noqa: FBT001  # a kernel takes positional arguments only
    taken: NDArray[np.uint32],
    cursors: NDArray[np.int64],
    starts: NDArray[Any],
    stops: NDArray[Any],
) -> None:
    """Write the span that follows each place of users `first` … `last` − 1 behind its group's.

    A group is sixteen items. A start has the item's lane, its place in the group, in its lowest
    bits. With `strict`, what shares the instant does not follow.
    """
    for user in range(first, last):
        begin, end = np.uint64(offsets[user]), np.uint64(offsets[user + 1])
        after = begin
        for place in range(begin, end):
            if after <= place:
                after = place + np.uint64(1)
                while strict and after < end and times[after] == times[place]:
                    after += np.uint64(1)
            item = np.uint64(taken[place])
            group = item >> np.uint64(LANE_BITS)
            k = np.uint64(cursors[group])
            starts[k] = (after << np.uint64(LANE_BITS)) | (item & np.uint64(LANES - 1))
            stops[k] = end
            cursors[group] = np.int64(k + np.uint64(1))


@njit(nogil=True, cache=True)
def count_steps(
    first: int,
    last: int,
    offsets: NDArray[np.int64],
    starts: NDArray[Any],
    stops: NDArray[Any],
    steps: NDArray[np.int64],
) -> None:
    """Give the places that are walked for each of the groups `first` … `last` − 1."""
    for group in range(first, last):
        total, before = np.int64(0), np.uint64(0)
        for k in range(np.uint64(offsets[group]), np.uint64(offsets[group + 1])):
            stop = np.uint64(stops[k])
            length = np.int64(stop - (np.uint64(starts[k]) >> np.uint64(LANE_BITS)))
            total += length if stop != before else np.int64(0)
            before = stop
        steps[group] = total


@njit(nogil=True, cache=True)
def count_lanes(
    first: int,
    last: int,
    starts: NDArray[Any],
    stops: NDArray[Any],
    items: NDArray[Any],
    counters: NDArray[np.uint16],
) -> None:
    """Add what the spans `first` … `last` − 1 of one group hold to its counters, item by lane.

    The spans of a profile are beside each other, in its order.
    """
    begin, end, all_spans = np.uint64(first), np.uint64(last), np.uint64(len(starts))
    lanes, before = np.uint64(0), np.uint64(0)
    for k in range(begin, end):
        ahead = k + np.uint64(_AHEAD)
        if ahead < all_spans:
            place = np.uint64(starts[ahead]) >> np.uint64(LANE_BITS)
            ask_for(items, place, _LINES)
        start, stop = np.uint64(starts[k]), np.uint64(stops[k])
        lane = np.uint64(1) << (start & np.uint64(LANES - 1))
        lanes = lanes | lane if stop == before else lane
        before, until, after = stop, stop, k + np.uint64(1)
        if after < end:  # as far as the next span of the profile, which has a lane more
            following = np.uint64(starts[after]) >> np.uint64(LANE_BITS)
            until = following if np.uint64(stops[after]) == stop else stop
        _add_lanes(items, start >> np.uint64(LANE_BITS), until, lanes, counters)  # type: ignore[call-arg]


@njit(nogil=True, cache=True)
def empty_into(counters: NDArray[np.uint16], wide: NDArray[np.uint32]) -> None:
    """Add counters to wider ones, and begin again at zero."""
    for item in range(len(counters)):
        for lane in range(LANES):
            wide[item, lane] += counters[item, lane]
            counters[item, lane] = 0


@intrinsic
def _write_tile(
    _context: Any,
    counters: Any,
    at: Any,
    matrix: Any,
    below: Any,
    transposed: Any,
    beside: Any,
    width: Any,
    both: Any,
) -> Any:
    """Write the counters of sixteen items, those at `at` …, into two matrices so many items wide.

    They are sixteen vectors: into the one matrix, at `beside`, as they are, which is as columns,
    and into the other, at `below`, interleaved four times, which is as rows. The counters are zero
    afterwards. A number at a time, the processor waits for each line of the matrices in turn.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        given = signature.args
        arrays = {
            k: context.make_array(given[k])(context, builder, arguments[k]).data for k in (0, 2, 4)
        }
        first, under, by, wide, is_both = (
            context.cast(builder, arguments[k], given[k], types.uint64) for k in (1, 3, 5, 6, 7)
        )
        narrow = ir.VectorType(arrays[0].type.pointee, LANES)
        vector = ir.VectorType(arrays[2].type.pointee, LANES)

        def where(pointer: Any, place: Any, kind: Any) -> Any:
            return builder.bitcast(builder.gep(pointer, [place]), kind.as_pointer())

        def store(tile: list[Any], pointer: Any, place: Any) -> None:
            for each in tile:
                builder.store(each, where(pointer, place, vector), align=2)
                place = builder.add(place, wide)

        tile = []
        for k in range(LANES):
            place = where(arrays[0], builder.add(first, ir.Constant(first.type, LANES * k)), narrow)
            counts = builder.load(place, align=2)
            tile.append(counts if narrow == vector else builder.zext(counts, vector))
            builder.store(ir.Constant(narrow, None), place, align=2)
        with builder.if_then(builder.icmp_unsigned("!=", is_both, ir.Constant(is_both.type, 0))):
            store(tile, arrays[4], by)
        halves = [
            ir.Constant(
                ir.VectorType(ir.IntType(32), LANES),
                [half + k // 2 + LANES * (k % 2) for k in range(LANES)],
            )
            for half in (0, LANES // 2)
        ]
        for _ in range(LANE_BITS):
            tile = [
                builder.shuffle_vector(tile[k], tile[k + LANES // 2], half)
                for k in range(LANES // 2)
                for half in halves
            ]
        store(tile, arrays[2], under)
        return context.get_dummy_value()

    return types.void(counters, at, matrix, below, transposed, beside, width, both), generate


@njit(nogil=True, cache=True)
def write_counts(
    counters: NDArray[Any],
    first: int,
    matrix: NDArray[Any],
    transposed: NDArray[Any],
) -> None:
    """Write the counts of the items from `first` on, several groups, as rows and as columns.

    The counters are zero afterwards. A transpose without rows is not written.
    """
    n_items, lanes = np.uint64(matrix.shape[1]), np.uint64(LANES)
    both, in_tiles = len(transposed) > 0, n_items - n_items % lanes
    for left in range(np.uint64(0), n_items, lanes):
        for group in range(np.uint64(len(counters))):
            top = np.uint64(first) + group * lanes
            if left >= in_tiles or top + lanes > n_items:
                for item in range(left, min(left + lanes, n_items)):
                    for row in range(top, min(top + lanes, n_items)):
                        count = counters[group, item, row - top]
                        counters[group, item, row - top] = 0
                        matrix[row, item] = count
                        if both:
                            transposed[item, row] = count
            else:
                at, below, beside = (
                    (group * n_items + left) * lanes,
                    top * n_items + left,
                    left * n_items + top,
                )
                _write_tile(counters, at, matrix, below, transposed, beside, n_items, both)  # type: ignore[call-arg]  # numba adds the context
