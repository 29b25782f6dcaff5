"""Backtests on a temporal split: models of several ages in each window."""

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
    losses_at,
    refittable,
    risk_curve,
    sets_at_thresholds,
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
    "recalibrated and refitted",
    "recalibrated only",
    "one window old",
    "two windows old",
)
"""The compared models, from the newest to the oldest."""

_SHORTEST: Final = 1e-6
_MOST_DAYS: Final = 1_000_000


@dataclass(frozen=True)
class TemporalSplit:
    """Settings of a temporal split into windows.

    Attributes
    ----------
    days : float
        Length of a window.
    horizon : float or int
        Number of held-out items in a window; any share holds out all of the window.
    min_history : int
        Users with fewer known items at the start of a window are left out.
    n_users : int
        Largest number of calibration users, and of test users, in each window.
    min_users : int
        Models with fewer calibration or test users are left out of a window.
    random_state : int
        Seed of the random choice of users.
    ties : {"order", "strict"}
        Whether items with equal times precede each other; see :func:`surerec.count_precedence`.
    """

    days: float
    horizon: Horizon = 0.4
    min_history: int = 5
    n_users: int = 2000
    min_users: int = 20
    random_state: int = 0
    ties: Ties = "order"

    def __post_init__(self) -> None:
        must = f"a number of days above 0 and at most {_MOST_DAYS:,}"
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
        """Return the cases of the window that starts at `begin`; none if no user has any."""
        end = begin + self.length
        try:
            found = window_cases(
                interactions, begin, end, self.horizon, min_history=self.min_history
            )
        except InputError:
            none = np.empty(0, dtype=np.int64)
            return Cases(interactions, none, none, none, begin)
        return found.sample(self.n_users, self.random_state)


def temporal_windows(interactions: Interactions, split: TemporalSplit) -> list[int]:
    """Return the start times of the test windows, the latest last.

    A test window lies within the data and has three whole windows before it, on which the oldest
    model is fitted and calibrated.
    """
    check_kind("interactions", interactions, Interactions, "Interactions")
    check_kind("split", split, TemporalSplit, "TemporalSplit(…)")
    if not interactions.n_rows:
        raise InputError("The data have no interactions. Pass data with at least four windows.")
    first, last = int(interactions.times.min()), int(interactions.times.max()) + 1
    n_windows = (last - first) // split.length
    begins = [last - back * split.length for back in range(1, n_windows - 2)]
    if not begins:
        raise InputError(
            f"{interactions.name or 'The data'}: {(last - first) / DAY:,.0f} days from "
            f"{day_of(first)} to {day_of(last)} are less than four windows of {split.days:g} "
            "days. Pass shorter windows."
        )
    return begins[::-1]


def backtest(
    interactions: Interactions,
    measure: MeasureLike,
    split: TemporalSplit,
    *,
    threshold: ThresholdUnit = "rank",
    guarantee: str | GuaranteeKind = "recall",
    epsilons: Sequence[float] = CHECKED_EPSILONS,
    n_windows: int | None = None,
) -> pl.DataFrame:
    """Test models of several ages in successive windows.

    The test window [D, D + w) is served by models that differ in their fit and calibration (see
    :data:`AGES`):

    - *same window, other users*: fitted up to D, calibrated on half of the window's users;
    - *recalibrated and refitted*: calibrated on [D − w, D) with a fit up to D − w, then refitted up
      to D, as ``PopulationConformal.recalibrate`` does;
    - *recalibrated only*: fitted up to D − 2w, calibrated on [D − w, D);
    - *one window old*: fitted up to D − w and calibrated on [D − w, D), without a refit;
    - *two windows old*: the same, one window earlier.

    Histories always end at D. The scorer is fitted at each date, so that it never uses later data.

    Parameters
    ----------
    interactions : Interactions
        Histories of users.
    measure : str, Measure or callable
        A measure, as :func:`surerec.measures.as_measure` accepts it. A fitted scorer raises an
        error, as it may have seen the test data.
    split : TemporalSplit
        The windows.
    threshold : {"rank", "score"}, default="rank"
        Unit of the thresholds.
    guarantee : {"recall", "hit"}, default="recall"
        The guarantee to test.
    epsilons : sequence of float, optional
        Significance levels.
    n_windows : int, optional
        Number of latest windows; by default all.

    Returns
    -------
    polars.DataFrame
        ``window`` (its first day), ``model``, ``epsilon``, ``loss``, ``loss_se`` (standard error of
        the test users' mean loss), ``calibration_se`` (that of the calibration users), ``size``
        (null below the floor), ``floor`` (the smallest ε that the calibration users support),
        ``n_calibration``, ``n_test``, ``unknown`` (mean share, over test users, of items unknown to
        the model).

    Raises
    ------
    InputError
        If the data are too short for the windows, no window has enough users, or the scorer cannot
        be refitted.
    """
    check_choice("threshold", threshold, get_args(ThresholdUnit))
    find_guarantee(guarantee)
    levels = check_numbers("epsilons", epsilons).tolist()
    if n_windows is not None:
        check_whole("n_windows", n_windows)
    fresh = refittable(measure)
    begins = temporal_windows(interactions, split)[-n_windows if n_windows else 0 :]
    # The caches hold fits and outcomes that the next two windows need again.
    cases = lru_cache(maxsize=4)(partial(split.cases, interactions))

    @lru_cache(maxsize=4)
    def fitted(date: int) -> tuple[PrecedenceStatistics, Scorer]:
        statistics = fresh.count(interactions.until(date), split.ties)
        return statistics, fresh.fit(statistics)

    @lru_cache(maxsize=9)
    def observed(date: int, window: int) -> Outcomes:
        """Return the outcomes in a window of a model fitted up to a date."""
        statistics, scorer = fitted(date)
        doing = f"Scoring users from {day_of(window)}"
        keep = threshold == "score"
        return observe(scorer, statistics, cases(window), keep_candidates=keep, doing=doing)

    rows = []
    for begin in begins:
        one, two = begin - split.length, begin - 2 * split.length
        # End of the fit for calibration, window of calibration, and end of the fit for the test.
        dates = (begin, begin, begin), (one, one, begin), (two, one, two), (one,) * 3, (two,) * 3
        for model, (calibrated, window, tested) in zip(AGES, dates, strict=True):
            if min(len(cases(window)), len(cases(begin))) < split.min_users:
                continue
            try:
                found = observed(calibrated, window), observed(tested, begin)
            except TooFewUsersError:
                continue  # too few users to fit a learned measure
            if min(map(len, found)) >= split.min_users:
                about = {"window": day_of(begin), "model": model}
                compared = _compare(*found, threshold, guarantee, levels, split.random_state)
                rows += [about | row for row in compared]
    if not rows:
        raise InputError(
            f"{interactions.name or 'The data'}: no window of {split.days:g} days has "
            f"{split.min_users} users with {split.min_history} known items. Pass longer "
            "windows."
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
    """Yield a row per ε: the loss of the tested users at the thresholds of the others."""
    curves = [risk_curve(found, threshold, guarantee) for found in (calibration, tested)]
    users = np.arange(len(tested))
    if calibration is tested:
        half = np.random.default_rng(random_state).permutation(len(tested)) % 2 == 0
        curves = [curves[0].of_owners(half), curves[1].of_owners(~half)]
        users = np.flatnonzero(~half)
    found = sets_at_thresholds(curves[0], curves[1], tested, users, threshold, epsilons)
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
