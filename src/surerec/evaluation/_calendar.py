"""Does a promise hold as the calendar moves on? Models of several ages, window after window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, get_args

import numpy as np
import polars as pl

from surerec._arguments import (
    check_choice,
    check_kind,
    check_number,
    check_numbers,
    check_seed,
)
from surerec._calendar import DAY, day_of
from surerec._checks import check_whole
from surerec.calibration import Cut, check_horizon, find_promise, observe, window_cases
from surerec.errors import InputError, TooFewUsers
from surerec.evaluation._coverage import CHECKED_EPSILONS, coverage, losses_at, risk_curve
from surerec.evaluation._metrics import mean_and_error
from surerec.interactions import Interactions
from surerec.measures import as_recipe
from surerec.precedence import Ties

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from surerec.calibration import Cases, Horizon, Outcomes, Promise
    from surerec.measures import Recipe, RecipeLike, Scorer
    from surerec.precedence import PrecedenceStatistics


AGES: Final = (
    "same window, other users",
    "recalibrated and recounted",
    "threshold renewed only",
    "one window old",
    "two windows old",
)
"""The models that are compared, from the freshest to the oldest."""

_SHORTEST: Final = 1e-6
_MOST_DAYS: Final = 1_000_000


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
    min_users : int
        A model that would be calibrated or tested on fewer users is left out of a window.
    seed : int
        Of the choice of users.
    ties : {"order", "strict"}
        Whether items of one instant precede each other; see
        :func:`surerec.count_precedence`.
    """

    days: float
    horizon: Horizon = 0.4
    min_known: int = 5
    n_users: int = 2000
    min_users: int = 20
    seed: int = 0
    ties: Ties = "order"

    def __post_init__(self) -> None:
        must = f"a number of days above 0, and {_MOST_DAYS:,} at the most"
        check_number("days", self.days, _SHORTEST, _MOST_DAYS, must, ends=(True, True))
        check_horizon(self.horizon)
        for name in ("min_known", "n_users", "min_users"):
            check_whole(name, getattr(self, name))
        check_seed(self.seed)
        check_choice("ties", self.ties, get_args(Ties))

    @property
    def length(self) -> int:
        """Length of a window in microseconds."""
        return int(self.days * DAY)

    def cases(self, interactions: Interactions, begin: int) -> Cases | None:
        """Give pasts and futures at the window that begins then; None if nobody took anything."""
        end = begin + self.length
        try:
            found = window_cases(interactions, begin, end, self.horizon, min_known=self.min_known)
        except InputError:
            return None
        return found.sample(self.n_users, self.seed)


def calendar_windows(interactions: Interactions, calendar: Calendar) -> list[int]:
    """Give the beginnings of the windows that can be tested, the latest last.

    A test window has three whole windows before it, for the oldest model to learn from and to be
    calibrated on, and lies within the data.
    """
    check_kind("interactions", interactions, Interactions, "Interactions")
    check_kind("calendar", calendar, Calendar, "a Calendar of windows")
    if not interactions.n_rows:
        raise InputError("The data hold no interactions: there is no calendar to look at.")
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
    recipe: RecipeLike,
    calendar: Calendar,
    *,
    cut: Cut = "rank",
    promise: str | Promise = "miss-rate",
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

    What is known of a user is always up to D, and a scorer is fitted anew on the counts of each
    date, so that nothing learned from later data has a part in it.

    Parameters
    ----------
    interactions : Interactions
        The profiles.
    recipe : str, Recipe or callable
        What makes a scorer from statistics, as :func:`surerec.measures.as_recipe` takes it. What
        comes fitted is refused: it may have seen what it is tested on.
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
        ``window`` (its first day), ``model``, ``epsilon``, ``loss``, ``loss_se`` (of the test
        users' mean loss), ``calibration_se`` (the same of the calibration users, at their cut),
        ``size`` (null below the floor), ``floor`` (the smallest ε that the calibration users
        support), ``n_calibration``, ``n_test``, ``unknown`` (mean over test users of the share of
        their items that the model did not know).

    Raises
    ------
    InputError
        If the data are too short for the windows, no window has enough people, or the scorer cannot
        be fitted on the past.
    """
    check_choice("cut", cut, get_args(Cut))
    find_promise(promise)
    levels = check_numbers("epsilons", epsilons).tolist()
    if n_windows is not None:
        check_whole("n_windows", n_windows)
    made = as_recipe(recipe)
    if not made.refits:
        raise InputError(
            f"The scorer {made.name} comes fitted and cannot be fitted on the past of a window: "
            "give a function that makes it from statistics."
        )
    begins = calendar_windows(interactions, calendar)[-n_windows if n_windows else 0 :]
    observer = _Observer(interactions, made, calendar, keep_candidates=cut == "score")
    rows = []
    for begin in begins:
        for model, calibration, tested in observer.models(begin):
            if min(len(calibration), len(tested)) >= calendar.min_users:
                about = {"window": day_of(begin), "model": model}
                compared = _compare(calibration, tested, cut, promise, levels, calendar.seed)
                rows += [about | row for row in compared]
        observer.forget_before(begin - 2 * calendar.length)
    if not rows:
        raise InputError(
            f"{interactions.name or 'The data'}: in no window of {calendar.days:g} days did "
            f"{calendar.min_users} people of whom {calendar.min_known} items were known take "
            "anything; set longer windows."
        )
    return pl.DataFrame(rows, schema_overrides={"size": pl.Float64})


def _compare(
    calibration: Outcomes,
    tested: Outcomes,
    cut: Cut,
    promise: str | Promise,
    epsilons: Sequence[float],
    seed: int,
) -> Iterator[dict[str, Any]]:
    """Give how the tested users did with the cut of the others, a row for each ε."""
    curves = [risk_curve(found, cut, promise) for found in (calibration, tested)]
    unknown = risk_curve(tested, cut).unknown_loss
    users = np.arange(len(tested))
    if calibration is tested:
        half = np.random.default_rng(seed).permutation(len(tested)) % 2 == 0
        curves = [curves[0].of_owners(half), curves[1].of_owners(~half)]
        users = np.flatnonzero(~half)
    for epsilon in epsilons:
        found = coverage(curves[0], curves[1], tested, users, cut, epsilon)
        yield {
            "epsilon": epsilon,
            "loss": float(found.losses.mean()),
            "loss_se": mean_and_error(found.losses).standard_error,
            "calibration_se": mean_and_error(losses_at(curves[0], found.cut)).standard_error,
            "size": None if np.isnan(found.sizes).any() else float(found.sizes.mean()),
            "floor": found.floor,
            "n_calibration": curves[0].n_users,
            "n_test": len(users),
            "unknown": unknown,
        }


class _Observer:
    """Counts and outcomes by date, each made once."""

    def __init__(
        self,
        interactions: Interactions,
        recipe: Recipe,
        calendar: Calendar,
        *,
        keep_candidates: bool,
    ) -> None:
        self._interactions = interactions
        self._keep_candidates = keep_candidates
        self._recipe = recipe
        self._calendar = calendar
        self._scorers: dict[int, tuple[PrecedenceStatistics, Scorer]] = {}
        self._outcomes: dict[tuple[int, int], Outcomes] = {}
        self._cases: dict[int, Cases | None] = {}

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
            if not (self._has_people(window) and self._has_people(begin)):
                continue
            try:
                found = self._observed(counted, window), self._observed(counted_then, begin)
            except TooFewUsers:
                continue  # there was nothing to learn from yet
            yield model, *found

    def forget_before(self, date: int) -> None:
        """Let go of counts that no later window needs."""
        self._scorers = {at: made for at, made in self._scorers.items() if at >= date}
        self._outcomes = {at: found for at, found in self._outcomes.items() if at[0] >= date}

    def _has_people(self, window: int) -> bool:
        if window not in self._cases:
            self._cases[window] = self._calendar.cases(self._interactions, window)
        found = self._cases[window]
        return found is not None and len(found) >= self._calendar.min_users

    def _observed(self, counted: int, window: int) -> Outcomes:
        key = counted, window
        if key not in self._outcomes:
            if counted not in self._scorers:
                past = self._interactions.until(counted)
                statistics = self._recipe.count(past, self._calendar.ties)
                self._scorers[counted] = statistics, self._recipe.fit(statistics)
            statistics, scorer = self._scorers[counted]
            cases = self._cases[window]
            assert cases is not None  # noqa: S101  # only windows with people are looked at
            self._outcomes[key] = observe(
                scorer,
                statistics,
                cases,
                keep_candidates=self._keep_candidates,
                doing=f"Futures from {day_of(window)}",
            )
        return self._outcomes[key]
