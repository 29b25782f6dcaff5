"""LLVM vectors in kernels, for values that a loop over arrays cannot keep in registers.

Medians of columns of counts are found bit by bit. A strip is as many columns as fill one cache
line. Its rows are read once per bit of the largest count, and intermediate values stay in
registers. A loop over arrays is slower: every store may change what is read next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils as _untyped
from numba.extending import intrinsic

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

cgutils: Any = _untyped
STRIP_BYTES = _CACHE_LINE = 64
_TURNS = 4  # rows in flight at once
_BYTE = ir.IntType(8)


class Lanes:
    """Emits code for vectors of `n` lanes."""

    def __init__(self, context: Any, builder: Any, n_lanes: int) -> None:
        self.context = context
        self.builder = builder
        self.n = n_lanes

    def ints(self, width: int) -> Any:
        """Return the type of a vector of integers."""
        return ir.VectorType(ir.IntType(width), self.n)

    def floats(self) -> Any:
        """Return the type of a vector of 32-bit floats."""
        return ir.VectorType(ir.FloatType(), self.n)

    def same(self, kind: Any, value: float) -> Any:
        """Return a vector with one constant in all lanes."""
        return ir.Constant(kind, [value] * self.n)

    def spread(self, value: Any) -> Any:
        """Return a vector with one value in all lanes."""
        builder, kind = self.builder, ir.VectorType(value.type, self.n)
        undefined = ir.Constant(kind, ir.Undefined)
        one = builder.insert_element(undefined, value, ir.Constant(ir.IntType(32), 0))
        places = ir.Constant(ir.VectorType(ir.IntType(32), self.n), [0] * self.n)
        return builder.shuffle_vector(one, undefined, places)

    def data(self, kind: Any, array: Any) -> tuple[Any, list[Any]]:
        """Return a byte pointer to an array, and its strides."""
        view = self.context.make_array(kind)(self.context, self.builder, array)
        strides = cgutils.unpack_tuple(self.builder, view.strides, kind.ndim)
        return self.builder.bitcast(view.data, _BYTE.as_pointer()), strides

    def at(self, start: Any, offset: Any) -> Any:
        """Return the pointer `offset` bytes further."""
        return self.builder.gep(start, [offset])

    def load(self, place: Any, kind: Any, align: int) -> Any:
        """Load a vector or one value from a pointer."""
        pointer = self.builder.bitcast(place, kind.as_pointer())
        return self.builder.load(pointer, align=align)

    def store(self, value: Any, place: Any, align: int) -> None:
        """Store a vector at a pointer."""
        pointer = self.builder.bitcast(place, value.type.as_pointer())
        self.builder.store(value, pointer, align=align)

    def prefetch(self, place: Any) -> None:
        """Prefetch what is at a pointer, which may be invalid."""
        number = ir.IntType(32)
        arguments = [place, *(ir.Constant(number, value) for value in (0, 3, 1))]
        self.call("llvm.prefetch.p0i8", ir.VoidType(), *arguments)

    def call(self, name: str, result: Any, *arguments: Any) -> Any:
        """Call an LLVM intrinsic."""
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
        """Loop over places, with accumulators that stay in registers."""
        builder = self.builder
        kept = [cgutils.alloca_once(builder, start.type) for start in starts]
        for start, slot in zip(starts, kept, strict=True):
            builder.store(start, slot)
        with cgutils.for_range(builder, last, first) as loop:
            found = step([builder.load(slot) for slot in kept], loop.index)
            for value, slot in zip(found, kept, strict=True):
                builder.store(value, slot)
        return [builder.load(slot) for slot in kept]


class _MedianStrip(Lanes):
    """Emits code for one strip of the columns of `rows`."""

    def __init__(self, context: Any, builder: Any, rows: Any, array: Any, column: Any) -> None:
        width = rows.dtype.bitwidth
        super().__init__(context, builder, 8 * STRIP_BYTES // width)
        self.number, self.vector = ir.IntType(width), self.ints(width)
        view = context.make_array(rows)(context, builder, array)
        self.n_rows, _ = cgutils.unpack_tuple(builder, view.shape)
        start, (self._stride, _) = self.data(rows, array)
        self._start = self.at(start, builder.mul(column, ir.Constant(column.type, width // 8)))

    def fold_rows(
        self, starts: Sequence[int], step: Callable[[Sequence[Any], Any], Sequence[Any]]
    ) -> list[Any]:
        """Loop over rows, with accumulators that start with one value in all lanes.

        Several copies of the accumulators take turns, so that no row waits for the one before. At
        the end, copies that start with 0 are summed, and of others the minimum is kept.
        """
        builder, n, turns = self.builder, len(starts), ir.Constant(self.n_rows.type, _TURNS)

        def update(kept: Sequence[Any], index: Any) -> Sequence[Any]:
            place = self.at(self._start, builder.mul(index, self._stride))
            return step(kept, self.load(place, self.vector, self.number.width // 8))

        def update_turns(kept: Sequence[Any], index: Any) -> Sequence[Any]:
            first = builder.mul(index, turns)
            return [
                value
                for turn in range(_TURNS)
                for value in update(
                    kept[n * turn : n * turn + n], builder.add(first, ir.Constant(first.type, turn))
                )
            ]

        n_turns, zero = builder.udiv(self.n_rows, turns), ir.Constant(self.n_rows.type, 0)
        begin = [self.same(self.vector, start) for start in starts] * _TURNS
        found = self.fold(zero, n_turns, begin, update_turns)
        found[:n] = self.fold(builder.mul(n_turns, turns), self.n_rows, found[:n], update)
        for place in range(n, n * _TURNS):
            kept, value = found[place % n], found[place]
            less = builder.select(builder.icmp_unsigned("<", value, kept), value, kept)
            found[place % n] = less if starts[place % n] else builder.add(kept, value)
        return found[:n]

    def count_at_most(self, bound: Any) -> Any:
        """Count the rows of each column that are at most a bound."""

        def count(kept: Sequence[Any], row: Any) -> Sequence[Any]:
            return (self._one_more(kept[0], self.builder.icmp_unsigned("<=", row, bound)),)

        return self.fold_rows((0,), count)[0]

    def count_and_next(self, bound: Any) -> list[Any]:
        """Count the same rows, and find the lowest count above the bound; all bits if none."""
        builder = self.builder

        def update(kept: Sequence[Any], row: Any) -> Sequence[Any]:
            counted, least = kept
            inside = builder.icmp_unsigned("<=", row, bound)
            larger = builder.select(inside, self.same(self.vector, -1), row)
            smaller = builder.icmp_unsigned("<", larger, least)
            return self._one_more(counted, inside), builder.select(smaller, larger, least)

        return self.fold_rows((0, -1), update)

    def _one_more(self, counted: Any, where: Any) -> Any:
        return self.builder.sub(counted, self.builder.sext(where, self.vector))

    def nth(self, rank: Any, n_bits: Any) -> Any:
        """Return the count of a rank, from 1, in each column, by bisection over `n_bits` bits.

        From the highest bit on, a bit is set where fewer than `rank` counts are below the value
        with that bit set. Larger counts give the largest value of `n_bits` bits.
        """
        builder, one = self.builder, ir.Constant(self.number, 1)
        found = cgutils.alloca_once(builder, self.vector)
        builder.store(self.same(self.vector, 0), found)
        with cgutils.for_range(builder, n_bits) as loop:
            place = builder.sub(builder.sub(n_bits, loop.index), one)
            bit, before = builder.shl(one, place), builder.load(found)
            below = self.count_at_most(builder.add(before, self.spread(builder.sub(bit, one))))
            few = builder.icmp_unsigned("<", below, self.spread(rank))
            builder.store(builder.select(few, builder.add(before, self.spread(bit)), before), found)
        return builder.load(found)

    def nth_and_next(self, rank: Any, guess: Any) -> tuple[Any, Any, Any]:
        """Return the count of a rank, how many counts are at most that, and the next higher one.

        `guess` is the likely number of bits. If it is too low, too few counts are at most the value
        found, and it is raised.
        """
        builder = self.builder
        bits = cgutils.alloca_once(builder, self.number)
        builder.store(guess, bits)
        look, look_again, done = (
            builder.append_basic_block(name) for name in ("look", "again", "found")
        )
        builder.branch(look)
        builder.position_at_end(look)
        found = self.nth(rank, builder.load(bits))
        reached, following = self.count_and_next(found)
        flags = ir.IntType(self.n)
        beyond = builder.bitcast(builder.icmp_unsigned("<", reached, self.spread(rank)), flags)
        some = builder.icmp_unsigned("!=", beyond, ir.Constant(flags, 0))
        builder.cbranch(some, look_again, done)
        builder.position_at_end(look_again)
        builder.store(builder.add(builder.load(bits), ir.Constant(self.number, 1)), bits)
        builder.branch(look)
        builder.position_at_end(done)
        return found, reached, following

    def bits_of_largest(self, values: Any) -> Any:
        """Return the number of bits of the largest value of a vector."""
        name = f"llvm.vector.reduce.umax.v{self.n}i{self.number.width}"
        leading = self.builder.ctlz(self.call(name, self.number, values), ir.IntType(1)(0))
        return self.builder.sub(ir.Constant(self.number, self.number.width), leading)


@intrinsic
def _middles_of_strip(
    _context: Any, rows: Any, column: Any, guess: Any, lower: Any, upper: Any
) -> Any:
    """Write the two middle counts of each column of the strip that begins at `column`.

    Returns the number of bits of the largest lower one, as a guess for the next strip.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        rows_type, column_type, guess_type, *out_types = signature.args
        start = context.cast(builder, arguments[1], column_type, types.intp)
        strip = _MedianStrip(context, builder, rows_type, arguments[0], start)
        n_rows = builder.trunc(strip.n_rows, strip.number)
        one = ir.Constant(strip.number, 1)
        half, odd = builder.lshr(n_rows, one), builder.and_(n_rows, one)
        bits = builder.trunc(
            context.cast(builder, arguments[2], guess_type, types.intp), strip.number
        )
        middle, reached, following = strip.nth_and_next(builder.add(half, odd), bits)
        same = builder.icmp_unsigned(">", reached, strip.spread(half))
        found = (middle, builder.select(same, middle, following))
        for value, kind, array in zip(found, out_types, arguments[3:], strict=True):
            strip.store(value, strip.data(kind, array)[0], strip.number.width // 8)
        return builder.zext(strip.bits_of_largest(middle), ir.IntType(64))

    return types.int64(rows, column, guess, lower, upper), generate


middles_of_strip: Any = _middles_of_strip  # numba passes the context


@njit(nogil=True, cache=True)
def double_medians(
    rows: NDArray[Any], work: NDArray[Any], bits: int, middles: NDArray[np.float64]
) -> int:
    """Write the sum of the two middle counts of each column: exactly twice the median.

    `rows` has whole strips of columns, and no more rows than its type can count. `work` is a buffer
    of two rows of a strip. `bits` is the likely number of bits of the medians; the number of the
    last ones is returned.
    """
    strip, lower, upper = STRIP_BYTES // rows.itemsize, work[0], work[1]
    for column in range(0, len(middles), strip):
        # Items are ordered by popularity, so that medians of neighbours have similar sizes.
        bits = middles_of_strip(rows, column, bits, lower, upper)
        for j in range(min(strip, len(middles) - column)):
            middles[column + j] = float(lower[j]) + float(upper[j])
    return bits


@njit(nogil=True, cache=True)
def aligned_zeros(n_rows: int, n_columns: int, like: NDArray[Any]) -> NDArray[Any]:
    """Return zeros in the type of `like`, aligned to a cache line: one per row of a strip."""
    n = n_rows * n_columns
    flat = np.zeros(n + STRIP_BYTES // like.itemsize, like.dtype)
    start = (-flat.ctypes.data % STRIP_BYTES) // like.itemsize
    return flat[start : start + n].reshape((n_rows, n_columns))


def aligned_empty(shape: tuple[int, ...], kind: type[np.generic]) -> NDArray[Any]:
    """Return an uninitialised array that is aligned to a cache line."""
    n_bytes = int(np.prod(shape)) * np.dtype(kind).itemsize
    flat = np.empty(n_bytes + _CACHE_LINE, np.uint8)
    start = -flat.__array_interface__["data"][0] % _CACHE_LINE
    return flat[start : start + n_bytes].view(kind).reshape(shape)
