"""Plain precedence mining."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surerec._checks import check_whole
from surerec.measures._aggregates import ProfileRows, log_score
from surerec.recommenders._base import Recommender
from surerec.recommenders._sets import Assessment

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from surerec.recommenders._query import Query

__all__ = ["PrecedenceMining"]


class PrecedenceMining(Recommender):
    """Ranking by the score of precedence mining (paper, Eq. 2), with no confidence.

    ``Sup(h) / n_u · Π PC(i, h) / Sup(h)`` over the whole known profile, in log space.

    Parameters
    ----------
    top : int or None, default=None
        Multiply only the so many largest factors; None multiplies all, zeros included.

    Examples
    --------
    >>> import surerec as sr
    >>> films = sr.datasets.synthetic(n_users=200, n_items=60, n_rows=4000, seed=1)
    >>> len(sr.PrecedenceMining(top=1).fit(films).recommend(user=7, k=10))
    10
    """

    gives_confidence = False

    def __init__(self, top: int | None = None) -> None:
        self.top = top

    def default_name(self) -> str:
        """Give the paper's name for it."""
        return "precedence-mining" if self.top is None else f"precedence-mining-top{self.top}"

    def _validate(self) -> None:
        if self.top is not None:
            check_whole("top", self.top)

    def _training(self, query: Query) -> NDArray[np.int64]:
        return query.history

    def _assess(self, query: Query, candidates: NDArray[np.int64]) -> Assessment:
        rows = ProfileRows(self.statistics_, query.history, query.user)
        scores = log_score(rows, self.top)[candidates]
        return Assessment(candidates, score=scores, shown=scores.__getitem__)

    def _promise(self, significance: float, assessment: Assessment) -> str:
        raise NotImplementedError  # it has no confidence to promise anything at
