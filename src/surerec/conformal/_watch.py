"""An alarm when errors come more often than was promised, with a stated rate of false ones."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from surerec._arguments import check_number

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_FALSE_ALARMS: Final = 1e-5
"""How many false alarms there may be for each event."""

DEFAULT_TOLERANCE: Final = 0.01
"""By how much the rate of errors may be above what was promised."""

_ODDS: Final = (1.25, 1.5, 2.0, 3.0)
"""How much larger the odds of an error may have become: it is bet on each alike."""


_SURE: Final = 2.326  # standard deviations: 99 %, one-sided


def highest_rate(errors: int, n: int) -> float:
    """Give the rate of errors that is not too high for what was seen, 99 % sure (Wilson).

    Examples
    --------
    >>> round(highest_rate(200, 2000), 3), highest_rate(0, 0)
    (0.117, 1.0)
    """
    if not n:
        return 1.0
    square = _SURE**2
    share, spread = (
        errors / n,
        _SURE * math.sqrt(errors * (n - errors) / n**3 + square / (4 * n**2)),
    )
    return min(1.0, (share + square / (2 * n) + spread) / (1 + square / n))


class Alarm(NamedTuple):
    """Errors come too often: since when, and how often."""

    since: int
    """The time of the first event since the change, as it was given."""
    n: int
    """Events since then."""
    errors: int
    """How many of these were errors."""


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
    capital : tuple of float
        What each bet has, with one more staked before every event (Shiryaev and Roberts).
    sums : tuple of float
        The same with the logarithm held above 0 (Page's CUSUM), which tells since when.
    since, n, errors : tuple of int
        For each bet, when its sum was last 0, and the events and errors after that.

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
    capital: tuple[float, ...]
    sums: tuple[float, ...]
    since: tuple[int, ...]
    n: tuple[int, ...]
    errors: tuple[int, ...]

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
        rate, expected, zeros = epsilon + tolerance, epsilon, (0,) * len(_ODDS)
        if usual is not None and usual[1]:
            rate = max(rate, highest_rate(*usual))
            expected = max(expected, usual[0] / usual[1])
        rate = min(rate, (1 + expected) / 2)
        capital = (0.0,) * len(_ODDS)
        return cls(rate, expected, float(false_alarms), capital, capital, zeros, zeros, zeros)

    def expecting(self, other: Self) -> Self:
        """Give the same with what another one expects, from the next event on."""
        return replace(self, rate=other.rate, expected=other.expected)

    def after(self, *, error: bool, time: int) -> tuple[Self, Alarm | None]:
        """Give what it is after one more event, and the alarm if there is one; then it begins anew.

        Parameters
        ----------
        error : bool
            Whether the event was outside.
        time : int
            When, to say since when errors come too often.
        """
        capital, sums, since, n, errors = [], [], [], [], []
        for place, odds in enumerate(_ODDS):
            other = odds * self.rate / (1 + (odds - 1) * self.rate)
            factor = other / self.rate if error else (1 - other) / (1 - self.rate)
            capital.append((1 + self.capital[place]) * factor)
            fresh = self.sums[place] <= 0
            since.append(time if fresh else self.since[place])
            n.append(1 + (0 if fresh else self.n[place]))
            errors.append(error + (0 if fresh else self.errors[place]))
            sums.append(max(0.0, self.sums[place] + math.log(factor)))
        best = max(range(len(_ODDS)), key=lambda place: capital[place])
        if sum(capital) / len(_ODDS) >= 1 / self.false_alarms:
            alarm = Alarm(since[best], n[best], errors[best])
            nothing, zeros = (0.0,) * len(_ODDS), (0,) * len(_ODDS)
            anew = replace(self, capital=nothing, sums=nothing, since=zeros, n=zeros, errors=zeros)
            return anew, alarm
        return replace(
            self,
            capital=tuple(capital),
            sums=tuple(sums),
            since=tuple(since),
            n=tuple(n),
            errors=tuple(errors),
        ), None

    def to_state(self) -> dict[str, Any]:
        """Give all of it in a form that JSON holds."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Read it back; KeyError, TypeError or ValueError if it is something else."""
        parts = {name: tuple(state[name]) for name in ("capital", "sums", "since", "n", "errors")}
        if any(len(part) != len(_ODDS) for part in parts.values()):
            raise ValueError("its bets are not those that are made")
        rate = float(state["rate"])
        expected = float(state.get("expected", rate))
        return cls(rate, expected, float(state["false_alarms"]), **parts)
