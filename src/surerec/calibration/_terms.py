"""What a promise over users says in words: about which future, and by whose futures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from surerec._calendar import day_of

if TYPE_CHECKING:
    from surerec.calibration._listed import NamedItems
    from surerec.calibration.promises import Promise
    from surerec.futures import Horizon


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
    listed: NamedItems | None = None

    def future(self) -> str:
        """Say what the future is."""
        if self.listed is not None:
            return f"the items of the list {self.listed.name!r} in {self._all_of_it()}"
        return self._all_of_it()

    def people(self, group: str = "") -> str:
        """Say whom it is about."""
        people = f"people with {group}" if group else "people"
        if self.listed is None:
            return people
        return f"{people} who take at least one of the {len(self.listed.codes):,} items of the list"

    def _all_of_it(self) -> str:
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
        return (
            f"if they are exchangeable with the {n_users:,} calibration users, whose futures lie "
            f"between {begin} and {end}: as the calendar moves on it holds less well."
        )

    def in_words(self, significance: float, n_users: int, group: str = "") -> str:
        """Say all of it; `group` says which people it holds among."""
        promised = self.promise.sentence(significance, self.future(), self.people(group))
        return f"{promised}, {self.condition(n_users)}"

    def of_precision(
        self, precision: float, delta: float, n_users: int, share_served: float, group: str = ""
    ) -> str:
        """Say what is promised of what is shown."""
        begin, end = map(day_of, self.period)
        promised = self.promise.sentence(1 - precision, self.future(), self.people(group))
        return (
            f"{promised}, with confidence {1 - delta:.4g} over the draw of calibration users, if "
            f"people are drawn independently (exchangeable is not enough) as the {n_users:,} who "
            f"tested it were, whose futures lie between {begin} and {end}. The confidence is of "
            f"each level and group singly. {share_served:.1%} of them are shown something."
        )

    def of_slate(self, k: int, n_users: int) -> str:
        """Say what the probability of a slate means."""
        best = "their best item" if k == 1 else f"one of their {k} best items"
        return (
            f"Of people with this probability, that share takes {best} among {self.future()}, "
            f"{self.condition(n_users)}"
        )

    def of_probabilities(self, n_users: int) -> str:
        """Say what the probability of an item means."""
        begin, end = map(day_of, self.period)
        return (
            f"The chance that the item is among {self.future()}, over {self.people()}: measured, "
            "not proven, on "
            f"{n_users:,} calibration users whose futures lie between {begin} and {end}. Of "
            "items with such a probability about that share was taken; the interval is that of "
            "the curve, 95 % over drawing these users anew."
        )
