"""Limits on what senders of events do: new items, and the share of the heaviest users."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from surerec._calendar import DAY
from surerec._shown import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from surerec.interactions import Interactions

ABOVE_LIMIT: Final = "new item above the limit"
"""Why an event is refused."""

LEAST_PER_DAY: Final = 1_000
LEAST_IN_TOTAL: Final = 10_000

HEAVIEST: Final = 0.01
"""The share of users who are the heaviest; one user at the least."""

ENOUGH: Final = 200
"""Events of a day whose share is telling."""

LIMITS: Final = (0.25, 0.8)
"""Between which a share becomes unusual, whatever the data."""

_RARE: Final = 0.99  # of days are less uneven than an unusual one
_NEVER: Final = ""  # before any day


@dataclass(frozen=True)
class NewItems:
    """How many new items were admitted; a new object after each.

    Attributes
    ----------
    day : str
        The day of the counts, in UTC by the server's clock: events state times of their own.
    today : int
        Items admitted on that day.
    total : int
        Items admitted since the live model was created.
    alerted : str
        The latest day on which an event was refused.

    Examples
    --------
    >>> seen = NewItems().on("2026-11-17").admitted().admitted()
    >>> seen.has_room(per_day=2, in_total=10), seen.on("2026-11-18").has_room(2, 10)
    (False, True)
    """

    day: str = _NEVER
    today: int = 0
    total: int = 0
    alerted: str = _NEVER

    def on(self, day: str) -> Self:
        """Return the counts at a day."""
        return self if day == self.day else replace(self, day=day, today=0)

    def has_room(self, per_day: int, in_total: int) -> bool:
        """Return whether one more item is within the limits."""
        return self.today < per_day and self.total < in_total

    def admitted(self) -> Self:
        """Return the counts after one more item."""
        return replace(self, today=self.today + 1, total=self.total + 1)

    def alert(self, per_day: int, in_total: int) -> str:
        """Return the alert that events are refused; nothing if this day had it."""
        if self.alerted == self.day:
            return ""
        if self.total >= in_total:
            limit = f"{in_total:,} new items since this model was created"
            until = "raise new_items in live.json and restart"
        else:
            limit = f"{per_day:,} new items on {self.day}"
            until = "send them again tomorrow (UTC), or raise new_items_per_day in live.json"
        return (
            f"Events on further new items are refused: there were {limit}. If the items are real, "
            f"{until}."
        )

    def to_state(self) -> dict[str, Any]:
        """Return all of it in a form that JSON holds."""
        return asdict(self)

    @classmethod
    def from_state(cls, state: Mapping[str, Any] | None) -> Self:
        """Read it back; None before the first new item."""
        return cls() if state is None else cls(**state)


@dataclass(frozen=True)
class HeaviestUsers:
    """How many judged events the users of a day have; a new object after each event.

    Attributes
    ----------
    limit : float
        The share of the heaviest users above which a day is unusual.
    day : str
        In UTC by the server's clock: events state times of their own.
    users : dict of str to int
        By number of judged events on that day, how many users have so many. No user is named.
    alerted : str
        The latest day that was unusual.

    Examples
    --------
    >>> seen = HeaviestUsers().on("2026-11-17")
    >>> for n_before in (0, 0, 1, 2):  # two users, one of whom has three events
    ...     seen = seen.judged(n_before)
    >>> seen.n_events, seen.share
    (4, 0.75)
    """

    limit: float = LIMITS[1]
    day: str = _NEVER
    users: dict[str, int] = field(default_factory=dict)
    alerted: str = _NEVER

    def on(self, day: str) -> Self:
        """Return the counts at a day."""
        return self if day == self.day else replace(self, day=day, users={})

    def judged(self, n_before: int) -> Self:
        """Return the counts after a judged event of a user who had so many before on that day."""
        users = dict(self.users)
        if n_before:
            users[str(n_before)] -= 1
            if not users[str(n_before)]:
                del users[str(n_before)]
        users[str(n_before + 1)] = users.get(str(n_before + 1), 0) + 1
        return replace(self, users=users)

    @property
    def n_events(self) -> int:
        """Judged events of the day."""
        return sum(int(n) * users for n, users in self.users.items())

    @property
    def n_heaviest(self) -> int:
        """The number of users who are the heaviest."""
        return math.ceil(HEAVIEST * sum(self.users.values()))

    @property
    def share(self) -> float | None:
        """The share of the day's judged events that come from the heaviest users; None of none."""
        if not self.users:
            return None
        left, events = self.n_heaviest, 0
        for n in sorted(map(int, self.users), reverse=True):
            some = min(left, self.users[str(n)])
            events, left = events + n * some, left - some
        return events / self.n_events

    def alert(self) -> str:
        """Return the alert that a day is unusual; nothing if it is not, or had it."""
        n, share = self.n_events, self.share
        if self.alerted == self.day or n < ENOUGH or share is None or share <= self.limit:
            return ""
        return (
            f"{counted(self.n_heaviest, 'users')} sent {share:.0%} of the {n:,} judged events of "
            f"{self.day}; above {self.limit:.0%} is unusual. Each user counts once a day, so one "
            "user cannot move the sets of others far, but many accounts of one sender can. See who "
            "they are with surerec live status --heaviest, and revoke the key that sends them or "
            "lower its rate limit."
        )

    def to_state(self) -> dict[str, Any]:
        """Return all of it in a form that JSON holds."""
        return asdict(self)

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Read it back."""
        return cls(**state)


def usual_limit(profiles: Interactions) -> float:
    """Return the share of the heaviest users above which a day is unusual for some profiles.

    99% of the days of the data have a smaller share; it is between 25% and 80%. Only days with
    enough interactions count; without any, it is 80%.

    Examples
    --------
    >>> import surerec as sr
    >>> films = sr.datasets.synthetic(n_users=300, n_items=60, n_rows=6000, days=10, seed=1)
    >>> usual_limit(films)
    0.25
    """
    owners = np.repeat(np.arange(profiles.n_users), np.diff(profiles.offsets))
    pairs = np.stack([profiles.times // DAY, owners])
    (days, _), n = np.unique(pairs, axis=1, return_counts=True)
    by_day = np.split(n, np.flatnonzero(np.diff(days)) + 1)
    shares = [
        np.sort(some)[-math.ceil(HEAVIEST * len(some)) :].sum() / some.sum()
        for some in by_day
        if some.sum() >= ENOUGH
    ]
    return float(np.clip(np.quantile(shares, _RARE), *LIMITS)) if shares else LIMITS[1]
