"""Weighted sums of rows of a matrix for many people at once: kernels that release the GIL.

What `surerec.measures.learned._ridge_kernels` sums for one person, to the last bit. There each
person waits for rows from memory; here a panel of columns is copied to the cache once, and all of
them read their rows of it, with the sums in vector registers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from surerec.measures._vectors import Lanes, aligned_room

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

PANEL = 32
"""Columns of a panel: of 4,000 rows as much as the second-level cache holds."""
N_SUMS = 5
"""Sums of a person: four weightings of a history, and what a user took."""
_AHEAD = 8  # rows of a panel that are asked for ahead: no processor guesses where the next begins


class ManyRows(NamedTuple):
    """The rows that each of some people needs, person by person, and what each weighs."""

    starts: NDArray[np.int64]
    rows: NDArray[np.int64]
    """Ascending; those of person p at ``starts[p]:starts[p + 1]``."""
    weights: NDArray[np.float64]
    """Of each row in each sum."""

    @classmethod
    def of(cls, people: Sequence[tuple[NDArray[np.int64], NDArray[np.float64]]]) -> ManyRows:
        """Put one after the other what `rows_and_weights` gives of each."""
        starts = np.concatenate(([0], np.cumsum([len(rows) for rows, _ in people])))
        weights = np.empty((int(starts[-1]), N_SUMS))
        for person, (_, table) in enumerate(people):
            weights[starts[person] : starts[person + 1]] = table.T
        return cls(starts, np.concatenate([rows for rows, _ in people]), weights)


@intrinsic
def _sum_panel(
    _context: Any,
    panel: Any,
    slots: Any,
    weights: Any,
    first: Any,
    last: Any,
    column: Any,
    out: Any,
) -> Any:
    """Sum the rows of a panel at ``slots[first:last]``, and write the sums from `column` on."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kinds, lanes, intp = signature.args, Lanes(context, builder, PANEL), ir.IntType(64)
        begin, end, left = (
            context.cast(builder, arguments[k], kinds[k], types.intp) for k in (3, 4, 5)
        )
        values, places, factors = (
            lanes.data(kind, array)[0] for kind, array in zip(kinds[:3], arguments[:3], strict=True)
        )
        double = ir.DoubleType()

        def times(number: Any, n: int) -> Any:
            return builder.mul(number, ir.Constant(intp, n))

        def add(kept: Any, row: Any) -> Any:
            slot = lanes.load(lanes.at(places, times(row, 8)), intp, 8)
            found = lanes.load(lanes.at(values, times(slot, 8 * PANEL)), lanes.floats(64), 64)
            here = lanes.at(factors, times(row, 8 * N_SUMS))
            by = [
                lanes.spread(lanes.load(lanes.at(here, ir.Constant(intp, 8 * k)), double, 8))
                for k in range(N_SUMS)
            ]
            return [
                builder.fadd(before, builder.fmul(weight, found))
                for before, weight in zip(kept, by, strict=True)
            ]

        nothing = lanes.same(lanes.floats(64), 0.0)
        sums = lanes.fold(begin, end, [nothing] * N_SUMS, add)
        start, (stride, _) = lanes.data(kinds[6], arguments[6])
        start = lanes.at(start, times(left, 8))
        for k, values_of in enumerate(sums):
            lanes.store(values_of, lanes.at(start, times(stride, k)), 8)
        return context.get_dummy_value()

    return types.void(panel, slots, weights, first, last, column, out), generate


sum_panel: Any = _sum_panel


@intrinsic
def _ask_for(_context: Any, matrix: Any, row: Any, column: Any) -> Any:
    """Have a panel of a row brought near."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kinds, lanes, intp = signature.args, Lanes(context, builder, PANEL), ir.IntType(64)
        line, left = (context.cast(builder, arguments[k], kinds[k], types.intp) for k in (1, 2))
        start, (stride, _) = lanes.data(kinds[0], arguments[0])
        offset = builder.add(builder.mul(line, stride), builder.mul(left, ir.Constant(intp, 8)))
        for n_bytes in range(0, 8 * PANEL + 1, 64):
            lanes.prefetch(lanes.at(lanes.at(start, offset), ir.Constant(intp, n_bytes)))
        return context.get_dummy_value()

    return types.void(matrix, row, column), generate


ask_for: Any = _ask_for


@njit(nogil=True, cache=True)
def _sum_many(
    matrix: NDArray[np.float64],
    starts: NDArray[np.int64],
    rows: NDArray[np.int64],
    weights: NDArray[np.float64],
    panel: NDArray[np.float64],
    needed: NDArray[np.bool_],
    out: NDArray[np.float64],
) -> None:
    """Write for each person ``out[p, w] = Σ weights[k, w] · matrix[rows[k]]``, panel by panel.

    Of the panels that they need. `panel` is room for one of all rows, and begins with a cache line.
    """
    n_rows, n_columns = matrix.shape
    slots, used, n = np.full(n_rows, -1), np.empty(n_rows, np.int64), 0
    for row in rows:
        slots[row] = 0
    for row in range(n_rows):
        if slots[row] == 0:
            slots[row] = n
            used[n] = row
            n += 1
    places = slots[rows]
    for number in range(needed.shape[1]):
        # What is left at the end is computed together with some columns before.
        left = min(number * PANEL, n_columns - PANEL)
        if not needed[:, number].any():
            continue
        for k in range(n):
            ask_for(matrix, used[min(k + _AHEAD, n - 1)], left)
            row, room = matrix[used[k], left : left + PANEL], panel[k]
            for j in range(PANEL):
                room[j] = row[j]
        for person in range(len(out)):
            if needed[person, number]:
                sum_panel(
                    panel, places, weights, starts[person], starts[person + 1], left, out[person]
                )


def sum_many(
    matrix: NDArray[np.float64],
    people: ManyRows,
    wanted: Sequence[NDArray[np.int64]] | None = None,
) -> NDArray[np.float64]:
    """Sum the rows of each person: people × sums × columns, at least as many as a panel has.

    Parameters
    ----------
    matrix : array of float
        The rows.
    people : ManyRows
        Whom it is about.
    wanted : sequence of arrays of int, optional
        The columns that each person needs; others may then hold anything. By default all.
    """
    n_people, (n_rows, n_columns) = len(people.starts) - 1, matrix.shape
    needed = np.full((n_people, -(-n_columns // PANEL)), wanted is None)
    for person, columns in enumerate(wanted or ()):
        needed[person, columns // PANEL] = True
    out = np.empty((n_people, N_SUMS, n_columns))
    room = aligned_room((n_rows, PANEL), np.float64)
    _sum_many(matrix, *people, room, needed, out)
    return out
