"""Medians of columns of counts, found bit by bit in vector registers.

A strip is as many columns as fill one cache line. Its rows are read once for every bit of its
largest count, and all that is kept of them stays in registers, which a loop over arrays cannot
say: the compiler has to take every store for a change of what is read next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray


STRIP_BYTES = 64
_TURNS = 4  # rows that are taken in at once


class _Strip:
    """Emits code over one strip of the columns of `rows`."""

    def __init__(self, context: Any, builder: Any, rows: Any, array: Any, column: Any) -> None:
        self.builder = builder
        view = context.make_array(rows)(context, builder, array)
        self.n_rows, _ = cgutils.unpack_tuple(builder, view.shape)
        self._stride, _ = cgutils.unpack_tuple(builder, view.strides)
        self.number = ir.IntType(rows.dtype.bitwidth)
        self.n_lanes = 8 * STRIP_BYTES // rows.dtype.bitwidth
        self.vector = ir.VectorType(self.number, self.n_lanes)
        self._byte = ir.IntType(8).as_pointer()
        item = ir.Constant(column.type, rows.dtype.bitwidth // 8)
        start = builder.bitcast(view.data, self._byte)
        self._start = builder.gep(start, [builder.mul(column, item)])

    def all(self, value: Any) -> Any:
        """Give a vector of one number."""
        if isinstance(value, int):
            return ir.Constant(self.vector, [value] * self.n_lanes)
        builder, undefined = self.builder, ir.Constant(self.vector, ir.Undefined)
        one = builder.insert_element(undefined, value, ir.Constant(ir.IntType(32), 0))
        lanes = ir.VectorType(ir.IntType(32), self.n_lanes)
        return builder.shuffle_vector(one, undefined, ir.Constant(lanes, [0] * self.n_lanes))

    def fold(
        self, starts: Sequence[int], step: Callable[[Sequence[Any], Any], Sequence[Any]]
    ) -> list[Any]:
        """Take one row after the other into vectors that begin with one number everywhere.

        In turn into one of several, so that no row waits for the one before it; at last these are
        added up, those that begin with 0, and the least of the others is taken.
        """
        builder = self.builder
        kept = [[cgutils.alloca_once(builder, self.vector) for _ in starts] for _ in range(_TURNS)]
        for some in kept:
            for start, place in zip(starts, some, strict=True):
                builder.store(self.all(start), place)

        def take(index: Any, some: Sequence[Any]) -> None:
            place = builder.gep(self._start, [builder.mul(index, self._stride)])
            pointer = builder.bitcast(place, self.vector.as_pointer())
            row = builder.load(pointer, align=self.number.width // 8)
            for value, place in zip(step([builder.load(k) for k in some], row), some, strict=True):
                builder.store(value, place)

        def whole(number: int) -> Any:
            return ir.Constant(self.n_rows.type, number)

        n_turns = builder.udiv(self.n_rows, whole(_TURNS))
        done = builder.mul(n_turns, whole(_TURNS))
        with cgutils.for_range(builder, n_turns) as loop:
            for turn, some in enumerate(kept):
                index = builder.add(builder.mul(loop.index, whole(_TURNS)), whole(turn))
                take(index, some)
        with cgutils.for_range(builder, builder.sub(self.n_rows, done)) as loop:
            take(builder.add(done, loop.index), kept[0])
        found = [builder.load(place) for place in kept[0]]
        for some in kept[1:]:
            for place, start in enumerate(starts):
                value = builder.load(some[place])
                less = builder.icmp_unsigned("<", value, found[place])
                found[place] = (
                    builder.add(found[place], value)
                    if start == 0
                    else builder.select(less, value, found[place])
                )
        return found

    def count_at_most(self, bound: Any) -> Any:
        """Count in each column the rows that are not above a bound."""

        def count(kept: Sequence[Any], row: Any) -> Sequence[Any]:
            return (self._one_more(kept[0], self.builder.icmp_unsigned("<=", row, bound)),)

        return self.fold((0,), count)[0]

    def count_and_next(self, bound: Any) -> list[Any]:
        """Do the same, and give the least count above the bound; all bits where there is none."""
        builder = self.builder

        def take(kept: Sequence[Any], row: Any) -> Sequence[Any]:
            counted, least = kept
            inside = builder.icmp_unsigned("<=", row, bound)
            larger = builder.select(inside, self.all(-1), row)
            smaller = builder.icmp_unsigned("<", larger, least)
            return self._one_more(counted, inside), builder.select(smaller, larger, least)

        return self.fold((0, -1), take)

    def _one_more(self, counted: Any, where: Any) -> Any:
        return self.builder.sub(counted, self.builder.sext(where, self.vector))

    def nth(self, rank: Any, n_bits: Any) -> Any:
        """Give in each column the count of that rank, from 1, by bisection.

        Of counts of so many bits, or else the largest of these: beginning with the highest, a bit
        is set where fewer than `rank` counts are below what has it set.
        """
        builder, one = self.builder, ir.Constant(self.number, 1)
        found, bits = (cgutils.alloca_once(builder, t) for t in (self.vector, self.number))
        builder.store(self.all(0), found)
        builder.store(n_bits, bits)
        next_bit, set_bit, done = (
            builder.append_basic_block(name) for name in ("bits", "bit", "done")
        )
        builder.branch(next_bit)
        builder.position_at_end(next_bit)
        left = builder.icmp_unsigned("!=", builder.load(bits), ir.Constant(self.number, 0))
        builder.cbranch(left, set_bit, done)
        builder.position_at_end(set_bit)
        place = builder.sub(builder.load(bits), one)
        builder.store(place, bits)
        bit, before = builder.shl(one, place), builder.load(found)
        below = self.count_at_most(builder.add(before, self.all(builder.sub(bit, one))))
        few = builder.icmp_unsigned("<", below, self.all(rank))
        builder.store(builder.select(few, builder.add(before, self.all(bit)), before), found)
        builder.branch(next_bit)
        builder.position_at_end(done)
        return builder.load(found)

    def nth_and_next(self, rank: Any, guess: Any) -> tuple[Any, Any, Any]:
        """Give the same, how many counts are not above it, and the least that is.

        `guess` is how many bits the counts of that rank have, most likely. If it is too low, not
        enough counts are up to what was found; then it is raised.
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
        flags = ir.IntType(self.n_lanes)
        beyond = builder.bitcast(builder.icmp_unsigned("<", reached, self.all(rank)), flags)
        some = builder.icmp_unsigned("!=", beyond, ir.Constant(flags, 0))
        builder.cbranch(some, look_again, done)
        builder.position_at_end(look_again)
        builder.store(builder.add(builder.load(bits), ir.Constant(self.number, 1)), bits)
        builder.branch(look)
        builder.position_at_end(done)
        return found, reached, following

    def bits_of_largest(self, values: Any) -> Any:
        """Give how many bits the largest number of a vector has."""
        builder = self.builder
        kind = ir.FunctionType(self.number, [self.vector])
        name = f"llvm.vector.reduce.umax.v{self.n_lanes}i{self.number.width}"
        function = cgutils.get_or_insert_function(builder.module, kind, name)
        largest = builder.call(function, [values])
        leading = builder.ctlz(largest, ir.Constant(ir.IntType(1), 0))
        return builder.sub(ir.Constant(self.number, self.number.width), leading)


@intrinsic
def _middles_of_strip(
    _context: Any, rows: Any, column: Any, guess: Any, lower: Any, upper: Any
) -> Any:
    """Write the two middle counts of each column of the strip that begins at `column`.

    Gives the number of bits of the largest lower one, as a guess for the next strip.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        rows_type, column_type, guess_type, *out_types = signature.args
        start = context.cast(builder, arguments[1], column_type, types.intp)
        strip = _Strip(context, builder, rows_type, arguments[0], start)
        n_rows = builder.trunc(strip.n_rows, strip.number)
        one = ir.Constant(strip.number, 1)
        half, odd = builder.lshr(n_rows, one), builder.and_(n_rows, one)
        bits = builder.trunc(
            context.cast(builder, arguments[2], guess_type, types.intp), strip.number
        )
        middle, reached, following = strip.nth_and_next(builder.add(half, odd), bits)
        same = builder.icmp_unsigned(">", reached, strip.all(half))
        found = (middle, builder.select(same, middle, following))
        for value, kind, array in zip(found, out_types, arguments[3:], strict=True):
            data = context.make_array(kind)(context, builder, array).data
            pointer = builder.bitcast(data, strip.vector.as_pointer())
            builder.store(value, pointer, align=strip.number.width // 8)
        return builder.zext(strip.bits_of_largest(middle), ir.IntType(64))

    return types.int64(rows, column, guess, lower, upper), generate


middles_of_strip: Any = _middles_of_strip  # as numba calls it: without the context


@njit(nogil=True, cache=True)
def strip_of_middles(
    rows: NDArray[Any], column: int, work: NDArray[Any], bits: int, middles: NDArray[np.float64]
) -> int:
    """Do what `guessed_middles` does, for the strip that begins at a column."""
    lower, upper = work[0], work[1]
    bits = middles_of_strip(rows, column, bits, lower, upper)
    for j in range(min(STRIP_BYTES // rows.itemsize, len(middles))):
        middles[j] = float(lower[j]) + float(upper[j])
    return bits


@njit(nogil=True, cache=True)
def guessed_middles(
    rows: NDArray[Any], work: NDArray[Any], bits: int, middles: NDArray[np.float64]
) -> int:
    """Give for each column the sum of its two middle counts: twice the median, exactly.

    `rows` has as many columns as whole strips take, and no more rows than its counts can count;
    `work` has two rows of a strip; `bits` is how many the middles have, most likely. Gives that of
    the last ones.
    """
    for column in range(0, len(middles), STRIP_BYTES // rows.itemsize):
        # Items come by popularity, so that the middles of neighbours have about as many bits.
        bits = strip_of_middles(rows, column, work, bits, middles[column:])
    return bits


@njit(nogil=True, cache=True)
def middles_of_counts(rows: NDArray[Any], work: NDArray[Any], middles: NDArray[np.float64]) -> None:
    """Do what `guessed_middles` does, without a guess."""
    guessed_middles(rows, work, 8 * rows.itemsize, middles)


@njit(nogil=True, cache=True)
def aligned_zeros(n_rows: int, n_columns: int, like: NDArray[Any]) -> NDArray[Any]:
    """Give zeros of the kind of `like` that begin with a cache line: a strip's row is then one."""
    n = n_rows * n_columns
    room = np.zeros(n + STRIP_BYTES // like.itemsize, like.dtype)
    start = (-room.ctypes.data % STRIP_BYTES) // like.itemsize
    return room[start : start + n].reshape((n_rows, n_columns))
