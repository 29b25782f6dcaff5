"""Plain precedence mining."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surerec._checks import check_whole
from surerec.calibration import Uncalibrated
from surerec.measures import PrecedenceRecipe
from surerec.recommenders._base import Recommender

if TYPE_CHECKING:
    from surerec.calibration import Calibration
    from surerec.measures import Recipe


class PrecedenceMining(Recommender):
    """Ranking by the score of precedence mining (paper, Eq. 2), with no confidence.

    ``Sup(h) / n_u · Π PC(i, h) / Sup(h)`` over the whole known profile, in log space.

    Parameters
    ----------
    top : int or None, default=None
        Multiply only the so many largest factors; None multiplies all, zeros included.
    verbose : int, default=0
        Print the stages of a fit with their times on stderr (1), and the loops in them (2).

    Examples
    --------
    >>> import surerec as sr
    >>> films = sr.datasets.synthetic(n_users=200, n_items=60, n_rows=4000, seed=1)
    >>> len(sr.PrecedenceMining(top=1).fit(films).recommend(user=7, k=10))
    10
    """

    gives_confidence = False

    def __init__(self, top: int | None = None, *, verbose: int = 0) -> None:
        self.top = top
        self.verbose = verbose

    def default_name(self) -> str:
        """Give the paper's name for it."""
        return "precedence-mining" if self.top is None else f"precedence-mining-top{self.top}"

    def recipe(self) -> Recipe:
        """Give what makes its scorer."""
        return PrecedenceRecipe(self.top)

    def _recipe_key(self) -> tuple[object, ...]:
        return (self.top,)

    def _calibration(self) -> Calibration:
        return Uncalibrated()

    def _validate(self) -> None:
        if self.top is not None:
            check_whole("top", self.top)
