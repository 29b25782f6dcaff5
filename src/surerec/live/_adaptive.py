"""An adaptive calibration: thresholds of a fitted one, moved by the errors of judged events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from surerec._words import counted
from surerec.calibration import Calibration, Guarantee, UserAssessment, level_of
from surerec.conformal import TOLERANCE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.calibration import Assessment, BestOfMany
    from surerec.conformal import AdaptiveLevel

_NEAREST: Final = 1e-12  # that a threshold comes to 0 and 1
_LONG_RUN: Final = "the long run"
_AS_FITTED: Final = (
    "features", "reasons", "segmentation", "probabilities", "period", "valid_until", "min_history",
    "about", "headline", "has_user", "list_hits", "about_hits",
)  # fmt: skip


def adapted_level(adaptive: AdaptiveLevel, significance: float) -> float:
    """Return the ε that the fitted calibration is asked for; the nominal one if it is not stated.

    Examples
    --------
    >>> from surerec.conformal import AdaptiveLevel
    >>> adapted_level(AdaptiveLevel((0.1,), (0.05,), (0,)), 0.1)
    0.05
    """
    place = adaptive.place_of(significance)
    if place is None:
        return significance
    return min(max(adaptive.nested_thresholds[place], _NEAREST), 1 - _NEAREST)


@dataclass(frozen=True, kw_only=True)
class AdaptedAssessment(UserAssessment):
    """Candidates by the fitted calibration; sets and confidences are those of adapted thresholds.

    Attributes
    ----------
    steering : Steering
        The thresholds at the moment of the request.
    """

    adaptive: AdaptiveLevel

    @property
    def lasts(self) -> bool:
        """Return False: results are computed while no event comes in."""
        return False

    @property
    def entry_confidences(self) -> NDArray[np.float64]:
        """The nominal confidence above which each candidate is in the set."""
        return np.asarray(1 - self.adaptive.nominal(1 - super().entry_confidences))

    @property
    def highest_confidence(self) -> float:
        """The highest nominal confidence at which anything can be left out."""
        return float(1 - self.adaptive.nominal([1 - super().highest_confidence])[0])

    def everything_qualifies(self, significance: float | None) -> bool:
        """Return whether the adapted threshold is so small that nothing can be left out."""
        if significance is None:
            return False
        return adapted_level(self.adaptive, significance) + TOLERANCE < self.lowest_level

    def covers(self, significance: float | None) -> bool:
        """Return whether ε is stated and its guarantee covers this user."""
        is_stated = significance is not None and self.adaptive.place_of(significance) is not None
        return is_stated and super().covers(significance)

    def included(self, significance: float) -> NDArray[np.bool_]:
        """Return which candidates are in the set."""
        return super().included(adapted_level(self.adaptive, significance))


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
        self, fitted: Calibration, adaptive: AdaptiveLevel, calibrated: str, learned: str = ""
    ) -> None:
        self._fitted = fitted
        self._adaptive = adaptive
        and_learned = f" and {learned} are" if learned else " is"
        self._ages = (
            f"Statistics are current; the threshold that is adapted{and_learned} from "
            f"{calibrated[:10]}."
        )
        self.unadapted = (
            f"Its thresholds are as calibrated on {calibrated[:10]}, not adapted to events."
        )
        for name in _AS_FITTED:
            setattr(self, name, getattr(fitted, name))

    @property
    def fitted(self) -> Calibration:
        """The calibration with its thresholds as fitted."""
        return self._fitted

    def assess(self, *asked: Any, **more: Any) -> AdaptedAssessment:
        """Return the nominal confidence at which each candidate enters the set."""
        found = self._fitted.assess(*asked, **more)
        return AdaptedAssessment(**vars(found), adaptive=self._adaptive)

    def best_of_many(
        self, scorer: Any, statistics: Any, queries: Any, significance: float, *more: Any
    ) -> BestOfMany | None:
        """Return the sets of many users, or the k best of each; None where that is no faster."""
        level = adapted_level(self._adaptive, significance)
        found = self._fitted.best_of_many(scorer, statistics, queries, level, *more)
        if found is None:
            return None
        return found._replace(
            entry_confidences=1 - self._adaptive.nominal(1 - found.entry_confidences),
            covered=found.covered & (self._adaptive.place_of(significance) is not None),
        )

    def guarantee(self, significance: float, assessment: Any = None) -> Guarantee:  # noqa: ARG002
        """Return what is guaranteed and was observed at a stated confidence."""
        adaptive, place = self._adaptive, self._adaptive.place_of(significance)
        if place is None:
            stated = ", ".join(f"{1 - each:.4g}" for each in adaptive.epsilons[::-1])
            found = Guarantee(kind="live", level=level_of(significance), horizon=_LONG_RUN)
            return found.broken(f"a guarantee is kept live at the confidences {stated} only")
        percent = f"{100 * adaptive.epsilons[place]:.4g}%"
        so_far = "no event has been judged yet"
        if adaptive.n:
            bound = 100 * adaptive.bound(place)
            points = f"{bound:.0f}" if bound >= 10 else f"{bound:.2g}"  # noqa: PLR2004
            so_far = (
                f"observed {adaptive.observed_by_user_day()[place]:.2%} over "
                f"{counted(adaptive.user_days, 'user days')}, at most {points} points from "
                f"{percent} ({adaptive.observed()[place]:.2%} of "
                f"{counted(adaptive.n, 'judged events')})"
            )
        return Guarantee(
            kind="live",
            level=level_of(adaptive.epsilons[place]),
            claim=(
                f"In the long run, at most {percent} of judged events lie outside their sets, with "
                f"each user and day counted once: {so_far}"
            ),
            horizon=_LONG_RUN,
            covers="users whose events are judged",
        ).assuming(
            "Assumes nothing about the stream; judged are items new to the user that the model "
            "knows.",
            self._ages,
        )

    def beyond(self, significance: float, assessment: Assessment) -> str:  # noqa: ARG002
        """Return "": the guarantee is about the long run, and holds where every item qualifies."""
        return ""
