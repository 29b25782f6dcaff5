"""What is audited: a way to score, with the settings of what is promised on it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from surerec.evaluation import Shares
from surerec.measures import MeasureScorer, find_measure
from surerec.recommenders import (
    InductiveConformal,
    PopulationConformal,
    Recommender,
)
from surerec.recommenders._query import Query

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from numpy.typing import NDArray

    from surerec.futures import Horizon
    from surerec.measures import Scorer
    from surerec.precedence import PrecedenceStatistics

    MakeScorer: TypeAlias = Callable[[PrecedenceStatistics], Scorer]

__all__ = ["Subject", "of_measure", "of_recommender"]

_KNOWN = 0.6
"""The share of a profile that is known under the paper's protocol."""


@dataclass(frozen=True)
class Subject:
    """What is audited.

    Attributes
    ----------
    name : str
        What the report calls it.
    make_scorer : callable
        Makes a scorer from statistics; over the calendar it is asked again for each date.
    item_level : bool
        Whether p-values of items are part of it.
    judge : Recommender or None
        A recommender whose own p-values are audited, where they are not those of the scorer.
    train_share : float
        The share of the known profile that is training, for p-values of items.
    smoothed : bool
        Whether ties in those are broken at random.
    comparable : bool
        Whether scores mean the same for everyone, so that a cut by score makes sense.
    horizon, hit_horizon : float or int
        What the future is, of a miss rate and of a hit.
    window : float or None
        Length of the calendar's windows, in days.
    groups : int
        How many groups by profile length.
    min_known : int
        People of whom less is known are promised nothing.
    """

    name: str
    make_scorer: MakeScorer
    item_level: bool = True
    judge: Recommender | None = None
    train_share: float = 0.5
    smoothed: bool = False
    comparable: bool = True
    horizon: Horizon = 0.4
    hit_horizon: Horizon = 5
    window: float | None = None
    groups: int = 3
    min_known: int = 5

    @property
    def shares(self) -> Shares:
        """The shares of a profile that train and calibrate, where the rest is tested."""
        return Shares(_KNOWN * self.train_share, _KNOWN * (1 - self.train_share))

    @property
    def min_length(self) -> int:
        """The shortest profile with an item to train and one to calibrate, at least 10."""
        smallest = min(self.shares.training, self.shares.calibration)
        return max(10, math.ceil(0.5 / smallest))


def of_measure(measure: str) -> Subject:
    """Audit one of the paper's measures.

    Examples
    --------
    >>> of_measure("icrs3").name
    'CM3'
    """
    found = find_measure(measure)
    return Subject(found.name, lambda statistics: MeasureScorer(statistics, found))


def of_recommender(name: str, model: Recommender) -> Subject:
    """Audit a recommender with its own settings.

    Examples
    --------
    >>> import surerec as sr
    >>> of_recommender("mine", sr.InductiveConformal("CM3", train_share=0.25)).shares.sizes(100)
    (15, 45)
    """
    if isinstance(model, InductiveConformal):
        return Subject(
            name,
            lambda counts: MeasureScorer(
                counts, model.measure, top=model.top, literal=model.literal
            ),
            train_share=model.train_share,
            smoothed=model.smoothed,
        )
    if isinstance(model, PopulationConformal):
        hit = model.promise == "hit"
        return Subject(
            name,
            model._scorer_on,  # noqa: SLF001  # the seam between it and its measure
            horizon=Subject.horizon if hit else model.horizon,
            hit_horizon=model.horizon if hit else Subject.hit_horizon,
            window=model.window,
            groups=max(model.groups, Subject.groups),
            min_known=model.min_known,
        )
    return Subject(
        name,
        lambda statistics: _RanksOf(model, statistics),
        item_level=model.gives_confidence,
        judge=model if model.gives_confidence else None,
        train_share=getattr(model, "train_share", Subject.train_share),
        comparable=False,
    )


class _RanksOf:
    """A recommender's ranking as a scorer: its scores may be infinite, their order is not."""

    def __init__(self, model: Recommender, statistics: PrecedenceStatistics) -> None:
        self._statistics = statistics
        self._model = type(model)(**model.get_params()).fit(statistics)

    def score(
        self, history: NDArray[np.integer], *, without_user: int | None = None
    ) -> NDArray[np.float64]:
        """Give the place of each item from the end of the ranking; equal for a tie."""
        known = np.asarray(history, dtype=np.int64)
        candidates = self._statistics.items_outside(known)
        assessed = self._model._assess(Query(known, without_user), candidates)  # noqa: SLF001
        scores = np.zeros(self._statistics.n_items)
        scores[candidates] = np.unique(assessed.score, return_inverse=True)[1]
        return scores
