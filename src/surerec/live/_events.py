"""Events: a user consumed an item at a time; what cannot be one is refused in a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Self

import numpy as np

from surerec._shown import shown
from surerec.errors import InputError

FIELDS: Final = ("user", "item", "time", "id")
"""What an event may have; the last two may be missing."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_AHEAD: Final = timedelta(minutes=5)  # that clocks may differ by
_LONGEST: Final = 500  # letters of an id
_MICROSECOND: Final = timedelta(microseconds=1)


class FutureTimeError(InputError):
    """The time of an event is ahead of the server's clock.

    Parameters
    ----------
    where : str
        What the message calls the event.
    moment, now : datetime
        The time of the event, and of the server's clock.

    Attributes
    ----------
    alert : str
        The same without the place, for whoever runs the server; it is not raised again on its day.
    alerted : bool
        Whether this error raised the alert.
    """

    def __init__(self, where: str, moment: datetime, now: datetime) -> None:
        problem = (
            f"the time {moment.isoformat()} is more than 5 minutes ahead of the server's "
            f"clock ({now.isoformat(timespec='seconds')})"
        )
        super().__init__(f"{where}: {problem}; correct the sender's clock and send it again.")
        self.alert = (
            f"An event was refused: {problem}. Correct the clock of the sender, or of the server."
        )
        self.alerted = False


@dataclass(frozen=True)
class Event:
    """A user consumed an item.

    Attributes
    ----------
    user, item : int or str
        By id.
    time : int
        When, in microseconds since 1970.
    id : str or None
        What tells it from others; without one, who, what and when do.

    Examples
    --------
    >>> Event.of({"user": 7, "item": "alien", "time": "2024-05-01T12:00:00Z"}).time
    1714564800000000
    """

    user: Any
    item: Any
    time: int
    id: str | None = None

    @property
    def key(self) -> str:
        """What tells it from all others: sent again, it changes nothing."""
        if self.id is not None:
            return f"id {self.id}"
        return f"at {self.time} {len(str(self.user))} {self.user} {self.item}"

    @classmethod
    def of(cls, given: Any, *, now: datetime | None = None, where: str = "The event") -> Self:
        """Build an event from what was sent.

        Parameters
        ----------
        given : mapping or Event
            With ``user`` and ``item``, and perhaps ``time`` (a datetime or its ISO text, UTC if it
            does not say; a number of seconds since 1970; now if it is missing) and ``id``.
        now : datetime, optional
            By default the clock's; times more than 5 minutes later are refused.
        where : str
            What to call it in an error.
        """
        if isinstance(given, cls):
            given = {"user": given.user, "item": given.item, "time": given.moment, "id": given.id}
        if not isinstance(given, Mapping):
            raise InputError(f"{where} is {shown(given)}; it must have the fields user and item.")
        unknown = sorted(str(name) for name in given if name not in FIELDS)
        if unknown:
            raise InputError(
                f"{where} has the field {shown(unknown[0])}; there are {', '.join(FIELDS)}."
            )
        for name in ("user", "item"):
            if given.get(name) is None:
                raise InputError(f"{where} has no {name}.")
        time = _time_of(given.get("time"), now or datetime.now(UTC), where)
        return cls(
            _id_of(given["user"], "user", where),
            _id_of(given["item"], "item", where),
            time,
            None if given.get("id") is None else str(_id_of(given["id"], "id", where)),
        )

    @property
    def moment(self) -> datetime:
        """When, as a datetime."""
        return _EPOCH + timedelta(microseconds=self.time)


def _id_of(value: Any, name: str, where: str) -> int | str:
    if isinstance(value, np.integer):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise InputError(
            f"{where}: the {name} is {shown(value)}; it must be a text or a whole number."
        )
    text = str(value)
    # A text with NUL is one that PostgreSQL does not hold; half a character nothing holds.
    is_whole = text == text.encode(errors="replace").decode()
    if not text or len(text) > _LONGEST or "\0" in text or not is_whole:
        raise InputError(
            f"{where}: the {name} {shown(value)} cannot be stored; it must have 1 to {_LONGEST} "
            "letters, none of them NUL."
        )
    return value


def _time_of(value: Any, now: datetime, where: str) -> int:
    moment: object = value
    try:
        if value is None:
            moment = now
        elif isinstance(value, str):
            moment = datetime.fromisoformat(value)
        elif isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(
            value, bool
        ):
            moment = _EPOCH + timedelta(microseconds=round(float(value) * 1_000_000))
    except (ValueError, OverflowError):
        moment = None
    if not isinstance(moment, datetime):
        raise InputError(
            f"{where}: the time is {shown(value)}; it must be an ISO time such as "
            "2026-11-17T09:30:00Z, or seconds since 1970."
        )
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    if moment > now + _AHEAD:
        raise FutureTimeError(where, moment, now)
    return (moment - _EPOCH) // _MICROSECOND
