"""Medians of the columns of a matrix's rows: a tile of all rows is copied into the cache, and read.

The copy is one vector instruction after the other, whatever the rows: so reads of many rows wait
for memory together, and a user's own part is left out on the way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from surerec.measures._medians import STRIP_BYTES, aligned_zeros, strip_of_middles
from surerec.measures._vectors import Lanes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.measures._tiles import LeftOut
    from surerec.precedence import Source

_LANES = STRIP_BYTES // 2  # columns of a strip, of 16 bits
_STRIPS = 16  # copied at once: shorter reads wait for memory, longer ones leave the cache
_NEVER = (1 << 16) - 1  # the instant of a row that the user to leave out did not take


@intrinsic
def _copy_strips(
    _context: Any,
    matrix: Any,
    places: Any,
    left: Any,
    when: Any,
    at: Any,
    n_strips: Any,
    tile: Any,
) -> Any:
    """Write some columns of some rows into a tile, one less where ``when[column] > at[row]``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kinds = dict(zip(("matrix", "places", "left", "when", "at", "n", "tile"), signature.args,
                         strict=True))  # fmt: skip
        given = dict(zip(kinds, arguments, strict=True))
        views = {
            name: context.make_array(kinds[name])(context, builder, given[name])
            for name in ("matrix", "places", "when", "at", "tile")
        }
        number, byte = ir.IntType(16), ir.IntType(8).as_pointer()
        vector = ir.VectorType(number, _LANES)
        undefined, zero = ir.Constant(vector, ir.Undefined), ir.Constant(ir.IntType(32), 0)
        lanes = ir.Constant(ir.VectorType(ir.IntType(32), _LANES), [0] * _LANES)
        first, n = (
            context.cast(builder, given[name], kinds[name], types.intp) for name in ("left", "n")
        )
        (n_rows,) = cgutils.unpack_tuple(builder, views["places"].shape)
        stride, _ = cgutils.unpack_tuple(builder, views["matrix"].strides)
        step, _ = cgutils.unpack_tuple(builder, views["tile"].strides)

        def after(start: Any, n_bytes: Any) -> Any:
            return builder.gep(builder.bitcast(start, byte), [n_bytes])

        def strip(start: Any, offset: Any) -> Any:
            return builder.bitcast(after(start, offset), vector.as_pointer())

        with cgutils.for_range(builder, n_rows) as row:
            place = builder.load(builder.gep(views["places"].data, [row.index]))
            start = after(builder.gep(views["matrix"].data, [first]), builder.mul(place, stride))
            to = after(views["tile"].data, builder.mul(row.index, step))
            instant = builder.load(builder.gep(views["at"].data, [row.index]))
            one = builder.insert_element(undefined, instant, zero)
            instants = builder.shuffle_vector(one, undefined, lanes)
            with cgutils.for_range(builder, n) as column:
                offset = builder.mul(column.index, ir.Constant(column.index.type, STRIP_BYTES))
                counts = builder.load(strip(start, offset), align=2)
                own = builder.load(strip(views["when"].data, offset), align=2)
                later = builder.icmp_unsigned(">", own, instants)
                builder.store(
                    builder.add(counts, builder.sext(later, vector)), strip(to, offset), align=2
                )
        return context.get_dummy_value()

    return types.void(matrix, places, left, when, at, n_strips, tile), generate


copy_strips: Any = _copy_strips  # as numba calls it: without the context


@intrinsic
def _ask_for_strip(_context: Any, matrix: Any, places: Any, column: Any) -> Any:
    """Have a strip of some rows brought near."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kinds, lanes, intp = signature.args, Lanes(context, builder, _LANES), ir.IntType(64)
        left = context.cast(builder, arguments[2], kinds[2], types.intp)
        start, (stride, _) = lanes.data(kinds[0], arguments[0])
        start = lanes.at(start, builder.mul(left, ir.Constant(intp, 2)))
        view = context.make_array(kinds[1])(context, builder, arguments[1])
        (n_rows,) = cgutils.unpack_tuple(builder, view.shape)
        with cgutils.for_range(builder, n_rows) as row:
            place = builder.load(builder.gep(view.data, [row.index]))
            lanes.prefetch(lanes.at(start, builder.mul(place, stride)))
        return context.get_dummy_value()

    return types.void(matrix, places, column), generate


ask_for_strip: Any = _ask_for_strip


@njit(nogil=True, cache=True)
def fits_strips(first: int, last: int, out: LeftOut) -> bool:
    """Tell whether a strip has room among the columns, and instants in 16 bits."""
    return last - first >= _LANES and len(out.items) < _NEVER - 1


@njit(nogil=True, cache=True)
def middles_of_rows(
    first: int, last: int, source: Source, out: LeftOut, middles: NDArray[np.float64]
) -> None:
    """Give the sum of the two middle counts of columns `first` … `last` − 1.

    Of rows of followers in a matrix of 16 bits; the user to leave `out` counts in a row where they
    took the column's item after the row's.
    """
    n_rows, n_strips = len(source.places), min(_STRIPS, (last - first) // _LANES)
    # An odd number of cache lines, so that a strip's rows are spread over the first-level cache.
    tile = aligned_zeros(n_rows, (n_strips // 2 * 2 + 1) * _LANES, source.counts)
    work = np.empty((2, _LANES), source.counts.dtype)
    when = np.zeros(last - first, np.uint16)  # 0 for what they did not take
    for place in range(len(out.items)):
        if first <= out.items[place] < last:
            when[out.items[place] - first] = out.instants[place] + 1
    at = np.full(n_rows, _NEVER, np.uint16)
    for k in range(n_rows):
        if out.of_rows[k] >= 0:
            at[k] = out.of_rows[k] + 1
    width, bits = n_strips * _LANES, 8 * source.counts.itemsize
    for start in range(first, last, width):
        left = min(start, last - width)  # the last tile begins where it ends with the columns
        copy_strips(source.matrix, source.places, left, when[left - first :], at, n_strips, tile)
        ahead = min(left + width, last - width)
        for column in range(0, width, _LANES):
            ask_for_strip(source.matrix, source.places, ahead + column)
            bits = strip_of_middles(tile, column, work, bits, middles[left + column :])
