"""Tests over the calendar: models of several ages in each window."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final, get_args

import numpy as np
import polars as pl

from surerec._arguments import (
    check_choice,
    check_kind,
    check_number,
    check_numbers,
    check_random_state,
    check_whole,
)
from surerec._words import DAY, day_of
from surerec.calibration import (
    Cases,
    Outcomes,
    ThresholdUnit,
    check_horizon,
    find_guarantee,
    observe,
    window_cases,
)
from surerec.errors import InputError, TooFewUsersError
from surerec.evaluation._metrics import mean_and_error
from surerec.evaluation._sets import (
    CHECKED_EPSILONS,
    cut_sets,
    losses_at,
    refittable,
    risk_curve,
)
from surerec.interactions import Interactions
from surerec.precedence import Ties

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from surerec.calibration import GuaranteeKind, Horizon
    from surerec.measures import MeasureLike, Scorer
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
class TemporalSplit:
    """How held-out interactions are cut out of the calendar.

    Attributes
    ----------
    days : float
        Length of a window.
    horizon : float or int
        A number of next items in the window; a share takes all of the window.
    min_history : int
        Users of whom less was known at a window's beginning are left out.
    n_users : int
        How many users calibrate, and are tested, at most, in each window.
    min_users : int
        A model that would be calibrated or tested on fewer users is left out of a window.
    random_state : int
        Of the choice of users.
    ties : {"order", "strict"}
        Whether items of one instant precede each other; see
        :func:`surerec.count_precedence`.
    """

    days: float
    horizon: Horizon = 0.4
    min_history: int = 5
    n_users: int = 2000
    min_users: int = 20
    random_state: int = 0
    ties: Ties = "order"

    def __post_init__(self) -> None:
        must = f"a number of days above 0, and {_MOST_DAYS:,} at the most"
        check_number("days", self.days, _SHORTEST, _MOST_DAYS, must, ends=(True, True))
        check_horizon(self.horizon)
        for name in ("min_history", "n_users", "min_users"):
            check_whole(name, getattr(self, name))
        check_random_state(self.random_state)
        check_choice("ties", self.ties, get_args(Ties))

    @property
    def length(self) -> int:
        """Length of a window in microseconds."""
        return int(self.days * DAY)

    def cases(self, interactions: Interactions, begin: int) -> Cases:
        """Return the cases of the window that begins then; none if nobody consumed anything."""
        end = begin + self.length
        try:
            found = window_cases(
                interactions, begin, end, self.horizon, min_history=self.min_history
            )
        except InputError:
            nobody = np.empty(0, dtype=np.int64)
            return Cases(interactions, nobody, nobody, nobody, begin)
        return found.sample(self.n_users, self.random_state)


def temporal_windows(interactions: Interactions, calendar: TemporalSplit) -> list[int]:
    """Return the beginnings of the windows that can be tested, the latest last.

    A test window has three whole windows before it, for the oldest model to learn from and to be
    calibrated on, and lies within the data.
    """
    check_kind("interactions", interactions, Interactions, "Interactions")
    check_kind("calendar", calendar, TemporalSplit, "a Calendar of windows")
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
    recipe: MeasureLike,
    calendar: TemporalSplit,
    *,
    threshold: ThresholdUnit = "rank",
    guarantee: str | GuaranteeKind = "recall",
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
        What makes a scorer from statistics, as :func:`surerec.measures.as_measure` takes it. What
        comes fitted is refused: it may have seen what it is tested on.
    calendar : Calendar
        The windows.
    threshold : {"rank", "score"}, default="rank"
        Of the sets.
    guarantee : {"recall", "hit"}, default="recall"
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
    check_choice("threshold", threshold, get_args(ThresholdUnit))
    find_guarantee(guarantee)
    levels = check_numbers("epsilons", epsilons).tolist()
    if n_windows is not None:
        check_whole("n_windows", n_windows)
    made = refittable(recipe)
    begins = temporal_windows(interactions, calendar)[-n_windows if n_windows else 0 :]
    # Windows share fits and outcomes: what is kept is needed again for the next two windows.
    cases = lru_cache(maxsize=4)(partial(calendar.cases, interactions))

    @lru_cache(maxsize=4)
    def fitted(date: int) -> tuple[PrecedenceStatistics, Scorer]:
        statistics = made.count(interactions.until(date), calendar.ties)
        return statistics, made.fit(statistics)

    @lru_cache(maxsize=9)
    def observed(date: int, window: int) -> Outcomes:
        """Return how a model that was counted up to a date does in a window."""
        statistics, scorer = fitted(date)
        doing = f"Futures from {day_of(window)}"
        keep = threshold == "score"
        return observe(scorer, statistics, cases(window), keep_candidates=keep, doing=doing)

    rows = []
    for begin in begins:
        one, two = begin - calendar.length, begin - 2 * calendar.length
        # When each was counted to be calibrated, the window of that, and when to be tested.
        dates = (begin, begin, begin), (one, one, begin), (two, one, two), (one,) * 3, (two,) * 3
        for model, (counted, window, counted_then) in zip(AGES, dates, strict=True):
            if min(len(cases(window)), len(cases(begin))) < calendar.min_users:
                continue
            try:
                found = observed(counted, window), observed(counted_then, begin)
            except TooFewUsersError:
                continue  # there was nothing to learn from yet
            if min(map(len, found)) >= calendar.min_users:
                about = {"window": day_of(begin), "model": model}
                compared = _compare(*found, threshold, guarantee, levels, calendar.random_state)
                rows += [about | row for row in compared]
    if not rows:
        raise InputError(
            f"{interactions.name or 'The data'}: in no window of {calendar.days:g} days did "
            f"{calendar.min_users} users of whom {calendar.min_history} items were known consume "
            "anything; set longer windows."
        )
    return pl.DataFrame(rows, schema_overrides={"size": pl.Float64})


def _compare(
    calibration: Outcomes,
    tested: Outcomes,
    threshold: ThresholdUnit,
    guarantee: str | GuaranteeKind,
    epsilons: Sequence[float],
    random_state: int,
) -> Iterator[dict[str, Any]]:
    """Yield how the tested users did with the thresholds of the others, a row for each ε."""
    curves = [risk_curve(found, threshold, guarantee) for found in (calibration, tested)]
    users = np.arange(len(tested))
    if calibration is tested:
        half = np.random.default_rng(random_state).permutation(len(tested)) % 2 == 0
        curves = [curves[0].of_owners(half), curves[1].of_owners(~half)]
        users = np.flatnonzero(~half)
    found = cut_sets(curves[0], curves[1], tested, users, threshold, epsilons)
    for epsilon, at, losses, sizes in zip(epsilons, *found, strict=True):
        yield {
            "epsilon": epsilon,
            "loss": float(losses.mean()),
            "loss_se": mean_and_error(losses).standard_error,
            "calibration_se": mean_and_error(losses_at(curves[0], at)).standard_error,
            "size": None if np.isnan(sizes).any() else float(sizes.mean()),
            "floor": curves[0].lowest_level(),
            "n_calibration": curves[0].n_users,
            "n_test": len(users),
            "unknown": risk_curve(tested, threshold).unknown_loss,
        }
