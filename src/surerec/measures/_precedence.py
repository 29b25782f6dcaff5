"""The score of plain precedence mining (paper, Eq. 2) as a scorer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from surerec._state import State
from surerec.measures._aggregates import ProfileRows, log_score
from surerec.measures._recipe import Recipe
from surerec.measures._scorer import Scorer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.measures._query import Query
    from surerec.precedence import PrecedenceStatistics


class PrecedenceScorer(Scorer):
    """The logarithm of ``Sup(h) / n_u · Π PC(i, h) / Sup(h)``, −∞ where that is 0.

    Parameters
    ----------
    statistics : PrecedenceStatistics
        The counts.
    top : int or None
        Multiply only the so many largest factors; None multiplies all, zeros included.
    """

    leaves_users_out = True
    checked = True

    def __init__(self, statistics: PrecedenceStatistics, top: int | None) -> None:
        self.statistics = statistics
        self.top = top

    def score_query(self, query: Query) -> NDArray[np.float64]:
        """Score every item; see :class:`surerec.measures.Scorer`."""
        query.within(self.statistics.n_items, self.statistics.n_user_codes)
        return log_score(ProfileRows(self.statistics, query.history, query.users), self.top)

    def fold_of(self, users: NDArray[np.int64]) -> NDArray[np.int64]:
        """Give one fold for all: any users are left out of the counts at once."""
        return np.zeros(len(users), dtype=np.int64)

    def state(self) -> State:
        """Return nothing: the statistics are all that it needs."""
        return State()


class PrecedenceRecipe(Recipe):
    """Plain precedence mining; it learns nothing.

    Parameters
    ----------
    top : int or None
        As of :class:`PrecedenceScorer`.
    """

    learns = False

    def __init__(self, top: int | None) -> None:
        self.top = top

    @property
    def name(self) -> str:
        """What reports call it."""
        return "precedence mining" if self.top is None else f"precedence mining, top {self.top}"

    def fit(self, statistics: PrecedenceStatistics) -> Scorer:
        """Take the statistics as they are."""
        return PrecedenceScorer(statistics, self.top)
