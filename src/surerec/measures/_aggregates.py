"""All four aggregates of a statistic in one pass over a profile's rows."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from surerec._threads import available_threads, run_together
from surerec.measures import _tiles as tiles
from surerec.measures._kernels import aggregate_columns, way_of
from surerec.measures._products import HUGE, gather_columns, top_products
from surerec.measures._tiles import Aggregates, LeftOut, leave_out, room_for
from surerec.precedence import Block, source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from surerec.measures._table import Aggregate, Statistic
    from surerec.precedence import Direction, PrecedenceStatistics, Source


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
_ALL: Final = tiles.LOW | tiles.MIDDLE | tiles.TOTAL | tiles.HIGH
_COLUMNS_AT_ONCE: Final = 1024
_NEVER: Final = np.int64(-1)
_COSTS: Final = {
    (tiles.COUNT, tiles.TOTAL): 0.1,
    (tiles.COUNT, tiles.HIGH): 0.1,
    (tiles.COUNT, tiles.MIDDLE): 0.1,
}
"""Nanoseconds a count takes, where it is far from one."""
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
        self._sources: dict[Direction, Source] = {}

    @cached_property
    def _instants(self) -> NDArray[np.int64]:
        instants = np.full(self._statistics.n_items, _NEVER)
        instants[self._own] = self.left_out.instants
        return instants

    def source(self, direction: Direction) -> Source:
        """Give the rows as they are, that user's contribution included."""
        if direction not in self._sources:
            self._sources[direction] = source(self._statistics.rows, direction, self.history)
        return self._sources[direction]

    def block(self, direction: Direction) -> Block:
        """Give the rows as they are as rows of a matrix."""
        return self._statistics.rows.block(direction, self.history)

    def own_columns(self) -> Iterator[NDArray[np.uint32]]:
        """Give the columns that the user to leave out has a part in, some at a time."""
        for start in range(0, len(self._own), _COLUMNS_AT_ONCE):
            yield self._own[start : start + _COLUMNS_AT_ONCE]

    def columns(self, direction: Direction, columns: NDArray[np.integer]) -> Block:
        """Give some columns of the rows without that user's contribution."""
        found = self.source(direction)
        wanted = np.asarray(columns, dtype=np.int64)
        out = np.empty((len(found.places), len(wanted)), dtype=found.counts.dtype)
        instants = self._instants[self.history], self._instants[wanted]
        gather_columns(found, self.n_items, wanted, *instants, direction == "followers", out)
        return Block(out, np.arange(len(out)))

    def support_of_all(self) -> NDArray[np.uint32]:
        """Give the support of every item over the other users."""
        support = self._statistics.support.copy()
        support[self._own] -= np.uint32(1)
        return support


def aggregate(
    rows: ProfileRows,
    statistic: Statistic,
    *,
    only: Aggregate | None = None,
    literal: bool = False,
) -> Aggregates:
    """Aggregate a statistic of every item over a profile, in one pass.

    Parameters
    ----------
    rows : ProfileRows
        The profile's rows.
    statistic : {"count", "share", "ratio", "absent"}
        What to aggregate.
    only : {"minimum", "median", "mean", "maximum"}, optional
        The one that is wanted; the others are then undefined. By default all four.
    literal : bool, default=False
        For "share": ``PC(h, i) / Sup(i)``, as the paper's Eq. 1 has it, instead of
        ``PC(i, h) / Sup(i)``, as its text does (paper.md 1).
    """
    following = statistic != "share" or not literal
    forward = rows.source("followers" if following else "predecessors")
    reverse = rows.source("predecessors") if statistic == "ratio" else forward
    result = room_for(rows.n_items)  # rows may be longer, with room for more items
    aggregate_profile(
        STATISTIC_CODES[statistic],
        _ALL if only is None else WANTED[only],
        following,
        forward,
        reverse,
        rows.left_out,
        result,
    )
    return result


def cost_of(statistic: int, wanted: int, n_rows: int, n_items: int) -> float:
    """Say how many nanoseconds of one core an aggregate takes, roughly."""
    return _COSTS.get((statistic, wanted), 1.0) * n_rows * n_items


def is_worth_threads(statistic: int, wanted: int, n_rows: int, n_items: int) -> bool:
    """Tell whether several threads take less time than one."""
    return cost_of(statistic, wanted, n_rows, n_items) > _WORTH_THREADS


def equal_columns(n_items: int, cost: float) -> list[tuple[int, int]]:
    """Cut the columns into blocks for threads, if there is enough to do for more than one."""
    n_threads = available_threads() if cost > _WORTH_THREADS else 1
    n_blocks = n_threads * _BLOCKS_PER_THREAD if n_threads > 1 else 1
    width = -(-n_items // (n_blocks * _COLUMNS_TOGETHER)) * _COLUMNS_TOGETHER
    return [(start, min(start + width, n_items)) for start in range(0, n_items, max(width, 1))]


def aggregate_profile(
    statistic: int,
    wanted: int,
    following: bool,  # noqa: FBT001  # as the kernel takes them
    forward: Source,
    reverse: Source,
    left_out: LeftOut,
    result: Aggregates,
) -> None:
    """Aggregate all columns, on all cores where there is enough to do."""
    n_items = len(result.low)
    cost = cost_of(statistic, wanted, len(forward.places), n_items)

    way = way_of(statistic, wanted, forward, reverse)

    def some_columns(block: tuple[int, int]) -> None:
        aggregate_columns(*block, way, wanted, following, forward, reverse, left_out, result)

    run_together(some_columns, equal_columns(n_items, cost))


def log_score(rows: ProfileRows, top: int | None) -> NDArray[np.float64]:
    """Give the logarithm of the paper's score (Eq. 2) of every item, −∞ where it is 0.

    ``Sup(h) / n_u`` times the product of the `top` largest ``PC(i, h) / Sup(h)``, or of all.
    """
    n_factors = len(rows.history) if top is None else min(top, len(rows.history))
    counts = rows.block("followers")
    products, scaled = np.empty(counts.matrix.shape[1]), np.empty(counts.matrix.shape[1])
    top_products(*counts, n_factors, products, scaled)
    for columns in rows.own_columns():
        part, part_scaled = np.empty(len(columns)), np.empty(len(columns))
        top_products(*rows.columns("followers", columns), n_factors, part, part_scaled)
        products[columns], scaled[columns] = part, part_scaled
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
