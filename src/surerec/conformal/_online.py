"""Online control: thresholds adapted to their errors, and drift alerts for frequent errors."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import numpy as np

from surerec._arguments import check_number
from surerec._words import shown
from surerec.conformal._p_values import TOLERANCE
from surerec.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

DEFAULT_STEP: Final = 0.01
"""Step size γ, by which one error moves a threshold."""


class UserDay(NamedTuple):
    """The evaluated events of one user on one day.

    Examples
    --------
    >>> UserDay().after([True, False]).after([False, False])
    UserDay(n=2, errors=(1, 0))
    """

    n: int = 0
    errors: tuple[int, ...] = ()
    """Number of events outside the sets, for each ε."""

    def after(self, missed: Sequence[bool]) -> UserDay:
        """Return the counts after one more event; `missed` says whether each ε's set missed it."""
        before = self.errors or (0,) * len(missed)
        return UserDay(self.n + 1, tuple(a + bool(b) for a, b in zip(before, missed, strict=True)))

    def shares(self) -> tuple[float, ...]:
        """Return the share of misses for each ε; there must be an event."""
        return tuple(errors / self.n for errors in self.errors)


_NO_EVENT: Final = UserDay()


@dataclass(frozen=True)
class AdaptiveLevel:
    """Thresholds that adapt after each event, so that the share of misses converges to each ε.

    An item of level ℓ (the ε below which calibration includes it) is in the set of threshold α if
    ℓ > α. At α ≤ 0 every item is in the set, at α ≥ 1 none. Each user and day counts once: with the
    share of misses s among the user's events of the day, ``α = ε + γ Σ (ε − s)`` over user days.
    This is adaptive conformal inference (Gibbs and Candès, 2021) on the levels of a risk curve. If
    every user has one event a day, it is ``α ← α + γ (ε − error)``.

    Attributes
    ----------
    epsilons : tuple of float
        Nominal shares of misses, ascending.
    thresholds : tuple of float
        The α of each.
    errors : tuple of int
        Number of events outside the sets of each.
    n : int
        Number of events.
    step : float
        Step size γ.
    user_days : int
        Number of user days with at least one event.

    Notes
    -----
    For any stream, the mean share of misses over D user days is within ``bound`` of ε, at most
    ``(1 + K γ) / (γ D)`` for K levels. All events of a user on one day together move a threshold by
    at most γ. A further event of a user's day replaces their share of misses. So at α ≤ 0 no event
    lowers α, and at α ≥ 1 none raises it: α stays within γ of [0, 1].

    Sets are nested: a threshold never exceeds that of a larger ε (``nested_thresholds``). While a
    threshold is held down in this way, it errs as the larger ε does. A first event moves it below
    that one by γ (ε' − ε), and further events never above it. It therefore exceeds the next one by
    at most γ, which the bound includes.

    Examples
    --------
    >>> adaptive = AdaptiveLevel.start([0.1, 0.2])
    >>> adaptive.nested_thresholds, adaptive.holds(0.15)
    ((0.1, 0.2), (True, False))
    >>> after = adaptive.after(0.15)
    >>> [round(alpha, 4) for alpha in after.thresholds], after.errors, after.n
    ([0.101, 0.192], (0, 1), 1)

    After another event of the same user and day in both sets, the share of misses at 0.2 is 1/2.

    >>> again = after.after(0.9, UserDay(1, (0, 1)))
    >>> [round(alpha, 4) for alpha in again.thresholds], again.n, again.user_days
    ([0.101, 0.197], 2, 1)
    """

    epsilons: tuple[float, ...]
    thresholds: tuple[float, ...]
    errors: tuple[int, ...]
    n: int = 0
    step: float = DEFAULT_STEP
    user_days: int = 0

    @classmethod
    def start(cls, epsilons: Sequence[float], *, step: float = DEFAULT_STEP) -> Self:
        """Return thresholds that start at their ε."""
        levels = sorted(
            check_number("significance", each, 0, 1, "between 0 and 1") for each in epsilons
        )
        if not levels or len(set(levels)) < len(levels):
            raise InputError(
                f"Pass at least one confidence, without duplicates: ε is {shown(list(epsilons))}."
            )
        check_number("step", step, 0, 1, "above 0 and at most 1", ends=(False, True))
        return cls(tuple(levels), tuple(levels), (0,) * len(levels), 0, float(step))

    @property
    def nested_thresholds(self) -> tuple[float, ...]:
        """The thresholds of the sets: none above that of a larger ε, so that sets are nested."""
        found = list(self.thresholds)
        for place in range(len(found) - 2, -1, -1):
            found[place] = min(found[place], found[place + 1])
        return tuple(found)

    def holds(self, level: float) -> tuple[bool, ...]:
        """Return, for each ε, whether an item of a level is in the set."""
        return tuple(is_inside(level, threshold) for threshold in self.nested_thresholds)

    def nominal(self, levels: ArrayLike) -> NDArray[np.float64]:
        """Return nominal levels: an item is in the set at ε if its nominal level exceeds ε.

        Levels between thresholds are interpolated, so that one result serves every confidence.

        Examples
        --------
        >>> AdaptiveLevel((0.1, 0.2), (0.05, 0.3), (0, 0)).nominal([0.05, 0.1, 0.3, 1.0]).round(6)
        array([0.1 , 0.12, 0.2 , 1.  ])
        """
        alphas = np.array(self.nested_thresholds)
        # Equal thresholds are separated by less than any difference of levels.
        alphas = alphas + TOLERANCE * np.arange(1, len(alphas) + 1)
        ends = min(0.0, alphas[0] - self.step), max(1.0, alphas[-1] + self.step)
        adapted, nominal = [ends[0], *alphas, ends[1]], [0.0, *self.epsilons, 1.0]
        given = np.asarray(levels, dtype=np.float64)
        return np.asarray(np.interp(given, adapted, nominal), dtype=np.float64)

    def missed(self, level: float) -> tuple[bool, ...]:
        """Return, for each ε, whether an item of a level is outside the set."""
        return tuple(not held for held in self.holds(level))

    def after(self, level: float, so_far: UserDay = _NO_EVENT) -> Self:
        """Return the thresholds after an event.

        Parameters
        ----------
        level : float
            Level of the event's item.
        so_far : UserDay, optional
            Earlier evaluated events of the same user and day; by default none.
        """
        missed = self.missed(level)
        shares = so_far.after(missed).shares()
        before = so_far.shares() if so_far.n else self.epsilons
        alphas = tuple(
            threshold + self.step * (old - new)
            for threshold, old, new in zip(self.thresholds, before, shares, strict=True)
        )
        errors = tuple(n + each for n, each in zip(self.errors, missed, strict=True))
        n, user_days = self.n + 1, self.user_days + (not so_far.n)
        return replace(self, thresholds=alphas, errors=errors, n=n, user_days=user_days)

    def observed(self) -> tuple[float, ...]:
        """Return the share of misses among all events, for each ε; NaN before the first."""
        return tuple(n / self.n if self.n else float("nan") for n in self.errors)

    def observed_by_user_day(self) -> tuple[float, ...]:
        """Return the mean share of misses over user days, for each ε; NaN before the first.

        ``bound`` limits this share. It follows from the thresholds, as nothing else moves them.

        Examples
        --------
        >>> adaptive, day = AdaptiveLevel.start([0.1]), UserDay()
        >>> for level in (0.0, 0.9, 0.9, 0.9):  # one miss in four events of one user
        ...     adaptive, day = adaptive.after(level, day), day.after(adaptive.missed(level))
        >>> [round(share, 6) for share in adaptive.after(0.9).observed_by_user_day()]
        [0.125]
        """
        if not self.user_days:
            return (float("nan"),) * len(self.epsilons)
        return tuple(
            min(1.0, max(0.0, epsilon + (epsilon - threshold) / (self.step * self.user_days)))
            for epsilon, threshold in zip(self.epsilons, self.thresholds, strict=True)
        )

    def bound(self, place: int) -> float:
        """Return the largest distance of the mean share of misses over user days from an ε."""
        if not self.user_days:
            return 1.0
        epsilon, held_down = self.epsilons[place], len(self.epsilons) - 1 - place
        furthest = max(epsilon + self.step, 1 - epsilon + (1 + held_down) * self.step)
        return min(1.0, furthest / (self.step * self.user_days))

    def place_of(self, significance: float) -> int | None:
        """Return the place of an ε; None if it is absent."""
        for place, epsilon in enumerate(self.epsilons):
            if abs(epsilon - significance) <= TOLERANCE:
                return place
        return None

    def to_state(self) -> dict[str, Any]:
        """Return its state as JSON-compatible values."""
        return dict(vars(self))

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Load it; raise KeyError, TypeError or ValueError if the state is invalid."""
        lists = {name: tuple(state[name]) for name in ("epsilons", "thresholds", "errors")}
        if len({len(each) for each in lists.values()}) != 1:
            raise ValueError("its thresholds and confidences differ in number")
        n, user_days = int(state["n"]), int(state["user_days"])
        return cls(**lists, n=n, step=float(state["step"]), user_days=user_days)


def is_inside(level: float, threshold: float) -> bool:
    """Return whether an item of a level is in the set of a threshold.

    Examples
    --------
    >>> is_inside(0.0, -0.001), is_inside(0.2, 0.2), is_inside(1.0, 1.0)
    (True, False, False)
    """
    return threshold <= 0 or level > threshold + TOLERANCE


DEFAULT_FALSE_ALARMS: Final = 1e-5
"""Rate of false alarms per event."""

DEFAULT_TOLERANCE: Final = 0.01
"""Tolerated excess of the error rate over the nominal rate."""

_ODDS: Final = (1.25, 1.5, 2.0, 3.0)
"""Factors on the odds of an error, each with an equal bet."""


_SURE: Final = 2.326  # standard deviations: 99%, one-sided


def highest_rate(errors: int, n: int) -> float:
    """Return the one-sided 99% upper confidence limit of the error rate (Wilson).

    Examples
    --------
    >>> round(highest_rate(200, 2000), 3), highest_rate(0, 0)
    (0.117, 1.0)
    """
    if not n:
        return 1.0
    square = _SURE**2
    spread = _SURE * math.sqrt(errors * (n - errors) / n**3 + square / (4 * n**2))
    return min(1.0, (errors / n + square / (2 * n) + spread) / (1 + square / n))


class DriftAlert(NamedTuple):
    """An alert that errors are too frequent."""

    since: int
    """Time of the first event since the change."""
    n: int
    """Number of events since then."""
    errors: int
    """Number of errors among them."""


class Bet(NamedTuple):
    """A bet that the odds of an error have grown by some factor."""

    capital: float = 0.0
    """Its capital, with 1 added before each event (Shiryaev and Roberts)."""
    total: float = 0.0
    """Log capital, kept above 0 (Page's CUSUM), which dates the change."""
    since: int = 0
    n: int = 0
    errors: int = 0
    """Time at which the total was last 0, and the events and errors since."""

    def after(self, odds: float, rate: float, *, error: bool, time: int) -> Bet:
        """Return the bet after one more event."""
        other = odds * rate / (1 + (odds - 1) * rate)
        factor = other / rate if error else (1 - other) / (1 - rate)
        last = self._replace(since=time, n=0, errors=0) if self.total <= 0 else self
        return Bet(
            (1 + self.capital) * factor,
            max(0.0, self.total + math.log(factor)),
            last.since,
            last.n + 1,
            last.errors + error,
        )


_NO_BETS: Final = (Bet(),) * len(_ODDS)


@dataclass(frozen=True)
class Watch:
    """Bets that errors are more frequent than allowed, and alerts when the capital is large.

    Attributes
    ----------
    rate : float
        Allowed error rate: the nominal rate plus a tolerance, or the 99% upper limit of the usual
        rate of such events, if larger.
    expected : float
        Expected error rate.
    false_alarms : float
        Rate of false alarms per event.
    bets : tuple of Bet
        One bet for each factor on the odds of an error.

    Notes
    -----
    If every event is an error with probability at most `rate`, whatever happened before it, then
    the capital minus the number of events is a supermartingale. The expected number of events until
    a false alarm is therefore at least ``1 / false_alarms``.

    Examples
    --------
    >>> watch = Watch.start(0.1)
    >>> for time in range(60):
    ...     watch, alert = watch.after(error=True, time=time)
    ...     if alert:
    ...         break
    >>> alert
    DriftAlert(since=0, n=14, errors=14)
    """

    rate: float
    expected: float
    false_alarms: float
    bets: tuple[Bet, ...]

    @classmethod
    def start(
        cls,
        significance: float,
        *,
        tolerance: float = DEFAULT_TOLERANCE,
        false_alarms: float = DEFAULT_FALSE_ALARMS,
        usual: tuple[int, int] | None = None,
    ) -> Self:
        """Return a watch of errors with probability ε and a tolerance.

        Parameters
        ----------
        significance : float
            Nominal error rate ε over all events.
        tolerance : float
            Tolerated excess of the error rate.
        false_alarms : float
            Rate of false alarms per event.
        usual : tuple of int, optional
            Number of errors and of events of this kind before any change. If such events are harder
            than others, only errors beyond the 99% upper limit of that rate cause an alert.
        """
        epsilon = check_number("significance", significance, 0, 1, "between 0 and 1")
        check_number("tolerance", tolerance, 0, 1, "at least 0 and below 1", ends=(True, False))
        check_number("false_alarms", false_alarms, 0, 1, "between 0 and 1")
        rate, expected = epsilon + tolerance, epsilon
        if usual is not None and usual[1]:
            rate = max(rate, highest_rate(*usual))
            expected = max(expected, usual[0] / usual[1])
        rate = min(rate, (1 + expected) / 2)
        return cls(rate, expected, float(false_alarms), _NO_BETS)

    def after(self, *, error: bool, time: int) -> tuple[Self, DriftAlert | None]:
        """Return the watch after one more event, and the alert if there is one.

        Parameters
        ----------
        error : bool
            Whether the event was outside its set.
        time : int
            Time of the event, which dates an alert.
        """
        bets = tuple(
            bet.after(odds, self.rate, error=error, time=time)
            for bet, odds in zip(self.bets, _ODDS, strict=True)
        )
        if sum(bet.capital for bet in bets) / len(bets) >= 1 / self.false_alarms:
            best = max(bets, key=lambda bet: bet.capital)
            return replace(self, bets=_NO_BETS), DriftAlert(best.since, best.n, best.errors)
        return replace(self, bets=bets), None

    def to_state(self) -> dict[str, Any]:
        """Return its state as JSON-compatible values."""
        return {**vars(self), "bets": [list(bet) for bet in self.bets]}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Load it; raise KeyError, TypeError or ValueError if the state is invalid."""
        bets = tuple(Bet(*bet) for bet in state["bets"])
        if len(bets) != len(_ODDS):
            raise ValueError(f"it has {len(bets)} bets, not {len(_ODDS)}")
        rate, expected = float(state["rate"]), float(state["expected"])
        return cls(rate, expected, float(state["false_alarms"]), bets)
