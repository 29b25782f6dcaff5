"""The paper's recommenders: ICRS, the transductive CRS, and precedence mining."""

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

    The history is split in time order into proper training items T and calibration items C. A
    measure scores how well each calibration item and each candidate conforms to T. The p-value of
    a candidate is the share of calibration items, including itself, that conform no better. The
    set at confidence 1 − ε contains the candidates with p > ε.

    Parameters
    ----------
    measure : str or object, default="CM12"
        One of the 17 measures, such as "CM3", "ICRS3" or "median-count"; ``surerec measures`` lists
        them. "learned" trains gradient-boosted trees in `fit` and requires ``surerec[learn]``.
        "als" is matrix factorisation and requires ``surerec[als]``. Or a custom scorer, or a
        function that builds one from statistics; see :func:`surerec.measures.as_measure`.
    top : int, default=1
        For CM1: the number of largest factors to multiply.
    literal : bool, default=False
        For CM6–9: use the paper's formula instead of its text.
    train_share : float, default=0.5
        The share of the history that is training; the rest is calibration.
    smoothed : bool, default=False
        Break ties in p-values at random. Sets become smaller, and p-values of exchangeable items
        are exactly uniform.
    random_state : int, default=0
        Seed of smoothing, which is deterministic for each user and item, and of training.
    verbose : int, default=0
        1 prints the stages of `fit` with their times on stderr, 2 also progress bars.

    Attributes
    ----------
    model_ : FittedModel
        The fitted model; ``model_.scorer.learned`` has the trees of a learned measure.

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

    def _default_name(self) -> str:
        return f"icrs{self._measure().short_name}".lower()

    def _measure(self) -> Measure:
        return as_measure(
            self.measure, top=self.top, literal=self.literal, random_state=self.random_state
        )

    def _validate(self) -> None:
        check_whole("top", self.top)
        check_flag("literal", self.literal)
        check_flag("smoothed", self.smoothed)
        check_random_state(self.random_state)
        check_number("train_share", self.train_share, 0, 1, "between 0 and 1")
        self._measure()


@dataclass(eq=False, repr=False)
class TransductiveConformal(Recommender):
    """Recommendation sets by the conformal recommender system (paper, section 4).

    For each calibration item c of the history, ``p(o, c)`` is the share of the training items and
    candidate o whose precedence probability ``PC(·, c) / Sup(c)`` is at most that of o (paper.md
    9). The p-value of o is the maximum or the median over the calibration items.

    Parameters
    ----------
    aggregate : {"max", "median"}, default="max"
        CRS-max or CRS-med.
    zeros : {"exact", "product"}, default="exact"
        "product" uses the paper's product literally: a training item that never precedes c makes
        every product 0 and every ``p(o, c)`` 1.
    train_share : float, default=0.5
        The share of the history that is training.
    search : {"sorted", "plain"}, default="sorted"
        "sorted" counts by binary search. "plain" compares all pairs, as the paper's O(n_c · l · m)
        algorithm does; it returns the same numbers, more slowly.
    verbose : int, default=0
        1 prints the stages of `fit` with their times on stderr, 2 also progress bars.

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

    def _default_name(self) -> str:
        return "crs-max" if self.aggregate == "max" else "crs-med"

    def _measure(self) -> Measure:
        return PrecedenceMeasure(None)

    def _validate(self) -> None:
        check_choice("aggregate", self.aggregate, ("max", "median"))
        check_choice("zeros", self.zeros, ("exact", "product"))
        check_choice("search", self.search, ("sorted", "plain"))
        check_number("train_share", self.train_share, 0, 1, "between 0 and 1")


@dataclass(eq=False, repr=False)
class PrecedenceMining(Recommender):
    """Ranking by precedence mining (paper, Eq. 2), without a confidence.

    The score is ``Sup(h) / n_u · Π PC(i, h) / Sup(h)`` over the whole history, in log space.

    Parameters
    ----------
    top : int or None, default=None
        The number of largest factors to multiply; None multiplies all, including zeros.
    verbose : int, default=0
        1 prints the stages of `fit` with their times on stderr, 2 also progress bars.

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

    def _default_name(self) -> str:
        return "precedence-mining" if self.top is None else f"precedence-mining-top{self.top}"

    def _measure(self) -> Measure:
        return PrecedenceMeasure(self.top)

    def _validate(self) -> None:
        if self.top is not None:
            check_whole("top", self.top)
