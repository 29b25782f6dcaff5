"""The seam between measures and calibrations: a scorer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from surerec._checks import check_whole
from surerec.measures._aggregates import ProfileRows, aggregate, log_score
from surerec.measures._table import Measure, find_measure

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.precedence import PrecedenceStatistics

__all__ = ["MeasureScorer", "Scorer"]


class Scorer(Protocol):
    """Anything that says how well each item fits a history."""

    def score(
        self, history: NDArray[np.integer], *, without_user: int | None = None
    ) -> NDArray[np.float64]:
        """Score every item; higher conforms more, and equal scores are a true tie.

        Parameters
        ----------
        history : array of int
            Item codes in time order.
        without_user : int, optional
            A user whose own contribution to what was learned is left out, exactly.
        """


class MeasureScorer:
    """One of the paper's 17 measures over precedence statistics.

    Parameters
    ----------
    statistics : PrecedenceStatistics
        The counts.
    measure : str or Measure
        Such as "CM12"; see :data:`surerec.measures.MEASURES`.
    top : int, default=1
        How many of the largest factors the score (CM1) multiplies.
    literal : bool, default=False
        Read CM6–9 as the paper's formula, not as its text (notes 1).

    Examples
    --------
    >>> from surerec import Interactions, count_precedence
    >>> taken = Interactions.from_profiles([0, 3, 6, 8], [0, 1, 2, 0, 2, 1, 0, 2])
    >>> scorer = MeasureScorer(count_precedence(taken), "CM4")
    >>> scores = scorer.score(np.array([0]))
    >>> scorer.value(scores, history_length=1, n_users=3).tolist()
    [0.0, 3.0, 2.0]
    """

    def __init__(
        self,
        statistics: PrecedenceStatistics,
        measure: str | int | Measure,
        *,
        top: int = 1,
        literal: bool = False,
    ) -> None:
        self.statistics = statistics
        self.measure = measure if isinstance(measure, Measure) else find_measure(measure)
        self.top = check_whole("top", top)
        self.literal = literal

    def score(
        self, history: NDArray[np.integer], *, without_user: int | None = None
    ) -> NDArray[np.float64]:
        """Score every item; see :class:`Scorer`.

        Scores are in a unit that keeps ties exact: a sum for a mean, the sum of the two middle
        values for a median, counts for what is a count over the number of users.
        """
        rows = ProfileRows(self.statistics, history, without_user)
        measure = self.measure
        if measure.statistic == "score":
            if self.top > 1:
                return log_score(rows, self.top)
            return aggregate(rows, "count", only="maximum").high
        only = measure.aggregate
        found = aggregate(rows, measure.statistic, only=only, literal=self.literal)
        wanted = {
            "minimum": found.low,
            "median": found.middle,
            "mean": found.total,
            "maximum": found.high,
        }[measure.aggregate]
        return -wanted if measure.is_nonconformity else wanted

    def value(
        self,
        scores: NDArray[np.float64],
        history_length: int | NDArray[np.int64],
        n_users: int,
    ) -> NDArray[np.float64]:
        """Turn scores into the paper's numbers; a nonconformity comes out as the paper has it."""
        measure = self.measure
        if measure.statistic == "score":
            return np.exp(scores) if self.top > 1 else scores / n_users
        unit = np.ones(1)
        if measure.aggregate == "median":
            unit = np.full(1, 2.0)
        elif measure.aggregate == "mean":
            unit = np.asarray(history_length, dtype=np.float64)
        return -scores / (unit * n_users) if measure.is_nonconformity else scores / unit
