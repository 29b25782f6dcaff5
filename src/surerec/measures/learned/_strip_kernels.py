"""Sums over the rows of a profile, a strip of columns at a time in vector registers.

What `surerec.measures.learned._sum_kernels` adds up tile by tile, to the last bit, for rows of
16-bit counts that are held whole: twelve sums of a column stay in registers from the first row to
the last, and its ratios in the nearest cache, where their median is found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from surerec.measures._vectors import Lanes, middles_of_strip
from surerec.measures.learned import _sum_kernels as sums

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.measures._tiles import LeftOutUser
    from surerec.precedence import RowSource

N_COLUMNS = 32
"""Columns of a strip: their counts fill a cache line."""
MOST_TAKERS = 1 << 15
"""Ratios of fewer takers are 1 or far enough below it to be told from it in 16 bits."""
MOST_ROWS = (1 << 15) - 1
"""Rows, or items of the user to leave out, at the most."""

_NEVER = (1 << 15) - 1
_AHEAD = 128  # bytes: rows are far from each other, and no processor guesses where strips go on
_ADDED = (
    sums.COUNT, sums.BACK, sums.SHARE, sums.RECENT_SHARE, sums.HIGH_SHARE, sums.RATIO,
    sums.HIGH_RATIO, sums.BACK_SHARE, sums.COSINE, sums.RECENT_COSINE, sums.HIGH_COSINE,
)  # fmt: skip
_TAKEN, _PART, _LENGTH, _RECENT = range(4)
_ONE_STEP = 65536.0
_FULL = (1 << 16) - 1  # stands for a ratio of 1, which has one step more


class StripRows(NamedTuple):
    """The rows of a profile, and what is needed of each of them."""

    forward: NDArray[np.uint16]
    reverse: NDArray[np.uint16]
    places: NDArray[np.int64]
    """Of each row in `forward`, and in `reverse`."""
    numbers: NDArray[np.float32]
    """How many took each row's item, one over it, one over its root, and its weight by recency."""
    instants: NDArray[np.int16]
    """When the user to leave out took each row's item: the largest number, and −1, for never."""
    of_columns: NDArray[np.int16]
    """When they took each column's item; −1 for never."""


class _Strip(Lanes):
    """Emits code over the rows of one strip."""

    def __init__(self, context: Any, builder: Any, kind: Any, rows: Any, column: Any) -> None:
        super().__init__(context, builder, N_COLUMNS)
        self._intp = column.type
        self._starts, self._strides = [], []
        for number, each in enumerate(kind):
            array = builder.extract_value(rows, number)
            start, strides = self.data(each, array)
            self._starts.append(start)
            self._strides.append(strides[0])
        self._column = column
        mine = self.load(self.at(self._starts[5], self._times(column, 2)), self.ints(16), 2)
        never = builder.icmp_signed("<", mine, self.same(self.ints(16), 0))
        self._taken_at = mine, builder.select(never, self.same(self.ints(16), _NEVER), mine)

    def _times(self, number: Any, n: int) -> Any:
        return self.builder.mul(number, ir.Constant(self._intp, n))

    def _entry(self, array: int, line: int, row: Any, kind: Any, n_bytes: int) -> Any:
        """Read a number of a row from a line of one of the arrays."""
        start = self.at(self._starts[array], self._times(self._strides[array], line))
        return self.load(self.at(start, self._times(row, n_bytes)), kind, n_bytes)

    def number(self, line: int, row: Any) -> Any:
        """Give one of the numbers of a row, everywhere."""
        return self.spread(self._entry(3, line, row, ir.FloatType(), 4))

    def counts(self, side: int, row: Any) -> Any:
        """Give the counts of a row, forward or reverse, without the user's own."""
        builder = self.builder
        place = builder.mul(self._entry(2, side, row, self._intp, 8), self._strides[side])
        start = self.at(self.at(self._starts[side], place), self._times(self._column, 2))
        found = self.load(start, self.ints(16), 2)
        self.prefetch(self.at(start, ir.Constant(self._intp, _AHEAD)))
        at = self.spread(self._entry(4, side, row, ir.IntType(16), 2))
        own = builder.icmp_signed("<" if side else ">", self._taken_at[1 if side else 0], at)
        found = builder.add(found, builder.sext(own, self.ints(16)))
        return builder.uitofp(builder.zext(found, self.ints(32)), self.floats())

    def higher(self, one: Any, other: Any) -> Any:
        """Give the higher of two in each lane."""
        return self.builder.select(self.builder.fcmp_ordered(">", other, one), other, one)

    def write(self, sums_kind: Any, array: Any, line: int, values: Any) -> None:
        """Write the strip's columns of one of the sums."""
        start, (stride, _) = self.data(sums_kind, array)
        place = self.at(self.at(start, self._times(stride, line)), self._times(self._column, 4))
        self.store(values, place, 4)


@intrinsic
def _sum_strip(
    _context: Any, rows: Any, n_rows: Any, n_last: Any, column: Any, steps: Any, found: Any
) -> Any:
    """Add up the columns of the strip that begins at `column`, and write their ratios' steps."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kinds = signature.args
        last_row, n_late, start = (
            context.cast(builder, arguments[k], kinds[k], types.intp) for k in (1, 2, 3)
        )
        strip = _Strip(context, builder, kinds[0], arguments[0], start)
        zeros, ones = strip.same(strip.floats(), 0.0), strip.same(strip.floats(), 1.0)
        noted, (line, _) = strip.data(kinds[4], arguments[4])

        def add(kept: Any, row: Any) -> Any:
            forward, back = strip.counts(0, row), strip.counts(1, row)
            part, recent = strip.number(_PART, row), strip.number(_RECENT, row)
            share = builder.fmul(forward, part)
            free = builder.fsub(strip.number(_TAKEN, row), back)
            ratio = builder.fdiv(forward, strip.higher(ones, free))
            in_steps = builder.fptoui(
                builder.fmul(ratio, strip.same(strip.floats(), _ONE_STEP)), strip.ints(32)
            )
            full = strip.same(strip.ints(32), _FULL)
            below = builder.icmp_unsigned("<", in_steps, full)
            step = builder.trunc(builder.select(below, in_steps, full), strip.ints(16))
            strip.store(step, strip.at(noted, builder.mul(row, line)), 64)
            cosine = builder.fmul(builder.fadd(forward, back), strip.number(_LENGTH, row))
            added = (
                forward, back, share, builder.fmul(recent, share), share, ratio, ratio,
                builder.fmul(back, part), cosine, builder.fmul(recent, cosine), cosine,
            )  # fmt: skip
            return [
                strip.higher(before, value)
                if which in (sums.HIGH_SHARE, sums.HIGH_RATIO, sums.HIGH_COSINE)
                else builder.fadd(before, value)
                for which, before, value in zip(_ADDED, kept, added, strict=True)
            ]

        def add_late(kept: Any, row: Any) -> Any:
            share = builder.fmul(strip.counts(0, row), strip.number(_PART, row))
            return (builder.fadd(kept[0], share),)

        nothing = ir.Constant(start.type, 0)
        totals = strip.fold(nothing, last_row, [zeros] * len(_ADDED), add)
        first = builder.sub(last_row, n_late)
        late = strip.fold(first, last_row, [zeros], add_late)
        for which, values in zip((*_ADDED, sums.LAST_SHARE), (*totals, *late), strict=True):
            strip.write(kinds[5], arguments[5], which, values)
        return context.get_dummy_value()

    return types.void(rows, n_rows, n_last, column, steps, found), generate


sum_strip: Any = _sum_strip


def in_strips(forward: RowSource, reverse: RowSource, out: LeftOutUser, n_columns: int) -> bool:
    """Tell whether rows can be summed in strips: whole rows of 16 bits, of not too many takers."""
    return (
        forward.matrix.dtype == reverse.matrix.dtype == np.uint16
        and n_columns >= N_COLUMNS
        and len(out.items) <= MOST_ROWS
        and len(out.support) <= MOST_ROWS
        and out.support.max() < MOST_TAKERS
        and bool((forward.places < len(forward.matrix)).all())
        and bool((reverse.places < len(reverse.matrix)).all())
    )


@njit(nogil=True, cache=True, error_model="numpy")
def strip_rows(
    forward: NDArray[np.uint16],
    reverse: NDArray[np.uint16],
    forward_places: NDArray[np.int64],
    reverse_places: NDArray[np.int64],
    out: LeftOutUser,
    recent: NDArray[np.float32],
    n_columns: int,
) -> StripRows:
    """Give the rows of a profile as strips are read from them; a user's own part is left `out`."""
    n_rows, one = len(recent), np.float32(1.0)
    places = np.empty((2, n_rows), np.int64)
    numbers, instants = np.empty((4, n_rows), np.float32), np.empty((2, n_rows), np.int16)
    of_columns = np.full(n_columns, -1, np.int16)
    for place in range(len(out.items)):
        of_columns[out.items[place]] = out.instants[place]
    for k in range(n_rows):
        places[0, k], places[1, k] = forward_places[k], reverse_places[k]
        taken = np.float32(out.support[k])
        known = taken > np.float32(0.0)
        numbers[_TAKEN, k] = taken
        numbers[_PART, k] = one / taken if known else np.float32(0.0)
        numbers[_LENGTH, k] = one / np.sqrt(taken) if known else np.float32(0.0)
        numbers[_RECENT, k] = recent[k]
        at = out.of_rows[k] if len(out.items) else -1
        instants[0, k] = at if at >= 0 else _NEVER
        instants[1, k] = at
    return StripRows(forward, reverse, places, numbers, instants, of_columns)


@njit(nogil=True, cache=True)
def sum_strips(
    rows: StripRows,
    left: int,
    right: int,
    n_last: int,
    steps: NDArray[np.uint16],
    found: NDArray[np.float32],
) -> None:
    """Summarise the rows of a profile for the columns from `left` on, as `summarise_rows` does.

    `steps` is room for a strip of each row, and begins with a cache line. There are at least as
    many columns as a strip has.
    """
    n_rows, bits = len(steps), 0
    work = np.empty((2, N_COLUMNS), np.uint16)
    lower, upper = work[0], work[1]
    for begin in range(left, right, N_COLUMNS):
        # What is left at the end is computed together with some columns before.
        column = min(begin, found.shape[1] - N_COLUMNS)
        sum_strip(rows, n_rows, min(n_last, n_rows), column, steps, found)
        bits = middles_of_strip(steps, 0, bits, lower, upper)
        middle = found[sums.MIDDLE_RATIO, column : column + N_COLUMNS]
        for j in range(N_COLUMNS):
            low, high = np.int64(lower[j]), np.int64(upper[j])
            both = low + (low == _FULL) + high + (high == _FULL)
            middle[j] = np.float32(both / (2.0 * sums.STEPS))
