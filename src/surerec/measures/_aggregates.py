"""The rows of a profile, and aggregates of a statistic over them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from surerec._threads import available_threads, run_together
from surerec.measures._kernels import HUGE, gather_columns, top_products
from surerec.measures._plan import STATISTIC_CODES, WANTED, Task, aggregate_columns, way_of
from surerec.measures._tiles import COUNT, LOW, LeftOut, leave_out
from surerec.precedence import Block

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.measures._formula import Aggregate, Statistic
    from surerec.measures._plan import Plan
    from surerec.precedence import Direction, PrecedenceStatistics, RowSource


_WORTH_THREADS: Final = 250_000.0
"""Nanoseconds of work; a thread that sleeps takes a hundred thousand to wake up."""
_BLOCKS_PER_THREAD: Final = 2
_COLUMNS_TOGETHER: Final = 256


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
        self._own, times = statistics.taken_by(users[0] if users else None)
        strict = statistics.ties == "strict"
        self.left_out = LeftOut(
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

    def columns(self, direction: Direction, columns: NDArray[np.integer]) -> Block:
        """Return some columns of the rows without that user's contribution."""
        found = self.source(direction)
        wanted = np.asarray(columns, dtype=np.int64)
        out = np.empty((len(found.places), len(wanted)), dtype=found.counts.dtype)
        following = direction == "followers"
        gather_columns(found, self.left_out, self.n_items, wanted, following, out)
        return Block(out, np.arange(len(out)))

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
    return (0.1 if statistic == COUNT and wanted != LOW else 1.0) * n_rows * n_items


def pays(plan: Plan, n_training: int) -> bool:
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
