"""A whole profile scored in one call of a kernel, where every row lies in a matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import njit

from surerec.measures._aggregates import STATISTIC_CODES, WANTED, is_worth_threads
from surerec.measures._kernels import OfValues, aggregate_columns, way_of
from surerec.measures._tiles import HIGH, LOW, MIDDLE, TOTAL, LeftOut, leave_out
from surerec.precedence import Source, source

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.measures._kernels import Way
    from surerec.measures._table import Measure
    from surerec.measures._tiles import Aggregates
    from surerec.precedence import PrecedenceStatistics

_PLACES = np.zeros(1 + HIGH, dtype=np.int64)  # of the aggregates, by which is wanted
_PLACES[[LOW, MIDDLE, TOTAL, HIGH]] = range(4)
_NONE = np.empty(0, dtype=np.int64)


class Plan(NamedTuple):
    """What a measure needs of the counts, as the kernels take it."""

    way: Way
    wanted: int
    sign: float
    """−1 for a nonconformity."""
    following: bool
    forward: Source
    """With no places if every row lies in its matrix, by item; else with those of one history."""
    reverse: Source
    support: NDArray[np.uint32]
    strict: bool


def make_plan(statistics: PrecedenceStatistics, measure: Measure, *, literal: bool) -> Plan | None:
    """Give the plan of one aggregate, or None where rows would have to be counted first."""
    if not statistics.rows.holds_all:
        return None
    return plan_of(statistics, measure, _NONE, literal=literal)


def plan_of(
    statistics: PrecedenceStatistics,
    measure: Measure,
    history: NDArray[np.int64],
    *,
    literal: bool,
) -> Plan:
    """Give the plan of one aggregate over the rows of one history, counted if they must be."""
    rows = statistics.rows
    forward, reverse = source(rows, "followers", history), source(rows, "predecessors", history)
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


def pays(plan: Plan, n_training: int) -> bool:
    """Tell whether one thread is as fast as several for so long a history."""
    return not is_worth_threads(plan.way.statistic, plan.wanted, n_training, len(plan.support))


@njit(nogil=True, cache=True)
def _rows_at(rows: Source, training: NDArray[np.int64]) -> Source:
    places = rows.places if len(rows.places) else training
    return Source(rows.matrix, rows.counted, rows.offsets, rows.items, rows.counts, places)


@njit(nogil=True, cache=True)
def rows_of(
    plan: Plan, training: NDArray[np.int64], own: NDArray[np.uint32], times: NDArray[np.int64]
) -> tuple[Source, Source, LeftOut]:
    """Give the rows of a history in both directions, and what the user who took `own` did."""
    instants, of_rows, support = leave_out(training, plan.support, own, times, plan.strict)
    out = LeftOut(own, instants, of_rows, support)
    return _rows_at(plan.forward, training), _rows_at(plan.reverse, training), out


@njit(nogil=True, cache=True)
def score_profile(
    plan: Plan,
    training: NDArray[np.int64],
    own: NDArray[np.uint32],
    times: NDArray[np.int64],
    room: Aggregates,
) -> NDArray[np.float64]:
    """Score every item, without the user who took `own`; the result is a part of `room`."""
    source, reverse, out = rows_of(plan, training, own, times)
    aggregate_columns(
        0,
        len(plan.support),
        plan.way,
        plan.wanted,
        plan.following,
        source,
        reverse,
        out,
        room,
    )
    found: NDArray[np.float64] = room[_PLACES[plan.wanted]]
    if plan.sign < 0.0:
        for item in range(len(found)):
            found[item] = -found[item]
    return found
