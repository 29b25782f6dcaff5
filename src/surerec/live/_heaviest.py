"""The share of a day's judged events that come from its heaviest users, and when it is unusual."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Self

from surerec._shown import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

HEAVIEST: Final = 0.01
"""The share of users who are the heaviest; one user at the least."""

ENOUGH: Final = 200
"""Events of a day whose share is telling."""

LIMITS: Final = (0.25, 0.8)
"""Between which a share becomes unusual, whatever the data."""

_NEVER: Final = ""  # before any day


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
    def from_state(cls, state: Mapping[str, Any] | None) -> Self:
        """Read it back; None before the first event of an older store."""
        return cls() if state is None else cls(**state)
