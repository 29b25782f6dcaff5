"""What a live model tells: what became of events, how it does, what was forgotten."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from surerec._calendar import day_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from surerec.live._ledger import Window


@dataclass(frozen=True)
class Observed:
    """What became of events that were sent; all are kept but for those that were refused."""

    taken: int
    """New ones."""
    again: int
    """Those that had been sent before, which change nothing."""
    judged: int
    not_judged: dict[str, int]
    """By reason."""
    alarms: tuple[str, ...]
    """That they raised, in words."""
    refused: int = 0
    """Events on new items above the limit, which are not kept; see :class:`surerec.live.Terms`."""


@dataclass(frozen=True)
class Receipt:
    """What was deleted of a person, and what was learned from them and stays; it names nobody."""

    at: str
    n_events: int
    """Events that were deleted."""
    n_items: int
    """Items of the profile that was taken out of the counts."""
    calibrated: bool
    """Whether they were a calibration user, and are taken out of the curve."""
    stays: tuple[str, ...]
    """What stays, and until when, in words."""


@dataclass(frozen=True)
class Status:
    """How a live model does."""

    folder: str
    store: str
    recommender: str
    counted: str
    """When the base was counted."""
    n_events: int
    n_since: int
    """Events since the base was counted."""
    n_judged: int
    not_judged: dict[str, int]
    promised: tuple[float, ...]
    """The confidences, from the highest on."""
    delivered: tuple[float, ...]
    """The share of judged events inside the sets of each."""
    within: tuple[float, ...]
    """How far each of `observed_by_user_day` can be from what is promised, whatever happened."""
    alarms: tuple[str, ...]
    """The latest, last."""
    n_user_days: int
    """Days of users with a judged event, by the server's clock."""
    observed_by_user_day: tuple[float, ...]
    """The same as `delivered` with each user and day counted once: the mean of their shares."""
    heaviest_share: float | None
    """The share of this day's judged events from the heaviest 1% of users; None of none."""


_DELIVERED: Final = {
    "window": pl.Int64,
    "from": pl.String,
    "until": pl.String,
    "group": pl.String,
    "confidence": pl.Float64,
    "delivered": pl.Float64,
    "unsteered": pl.Float64,
    "n": pl.Int64,
}


def _rows(number: int, window: Window, epsilons: tuple[float, ...]) -> Iterator[tuple[Any, ...]]:
    when = day_of(window.first), day_of(window.last)
    for place, epsilon in enumerate(epsilons):
        confidence = round(1 - epsilon, 12)
        inside, unsteered = (
            1 - tally[place] / window.n for tally in (window.outside, window.unsteered)
        )
        yield number, *when, "all", confidence, inside, unsteered, window.n
        for group, (n, *outside) in sorted(window.groups.items()):
            yield number, *when, group, confidence, 1 - outside[place] / n, None, n


def delivered_frame(windows: Sequence[Window], epsilons: tuple[float, ...]) -> pl.DataFrame:
    """Give what was promised and delivered, a row for each window, group and confidence."""
    rows = [row for number, each in enumerate(windows) for row in _rows(number, each, epsilons)]
    return pl.DataFrame(rows, schema=_DELIVERED, orient="row")


def heaviest_frame(rows: Sequence[tuple[str, int]], n_events: int) -> pl.DataFrame:
    """Return users and their judged events of a day, with the share of all of them."""
    frame = pl.DataFrame(rows, {"user_id": pl.String, "judged": pl.Int64}, orient="row")
    return frame.with_columns(share=pl.col("judged") / n_events)


def now_text() -> str:
    """Give the present moment as ISO text."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def today() -> str:
    """Return the present day, in UTC."""
    return now_text()[:10]


def day_before(day: str) -> str:
    """Return the day before one.

    Examples
    --------
    >>> day_before("2026-03-01")
    '2026-02-28'
    """
    return (date.fromisoformat(day) - timedelta(days=1)).isoformat()
