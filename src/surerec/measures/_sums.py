"""Sums of rows of 64-bit numbers, a tile of columns at a time, kept in vector registers."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from surerec.measures._vectors import Lanes

SUM_COLUMNS = 64
"""Of a tile: eight registers of 512 bits."""


@intrinsic
def _sum_rows(_context: Any, rows: Any, places: Any, n_places: Any, totals: Any) -> Any:
    """Add up the rows at some places, from the first to the last, into SUM_COLUMNS totals."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes = Lanes(context, builder, SUM_COLUMNS)
        (start, (stride, _)), (listed, _), (to, _) = (
            lanes.data(signature.args[k], arguments[k]) for k in (0, 1, 3)
        )
        n = context.cast(builder, arguments[2], signature.args[2], types.intp)

        def add(kept: Any, k: Any) -> Any:
            here = lanes.at(listed, builder.mul(k, ir.Constant(k.type, 8)))
            row = builder.mul(lanes.load(here, stride.type, 8), stride)
            return (builder.fadd(kept[0], lanes.load(lanes.at(start, row), lanes.floats(64), 64)),)

        zeros = lanes.same(lanes.floats(64), 0.0)
        (found,) = lanes.fold(ir.Constant(n.type, 0), n, (zeros,), add)
        lanes.store(found, to, 8)
        return context.get_dummy_value()

    return types.void(rows, places, n_places, totals), generate


sum_rows: Any = _sum_rows  # as numba calls it: without the context
