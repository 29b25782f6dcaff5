"""Aggregates of a statistic over the rows of a profile, and plans of them for kernels.

The statistic and the location of the rows choose one of three kernels. The choice is a type, so
that callers compile one kernel only; compiling all three takes ten times as long.
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
    "score": tiles.COUNT,  # with one factor, the largest count
    "count": tiles.COUNT,
    "share": tiles.SHARE,
    "ratio": tiles.RATIO,
    "absent": tiles.ABSENT,
}
AGGREGATE_CODES: Final[dict[Aggregate, int]] = {
    "minimum": tiles.LOW,
    "median": tiles.MIDDLE,
    "mean": tiles.TOTAL,
    "maximum": tiles.HIGH,
    "top": tiles.HIGH,
}
_WORTH_THREADS: Final = 250_000.0
"""Nanoseconds of work from which threads pay off; waking one takes 100,000."""
_BLOCKS_PER_THREAD: Final = 2
_COLUMNS_TOGETHER: Final = 256
_NONE = np.empty(0, dtype=np.int64)


_KERNELS: dict[type[Way], Callable[..., None]] = {
    OfCounts: aggregate_counts,
    OfTotals: total_ratios,
    OfValues: aggregate_values,
}


def way_of(statistic: int, kind: int, source: RowSource, reverse: RowSource) -> Way:
    """Return the kernel type of an aggregate; a source without places is its whole matrix."""
    if statistic == tiles.COUNT:
        return OfCounts(statistic)
    is_mean_ratio = statistic == tiles.RATIO and kind == tiles.TOTAL
    if is_mean_ratio and in_matrix.py_func(source) and in_matrix.py_func(reverse):
        return OfTotals(statistic)
    return OfValues(statistic)


def aggregate_columns(first: int, last: int, task: Task, result: NDArray[np.float64]) -> None:
    """Aggregate items `first` … `last` − 1 (columns) over a profile (rows)."""
    _KERNELS[type(task.way)](first, last, task, result)


@overload(aggregate_columns, jit_options={"nogil": True})
def _choose(first: Any, last: Any, task: Any, result: Any) -> Callable[..., None]:  # noqa: ARG001  # chosen by type
    """Return the kernel of a task, for calls from other kernels."""
    kernel = _KERNELS[task.types[0].instance_class]

    def aggregate(first: Any, last: Any, task: Any, result: Any) -> None:
        kernel(first, last, task, result)

    return aggregate


class ScoringPlan(NamedTuple):
    """Input of the kernels for one measure."""

    way: Way
    kind: int
    sign: float
    """−1 for a nonconformity measure."""
    following: bool
    forward: RowSource
    """Without places if all rows are in its matrix, by item; else with those of one history."""
    reverse: RowSource
    support: NDArray[np.uint32]
    strict: bool


def make_plan(
    statistics: PrecedenceStatistics, statistic: Statistic, aggregate: Aggregate, *, literal: bool
) -> ScoringPlan:
    """Return the plan of one aggregate over any history, with all rows in a matrix."""
    rows = statistics.rows
    forward, reverse = rows.source("followers", _NONE), rows.source("predecessors", _NONE)
    following = not (literal and statistic == "share")
    directions = (forward, reverse) if following else (reverse, forward)
    code, kind = STATISTIC_CODES[statistic], AGGREGATE_CODES[aggregate]
    return ScoringPlan(
        way_of(code, kind, *directions),
        kind,
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
    """Return the rows of a history in both directions, and the user to leave out (`own`)."""
    instants, of_rows, support = leave_out(training, plan.support, own, times, plan.strict)
    out = LeftOutUser(own, instants, of_rows, support)
    return _rows_at(plan.forward, training), _rows_at(plan.reverse, training), out


@njit(nogil=True, cache=True)
def score_buffer(n_items: int) -> NDArray[np.float64]:
    """Return a buffer for the scores of `n_items` items."""
    return np.empty(n_items)


@njit(nogil=True, cache=True)
def score_profile(
    plan: ScoringPlan,
    training: NDArray[np.int64],
    own: NDArray[np.uint32],
    times: NDArray[np.int64],
    buffer: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Write the score of every item to `buffer`, without the user whose items are `own`."""
    source, reverse, out = rows_of(plan, training, own, times)
    task = Task(plan.way, plan.kind, plan.following, source, reverse, out)
    aggregate_columns(0, len(plan.support), task, buffer)
    if plan.sign < 0.0:
        for item in range(len(buffer)):
            buffer[item] = -buffer[item]
    return buffer


class ProfileRows:
    """The rows of a profile's items, with some users left out exactly.

    One user's contribution is only in the columns of the user's items, and is subtracted on
    reading. The contributions of several users are subtracted from a copy of the rows.
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
        """Return the rows with the user's contribution."""
        if direction not in self._sources:
            rows = self._statistics.rows
            self._sources[direction] = rows.source(direction, self.history)
        return self._sources[direction]

    def columns(self, direction: Direction, columns: NDArray[np.integer]) -> NDArray[Any]:
        """Return some columns of the rows without the user's contribution."""
        found = self.source(direction)
        codes = np.asarray(columns, dtype=np.int64)
        out = np.empty((len(found.places), len(codes)), dtype=found.counts.dtype)
        following = direction == "followers"
        gather_columns(found, self.left_out, self.n_items, codes, following, out)
        return out

    def support_of_all(self) -> NDArray[np.uint32]:
        """Return the support of every item over the other users."""
        support = self._statistics.support.copy()
        support[self._own] -= np.uint32(1)
        return support


def aggregate(
    rows: ProfileRows, statistic: Statistic, kind: Aggregate, *, literal: bool = False
) -> NDArray[np.float64]:
    """Return an aggregate of a statistic over a profile for every item.

    For a median it is the sum of the two middle values, exactly twice the median. For a mean it is
    the sum.

    Parameters
    ----------
    rows : ProfileRows
        The profile's rows.
    statistic : {"count", "share", "ratio", "absent"}
        Statistic to aggregate.
    kind : {"minimum", "median", "mean", "maximum"}
        Aggregate over the profile.
    literal : bool, default=False
        For "share": ``PC(h, i) / Sup(i)``, as the paper's Eq. 1 has it, instead of
        ``PC(i, h) / Sup(i)``, as its text does (paper.md 1).
    """
    following = statistic != "share" or not literal
    forward = rows.source("followers" if following else "predecessors")
    reverse = rows.source("predecessors") if statistic == "ratio" else forward
    codes = STATISTIC_CODES[statistic], AGGREGATE_CODES[kind]
    way, n_items = way_of(*codes, forward, reverse), rows.n_items
    task = Task(way, codes[1], following, forward, reverse, rows.left_out)
    result = np.empty(n_items)  # rows may be longer, with capacity for more items
    blocks = equal_columns(n_items, _cost_of(*codes, len(rows.history), n_items))
    run_together(lambda block: aggregate_columns(*block, task, result), blocks)
    return result


def _cost_of(statistic: int, kind: int, n_rows: int, n_items: int) -> float:
    """Return the approximate time of an aggregate in nanoseconds of one core."""
    return (0.1 if statistic == tiles.COUNT and kind != tiles.LOW else 1.0) * n_rows * n_items


def equal_columns(n_items: int, cost: float) -> list[tuple[int, int]]:
    """Split the columns into blocks for threads; one block if there is little work."""
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
        # A single division keeps ties exact; logarithms are the fallback for large numbers.
        exact = np.isfinite(power) & (scaled == 0)
        result = np.where(
            exact,
            np.log(products / np.where(exact, power, 1.0)),
            np.log(products) + scaled * np.log(HUGE) - (n_factors - 1) * np.log(support),
        )
    return np.asarray(result - np.log(max(rows.n_users, 1)))
