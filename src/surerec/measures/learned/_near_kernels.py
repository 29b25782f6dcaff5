"""Who took an item soon after another, counted or added up: kernels that release the GIL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from surerec.measures._vectors import Lanes

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LANES = 64


@njit(nogil=True, cache=True)
def add_near(
    last: int,
    part: Any,
    windows: NDArray[np.int64],
    own_ends: NDArray[np.int64],
    span_offsets: NDArray[np.int64],
    starts: NDArray[Any],
    stops: NDArray[Any],
    items: NDArray[np.uint32],
    out: NDArray[Any],
) -> None:
    """Add `part` for each user who took an item soon after `last`, to ``out[w]``.

    Soon is among the next ``windows[w]`` items, which ascend. Spans are as in
    `surerec.precedence`; the users whose profiles end at `own_ends` are left out.
    """
    for span in range(span_offsets[last], span_offsets[last + 1]):
        stop = np.int64(stops[span])
        is_left_out = False
        for end in own_ends:
            is_left_out |= stop == end
        if is_left_out:
            continue
        begin = np.int64(starts[span])
        reached = begin
        for w in range(len(windows)):
            end = min(stop, begin + windows[w])
            for place in range(np.uint64(reached), np.uint64(end)):
                out[w, items[place]] += part
            reached = end


@njit(nogil=True, cache=True)
def leave_out_near(
    last: int,
    windows: NDArray[np.int64],
    own_ends: NDArray[np.int64],
    span_offsets: NDArray[np.int64],
    starts: NDArray[Any],
    stops: NDArray[Any],
    items: NDArray[np.uint32],
    counts: NDArray[np.uint16],
) -> None:
    """Take from counts the users whose profiles end at `own_ends`."""
    for span in range(span_offsets[last], span_offsets[last + 1]):
        end = np.int64(stops[span])
        is_left_out = False
        for own in own_ends:
            is_left_out |= own == end
        if not is_left_out:
            continue
        begin = np.int64(starts[span])
        reached = begin
        for w in range(len(windows)):
            until = min(end, begin + windows[w])
            for place in range(reached, until):
                counts[w, items[place]] -= np.uint16(1)
            reached = until


@intrinsic
def _add_times(_context: Any, counts: Any, part: Any, row: Any, column: Any, out: Any) -> Any:
    """Add `part` to each of some columns as often as it is counted, one after the other."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kinds, lanes, intp = signature.args, Lanes(context, builder, _LANES), ir.IntType(64)
        line, first = (context.cast(builder, arguments[k], kinds[k], types.intp) for k in (2, 3))

        def place(which: int, n_bytes: int) -> Any:
            start, (stride, _) = lanes.data(kinds[which], arguments[which])
            start = lanes.at(start, builder.mul(line, stride))
            return lanes.at(start, builder.mul(first, ir.Constant(intp, n_bytes)))

        here = place(4, 4)
        counted = lanes.load(place(0, 2), lanes.ints(16), 2)
        most = lanes.call(f"llvm.vector.reduce.umax.v{_LANES}i16", ir.IntType(16), counted)
        wide = builder.zext(counted, lanes.ints(32))
        more = lanes.spread(arguments[1])

        def once(kept: Any, done: Any) -> Any:
            still = builder.icmp_unsigned(
                ">", wide, lanes.spread(builder.trunc(done, ir.IntType(32)))
            )
            return (builder.select(still, builder.fadd(kept[0], more), kept[0]),)

        total = lanes.fold(
            ir.Constant(intp, 0),
            builder.zext(most, intp),
            [lanes.load(here, lanes.floats(), 4)],
            once,
        )
        lanes.store(total[0], here, 4)
        return context.get_dummy_value()

    return types.void(counts, part, row, column, out), generate


add_times: Any = _add_times


@njit(nogil=True, cache=True)
def _add_counted(counts: NDArray[np.uint16], part: Any, out: NDArray[np.float32]) -> None:
    """Add `part` to each number as often as it is counted: once more rounds it once more."""
    n_columns = counts.shape[1]
    whole = n_columns - n_columns % _LANES
    for w in range(len(counts)):
        for column in range(0, whole, _LANES):
            add_times(counts, part, w, column, out)
        for j in range(whole, n_columns):
            for _ in range(counts[w, j]):
                out[w, j] += part


@njit(nogil=True, cache=True)
def _pick(
    counts: NDArray[np.uint16], columns: NDArray[np.int64], picked: NDArray[np.uint16]
) -> None:
    """Read some columns; nobody took what has come since all was counted."""
    for w in range(len(counts)):
        for j in range(len(columns)):
            there = columns[j] < counts.shape[1]
            picked[w, j] = counts[w, columns[j]] if there else np.uint16(0)


@njit(nogil=True, cache=True)
def share_near(
    last: NDArray[np.int64],
    parts: NDArray[np.float32],
    windows: NDArray[np.int64],
    own_ends: NDArray[np.int64],
    span_offsets: NDArray[np.int64],
    starts: NDArray[Any],
    stops: NDArray[Any],
    items: NDArray[np.uint32],
    slots: NDArray[np.int64],
    kept: NDArray[np.uint16],
    columns: NDArray[np.int64],
    out: NDArray[np.float32],
) -> None:
    """Add ``parts[k]`` for each user who took a column's item soon after ``last[k]``.

    The counts after an item are in ``kept[slots[item]]``, or nowhere if that is −1. `out` is of all
    columns if there are none given.
    """
    counts = np.empty(kept.shape[1:], np.uint16)
    picked = np.empty((len(windows), len(columns)), np.uint16)
    for k in range(len(last)):
        item, slot = last[k], slots[last[k]]
        if slot < 0 and len(columns) == 0:
            add_near(item, parts[k], windows, own_ends, span_offsets, starts, stops, items, out)
            continue
        if slot < 0:
            counts[:] = 0
            one = np.uint16(1)
            add_near(item, one, windows, own_ends, span_offsets, starts, stops, items, counts)
        else:
            for w in range(len(windows)):
                counts[w] = kept[slot, w]
            leave_out_near(item, windows, own_ends, span_offsets, starts, stops, items, counts)
        if len(columns) == 0:
            _add_counted(counts, parts[k], out)
        else:
            _pick(counts, columns, picked)
            _add_counted(picked, parts[k], out)
