"""A calibration whose thresholds adapt online (adaptive conformal inference)."""

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

_NEAREST: Final = 1e-12  # smallest distance of an adapted level from 0 and 1
_LONG_RUN: Final = "the long run"
_AS_FITTED: Final = (
    "features", "reasons", "segmentation", "probabilities", "period", "valid_until", "min_history",
    "about", "headline", "has_user", "list_hits", "about_hits",
)  # fmt: skip


def adapted_level(adaptive: AdaptiveLevel, significance: float) -> float:
    """Return the adapted level for a nominal ε; ε itself if no live guarantee is stated for it.

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
    """An assessment whose sets and confidences use the adapted thresholds.

    Attributes
    ----------
    adaptive : AdaptiveLevel
        The adapted levels at the time of the request.
    """

    adaptive: AdaptiveLevel

    @property
    def lasts(self) -> bool:
        """Return False: results must be computed before the next event is ingested."""
        return False

    @property
    def entry_confidences(self) -> NDArray[np.float64]:
        """Nominal confidence above which each candidate is in the set."""
        return np.asarray(1 - self.adaptive.nominal(1 - super().entry_confidences))

    @property
    def highest_confidence(self) -> float:
        """Highest nominal confidence at which an item can be left out."""
        return float(1 - self.adaptive.nominal([1 - super().highest_confidence])[0])

    def everything_qualifies(self, significance: float | None) -> bool:
        """Return whether the adapted level is too small to leave any item out."""
        if significance is None:
            return False
        return adapted_level(self.adaptive, significance) + TOLERANCE < self.lowest_level

    def covers(self, significance: float | None) -> bool:
        """Return whether ε has a live guarantee that covers this user."""
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
        A user-level calibration.
    adaptive : AdaptiveLevel
        Adapted levels and observed coverage.
    calibrated : str
        Time of the calibration, as ISO text.
    learned : str
        Description of other parts of that time; see :attr:`surerec.measures.Measure.stays`.
    """

    def __init__(
        self, fitted: Calibration, adaptive: AdaptiveLevel, calibrated: str, learned: str = ""
    ) -> None:
        self._fitted = fitted
        self._adaptive = adaptive
        and_learned = f" and {learned} are" if learned else " is"
        self._ages = (
            f"Counts are current; the fitted threshold curve{and_learned} from {calibrated[:10]}."
        )
        self.unadapted = f"Calibrated on {calibrated[:10]}, not adapted to events since then."
        for name in _AS_FITTED:
            setattr(self, name, getattr(fitted, name))

    @property
    def fitted(self) -> Calibration:
        """The fitted calibration, without adaptation."""
        return self._fitted

    def assess(self, *args: Any, **kwargs: Any) -> AdaptedAssessment:
        """Return the candidates with the nominal confidence above which each is in the set."""
        found = self._fitted.assess(*args, **kwargs)
        return AdaptedAssessment(**vars(found), adaptive=self._adaptive)

    def best_of_many(
        self, scorer: Any, statistics: Any, queries: Any, significance: float, *more: Any
    ) -> BestOfMany | None:
        """Return the sets or the k best items of many users; None where this is not faster."""
        level = adapted_level(self._adaptive, significance)
        found = self._fitted.best_of_many(scorer, statistics, queries, level, *more)
        if found is None:
            return None
        return found._replace(
            entry_confidences=1 - self._adaptive.nominal(1 - found.entry_confidences),
            covered=found.covered & (self._adaptive.place_of(significance) is not None),
        )

    def guarantee(self, significance: float, assessment: Any = None) -> Guarantee:  # noqa: ARG002
        """Return the live guarantee at a nominal level, with the observed coverage."""
        adaptive, place = self._adaptive, self._adaptive.place_of(significance)
        if place is None:
            stated = ", ".join(f"{1 - each:.4g}" for each in adaptive.epsilons[::-1])
            found = Guarantee(kind="live", level=level_of(significance), horizon=_LONG_RUN)
            return found.broken(f"live guarantees are given only at the confidence levels {stated}")
        percent = f"{100 * adaptive.epsilons[place]:.4g}%"
        so_far = "no event has been evaluated yet"
        if adaptive.n:
            bound = 100 * adaptive.bound(place)
            points = f"{bound:.0f}" if bound >= 10 else f"{bound:.2g}"  # noqa: PLR2004
            so_far = (
                f"observed {adaptive.observed_by_user_day()[place]:.2%} over "
                f"{counted(adaptive.user_days, 'user days')}, at most {points} points from "
                f"{percent} ({adaptive.observed()[place]:.2%} of "
                f"{counted(adaptive.n, 'evaluated events')})"
            )
        return Guarantee(
            kind="live",
            level=level_of(adaptive.epsilons[place]),
            claim=(
                f"In the long run, at most {percent} of evaluated events lie outside their sets, "
                f"with each user and day counted once: {so_far}"
            ),
            horizon=_LONG_RUN,
            covers="users whose events are evaluated",
        ).assuming(
            "Assumes nothing about the stream. Evaluated are items new to the user that the model "
            "knows.",
            self._ages,
        )

    def beyond(self, significance: float, assessment: Assessment) -> str:  # noqa: ARG002
        """Return "": the long-run guarantee also holds where every item is in the set."""
        return ""
