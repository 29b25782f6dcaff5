"""The ledger of a live model: adapted thresholds, coverage by window, drift alerts, senders."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import polars as pl

from surerec._arguments import check_list, check_number, check_whole
from surerec._words import DAY, counted, day_of
from surerec.conformal import (
    DEFAULT_FALSE_ALARMS,
    DEFAULT_STEP,
    AdaptiveLevel,
    UserDay,
    Watch,
    is_inside,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from surerec.conformal import DriftAlert
    from surerec.interactions import Interactions

WINDOW: Final = 2000
"""Evaluated events per window."""

EVALUATED: Final = "evaluated"
"""Outcome of an event that was evaluated; the next constants are reasons why one was not."""
NEW_ITEM: Final = "new item"
SHORT_HISTORY: Final = "history too short"
LATE: Final = "late"
REPEAT: Final = "repeat"
NO_SEGMENT: Final = "unknown segment"
ABOVE_LIMIT: Final = "new item above the limit"
"""Reason for which an event is refused."""

_LEAST_NEW: Final = {
    "new_items_per_day": 1_000,
    "new_items": 10_000,
}  # lower bounds of the default limits
_HEAVIEST: Final = 0.01  # share of users that counts as the heaviest, at least one user
_LEAST_EVENTS: Final = 200  # events of a day below which their distribution says little
_LIMITS: Final = (0.25, 0.8)  # lowest and highest alert limit of the heaviest users' share
_QUANTILE: Final = 0.99  # of the daily shares in the data, which is the alert limit
_SHARE_EVENTS: Final = 100  # events from which on an alert reports the share of new items
_NEVER: Final = -(2**63)
_NO_EVENT: Final = UserDay()
_SHARE: Final = 0.01  # of new items from which on an alert reports it


@dataclass(frozen=True)
class LiveTerms:
    """Confidence levels, adaptation step and limits of a live model.

    Attributes
    ----------
    confidences : tuple of float
        Confidence levels with a live guarantee.
    step : float
        Step size γ of adaptive conformal inference: how far one error moves a threshold.
    false_alarms : float
        Highest rate of false drift alerts per evaluated event, over all confidence levels.
    new_items_per_day, new_items : int, optional
        Limits on items that are new to the model, per day and in total. Events on further new
        items are refused. Defaults: a tenth of the model's items (at least 1,000) per day, and
        the number of the model's items (at least 10,000) in total.
    """

    confidences: tuple[float, ...] = (0.7, 0.8, 0.9)
    step: float = DEFAULT_STEP
    false_alarms: float = DEFAULT_FALSE_ALARMS
    new_items_per_day: int | None = None
    new_items: int | None = None

    def __post_init__(self) -> None:
        given = check_list("confidences", self.confidences, "confidences")
        stated = tuple(check_number("confidence", each, 0, 1, "between 0 and 1") for each in given)
        object.__setattr__(self, "confidences", stated)
        AdaptiveLevel.start(self.epsilons, step=self.step)  # validates both
        self.watches()
        for name in _LEAST_NEW:
            if getattr(self, name) is not None:
                check_whole(name, getattr(self, name), lowest=0)

    def for_items(self, n_items: int) -> Self:
        """Return the terms with default limits on new items for a model of `n_items` items."""
        shares = {"new_items_per_day": n_items // 10, "new_items": n_items}
        limits = {name: max(_LEAST_NEW[name], share) for name, share in shares.items()}
        return replace(self, **{n: x for n, x in limits.items() if getattr(self, n) is None})  # type: ignore[arg-type]

    @property
    def epsilons(self) -> tuple[float, ...]:
        """The significance levels, 1 − confidence, ascending."""
        return tuple(sorted(round(1 - confidence, 12) for confidence in self.confidences))

    def watches(self, usual: Sequence[float] = ()) -> tuple[Watch, ...]:
        """Return new drift detectors, one per level, which share the rate of false alarms.

        Parameters
        ----------
        usual : sequence of float, optional
            Levels of watched events without drift, as a reference.
        """
        share = self.false_alarms / max(len(self.epsilons), 1)
        return tuple(
            Watch.start(
                epsilon,
                false_alarms=share,
                usual=(sum(not is_inside(level, epsilon) for level in usual), len(usual)),
            )
            for epsilon in self.epsilons
        )


@dataclass
class Window:
    """Coverage of consecutive evaluated events.

    Attributes
    ----------
    first, last : int
        Earliest and latest time, in microseconds since 1970.
    n : int
        Number of evaluated events.
    outside, unadapted : list of int
        For each ε, the number of events outside the adapted sets and outside the unadapted ones.
    not_evaluated : dict of str to int
        Number of events in between that were not evaluated, by reason.
    """

    first: int = 0
    last: int = 0
    n: int = 0
    outside: list[int] = field(default_factory=list)
    unadapted: list[int] = field(default_factory=list)
    not_evaluated: dict[str, int] = field(default_factory=dict)

    def record(self, time: int, outside: Sequence[bool], unadapted: Sequence[bool]) -> None:
        """Count an evaluated event."""
        self.first = min(self.first, time) if self.n else time
        self.last = max(self.last, time) if self.n else time
        self.n += 1
        self.outside = _add(self.outside, outside)
        self.unadapted = _add(self.unadapted, unadapted)


def _add(totals: list[int], more: Sequence[bool]) -> list[int]:
    return [n + bool(one) for n, one in zip(totals or [0] * len(more), more, strict=True)]


def _count(counts: dict[str, int], name: str, more: int = 1) -> None:
    counts[name] = counts.get(name, 0) + more


def observed_frame(windows: Sequence[Window], epsilons: Sequence[float]) -> pl.DataFrame:
    """Return nominal and observed coverage, one row per window and confidence level."""
    texts = dict.fromkeys(("from", "until"), pl.String)
    shares = dict.fromkeys(("confidence", "observed", "unadapted"), pl.Float64)
    rows = [
        (
            number,
            day_of(window.first),
            day_of(window.last),
            round(1 - epsilon, 12),
            1 - window.outside[place] / window.n,
            1 - window.unadapted[place] / window.n,
            window.n,
        )
        for number, window in enumerate(windows)
        for place, epsilon in enumerate(epsilons)
    ]
    schema = {"window": pl.Int64, **texts, **shares, "n": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row")


@dataclass
class SenderDay:
    """Activity of senders on one day (UTC, server clock, as senders choose the event times).

    Attributes
    ----------
    day : str
        The date.
    users : dict of str to int
        Number of users by their number of evaluated events. It contains no user ids.
    new_items : int
        Number of items that appeared first on this day.
    alerted : list of str
        Causes of the alerts raised on this day.

    Examples
    --------
    >>> day = SenderDay("2026-11-17")
    >>> for n_before in (0, 0, 1, 2):  # two users, one of whom has three events
    ...     day.record(n_before)
    >>> day.n_events, day.share
    (4, 0.75)
    """

    day: str = ""
    users: dict[str, int] = field(default_factory=dict)
    new_items: int = 0
    alerted: list[str] = field(default_factory=list)

    def record(self, n_before: int) -> None:
        """Count an evaluated event of a user with `n_before` earlier ones."""
        _count(self.users, str(n_before + 1))
        if n_before:
            _count(self.users, str(n_before), -1)

    @property
    def n_events(self) -> int:
        """Number of evaluated events of the day."""
        return sum(int(n) * users for n, users in self.users.items())

    @property
    def n_heaviest(self) -> int:
        """Number of users that count as the heaviest."""
        return math.ceil(_HEAVIEST * sum(self.users.values()))

    @property
    def share(self) -> float | None:
        """Share of the day's evaluated events from the heaviest users; None without events."""
        by_weight = sorted(((int(n), users) for n, users in self.users.items()), reverse=True)
        each = [n for n, users in by_weight for _ in range(min(users, self.n_heaviest))]
        return sum(each[: self.n_heaviest]) / self.n_events if each else None


@dataclass
class Ledger:
    """Adapted thresholds, observed coverage, drift detectors and sender statistics.

    Examples
    --------
    >>> ledger = Ledger.start(LiveTerms())
    >>> ledger.record(0.15, time=0)
    (None, [])
    >>> ledger.adaptive.errors, ledger.window.outside
    ((0, 1, 1), [0, 1, 1])
    """

    adaptive: AdaptiveLevel
    watches: tuple[Watch, ...]
    window: Window = field(default_factory=Window)
    n_windows: int = 0
    n_alerts: int = 0
    not_evaluated: dict[str, int] = field(default_factory=dict)
    quiet: dict[str, int] = field(default_factory=dict)
    """By ε, the day of the latest alert, as alerts are raised at most once a day."""
    today: SenderDay = field(default_factory=SenderDay)
    new_items: int = 0
    """Number of items that appeared since the live model was created."""
    heaviest_limit: float = _LIMITS[1]
    """Share of the heaviest users above which an alert is raised."""

    @classmethod
    def start(cls, terms: LiveTerms) -> Self:
        """Return the ledger before the first event."""
        return cls(AdaptiveLevel.start(terms.epsilons, step=terms.step), terms.watches())

    def refit(self, terms: LiveTerms, usual: Sequence[float], heaviest_limit: float) -> None:
        """Reset the drift detectors after a refit; see :meth:`LiveTerms.watches`."""
        self.watches, self.quiet = terms.watches(usual), {}
        self.heaviest_limit = heaviest_limit

    def skip(self, reason: str) -> None:
        """Count an event that is not evaluated."""
        _count(self.not_evaluated, reason)
        _count(self.window.not_evaluated, reason)

    def admit(self, terms: LiveTerms) -> bool:
        """Return whether a new item is within the limits, and count it if so."""
        pairs = (self.today.new_items, terms.new_items_per_day), (self.new_items, terms.new_items)
        is_within = all(limit is None or n < limit for n, limit in pairs)
        self.today.new_items += is_within
        self.new_items += is_within
        return is_within

    def record(
        self, level: float, time: int, *, watched: bool = True, so_far: UserDay = _NO_EVENT
    ) -> tuple[Window | None, list[str]]:
        """Record an evaluated event; return the window if it is complete, and new alerts.

        Parameters
        ----------
        level : float
            The ε below which the fitted calibration includes the consumed item.
        time : int
            Event time in microseconds since 1970.
        watched : bool, default=True
            Whether it is the user's first event of a day. Drift detectors use only these, because
            consecutive events of one user are dependent.
        so_far : UserDay, optional
            Earlier evaluated events of the same user and day; by default none.
        """
        epsilons, alerts = self.adaptive.epsilons, []
        unadapted = [not is_inside(level, epsilon) for epsilon in epsilons]
        self.window.record(time, self.adaptive.missed(level), unadapted)
        if watched:
            pairs = zip(self.watches, unadapted, strict=True)
            found = [watch.after(error=error, time=time) for watch, error in pairs]
            for (_, alert), watch, epsilon in zip(found, self.watches, epsilons, strict=True):
                if alert is not None and time // DAY > self.quiet.get(str(epsilon), _NEVER):
                    self.quiet[str(epsilon)] = time // DAY
                    alerts.append(_drift_message(alert, epsilon, watch.expected, self.window))
            self.watches = tuple(watch for watch, _ in found)
        self.adaptive = self.adaptive.after(level, so_far)
        self.today.record(so_far.n)
        closed = None
        if self.window.n >= WINDOW:
            closed, self.window = self.window, Window()
            self.n_windows += 1
        return closed, alerts

    def once_a_day(self, alerts: Mapping[str, str]) -> list[str]:
        """Return the alerts whose cause is new today, and mark the causes as alerted."""
        fresh = {cause: each for cause, each in alerts.items() if cause not in self.today.alerted}
        self.today.alerted += fresh
        return list(fresh.values())

    def sender_alerts(self, terms: LiveTerms, *, refused: bool) -> dict[str, str]:
        """Return the alerts about today's senders, by cause."""
        found, today, share = {}, self.today, self.today.share
        if refused:
            limit = f"{terms.new_items_per_day:,} new items on {today.day}"
            fix = "send the events again tomorrow (UTC), or raise new_items_per_day in live.json"
            if terms.new_items is not None and self.new_items >= terms.new_items:
                limit = f"{terms.new_items:,} new items since this model was created"
                fix = "raise new_items in live.json and restart"
            found["new items"] = (
                f"Events on new items are refused: the limit of {limit} is reached. If the items "
                f"are genuine, {fix}."
            )
        if today.n_events >= _LEAST_EVENTS and share is not None and share > self.heaviest_limit:
            found["heaviest users"] = (
                f"{counted(today.n_heaviest, 'users')} sent {share:.0%} of the {today.n_events:,} "
                f"evaluated events of {today.day}; more than {self.heaviest_limit:.0%} is unusual. "
                "Each user counts once a day, so one user has little effect on the sets of others, "
                "but many accounts of one sender have more. List them with `surerec live status "
                "--heaviest`. Revoke the key that sends these events, or lower its rate limit."
            )
        return found

    @classmethod
    def from_state(cls, state: Any) -> Self:
        """Build a ledger from JSON; raise KeyError, TypeError or ValueError if it is invalid."""
        parts = {
            "adaptive": AdaptiveLevel.from_state(state["adaptive"]),
            "watches": tuple(Watch.from_state(each) for each in state["watches"]),
            "window": Window(**state["window"]),
            "today": SenderDay(**state["today"]),
        }
        return cls(**{**state, **parts})


def _drift_message(alert: DriftAlert, epsilon: float, expected: float, window: Window) -> str:
    """Return when the drift began, its size, its likely cause and the fix."""
    n_events = window.n + sum(window.not_evaluated.values())
    new_share = window.not_evaluated.get(NEW_ITEM, 0) / n_events
    cause, usual = "", f"{epsilon:.1%}"
    if n_events >= _SHARE_EVENTS and new_share >= _SHARE:
        cause = f" New items are {new_share:.0%} of all events."
    if expected > epsilon:  # first events of a day are harder to predict
        usual = f"{expected:.1%} at the last fit ({epsilon:.1%} of all events)"
    return (
        f"Drift since {day_of(alert.since)}: {alert.errors / alert.n:.1%} of {alert.n:,} users' "
        f"first events of a day are outside the unadapted sets, instead of {usual}.{cause} Refit "
        "or recalibrate the model."
    )


def usual_limit(profiles: Interactions) -> float:
    """Return the alert limit for the share of the heaviest users, from the data.

    It is the 99% quantile of the daily shares, between 25% and 80%. Only days with at least 200
    interactions count; without any, the limit is 80%.

    Examples
    --------
    >>> import surerec as sr
    >>> films = sr.datasets.synthetic(n_users=300, n_items=60, n_rows=6000, days=10, random_state=1)
    >>> usual_limit(films)
    0.25
    """
    owners = np.repeat(np.arange(profiles.n_users), np.diff(profiles.offsets))
    pairs = np.stack([profiles.times // DAY, owners])
    (days, _), n = np.unique(pairs, axis=1, return_counts=True)
    by_day = np.split(n, np.flatnonzero(np.diff(days)) + 1)
    shares = [
        np.sort(some)[-math.ceil(_HEAVIEST * len(some)) :].sum() / some.sum()
        for some in by_day
        if some.sum() >= _LEAST_EVENTS
    ]
    return float(np.clip(np.quantile(shares, _QUANTILE), *_LIMITS)) if shares else _LIMITS[1]


def now_text() -> str:
    """Return the current time as ISO text."""
    return datetime.now(UTC).isoformat(timespec="seconds")
