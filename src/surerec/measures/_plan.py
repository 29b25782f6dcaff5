"""What a measure needs of the counts, and a whole profile scored in one call of a kernel.

Which of three ways is taken is known before the kernel, by the statistic and by where the rows lie.
It is a type, so that a caller is compiled with its own way alone: all three take ten times as
long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numba import njit
from numba.extending import overload

from surerec.measures import _tiles as tiles
from surerec.measures._kernels import aggregate_counts, aggregate_values, total_ratios
from surerec.measures._tiles import LeftOut, in_matrix, leave_out
from surerec.precedence import RowSource

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from surerec.measures._formula import Aggregate, Measure, Statistic
    from surerec.precedence import PrecedenceStatistics

STATISTIC_CODES: Final[dict[Statistic, int]] = {
    "score": tiles.COUNT,  # of the one largest factor, which is the largest count
    "count": tiles.COUNT,
    "share": tiles.SHARE,
    "ratio": tiles.RATIO,
    "absent": tiles.ABSENT,
}
WANTED: Final[dict[Aggregate, int]] = {
    "minimum": tiles.LOW,
    "median": tiles.MIDDLE,
    "mean": tiles.TOTAL,
    "maximum": tiles.HIGH,
    "top": tiles.HIGH,
}
_NONE = np.empty(0, dtype=np.int64)


class OfCounts(NamedTuple):
    """Aggregates of counts."""

    statistic: int


class OfTotals(NamedTuple):
    """Totals of ratios over rows of 16-bit matrices, where they lie: CM12's way."""

    statistic: int


class OfValues(NamedTuple):
    """Aggregates of shares, ratios and absences, wherever the rows are."""

    statistic: int


Way = OfCounts | OfTotals | OfValues
_KERNELS: dict[type[Way], Callable[..., None]] = {
    OfCounts: aggregate_counts,
    OfTotals: total_ratios,
    OfValues: aggregate_values,
}


class Task(NamedTuple):
    """One aggregate of a statistic over the rows of a profile."""

    way: Way
    wanted: int
    """LOW, MIDDLE, TOTAL or HIGH."""
    following: bool
    """Whether `source` has those who follow the rows' items; else those who precede."""
    source: RowSource
    reverse: RowSource
    """The other direction, which is read for RATIO alone."""
    out: LeftOut


def way_of(statistic: int, wanted: int, source: RowSource, reverse: RowSource) -> Way:
    """Return the way to aggregate a statistic; a source without places is its whole matrix."""
    if statistic == tiles.COUNT:
        return OfCounts(statistic)
    is_mean_ratio = statistic == tiles.RATIO and wanted == tiles.TOTAL
    if is_mean_ratio and in_matrix.py_func(source) and in_matrix.py_func(reverse):
        return OfTotals(statistic)
    return OfValues(statistic)


def aggregate_columns(first: int, last: int, task: Task, result: NDArray[np.float64]) -> None:
    """Aggregate items `first` … `last` − 1 (columns) over a profile (rows)."""
    _KERNELS[type(task.way)](first, last, task, result)


@overload(aggregate_columns, jit_options={"nogil": True})
def _choose(first: Any, last: Any, task: Any, result: Any) -> Callable[..., None]:  # noqa: ARG001  # by their types
    """Return the kernel of a way to other kernels."""
    kernel = _KERNELS[task.types[0].instance_class]

    def aggregate(first: Any, last: Any, task: Any, result: Any) -> None:
        kernel(first, last, task, result)

    return aggregate


class Plan(NamedTuple):
    """What a measure needs of the counts, as the kernels take it."""

    way: Way
    wanted: int
    sign: float
    """−1 for a nonconformity."""
    following: bool
    forward: RowSource
    """With no places if every row lies in its matrix, by item; else with those of one history."""
    reverse: RowSource
    support: NDArray[np.uint32]
    strict: bool


def make_plan(
    statistics: PrecedenceStatistics,
    measure: Measure,
    *,
    literal: bool,
    history: NDArray[np.int64] = _NONE,
) -> Plan:
    """Return the plan of one aggregate over the rows of a history, counted if they must be.

    With no history it is that of any, where every row lies in a matrix.
    """
    rows = statistics.rows
    forward, reverse = rows.source("followers", history), rows.source("predecessors", history)
    following = not (literal and measure.statistic == "share")
    directions = (forward, reverse) if following else (reverse, forward)
    statistic, wanted = STATISTIC_CODES[measure.statistic], WANTED[measure.aggregate]
    return Plan(
        # One type whatever rows a history has: a plan of another would be compiled for again.
        OfValues(statistic) if len(history) else way_of(statistic, wanted, *directions),
        wanted,
        -1.0 if measure.is_nonconformity else 1.0,
        following,
        *directions,
        statistics.support,
        statistics.ties == "strict",
    )


@njit(nogil=True, cache=True)
def _rows_at(rows: RowSource, training: NDArray[np.int64]) -> RowSource:
    places = rows.places if len(rows.places) else training
    return RowSource(rows.matrix, rows.counted, rows.offsets, rows.items, rows.counts, places)


@njit(nogil=True, cache=True)
def rows_of(
    plan: Plan, training: NDArray[np.int64], own: NDArray[np.uint32], times: NDArray[np.int64]
) -> tuple[RowSource, RowSource, LeftOut]:
    """Return the rows of a history in both directions, and what the user who took `own` did."""
    instants, of_rows, support = leave_out(training, plan.support, own, times, plan.strict)
    out = LeftOut(own, instants, of_rows, support)
    return _rows_at(plan.forward, training), _rows_at(plan.reverse, training), out


@njit(nogil=True, cache=True)
def room_for(n_items: int) -> NDArray[np.float64]:
    """Return room for the scores of so many items."""
    return np.empty(n_items)


@njit(nogil=True, cache=True)
def score_profile(
    plan: Plan,
    training: NDArray[np.int64],
    own: NDArray[np.uint32],
    times: NDArray[np.int64],
    room: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Score every item into `room`, without the user who took `own`."""
    source, reverse, out = rows_of(plan, training, own, times)
    task = Task(plan.way, plan.wanted, plan.following, source, reverse, out)
    aggregate_columns(0, len(plan.support), task, room)
    if plan.sign < 0.0:
        for item in range(len(room)):
            room[item] = -room[item]
    return room
