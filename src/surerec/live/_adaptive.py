"""An adaptive calibration: thresholds of a fitted one, moved by the errors of judged events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from surerec.calibration import Calibration, UserAssessment
from surerec.conformal import TOLERANCE
from surerec.live._promised import ages, live_guarantee

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from surerec.calibration import Assessment, BestOfMany, Guarantee
    from surerec.conformal import CalibratedProbability, Steering
    from surerec.measures import Queries, Query, Scorer
    from surerec.precedence import PrecedenceStatistics

_NEAREST: Final = 1e-12  # that a threshold comes to 0 and 1


def adapted_level(steering: Steering, significance: float) -> float:
    """Return the ε that the fitted calibration is asked for; the nominal one if it is not stated.

    Examples
    --------
    >>> from surerec.conformal import Steering
    >>> adapted_level(Steering((0.1,), (0.05,), (0,)), 0.1)
    0.05
    """
    place = steering.place_of(significance)
    if place is None:
        return significance
    return min(max(steering.cuts_nested[place], _NEAREST), 1 - _NEAREST)


def nominal(steering: Steering, confidences: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the nominal confidences of those that the fitted calibration has."""
    return np.asarray(1 - steering.nominal(1 - confidences))


@dataclass(frozen=True, kw_only=True)
class AdaptedAssessment(UserAssessment):
    """Candidates by the fitted calibration; sets and confidences are those of adapted thresholds.

    Attributes
    ----------
    steering : Steering
        The thresholds at the moment of the request.
    """

    steering: Steering

    @property
    def lasts(self) -> bool:
        """Return False: results are computed while no event comes in."""
        return False

    @property
    def entry_confidences(self) -> NDArray[np.float64]:
        """The nominal confidence above which each candidate is in the set."""
        return nominal(self.steering, super().entry_confidences)

    @property
    def highest_confidence(self) -> float:
        """The highest nominal confidence at which anything can be left out."""
        return float(nominal(self.steering, np.array([super().highest_confidence]))[0])

    def everything_qualifies(self, significance: float | None) -> bool:
        """Return whether the adapted threshold is so small that nothing can be left out."""
        if significance is None:
            return False
        return adapted_level(self.steering, significance) + TOLERANCE < self.lowest_level

    def covers(self, significance: float | None) -> bool:
        """Return whether ε is stated and its guarantee covers this user."""
        is_stated = significance is not None and self.steering.place_of(significance) is not None
        return is_stated and super().covers(significance)

    def included(self, significance: float) -> NDArray[np.bool_]:
        """Return which candidates are in the set."""
        return super().included(adapted_level(self.steering, significance))


class AdaptiveCalibration(Calibration):
    """A fitted calibration whose thresholds are adapted at the stated confidences.

    Parameters
    ----------
    fitted : Calibration
        With levels of items, as a user-level calibration has them.
    steering : Steering
        The adapted thresholds, and what was observed.
    calibrated : str
        When it was calibrated, as ISO text.
    learned : str
        What else is of that time, in words; see :attr:`surerec.measures.Recipe.stays`.
    """

    def __init__(
        self, fitted: Calibration, steering: Steering, calibrated: str, learned: str = ""
    ) -> None:
        self._fitted = fitted
        self._steering = steering
        self._ages = ages(learned, calibrated)
        self.features, self.reasons = fitted.features, fitted.reasons
        self.people, self.chances = fitted.people, fitted.chances
        self.period, self.valid_until = fitted.period, fitted.valid_until
        self.min_known, self.about = fitted.min_known, fitted.about
        self.unadapted = f"This is as calibrated on {calibrated[:10]}, not steered by events."

    @property
    def fitted(self) -> Calibration:
        """The calibration with its thresholds as fitted."""
        return self._fitted

    def headline(self, confidence: float) -> str:
        """Return what is guaranteed in a few words."""
        return self._fitted.headline(confidence)

    def has_user(self, user: int) -> bool:
        """Return whether a user, by code, calibrates."""
        return self._fitted.has_user(user)

    def assess(
        self,
        scorer: Scorer,
        statistics: PrecedenceStatistics,
        query: Query,
        candidates: NDArray[np.int64],
    ) -> AdaptedAssessment:
        """Return the nominal confidence at which each candidate enters the set."""
        found = self._fitted.assess(scorer, statistics, query, candidates)
        return AdaptedAssessment(**vars(found), steering=self._steering)

    def best_of_many(
        self,
        scorer: Scorer,
        statistics: PrecedenceStatistics,
        queries: Queries,
        significance: float,
        k: int | None,
        in_set: bool = True,  # noqa: FBT001, FBT002
    ) -> BestOfMany | None:
        """Return the sets of many users, or the k best of each; None where that is no faster."""
        level = adapted_level(self._steering, significance)
        found = self._fitted.best_of_many(scorer, statistics, queries, level, k, in_set)
        if found is None:
            return None
        is_stated = self._steering.place_of(significance) is not None
        return found._replace(
            entry_confidences=nominal(self._steering, found.entry_confidences),
            covered=found.covered & is_stated,
        )

    def list_hits(
        self,
        queries: Sequence[Query],
        assessments: Sequence[Assessment],
        lengths: Sequence[int],
    ) -> CalibratedProbability:
        """Return the probabilities of at least one, two, three hits in lists, 3 × users."""
        return self._fitted.list_hits(queries, assessments, lengths)

    def about_hits(self, query: Query, n_items: int) -> str:
        """Return what the probability of at least one hit means, in words."""
        return self._fitted.about_hits(query, n_items)

    def guarantee(self, significance: float, assessment: Any = None) -> Guarantee:  # noqa: ARG002
        """Return what is guaranteed and was observed at a stated confidence."""
        return live_guarantee(self._steering, significance, self._ages)

    def beyond(self, significance: float, assessment: Assessment) -> str:  # noqa: ARG002
        """Return "": the guarantee is about the long run, and holds where every item qualifies."""
        return ""
