"""Vectors of many lanes in kernels: what a loop over arrays cannot keep in registers.

The lanes are of LLVM's own vector types, which it splits into whatever registers a machine has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils as _untyped

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

cgutils: Any = _untyped
_CACHE_LINE = 64
_BYTE = ir.IntType(8)
_FLOATS = {32: ir.FloatType(), 64: ir.DoubleType()}


class Lanes:
    """Emits code over so many lanes."""

    def __init__(self, context: Any, builder: Any, n_lanes: int) -> None:
        self.context = context
        self.builder = builder
        self.n = n_lanes

    def ints(self, width: int) -> Any:
        """Give the type of a vector of integers."""
        return ir.VectorType(ir.IntType(width), self.n)

    def floats(self, width: int = 32) -> Any:
        """Give the type of a vector of numbers."""
        return ir.VectorType(_FLOATS[width], self.n)

    def same(self, kind: Any, value: float) -> Any:
        """Give a vector of one constant."""
        return ir.Constant(kind, [value] * self.n)

    def spread(self, value: Any) -> Any:
        """Give a vector of one number."""
        builder, kind = self.builder, ir.VectorType(value.type, self.n)
        undefined = ir.Constant(kind, ir.Undefined)
        one = builder.insert_element(undefined, value, ir.Constant(ir.IntType(32), 0))
        places = ir.Constant(ir.VectorType(ir.IntType(32), self.n), [0] * self.n)
        return builder.shuffle_vector(one, undefined, places)

    def data(self, kind: Any, array: Any) -> tuple[Any, list[Any]]:
        """Give where an array begins, in bytes, and its strides."""
        view = self.context.make_array(kind)(self.context, self.builder, array)
        strides = cgutils.unpack_tuple(self.builder, view.strides, kind.ndim)
        return self.builder.bitcast(view.data, _BYTE.as_pointer()), strides

    def at(self, start: Any, offset: Any) -> Any:
        """Give a place so many bytes on."""
        return self.builder.gep(start, [offset])

    def load(self, place: Any, kind: Any, align: int) -> Any:
        """Read a vector, or one number, from a place."""
        pointer = self.builder.bitcast(place, kind.as_pointer())
        return self.builder.load(pointer, align=align)

    def store(self, value: Any, place: Any, align: int) -> None:
        """Write a vector to a place."""
        pointer = self.builder.bitcast(place, value.type.as_pointer())
        self.builder.store(value, pointer, align=align)

    def prefetch(self, place: Any) -> None:
        """Have what is at a place, which may be none, brought near: it is read soon."""
        number = ir.IntType(32)
        arguments = [place, *(ir.Constant(number, value) for value in (0, 3, 1))]
        self.call("llvm.prefetch.p0i8", ir.VoidType(), *arguments)

    def call(self, name: str, result: Any, *arguments: Any) -> Any:
        """Call one of LLVM's own functions."""
        kind = ir.FunctionType(result, [each.type for each in arguments])
        function = cgutils.get_or_insert_function(self.builder.module, kind, name)
        return self.builder.call(function, arguments)

    def fold(
        self,
        first: Any,
        last: Any,
        starts: Sequence[Any],
        step: Callable[[Sequence[Any], Any], Sequence[Any]],
    ) -> list[Any]:
        """Take one place after the other into values that stay in registers."""
        builder = self.builder
        kept = [cgutils.alloca_once(builder, start.type) for start in starts]
        for start, room in zip(starts, kept, strict=True):
            builder.store(start, room)
        with cgutils.for_range(builder, last, first) as loop:
            found = step([builder.load(room) for room in kept], loop.index)
            for value, room in zip(found, kept, strict=True):
                builder.store(value, room)
        return [builder.load(room) for room in kept]


def aligned_room(shape: tuple[int, ...], kind: type[np.generic]) -> NDArray[Any]:
    """Give an array of anything that begins with a cache line."""
    n_bytes = int(np.prod(shape)) * np.dtype(kind).itemsize
    room = np.empty(n_bytes + _CACHE_LINE, np.uint8)
    start = -room.__array_interface__["data"][0] % _CACHE_LINE
    return room[start : start + n_bytes].view(kind).reshape(shape)
