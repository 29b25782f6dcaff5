"""The paper's recommenders: the inductive ICRS, its transductive ancestors, precedence mining."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Literal

from surerec._arguments import (
    check_choice,
    check_flag,
    check_number,
    check_random_state,
    check_whole,
)
from surerec.calibration import (
    ItemCalibration,
    TransductiveCalibration,
    Uncalibrated,
)
from surerec.measures import PrecedenceMeasure, as_measure
from surerec.recommenders._estimator import Recommender

if TYPE_CHECKING:
    from surerec.calibration import OverLater
    from surerec.measures import Measure, MeasureLike


@dataclass(eq=False, repr=False)
class InductiveConformal(Recommender):
    """Recommendation sets by inductive conformal prediction (paper, section 5).

    The known profile is split in time order into proper training items T and calibration items C.
    A measure says how well each calibration item and each candidate fits T; the p-value of a
    candidate is the share of calibration items, itself included, that fit no better. The set at
    confidence 1 − ε holds the candidates with p > ε.

    Parameters
    ----------
    measure : str or object, default="CM12"
        One of the 17 measures, such as "CM3", "ICRS3" or "median-count"; ``surerec measures`` lists
        them. Or "learned": trees trained when it is fitted (docs/learned.md), which needs the extra
        ``surerec[learn]``; or "als": matrix factorisation (docs/als.md), which needs
        ``surerec[als]``. Or anything that :func:`surerec.measures.as_measure` takes: a scorer of
        your own, or a function that makes one from statistics.
    top : int, default=1
        For CM1: how many of the largest factors are multiplied.
    literal : bool, default=False
        For CM6–9: read the paper's formula, not its text.
    train_share : float, default=0.5
        The share of the known profile that is training; the rest calibrates.
    smoothed : bool, default=False
        Break ties in p-values at random. Sets are smaller, and p-values exactly uniform where items
        are exchangeable.
    random_state : int, default=0
        Of the random numbers for that: the same for the same user and item, always. And of the
        training of a measure that is trained.
    verbose : int, default=0
        Print the stages of a fit with their times on stderr (1), and the loops in them (2).

    Attributes
    ----------
    model_ : FittedModel
        What answers; its ``scorer.learned`` is what a learned measure learned.

    Examples
    --------
    >>> import surerec as sr
    >>> films = sr.datasets.synthetic(n_users=200, n_items=60, n_rows=4000, random_state=1)
    >>> model = sr.InductiveConformal(measure="CM12").fit(films)
    >>> picks = model.recommend(user=7, confidence=0.8)
    >>> picks.to_frame().columns
    ['item_id', 'rank', 'score', 'p_value', 'entry_confidence', 'title']
    >>> len(picks) <= len(model.recommend(user=7, confidence=0.9))
    True
    """

    measure: MeasureLike = "CM12"
    _: KW_ONLY
    top: int = 1
    literal: bool = False
    train_share: float = 0.5
    smoothed: bool = False
    random_state: int = 0
    verbose: int = 0

    def _item_level(self) -> ItemCalibration:
        return ItemCalibration(self.train_share, self.smoothed, self.random_state)

    def default_name(self) -> str:
        """Return the paper's name, such as "icrs12"."""
        return f"icrs{self.recipe().short_name}".lower()

    def recipe(self) -> Measure:
        """Return what makes the scorer."""
        return as_measure(
            self.measure, top=self.top, literal=self.literal, random_state=self.random_state
        )

    def _validate(self) -> None:
        check_whole("top", self.top)
        check_flag("literal", self.literal)
        check_flag("smoothed", self.smoothed)
        check_random_state(self.random_state)
        check_number("train_share", self.train_share, 0, 1, "between 0 and 1")
        self.recipe()


@dataclass(eq=False, repr=False)
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
    >>> films = sr.datasets.synthetic(n_users=200, n_items=60, n_rows=4000, random_state=1)
    >>> model = sr.TransductiveConformal(aggregate="median").fit(films)
    >>> model.recommend(user=7, confidence=0.7).confidence
    0.7
    """

    aggregate: OverLater = "max"
    _: KW_ONLY
    zeros: Literal["exact", "product"] = "exact"
    train_share: float = 0.5
    search: Literal["sorted", "plain"] = "sorted"
    verbose: int = 0

    def _item_level(self) -> TransductiveCalibration:
        return TransductiveCalibration(
            aggregate=self.aggregate,
            literal=self.zeros == "product",
            train_share=self.train_share,
            plain=self.search == "plain",
        )

    def default_name(self) -> str:
        """Return the paper's name."""
        return "crs-max" if self.aggregate == "max" else "crs-med"

    def recipe(self) -> Measure:
        """Return the precedence score, whose factors the calibration compares one by one."""
        return PrecedenceMeasure(None)

    def _validate(self) -> None:
        check_choice("aggregate", self.aggregate, ("max", "median"))
        check_choice("zeros", self.zeros, ("exact", "product"))
        check_choice("search", self.search, ("sorted", "plain"))
        check_number("train_share", self.train_share, 0, 1, "between 0 and 1")


@dataclass(eq=False, repr=False)
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
    >>> films = sr.datasets.synthetic(n_users=200, n_items=60, n_rows=4000, random_state=1)
    >>> len(sr.PrecedenceMining(top=1).fit(films).recommend(user=7, k=10))
    10
    """

    top: int | None = None
    _: KW_ONLY
    verbose: int = 0

    def _item_level(self) -> Uncalibrated:
        return Uncalibrated()

    def default_name(self) -> str:
        """Return the paper's name."""
        return "precedence-mining" if self.top is None else f"precedence-mining-top{self.top}"

    def recipe(self) -> Measure:
        """Return what makes the scorer."""
        return PrecedenceMeasure(self.top)

    def _validate(self) -> None:
        if self.top is not None:
            check_whole("top", self.top)
