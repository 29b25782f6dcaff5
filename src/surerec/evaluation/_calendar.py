"""Does a promise hold as the calendar moves on? Models of several ages, window after window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from surerec.errors import InputError
from surerec.evaluation._coverage import CHECKED_EPSILONS, coverage, risk_curve
from surerec.futures import day_of, observe, window_cases
from surerec.precedence import count_precedence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TypeAlias

    from surerec.futures import Cases, Horizon, Outcomes
    from surerec.interactions import Interactions
    from surerec.measures import Scorer
    from surerec.precedence import PrecedenceStatistics
    from surerec.recommenders import Cut, Promise

    MakeScorer: TypeAlias = Callable[[PrecedenceStatistics], Scorer]

__all__ = ["AGES", "Calendar", "backtest", "calendar_windows"]

DAY: Final = 86_400_000_000  # microseconds

AGES: Final = (
    "same window, other users",
    "recalibrated and recounted",
    "threshold renewed only",
    "one window old",
    "two windows old",
)
"""The models that are compared, from the freshest to the oldest."""


@dataclass(frozen=True)
class Calendar:
    """How futures are cut out of the calendar.

    Attributes
    ----------
    days : float
        Length of a window.
    horizon : float or int
        A number of next items in the window; a share takes all of the window.
    min_known : int
        Users of whom less was known at a window's beginning are left out.
    n_users : int
        How many users calibrate, and are tested, at most, in each window.
    seed : int
        Of their choice.
    """

    days: float
    horizon: Horizon = 0.4
    min_known: int = 5
    n_users: int = 2000
    seed: int = 0

    @property
    def length(self) -> int:
        """Length of a window in microseconds."""
        return int(self.days * DAY)

    def cases(self, interactions: Interactions, begin: int) -> Cases:
        """Give pasts and futures at the window that begins then."""
        end = begin + self.length
        found = window_cases(interactions, begin, end, self.horizon, min_known=self.min_known)
        return found.sample(self.n_users, self.seed)


def calendar_windows(interactions: Interactions, calendar: Calendar) -> list[int]:
    """Give the beginnings of the windows that can be tested, the latest last.

    A test window has three whole windows before it, for the oldest model to learn from and to be
    calibrated on, and lies within the data.
    """
    first, last = int(interactions.times.min()), int(interactions.times.max()) + 1
    n_windows = (last - first) // calendar.length
    begins = [last - back * calendar.length for back in range(1, n_windows - 2)]
    if not begins:
        raise InputError(
            f"{interactions.name or 'The data'}: {(last - first) / DAY:,.0f} days from "
            f"{day_of(first)} to {day_of(last)} are too few for windows of {calendar.days:g} days; "
            "at least four are needed."
        )
    return begins[::-1]


def backtest(
    interactions: Interactions,
    make_scorer: MakeScorer,
    calendar: Calendar,
    *,
    cut: Cut = "rank",
    promise: Promise = "miss-rate",
    epsilons: Sequence[float] = CHECKED_EPSILONS,
    n_windows: int | None = None,
) -> pl.DataFrame:
    """Test models of several ages in window after window.

    Each test window [D, D + w) is served by models that differ in what they were counted and
    calibrated on (see :data:`AGES`):

    - *same window, other users*: counted up to D, calibrated on half of the window's users;
    - *recalibrated and recounted*: calibrated on [D − w, D) with counts up to D − w, then counted
      up to D: what ``PopulationConformal.recalibrate`` does;
    - *threshold renewed only*: counts up to D − 2w stay, calibrated with them on [D − w, D);
    - *one window old*: counted up to D − w and calibrated on [D − w, D), but not counted again;
    - *two windows old*: the same, a window earlier.

    What is known of a user is always up to D.

    Parameters
    ----------
    interactions : Interactions
        The profiles.
    make_scorer : callable
        Makes a scorer from statistics.
    calendar : Calendar
        The windows.
    cut : {"rank", "score"}, default="rank"
        Of the sets.
    promise : {"miss-rate", "hit"}, default="miss-rate"
        What is checked.
    epsilons : sequence of float, optional
        The significance levels.
    n_windows : int, optional
        Only the latest so many; by default all.

    Returns
    -------
    polars.DataFrame
        ``window`` (its first day), ``model``, ``epsilon``, ``loss``, ``loss_se``, ``size``,
        ``n_calibration``, ``n_test``, ``unknown`` (share of the test items that the model did not
        know).
    """
    begins = calendar_windows(interactions, calendar)[-n_windows if n_windows else 0 :]
    observer = _Observer(interactions, make_scorer, calendar)
    rows = []
    for begin in begins:
        for model, calibration, tested in observer.models(begin):
            same = calibration is tested
            curves = [risk_curve(found, cut, promise) for found in (calibration, tested)]
            users = np.arange(len(tested))
            if same:
                half = np.random.default_rng(calendar.seed).permutation(len(tested)) % 2 == 0
                curves = [curves[0].of_owners(half), curves[1].of_owners(~half)]
                users = np.flatnonzero(~half)
            for epsilon in epsilons:
                found = coverage(curves[0], curves[1], tested, users, cut, epsilon)
                rows.append(
                    {
                        "window": day_of(begin),
                        "model": model,
                        "epsilon": epsilon,
                        "loss": float(found.losses.mean()),
                        "loss_se": float(found.losses.std() / np.sqrt(len(users))),
                        "size": float(found.sizes.mean()),
                        "n_calibration": curves[0].n_users,
                        "n_test": len(users),
                        "unknown": float(np.isinf(tested.ranks).mean()),
                    }
                )
        observer.forget_before(begin - 2 * calendar.length)
    return pl.DataFrame(rows)


class _Observer:
    """Counts and outcomes by date, each made once."""

    def __init__(
        self, interactions: Interactions, make_scorer: MakeScorer, calendar: Calendar
    ) -> None:
        self._interactions = interactions
        self._make_scorer = make_scorer
        self._calendar = calendar
        self._scorers: dict[int, tuple[PrecedenceStatistics, Scorer]] = {}
        self._outcomes: dict[tuple[int, int], Outcomes] = {}

    def models(self, begin: int) -> Iterator[tuple[str, Outcomes, Outcomes]]:
        """Give each model's name, what calibrates it and how it does in the window."""
        w = self._calendar.length
        # When it was counted to be calibrated, the window of that, and when to be tested.
        dates = (
            (begin, begin, begin),
            (begin - w, begin - w, begin),
            (begin - 2 * w, begin - w, begin - 2 * w),
            (begin - w, begin - w, begin - w),
            (begin - 2 * w, begin - 2 * w, begin - 2 * w),
        )
        for model, (counted, window, counted_then) in zip(AGES, dates, strict=True):
            yield model, self._observed(counted, window), self._observed(counted_then, begin)

    def forget_before(self, date: int) -> None:
        """Let go of counts that no later window needs."""
        self._scorers = {at: made for at, made in self._scorers.items() if at >= date}
        self._outcomes = {at: found for at, found in self._outcomes.items() if at[0] >= date}

    def _observed(self, counted: int, window: int) -> Outcomes:
        key = counted, window
        if key not in self._outcomes:
            if counted not in self._scorers:
                statistics = count_precedence(self._interactions.until(counted))
                self._scorers[counted] = statistics, self._make_scorer(statistics)
            statistics, scorer = self._scorers[counted]
            cases = self._calendar.cases(self._interactions, window)
            self._outcomes[key] = observe(
                scorer, statistics, cases, keep_candidates=True, doing="Looking at futures"
            )
        return self._outcomes[key]
