"""What a promise over users says in words: about which future, and by whose futures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from surerec._calendar import day_of
from surerec.calibration._coverage import Coverage, LeftOut

if TYPE_CHECKING:
    from surerec.calibration.promises import Promise
    from surerec.futures import Horizon


_EVERYBODY: Final = LeftOut(held_out=True)


@dataclass(frozen=True)
class Terms:
    """What is promised, about which future, by whose futures.

    Examples
    --------
    >>> from surerec.calibration import Hit
    >>> terms = Terms(Hit(), 5, None, (0, 86_400_000_000))
    >>> print(terms.in_words(0.1, 999))
    At least one of the next 5 items is in this set with probability at least 0.9, over people, if
    they are exchangeable with the 999 calibration users, whose futures lie between 1970-01-01 and
    1970-01-02: as the calendar moves on it holds less well.
    """

    promise: Promise
    horizon: Horizon
    window: float | None
    period: tuple[int, int]
    coverage: Coverage = _EVERYBODY
    about: str = ""

    def future(self) -> str:
        """Say what the future is."""
        if self.about:
            return self.about
        if isinstance(self.horizon, float):
            if self.window is None:
                return f"the last {self.horizon:.0%} of what they take"
            return f"what they take in the next {self.window:g} days"
        within = "" if self.window is None else f" within {self.window:g} days"
        items = "item" if self.horizon == 1 else f"{self.horizon} items"
        return f"the next {items}{within}"

    def condition(self, n_users: int) -> str:
        """Say what is assumed."""
        begin, end = map(day_of, self.period)
        also = f", and if {self.coverage.assumes}" if self.coverage.assumes else ""
        return (
            f"if they are exchangeable with the {n_users:,} calibration users, whose futures lie "
            f"between {begin} and {end}{also}: as the calendar moves on it holds less well."
        )

    def in_words(self, significance: float, n_users: int, group: str = "") -> str:
        """Say all of it; `group` says which people it holds among."""
        people = self.coverage.people + (f" with {group}" if group else "")
        promised = self.promise.sentence(significance, self.future(), people)
        return f"{promised}, {self.condition(n_users)}"

    def of_slate(self, k: int, n_users: int) -> str:
        """Say what the probability of a slate means."""
        best = "their best item" if k == 1 else f"one of their {k} best items"
        return (
            f"Of people with this probability, that share takes {best} among {self.future()}, "
            f"{self.condition(n_users)}"
        )
