"""What a measure needs of the counts, and aggregates of a statistic over the rows of a profile.

Which of three ways is taken is known before the kernel, by the statistic and by where the rows lie.
It is a type, so that a caller is compiled with its own way alone: all three take ten times as
long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numba import njit
from numba.extending import overload

from surerec._threads import available_threads, run_together
from surerec.measures import _tiles as tiles
from surerec.measures._kernels import (
    HUGE,
    aggregate_counts,
    aggregate_values,
    gather_columns,
    top_products,
    total_ratios,
)
from surerec.measures._tiles import (
    LeftOutUser,
    OfCounts,
    OfTotals,
    OfValues,
    Task,
    in_matrix,
    leave_out,
)
from surerec.precedence import RowSource

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from surerec.measures._tiles import Aggregate, Statistic, Way
    from surerec.precedence import Direction, PrecedenceStatistics

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
_WORTH_THREADS: Final = 250_000.0
"""Nanoseconds of work; a thread that sleeps takes a hundred thousand to wake up."""
_BLOCKS_PER_THREAD: Final = 2
_COLUMNS_TOGETHER: Final = 256
_NONE = np.empty(0, dtype=np.int64)


_KERNELS: dict[type[Way], Callable[..., None]] = {
    OfCounts: aggregate_counts,
    OfTotals: total_ratios,
    OfValues: aggregate_values,
}


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


class ScoringPlan(NamedTuple):
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
    statistic: Statistic,
    aggregate: Aggregate,
    *,
    literal: bool,
) -> ScoringPlan:
    """Return the plan of one aggregate over the rows of any history, as all lie in a matrix."""
    rows = statistics.rows
    forward, reverse = rows.source("followers", _NONE), rows.source("predecessors", _NONE)
    following = not (literal and statistic == "share")
    directions = (forward, reverse) if following else (reverse, forward)
    code, wanted = STATISTIC_CODES[statistic], WANTED[aggregate]
    return ScoringPlan(
        way_of(code, wanted, *directions),
        wanted,
        -1.0 if statistic == "absent" else 1.0,
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
    plan: ScoringPlan,
    training: NDArray[np.int64],
    own: NDArray[np.uint32],
    times: NDArray[np.int64],
) -> tuple[RowSource, RowSource, LeftOutUser]:
    """Return the rows of a history in both directions, and what the user who took `own` did."""
    instants, of_rows, support = leave_out(training, plan.support, own, times, plan.strict)
    out = LeftOutUser(own, instants, of_rows, support)
    return _rows_at(plan.forward, training), _rows_at(plan.reverse, training), out


@njit(nogil=True, cache=True)
def room_for(n_items: int) -> NDArray[np.float64]:
    """Return room for the scores of so many items."""
    return np.empty(n_items)


@njit(nogil=True, cache=True)
def score_profile(
    plan: ScoringPlan,
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


class ProfileRows:
    """The rows of a profile's items, with some users' contributions left out exactly.

    One user's contribution stands only in the columns of the items that they took themselves, so
    the rows are used as they are and it is subtracted as they are read. Several users' is
    subtracted from a copy of the rows.
    """

    def __init__(
        self,
        statistics: PrecedenceStatistics,
        history: NDArray[np.integer],
        without: int | tuple[int, ...] | None = None,
    ) -> None:
        users = () if without is None else (without,) if isinstance(without, int) else without
        if len(users) > 1:
            statistics, users = statistics.without_users(users), ()
        self._statistics = statistics
        self.history = np.asarray(history, dtype=np.int64)
        self.n_items = statistics.n_items
        self.n_users = statistics.n_users - len(users)
        self._own, times = statistics.consumed_by(users[0] if users else None)
        strict = statistics.ties == "strict"
        self.left_out = LeftOutUser(
            self._own, *leave_out(self.history, statistics.support, self._own, times, strict)
        )
        self.support = self.left_out.support
        self._sources: dict[Direction, RowSource] = {}

    def source(self, direction: Direction) -> RowSource:
        """Return the rows as they are, that user's contribution included."""
        if direction not in self._sources:
            rows = self._statistics.rows
            self._sources[direction] = rows.source(direction, self.history)
        return self._sources[direction]

    def columns(self, direction: Direction, columns: NDArray[np.integer]) -> NDArray[Any]:
        """Return some columns of the rows without that user's contribution."""
        found = self.source(direction)
        wanted = np.asarray(columns, dtype=np.int64)
        out = np.empty((len(found.places), len(wanted)), dtype=found.counts.dtype)
        following = direction == "followers"
        gather_columns(found, self.left_out, self.n_items, wanted, following, out)
        return out

    def support_of_all(self) -> NDArray[np.uint32]:
        """Return the support of every item over the other users."""
        support = self._statistics.support.copy()
        support[self._own] -= np.uint32(1)
        return support


def aggregate(
    rows: ProfileRows, statistic: Statistic, wanted: Aggregate, *, literal: bool = False
) -> NDArray[np.float64]:
    """Aggregate a statistic of every item over a profile, on all cores where that pays.

    A median is the sum of the two middle values: twice the median, exactly. A mean is the sum.

    Parameters
    ----------
    rows : ProfileRows
        The profile's rows.
    statistic : {"count", "share", "ratio", "absent"}
        What to aggregate.
    wanted : {"minimum", "median", "mean", "maximum"}
        The aggregate.
    literal : bool, default=False
        For "share": ``PC(h, i) / Sup(i)``, as the paper's Eq. 1 has it, instead of
        ``PC(i, h) / Sup(i)``, as its text does (paper.md 1).
    """
    following = statistic != "share" or not literal
    forward = rows.source("followers" if following else "predecessors")
    reverse = rows.source("predecessors") if statistic == "ratio" else forward
    codes = STATISTIC_CODES[statistic], WANTED[wanted]
    way, n_items = way_of(*codes, forward, reverse), rows.n_items
    task = Task(way, codes[1], following, forward, reverse, rows.left_out)
    result = np.empty(n_items)  # rows may be longer, with room for more items

    def some_columns(block: tuple[int, int]) -> None:
        aggregate_columns(*block, task, result)

    cost = _cost_of(*codes, len(rows.history), n_items)
    run_together(some_columns, equal_columns(n_items, cost))
    return result


def _cost_of(statistic: int, wanted: int, n_rows: int, n_items: int) -> float:
    """Return how many nanoseconds of one core an aggregate takes, roughly."""
    return (0.1 if statistic == tiles.COUNT and wanted != tiles.LOW else 1.0) * n_rows * n_items


def pays(plan: ScoringPlan, n_training: int) -> bool:
    """Return whether one thread is as fast as several for so long a history."""
    n_items = len(plan.support)
    return _cost_of(plan.way.statistic, plan.wanted, n_training, n_items) <= _WORTH_THREADS


def equal_columns(n_items: int, cost: float) -> list[tuple[int, int]]:
    """Cut the columns into blocks for threads, if there is enough to do for more than one."""
    n_threads = available_threads() if cost > _WORTH_THREADS else 1
    n_blocks = n_threads * _BLOCKS_PER_THREAD if n_threads > 1 else 1
    width = -(-n_items // (n_blocks * _COLUMNS_TOGETHER)) * _COLUMNS_TOGETHER
    return [(start, min(start + width, n_items)) for start in range(0, n_items, max(width, 1))]


def log_score(rows: ProfileRows, top: int | None) -> NDArray[np.float64]:
    """Return the logarithm of the paper's score (Eq. 2) of every item, −∞ where it is 0.

    ``Sup(h) / n_u`` times the product of the `top` largest ``PC(i, h) / Sup(h)``, or of all.
    """
    n_factors = len(rows.history) if top is None else min(top, len(rows.history))
    products, scaled = np.empty(rows.n_items), np.empty(rows.n_items)
    top_products(rows.source("followers"), rows.left_out, n_factors, products, scaled)
    support = np.maximum(rows.support_of_all(), 1).astype(np.float64)  # if 0, so is every count
    with np.errstate(divide="ignore", over="ignore"):
        power = support ** (n_factors - 1)
        # One division where both sides are in range keeps ties exact; logarithms do elsewhere.
        exact = np.isfinite(power) & (scaled == 0)
        result = np.where(
            exact,
            np.log(products / np.where(exact, power, 1.0)),
            np.log(products) + scaled * np.log(HUGE) - (n_factors - 1) * np.log(support),
        )
    return np.asarray(result - np.log(max(rows.n_users, 1)))
