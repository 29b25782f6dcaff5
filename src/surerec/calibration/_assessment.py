"""What a calibration makes of the candidates of one query."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import floor
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from surerec._ordering import best_first
from surerec.calibration.kernels import border
from surerec.conformal import (
    TOLERANCE,
    entry_confidence,
    highest_confidence,
    in_set,
)
from surerec.conformal.kernels import counts_among

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from surerec.calibration._ranking import Ranking
    from surerec.calibration.kernels import RoughScores
    from surerec.conformal import CalibratedProbability


@dataclass(frozen=True, kw_only=True)
class Assessment:
    """Every candidate's score; with a calibration, the confidence at which it enters the set.

    This one has no calibration: candidates are ranked, and there are no sets.
    """

    candidates: NDArray[np.int64]
    """Item codes."""
    score: NDArray[np.float64]
    """How well each candidate conforms."""
    shown: Callable[[NDArray[np.intp]], NDArray[np.float64]]
    """Returns it for some places in a unit for people, higher for what conforms more."""
    popularity: NDArray[np.int64]
    """The place of every item in the order of popularity, which orders equal scores."""
    n_calibration: int = 0
    """How many calibration items, or calibration users, there are."""
    gap: str = ""
    """Why the promise does not cover this person; empty if it does."""
    chances: Callable[[NDArray[np.intp]], CalibratedProbability] | None = None
    """Returns how likely some places are consumed; None where no probabilities are calibrated."""
    about_chances: str = ""
    """What these mean, or why they are missing, in words."""
    ranking: Ranking | None = None
    """All candidates of the calibration in order, where lists of the best are calibrated."""

    @property
    def lasts(self) -> bool:
        """Whether it stays as it is whatever becomes of the data: it may be looked at later."""
        return False

    @property
    def key(self) -> NDArray[np.float64]:
        """What ranks the candidates, where equal is a tie."""
        return self.score

    @property
    def p_values(self) -> NDArray[np.float64] | None:
        """The p-value of each candidate; None where there are none."""
        return None

    @property
    def counted(self) -> tuple[NDArray[np.int64], int] | None:
        """The p-values as counts, and of how many levels; None where they are no such fractions."""
        return None

    @property
    def entry_confidences(self) -> NDArray[np.float64]:
        """The confidence above which each candidate is in the set; NaN where there are no sets."""
        return np.full(len(self.candidates), np.nan)

    @property
    def highest_confidence(self) -> float:
        """The highest confidence at which anything can be left out."""
        return 0.0

    def everything_qualifies(self, significance: float | None) -> bool:
        """Return whether ε is so small that nothing can be left out."""
        if significance is None:
            return False
        return significance + TOLERANCE < 1 - self.highest_confidence

    def covers(self, significance: float | None) -> bool:
        """Return whether the guarantee at ε covers this user."""
        if significance is None or self.gap:
            return False
        return not self.everything_qualifies(significance)

    def included(self, significance: float) -> NDArray[np.bool_]:
        """Return which candidates are in the set."""
        raise NotImplementedError  # asked only of calibrated recommenders

    def size(self, significance: float) -> int:
        """Return how many candidates are in the set."""
        return int(np.count_nonzero(self.included(significance)))

    def ordered(self, significance: float | None) -> NDArray[np.intp]:
        """Return the places of the candidates in the set (or of all), best first.

        By conformity, then popularity.
        """
        order = best_first(self.score, self.popularity[self.candidates])
        return order if significance is None else order[self.included(significance)[order]]

    def ranked(self) -> NDArray[np.intp]:
        """Return the places of all candidates that are ranked, best first, whatever their level."""
        if self.ranking is None:
            return self.ordered(None)
        places = np.full(len(self.popularity), -1)
        places[self.candidates] = np.arange(len(self.candidates))
        order = places[self.ranking.items]
        return order[order >= 0]


@dataclass(frozen=True, kw_only=True)
class ItemAssessment(Assessment):
    """p-values by the person's own calibration items."""

    counts: NDArray[np.int64]
    """p-values as counts of `levels`."""
    levels: int
    smoothed: NDArray[np.float64] | None = None
    """p-values with ties broken at random, where that is asked for."""
    rises_with_score: bool = True
    """Whether no p-value falls as the score rises."""

    @property
    def key(self) -> NDArray[np.float64]:
        """What ranks the candidates: the p-value."""
        return self.counts.astype(np.float64) if self.smoothed is None else self.smoothed

    @property
    def p_values(self) -> NDArray[np.float64]:
        """The p-value of each candidate."""
        return self.counts / self.levels if self.smoothed is None else self.smoothed

    @property
    def counted(self) -> tuple[NDArray[np.int64], int] | None:
        """The p-values as counts, and of how many levels; None where ties are broken at random."""
        return (self.counts, self.levels) if self.smoothed is None else None

    @property
    def entry_confidences(self) -> NDArray[np.float64]:
        """The confidence above which each candidate is in the set."""
        if self.smoothed is not None:
            return 1 - self.smoothed
        return entry_confidence(self.counts, self.levels)

    @property
    def highest_confidence(self) -> float:
        """The highest confidence at which anything can be left out; smoothed p-values know none."""
        return 1.0 if self.smoothed is not None else highest_confidence(self.n_calibration)

    def included(self, significance: float) -> NDArray[np.bool_]:
        """Return which candidates are in the set."""
        if self.smoothed is not None:
            return self.smoothed > significance + TOLERANCE
        return in_set(self.counts, self.levels, significance)

    def ordered(self, significance: float | None) -> NDArray[np.intp]:
        """Return the places of the candidates in the set (or of all), best first.

        By p-value, then conformity, then popularity.
        """
        inside = np.arange(len(self.candidates))
        if significance is not None:
            inside = np.flatnonzero(self.included(significance))
        popularity = self.popularity[self.candidates[inside]]
        if self.smoothed is None and self.rises_with_score:
            return inside[best_first(self.score[inside], popularity)]
        keys = (popularity, -self.score[inside], -self.key[inside])
        return inside[np.lexsort(keys)]


class LaterAssessment(ItemAssessment):
    """The same from counts that stay as they are: what nobody looks at is not computed.

    Which items are in a set is found by one comparison each, without p-values; a set's order, its
    p-values and, where rough scores decide, even its scores wait until they are looked at.

    Parameters
    ----------
    exactly : callable
        Returns the candidates' scores, and the calibration scores in ascending order.
    rough : RoughScores or None
        Decides most p-values without them.
    value : callable
        Returns scores in a unit for people.
    **fields
        As of :class:`ItemAssessment`.
    """

    lasts = True
    _exactly: Callable[[], tuple[NDArray[np.float64], NDArray[np.float64]]]
    _rough: RoughScores | None
    _value: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    _inside: dict[float, NDArray[np.bool_]]

    def __init__(
        self,
        exactly: Callable[[], tuple[NDArray[np.float64], NDArray[np.float64]]],
        rough: RoughScores | None,
        value: Callable[[NDArray[np.float64]], NDArray[np.float64]],
        **fields: Any,
    ) -> None:
        self.__dict__.update(  # frozen, and one by one would take a tenth of a short answer
            _exactly=exactly,
            _rough=rough,
            _value=value,
            levels=fields["n_calibration"] + 1,
            _inside={},
            **fields,
        )
        if rough is None:
            self.__dict__["_exact"] = exactly()

    # A method: a function of its own would hold it in a circle, and its arrays for a while longer.
    def shown(self, order: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the scores of some places in a unit for people, higher for what conforms more."""
        return self._value(self.score[order])

    @cached_property
    def _exact(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return self._exactly()

    @property
    def score(self) -> NDArray[np.float64]:
        """How well each candidate conforms."""
        return self._exact[0]

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """p-values as counts of `levels`."""
        found = None if self._rough is None else self._rough.counts()
        if found is None:
            score, ordered = self._exact
            found = counts_among(ordered, score)
        return found

    def included(self, significance: float) -> NDArray[np.bool_]:
        """Return which candidates are in the set: those whose count is above the cut.

        Of the l calibration scores so many are not above a score as it reaches in order, and the
        count is one more: so it is above the cut if the score reaches the cut-th.
        """
        if significance not in self._inside:
            cut = floor(significance * self.levels + TOLERANCE)
            found = None if self._rough is None else self._rough.inside(cut)
            if found is None:
                score, ordered = self._exact
                found = score >= border(ordered, cut)
            self._inside[significance] = found
        return self._inside[significance]


@dataclass(frozen=True, kw_only=True)
class UserAssessment(Assessment):
    """The ε below which each candidate is in the set, by calibration users."""

    levels_below: NDArray[np.float64]
    lowest_level: float
    """The smallest ε that so many calibration users support."""
    group: str = ""
    """Which people the promise is about, in words; empty for all."""
    at: NDArray[np.int64] | None = None
    """Where in the ranking each candidate is; −1 for what is not ranked."""

    @property
    def lasts(self) -> bool:
        """Whether the ranking orders all candidates: popularity changes with a live model."""
        return self.at is not None and self.ranking is not None and self.at.min(initial=0) >= 0

    @property
    def entry_confidences(self) -> NDArray[np.float64]:
        """The confidence above which each candidate is in the set."""
        return 1 - self.levels_below

    @property
    def highest_confidence(self) -> float:
        """The highest confidence that so many calibration users support."""
        return 1 - self.lowest_level

    def included(self, significance: float) -> NDArray[np.bool_]:
        """Return which candidates are in the set."""
        return self.levels_below > significance + TOLERANCE

    def ordered(self, significance: float | None) -> NDArray[np.intp]:
        """Return the places of the candidates in the set (or of all), best first.

        The ranking that calibrated them has found their order.
        """
        if self.at is None or self.ranking is None or self.at.min(initial=0) < 0:
            return super().ordered(significance)
        places = np.full(len(self.ranking.items), -1)
        places[self.at] = np.arange(len(self.at))
        order = places[places >= 0]
        if len(order) < len(self.at):  # some were given twice
            return super().ordered(significance)
        return order if significance is None else order[self.included(significance)[order]]


class BestOfMany(NamedTuple):
    """The best items of many users, in rows."""

    owners: NDArray[np.intp]
    """Which of the users each row is about."""
    items: NDArray[np.int64]
    ranks: NDArray[np.int64]
    scores: NDArray[np.float64]
    """In the unit for people."""
    p_values: NDArray[np.float64] | None
    """None where there are none."""
    entry_confidences: NDArray[np.float64]
    covered: NDArray[np.bool_]
    """Whether the guarantee covers each of the users; one value a user, not a row."""
    chances: CalibratedProbability | None = None
    """How likely each item is taken; None where no probabilities are calibrated."""
