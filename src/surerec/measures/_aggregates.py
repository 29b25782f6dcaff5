"""All four aggregates of a statistic in one pass over a profile's rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from surerec.measures import _kernels as kernels
from surerec.precedence import Block

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from surerec.measures._table import Aggregate, Statistic
    from surerec.precedence import Direction, PrecedenceStatistics

__all__ = [
    "STATISTIC_CODES",
    "WANTED",
    "Aggregates",
    "ProfileRows",
    "aggregate",
    "log_score",
]

STATISTIC_CODES: Final[dict[Statistic, int]] = {
    "share": kernels.SHARE,
    "ratio": kernels.RATIO,
    "absent": kernels.ABSENT,
}
WANTED: Final[dict[Aggregate, int]] = {
    "minimum": kernels.LOW,
    "median": kernels.MIDDLE,
    "mean": kernels.TOTAL,
    "maximum": kernels.HIGH,
    "top": kernels.HIGH,
}
_ALL: Final = kernels.LOW | kernels.MIDDLE | kernels.TOTAL | kernels.HIGH
_COLUMNS_AT_ONCE: Final = 1024
_NEVER: Final = np.int64(-1)


class Aggregates(NamedTuple):
    """Aggregates over a profile, for every item."""

    low: NDArray[np.float64]
    middle: NDArray[np.float64]
    """The sum of the two middle values: twice the median, exactly."""
    total: NDArray[np.float64]
    high: NDArray[np.float64]

    @classmethod
    def empty(cls, n_items: int) -> Aggregates:
        """Give room for the aggregates of so many items."""
        return cls(*(np.empty(n_items) for _ in range(4)))


class ProfileRows:
    """The rows of a profile's items, with one user's contribution left out exactly.

    That user's contribution stands only in the columns of the items that they took themselves, so
    the rows are used as they are and those columns are done again without it.
    """

    def __init__(
        self,
        statistics: PrecedenceStatistics,
        history: NDArray[np.integer],
        without_user: int | None = None,
    ) -> None:
        self._statistics = statistics
        self.history = np.asarray(history, dtype=np.int64)
        self.n_users = statistics.n_users - (without_user is not None)
        self._own, own_instants = statistics.profile_of(without_user)
        self._instants = np.full(statistics.n_items, _NEVER)
        self._instants[self._own] = own_instants
        self.support = statistics.support[self.history].astype(np.int64)
        self.support -= self._instants[self.history] != _NEVER
        self._blocks: dict[Direction, Block] = {}

    def block(self, direction: Direction) -> Block:
        """Give the rows as they are, that user's contribution included."""
        if direction not in self._blocks:
            self._blocks[direction] = self._statistics.rows.block(direction, self.history)
        return self._blocks[direction]

    def own_columns(self) -> Iterator[NDArray[np.uint32]]:
        """Give the columns that the user to leave out has a part in, some at a time."""
        for start in range(0, len(self._own), _COLUMNS_AT_ONCE):
            yield self._own[start : start + _COLUMNS_AT_ONCE]

    def columns(self, direction: Direction, columns: NDArray[np.integer]) -> Block:
        """Give some columns of the rows without that user's contribution."""
        matrix, picks = self.block(direction)
        wanted = np.asarray(columns, dtype=np.int64)
        out = np.empty((len(picks), len(wanted)), dtype=matrix.dtype)
        instants = self._instants[self.history], self._instants[wanted]
        kernels.gather_columns(matrix, picks, wanted, *instants, direction == "followers", out)
        return Block(out, np.arange(len(picks)))

    def leave_out_of_totals(self, totals: NDArray[np.float64]) -> None:
        """Take that user's contribution out of the sum of the followers' rows."""
        when = self._instants[self.history]
        earlier = np.sort(when[when != _NEVER])
        totals[self._own] -= np.searchsorted(earlier, self._instants[self._own])

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
        ``PC(i, h) / Sup(i)``, as its text does (notes 1).
    """
    forward: Direction = "predecessors" if literal and statistic == "share" else "followers"
    wanted = _ALL if only is None else WANTED[only]

    def into(out: Aggregates, columns: NDArray[np.uint32] | None) -> None:
        counts = rows.block(forward) if columns is None else rows.columns(forward, columns)
        if statistic == "count":
            kernels.aggregate_counts(wanted, *counts, *out)
            return
        back = counts  # not looked at
        if statistic == "ratio":
            back = (
                rows.block("predecessors")
                if columns is None
                else rows.columns("predecessors", columns)
            )
        kernels.aggregate_values(
            STATISTIC_CODES[statistic], wanted, *counts, *back, rows.support, *out
        )

    result = Aggregates.empty(rows.block(forward).matrix.shape[1])
    into(result, None)
    if statistic == "count" and only == "mean":
        rows.leave_out_of_totals(result.total)  # a sum needs no second look at the columns
        return result
    for columns in rows.own_columns():
        part = Aggregates.empty(len(columns))
        into(part, columns)
        for whole, piece in zip(result, part, strict=True):
            whole[columns] = piece
    return result


def log_score(rows: ProfileRows, top: int | None) -> NDArray[np.float64]:
    """Give the logarithm of the paper's score (Eq. 2) of every item, −∞ where it is 0.

    ``Sup(h) / n_u`` times the product of the `top` largest ``PC(i, h) / Sup(h)``, or of all.
    """
    n_factors = len(rows.history) if top is None else min(top, len(rows.history))
    counts = rows.block("followers")
    products, scaled = np.empty(counts.matrix.shape[1]), np.empty(counts.matrix.shape[1])
    kernels.top_products(*counts, n_factors, products, scaled)
    for columns in rows.own_columns():
        part, part_scaled = np.empty(len(columns)), np.empty(len(columns))
        kernels.top_products(*rows.columns("followers", columns), n_factors, part, part_scaled)
        products[columns], scaled[columns] = part, part_scaled
    support = np.maximum(rows.support_of_all(), 1).astype(np.float64)  # if 0, so is every count
    with np.errstate(divide="ignore", over="ignore"):
        power = support ** (n_factors - 1)
        # One division where both sides are in range keeps ties exact; logarithms do elsewhere.
        exact = np.isfinite(power) & (scaled == 0)
        result = np.where(
            exact,
            np.log(products / np.where(exact, power, 1.0)),
            np.log(products) + scaled * np.log(kernels.HUGE) - (n_factors - 1) * np.log(support),
        )
    return np.asarray(result - np.log(max(rows.n_users, 1)))
