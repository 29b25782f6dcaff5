"""What a promise over users says in words: about which future, and by whose futures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from surerec._calendar import day_of
from surerec.calibration._coverage import Coverage, LeftOut

if TYPE_CHECKING:
    from surerec.calibration._listed import NamedItems
    from surerec.calibration.promises import Promise
    from surerec.futures import Horizon


_EVERYBODY: Final = LeftOut(held_out=True)

NEW_ITEMS: Final = "items new to the user that they consume"
"""What guarantees are about: repeats are neither recommended nor counted."""


def next_items(n: int) -> str:
    """Return a horizon of n items in words.

    Examples
    --------
    >>> next_items(1), next_items(5)
    ('the next item new to the user', 'the next 5 items new to the user')
    """
    return "the next item new to the user" if n == 1 else f"the next {n} items new to the user"


@dataclass(frozen=True)
class Terms:
    """What is promised, about which future, by whose futures.

    Examples
    --------
    >>> from surerec.calibration import Hit
    >>> terms = Terms(Hit(), 5, None, (0, 86_400_000_000))
    >>> print(terms.in_words(0.1, 999))
    At least one of the next 5 items new to the user is in this set with probability at least 0.9,
    over people, if they are exchangeable with the 999 calibration users, whose futures lie between
    1970-01-01 and 1970-01-02: as the calendar moves on it holds less well, and the scores also used
    what other people did later.
    """

    promise: Promise
    horizon: Horizon
    window: float | None
    period: tuple[int, int]
    coverage: Coverage = _EVERYBODY
    about: str = ""
    listed: NamedItems | None = None

    def future(self) -> str:
        """Say what the future is."""
        if self.listed is not None:
            return f"the items of the list {self.listed.name!r} in {self._all_of_it()}"
        return self._all_of_it()

    def people(self, group: str = "") -> str:
        """Say whom it is about."""
        people = self.coverage.people + (f" with {group}" if group else "")
        if self.listed is None:
            return people
        return f"{people} who take at least one of the {len(self.listed.codes):,} items of the list"

    def _all_of_it(self) -> str:
        if self.about:
            return self.about
        if isinstance(self.horizon, float):
            if self.window is None:
                return f"the last {self.horizon:.0%} of {NEW_ITEMS}"
            return f"{NEW_ITEMS} in the next {self.window:g} days"
        within = "" if self.window is None else f" within {self.window:g} days"
        return f"{next_items(self.horizon)}{within}"

    def condition(self, n_users: int) -> str:
        """Say what is assumed, and by profile what else was known: see --as-of."""
        return (
            f"if they are exchangeable with the {n_users:,} calibration users, {self._whose()}"
            f"{self._also()}: as the calendar moves on it holds less well{self._knew()}."
        )

    def _knew(self) -> str:
        """Say that by profile, each user cut at a moment of their own, counts know what follows."""
        by_profile = self.window is None and not self.about
        return ", and the scores also used what other people did later" if by_profile else ""

    def _whose(self) -> str:
        begin, end = map(day_of, self.period)
        return f"whose futures lie between {begin} and {end}"

    def _also(self) -> str:
        """Say what is assumed beside people who are alike."""
        return f", and if {self.coverage.assumes}" if self.coverage.assumes else ""

    def in_words(self, significance: float, n_users: int, group: str = "") -> str:
        """Say all of it; `group` says which people it holds among."""
        promised = self.promise.sentence(significance, self.future(), self.people(group))
        return f"{promised}, {self.condition(n_users)}"

    def of_precision(
        self, precision: float, delta: float, n_users: int, share_served: float, group: str = ""
    ) -> str:
        """Say what is promised of what is shown."""
        promised = self.promise.sentence(1 - precision, self.future(), self.people(group))
        return (
            f"{promised}, with confidence {1 - delta:.4g} over the draw of calibration users, if "
            f"people are drawn independently (exchangeable is not enough) as the {n_users:,} who "
            f"tested it were, {self._whose()}{self._also()}{self._knew()}. The confidence is of "
            f"each level and group singly. {share_served:.1%} of them are shown something."
        )

    def of_hits(self, k: int, n_users: int) -> str:
        """Return what the probability of a hit among the k best items means, in words."""
        best = "their best item" if k == 1 else f"one of their {k} best items"
        return (
            f"Of {self.people()} with this probability, that share takes {best} among "
            f"{self.future()}, {self.condition(n_users)}"
        )

    def of_probabilities(self, n_users: int) -> str:
        """Say what the probability of an item means."""
        return (
            f"The chance that the item is among {self.future()}, over {self.people()}: measured, "
            f"not proven, on {n_users:,} calibration users {self._whose()}{self._also()}. Of items "
            "of such a rank, score and length of history about that share was taken; the interval "
            "is a 95% confidence interval of that share, over the draw of calibration users."
        )
