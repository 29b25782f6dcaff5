"""Online control: thresholds adapted by their own errors, and an alarm when errors are frequent."""

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
"""How far one error moves a cut, γ."""


class UserDay(NamedTuple):
    """The judged events of one user on one day.

    Examples
    --------
    >>> UserDay().after([True, False]).after([False, False])
    UserDay(n=2, errors=(1, 0))
    """

    n: int = 0
    errors: tuple[int, ...] = ()
    """For each ε, how many of them were outside the sets."""

    def after(self, missed: Sequence[bool]) -> UserDay:
        """Return the counts after one more event, with whether each ε's set missed it."""
        before = self.errors or (0,) * len(missed)
        return UserDay(self.n + 1, tuple(a + bool(b) for a, b in zip(before, missed, strict=True)))

    def shares(self) -> tuple[float, ...]:
        """Return the share of misses for each ε; there must be an event."""
        return tuple(errors / self.n for errors in self.errors)


_NO_EVENT: Final = UserDay()


@dataclass(frozen=True)
class AdaptiveLevel:
    """Cuts of sets, each moved after every event so that the share of misses goes to its ε.

    An item of level ℓ (the ε below which calibration lets it in) is in a set cut at α if ℓ > α. At
    α ≤ 0 everything is in it, at α ≥ 1 nothing. Each user and day counts once: with the share of
    misses s of the user's events of the day, ``α = ε + γ Σ (ε − s)`` over users' days. This is
    adaptive conformal inference (Gibbs and Candès, 2021), on the levels of a risk curve. If every
    user has one event a day, it is ``α ← α + γ (ε − error)``.

    Attributes
    ----------
    epsilons : tuple of float
        The shares of misses that are promised, ascending.
    cuts : tuple of float
        The α of each.
    errors : tuple of int
        How many events were outside the sets of each.
    n : int
        How many events there were.
    step : float
        γ.
    user_days : int
        How many days of users there were, each with one event or more.

    Notes
    -----
    Whatever happens, the mean share of misses over D users' days is within ``bound`` of ε, at most
    ``(1 + K γ) / (γ D)`` for K of them. However many events a user sends on a day, they move a cut
    by γ at the most. A further event of a user's day replaces their share of misses, so that at
    α ≤ 0 no event lowers α, and at α ≥ 1 none raises it: α stays within γ of [0, 1].

    Sets are nested: one cut is never above that of a larger ε (``cuts_nested``). While a cut is
    held down so, it errs as the larger ε does. A first event brings it behind that by γ (ε' − ε),
    and a further one never ahead: it is above the next by γ at the most, which the bound has in it.

    Examples
    --------
    >>> steering = Steering.start([0.1, 0.2])
    >>> steering.cuts_nested, steering.holds(0.15)
    ((0.1, 0.2), (True, False))
    >>> after = steering.after(0.15)
    >>> [round(cut, 4) for cut in after.cuts], after.errors, after.n
    ([0.101, 0.192], (0, 1), 1)

    One more event of the same user and day, in both sets: their share of misses at 0.2 is a half.

    >>> again = after.after(0.9, UserDay(1, (0, 1)))
    >>> [round(cut, 4) for cut in again.cuts], again.n, again.user_days
    ([0.101, 0.197], 2, 1)
    """

    epsilons: tuple[float, ...]
    cuts: tuple[float, ...]
    errors: tuple[int, ...]
    n: int = 0
    step: float = DEFAULT_STEP
    user_days: int = 0

    @classmethod
    def start(cls, epsilons: Sequence[float], *, step: float = DEFAULT_STEP) -> Self:
        """Begin with each cut at its ε, as calibration has it."""
        levels = sorted(
            check_number("significance", each, 0, 1, "between 0 and 1") for each in epsilons
        )
        if not levels or len(set(levels)) < len(levels):
            raise InputError(
                f"A live promise needs confidences, each once; {shown(list(epsilons))} are not."
            )
        check_number("step", step, 0, 1, "above 0, and 1 at the most", ends=(False, True))
        return cls(tuple(levels), tuple(levels), (0,) * len(levels), 0, float(step))

    @property
    def cuts_nested(self) -> tuple[float, ...]:
        """The cuts of the sets: none above that of a larger ε, so that sets are nested."""
        found = list(self.cuts)
        for place in range(len(found) - 2, -1, -1):
            found[place] = min(found[place], found[place + 1])
        return tuple(found)

    def holds(self, level: float) -> tuple[bool, ...]:
        """Return for each ε whether an item of a level is in the set."""
        return tuple(is_inside(level, threshold) for threshold in self.cuts_nested)

    def nominal(self, levels: ArrayLike) -> NDArray[np.float64]:
        """Return levels as they would be if cuts were at their ε: an item is in a set if above it.

        Between the cuts it is a line, so that one answer serves every confidence.

        Examples
        --------
        >>> Steering((0.1, 0.2), (0.05, 0.3), (0, 0)).nominal([0.05, 0.1, 0.3, 1.0]).round(6)
        array([0.1 , 0.12, 0.2 , 1.  ])
        """
        cuts = np.array(self.cuts_nested)
        # Cuts that are held down to others are told apart by what no level is.
        cuts = cuts + TOLERANCE * np.arange(1, len(cuts) + 1)
        ends = min(0.0, cuts[0] - self.step), max(1.0, cuts[-1] + self.step)
        known, said = [ends[0], *cuts, ends[1]], [0.0, *self.epsilons, 1.0]
        given = np.asarray(levels, dtype=np.float64)
        return np.asarray(np.interp(given, known, said), dtype=np.float64)

    def missed(self, level: float) -> tuple[bool, ...]:
        """Return for each ε whether an item of a level is outside the set."""
        return tuple(not held for held in self.holds(level))

    def after(self, level: float, so_far: UserDay = _NO_EVENT) -> Self:
        """Return the cuts after an event.

        Parameters
        ----------
        level : float
            Of the event's item.
        so_far : UserDay, optional
            The earlier judged events of the same user and day; by default it is their first.
        """
        missed = self.missed(level)
        shares = so_far.after(missed).shares()
        before = so_far.shares() if so_far.n else self.epsilons
        cuts = tuple(
            threshold + self.step * (old - new)
            for threshold, old, new in zip(self.cuts, before, shares, strict=True)
        )
        errors = tuple(n + each for n, each in zip(self.errors, missed, strict=True))
        user_days = self.user_days + (not so_far.n)
        return replace(self, cuts=cuts, errors=errors, n=self.n + 1, user_days=user_days)

    def observed(self) -> tuple[float, ...]:
        """Return the share of all events that were misses, for each ε; NaN before the first."""
        return tuple(n / self.n if self.n else float("nan") for n in self.errors)

    def observed_by_user_day(self) -> tuple[float, ...]:
        """Return the mean share of misses over users' days, for each ε; NaN before the first.

        This is what ``bound`` is about. The cuts say it, as they are moved by nothing else.

        Examples
        --------
        >>> steering, day = Steering.start([0.1]), UserDay()
        >>> for level in (0.0, 0.9, 0.9, 0.9):  # one user, who is missed once in four events
        ...     steering, day = steering.after(level, day), day.after(steering.missed(level))
        >>> [round(share, 6) for share in steering.after(0.9).observed_by_user_day()]
        [0.125]
        """
        if not self.user_days:
            return (float("nan"),) * len(self.epsilons)
        return tuple(
            min(1.0, max(0.0, epsilon + (epsilon - threshold) / (self.step * self.user_days)))
            for epsilon, threshold in zip(self.epsilons, self.cuts, strict=True)
        )

    def bound(self, place: int) -> float:
        """Return how far the mean share of misses over users' days can be from the ε at a place."""
        if not self.user_days:
            return 1.0
        epsilon, held_down = self.epsilons[place], len(self.epsilons) - 1 - place
        furthest = max(epsilon + self.step, 1 - epsilon + (1 + held_down) * self.step)
        return min(1.0, furthest / (self.step * self.user_days))

    def place_of(self, significance: float) -> int | None:
        """Return the place of an ε; None if it is not one of these."""
        for place, epsilon in enumerate(self.epsilons):
            if abs(epsilon - significance) <= TOLERANCE:
                return place
        return None

    def to_state(self) -> dict[str, Any]:
        """Return all of it in a form that JSON holds."""
        return dict(vars(self))

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Read it back; KeyError, TypeError or ValueError if it is something else."""
        lists = {name: tuple(state[name]) for name in ("epsilons", "cuts", "errors")}
        if len({len(each) for each in lists.values()}) != 1:
            raise ValueError("its cuts are not those of its confidences")
        n, user_days = int(state["n"]), int(state["user_days"])
        return cls(**lists, n=n, step=float(state["step"]), user_days=user_days)


def is_inside(level: float, threshold: float) -> bool:
    """Return whether an item of a level is in the set that is cut there.

    Examples
    --------
    >>> is_inside(0.0, -0.001), is_inside(0.2, 0.2), is_inside(1.0, 1.0)
    (True, False, False)
    """
    return threshold <= 0 or level > threshold + TOLERANCE


DEFAULT_FALSE_ALARMS: Final = 1e-5
"""How many false alarms there may be for each event."""

DEFAULT_TOLERANCE: Final = 0.01
"""By how much the rate of errors may be above what was promised."""

_ODDS: Final = (1.25, 1.5, 2.0, 3.0)
"""How much larger the odds of an error may have become: it is bet on each alike."""


_SURE: Final = 2.326  # standard deviations: 99 %, one-sided


def highest_rate(errors: int, n: int) -> float:
    """Return the rate of errors that is not too high for what was seen, 99 % sure (Wilson).

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
    """Errors come too often: since when, and how often."""

    since: int
    """The time of the first event since the change, as it was given."""
    n: int
    """Events since then."""
    errors: int
    """How many of these were errors."""


class Bet(NamedTuple):
    """A bet that the odds of an error have become larger by some factor."""

    capital: float = 0.0
    """What it has, with one more staked before every event (Shiryaev and Roberts)."""
    total: float = 0.0
    """The same with the logarithm held above 0 (Page's CUSUM), which tells since when."""
    since: int = 0
    n: int = 0
    errors: int = 0
    """When the total was last 0, and the events and errors after that."""

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
    """Bets that errors have become more frequent than they may be; alarms when it gets rich.

    Attributes
    ----------
    rate : float
        How often errors may come: as promised with a tolerance, or as is usual for such events,
        99 % sure, if that is more.
    expected : float
        How often they are expected.
    false_alarms : float
        How many false alarms there may be for each event.
    bets : tuple of Bet
        One for each of some larger odds of an error.

    Notes
    -----
    If every event is an error with probability at most `rate`, whatever happened before it, then
    the capital less the number of events can only be expected to fall, so that the expected number
    of events until a false alarm is at least ``1 / false_alarms``.

    Examples
    --------
    >>> watch = Watch.start(0.1)
    >>> for time in range(60):
    ...     watch, alarm = watch.after(error=True, time=time)
    ...     if alarm:
    ...         break
    >>> alarm
    Alarm(since=0, n=14, errors=14)
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
        """Begin to watch errors that may come with probability ε, and a tolerance.

        Parameters
        ----------
        significance : float
            ε, promised over all events.
        tolerance : float
            By how much they may be more frequent.
        false_alarms : float
            How many false alarms there may be for each event.
        usual : tuple of int, optional
            The errors, and all events, of the kind that is watched, when nothing had changed yet.
            Where such events are harder than others, errors are alarming only beyond what that
            allows, 99 % sure.
        """
        epsilon = check_number("significance", significance, 0, 1, "between 0 and 1")
        check_number("tolerance", tolerance, 0, 1, "0 or more, and below 1", ends=(True, False))
        check_number("false_alarms", false_alarms, 0, 1, "between 0 and 1")
        rate, expected = epsilon + tolerance, epsilon
        if usual is not None and usual[1]:
            rate = max(rate, highest_rate(*usual))
            expected = max(expected, usual[0] / usual[1])
        rate = min(rate, (1 + expected) / 2)
        return cls(rate, expected, float(false_alarms), _NO_BETS)

    def expecting(self, other: Self) -> Self:
        """Return the same with what another one expects, from the next event on."""
        return replace(self, rate=other.rate, expected=other.expected)

    def after(self, *, error: bool, time: int) -> tuple[Self, DriftAlert | None]:
        """Return what it is after one more event, and the alarm if there is one.

        Parameters
        ----------
        error : bool
            Whether the event was outside.
        time : int
            When, to say since when errors come too often.
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
        """Return all of it in a form that JSON holds."""
        return {**vars(self), "bets": [list(bet) for bet in self.bets]}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Read it back; KeyError, TypeError or ValueError if it is something else."""
        bets = tuple(Bet(*bet) for bet in state["bets"])
        if len(bets) != len(_ODDS):
            raise ValueError("its bets are not those that are made")
        rate, expected = float(state["rate"]), float(state["expected"])
        return cls(rate, expected, float(state["false_alarms"]), bets)
