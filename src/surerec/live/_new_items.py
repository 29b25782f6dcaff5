"""Limits on items that only events name: made-up ids must not fill the disk."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from collections.abc import Mapping

ABOVE_LIMIT: Final = "new item above the limit"
"""Why an event is refused."""

LEAST_PER_DAY: Final = 1_000
LEAST_IN_TOTAL: Final = 10_000

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
