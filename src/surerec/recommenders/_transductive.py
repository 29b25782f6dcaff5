"""The transductive ancestors, CRS-max and CRS-med."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from surerec._arguments import check_choice
from surerec.calibration import TransductiveCalibration, check_share
from surerec.conformal import DEFAULT_CONFIDENCE
from surerec.measures import PrecedenceRecipe
from surerec.recommenders._base import Recommender

if TYPE_CHECKING:
    from surerec.calibration import Calibration, OverLater
    from surerec.measures import Recipe


class TransductiveConformal(Recommender):
    """Recommendation sets by the conformal recommender system (paper, section 4).

    For each later item c of the known profile, ``p(o, c)`` is the share of the training items,
    candidate o included, whose precedence probability ``PC(·, c) / Sup(c)`` is not above that of o
    (paper.md 9). The p-value of o is the maximum or the median over the later items.

    Parameters
    ----------
    aggregate : {"max", "median"}, default="max"
        CRS-max or CRS-med.
    zeros : {"exact", "product"}, default="exact"
        With "product" the paper's product is taken literally: a training item that never precedes
        c makes every product 0 and every ``p(o, c)`` 1.
    train_share : float, default=0.5
        The share of the known profile that is training.
    search : {"sorted", "plain"}, default="sorted"
        Count by a sorted search, or compare every training item with every candidate for every
        later item, as the paper's O(n_c · l · m) does: the same numbers, slower.
    verbose : int, default=0
        Print the stages of a fit with their times on stderr (1), and the loops in them (2).

    Examples
    --------
    >>> import surerec as sr
    >>> films = sr.datasets.synthetic(n_users=200, n_items=60, n_rows=4000, seed=1)
    >>> model = sr.TransductiveConformal(aggregate="median").fit(films)
    >>> model.recommend(user=7, confidence=0.7).confidence
    0.7
    """

    def __init__(
        self,
        aggregate: OverLater = "max",
        *,
        zeros: Literal["exact", "product"] = "exact",
        train_share: float = 0.5,
        search: Literal["sorted", "plain"] = "sorted",
        verbose: int = 0,
    ) -> None:
        self.aggregate = aggregate
        self.zeros = zeros
        self.train_share = train_share
        self.search = search
        self.verbose = verbose

    def headline(self, confidence: float = DEFAULT_CONFIDENCE) -> str:
        """Give what it promises in a few words, without the assumption."""
        return (
            f"keeps {confidence:.0%} of items new to the user that they will consume: the older "
            "method, not proven"
        )

    def default_name(self) -> str:
        """Give the paper's name for it."""
        return "crs-max" if self.aggregate == "max" else "crs-med"

    def recipe(self) -> Recipe:
        """Give the precedence score, whose factors the calibration compares one by one."""
        return PrecedenceRecipe(None)

    def _recipe_key(self) -> tuple[object, ...]:
        return ()

    def _calibration(self) -> Calibration:
        return TransductiveCalibration(
            self.aggregate,
            literal=self.zeros == "product",
            train_share=self.train_share,
            plain=self.search == "plain",
        )

    def _validate(self) -> None:
        check_choice("aggregate", self.aggregate, ("max", "median"))
        check_choice("zeros", self.zeros, ("exact", "product"))
        check_choice("search", self.search, ("sorted", "plain"))
        check_share(self.train_share)
