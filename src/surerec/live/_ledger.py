"""What a live model knows of its errors and senders: thresholds, alarms, windows, days."""

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
"""Judged events of a window."""

JUDGED: Final = "judged"
"""What an event is; or, as follows, why it is not."""
NEW_ITEM: Final = "new item"
TOO_LITTLE: Final = "too little known of the person"
LATE: Final = "late"
REPEAT: Final = "repeat"
NO_SEGMENT: Final = "segment not known"
ABOVE_LIMIT: Final = "new item above the limit"
"""Why an event is refused."""

_LEAST_NEW: Final = {"new_items_per_day": 1_000, "new_items": 10_000}  # that are always admitted
_HEAVIEST: Final = 0.01  # of users are the heaviest; one user at the least
_TELLING: Final = 200  # events of a day whose share is telling
_LIMITS: Final = (0.25, 0.8)  # between which a share becomes unusual, whatever the data
_RARE: Final = 0.99  # of days are less uneven than an unusual one
_ENOUGH: Final = 100  # events to say a share of
_NEVER: Final = -(2**63)  # before any day
_NO_EVENT: Final = UserDay()
_SHARE: Final = 0.01  # of new items that is worth a word


@dataclass(frozen=True)
class LiveTerms:
    """What a live model guarantees, and when it raises an alarm.

    Attributes
    ----------
    confidences : tuple of float
        Those at which a live guarantee is kept.
    step : float
        γ: how far one error moves a threshold.
    false_alarms : float
        How many false alarms there may be for each judged event, over all confidences.
    new_items_per_day, new_items : int, optional
        How many items that are new to the model events may name, per day and in total; events on
        further ones are refused. By default a tenth of the model's items (at least 1,000) and as
        many as the model has (at least 10,000).
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
        AdaptiveLevel.start(self.epsilons, step=self.step)  # which refuses what is impossible
        self.watches()
        for name in _LEAST_NEW:
            if getattr(self, name) is not None:
                check_whole(name, getattr(self, name), lowest=0)

    def for_items(self, n_items: int) -> Self:
        """Return the terms with the limits on new items of a model of so many items."""
        shares = {"new_items_per_day": n_items // 10, "new_items": n_items}
        limits = {name: max(_LEAST_NEW[name], share) for name, share in shares.items()}
        return replace(self, **{n: x for n, x in limits.items() if getattr(self, n) is None})  # type: ignore[arg-type]

    @property
    def epsilons(self) -> tuple[float, ...]:
        """1 − confidence of each, ascending."""
        return tuple(sorted(round(1 - confidence, 12) for confidence in self.confidences))

    def watches(self, usual: Sequence[float] = ()) -> tuple[Watch, ...]:
        """Return watches before the first event, with the false alarms shared among them.

        Parameters
        ----------
        usual : sequence of float, optional
            The levels of events of the kind that is watched, when nothing had changed yet.
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
    """What was observed over some judged events in a row.

    Attributes
    ----------
    first, last : int
        When, in microseconds since 1970.
    n : int
        Judged events.
    outside, unsteered : list of int
        For each ε, those that were outside of the live sets, and of the sets without adaptation.
    not_judged : dict of str to int
        Events meanwhile that were not judged, by reason.
    """

    first: int = 0
    last: int = 0
    n: int = 0
    outside: list[int] = field(default_factory=list)
    unadapted: list[int] = field(default_factory=list)
    not_judged: dict[str, int] = field(default_factory=dict)

    def judge(self, time: int, outside: Sequence[bool], unadapted: Sequence[bool]) -> None:
        """Count a judged event."""
        self.first = min(self.first, time) if self.n else time
        self.last = max(self.last, time) if self.n else time
        self.n += 1
        self.outside = _plus(self.outside, outside)
        self.unadapted = _plus(self.unadapted, unadapted)


def _plus(tally: list[int], more: Sequence[bool]) -> list[int]:
    return [n + bool(one) for n, one in zip(tally or [0] * len(more), more, strict=True)]


def _count(counts: dict[str, int], name: str, more: int = 1) -> None:
    counts[name] = counts.get(name, 0) + more


def observed_frame(windows: Sequence[Window], epsilons: Sequence[float]) -> pl.DataFrame:
    """Return nominal and observed, a row for each window and confidence."""
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
    """What senders did on a day, in UTC by the server's clock: events state times of their own.

    Attributes
    ----------
    day : str
        Which.
    users : dict of str to int
        By number of judged events, how many users have so many. No user is named.
    new_items : int
        Items that events named first on it.
    alerted : list of str
        The causes of the alerts that it had.

    Examples
    --------
    >>> day = SenderDay("2026-11-17")
    >>> for n_before in (0, 0, 1, 2):  # two users, one of whom has three events
    ...     day.judge(n_before)
    >>> day.n_events, day.share
    (4, 0.75)
    """

    day: str = ""
    users: dict[str, int] = field(default_factory=dict)
    new_items: int = 0
    alerted: list[str] = field(default_factory=list)

    def judge(self, n_before: int) -> None:
        """Count a judged event of a user who had so many before."""
        _count(self.users, str(n_before + 1))
        if n_before:
            _count(self.users, str(n_before), -1)

    @property
    def n_events(self) -> int:
        """Judged events of the day."""
        return sum(int(n) * users for n, users in self.users.items())

    @property
    def n_heaviest(self) -> int:
        """The number of users who are the heaviest."""
        return math.ceil(_HEAVIEST * sum(self.users.values()))

    @property
    def share(self) -> float | None:
        """The share of the day's judged events that come from the heaviest users; None of none."""
        by_weight = sorted(((int(n), users) for n, users in self.users.items()), reverse=True)
        each = [n for n, users in by_weight for _ in range(min(users, self.n_heaviest))]
        return sum(each[: self.n_heaviest]) / self.n_events if each else None


@dataclass
class Ledger:
    """All that is known of a live model's errors and senders.

    Examples
    --------
    >>> ledger = Ledger.start(LiveTerms())
    >>> ledger.judge(0.15, time=0)
    (None, [])
    >>> ledger.steering.errors, ledger.window.outside
    ((0, 1, 1), [0, 1, 1])
    """

    adaptive: AdaptiveLevel
    watches: tuple[Watch, ...]
    window: Window = field(default_factory=Window)
    n_windows: int = 0
    n_alerts: int = 0
    not_judged: dict[str, int] = field(default_factory=dict)
    quiet: dict[str, int] = field(default_factory=dict)
    """By ε, the day of its latest alarm, which is repeated on a later one."""
    today: SenderDay = field(default_factory=SenderDay)
    new_items: int = 0
    """Items that events named first, since the live model was created."""
    heaviest_limit: float = _LIMITS[1]
    """The share of the heaviest users above which a day is unusual."""

    @classmethod
    def start(cls, terms: LiveTerms) -> Self:
        """Return the ledger before the first event."""
        return cls(AdaptiveLevel.start(terms.epsilons, step=terms.step), terms.watches())

    def refit(self, terms: LiveTerms, usual: Sequence[float], heaviest_limit: float) -> None:
        """Let the watches begin again, as after a refit; see :meth:`LiveTerms.watches`."""
        self.watches, self.quiet = terms.watches(usual), {}
        self.heaviest_limit = heaviest_limit

    def pass_over(self, reason: str) -> None:
        """Count an event that is not judged."""
        _count(self.not_judged, reason)
        _count(self.window.not_judged, reason)

    def admit(self, terms: LiveTerms) -> bool:
        """Count a new item, and return True, if it is within the limits."""
        pairs = (self.today.new_items, terms.new_items_per_day), (self.new_items, terms.new_items)
        has_room = all(limit is None or n < limit for n, limit in pairs)
        self.today.new_items += has_room
        self.new_items += has_room
        return has_room

    def judge(
        self, level: float, time: int, *, watched: bool = True, so_far: UserDay = _NO_EVENT
    ) -> tuple[Window | None, list[str]]:
        """Count a judged event; return the window if it closed one, and alarms in words.

        Parameters
        ----------
        level : float
            The ε below which the fitted calibration includes what was consumed.
        time : int
            When, in microseconds since 1970.
        watched : bool, default=True
            Whether it is the user's first event of a day. Only these are watched: what a user
            consumes in a row goes together, and one user is no cause for alarm.
        so_far : UserDay, optional
            The earlier judged events of the same user and day; by default it is their first.
        """
        epsilons, alerts = self.adaptive.epsilons, []
        unadapted = [not is_inside(level, epsilon) for epsilon in epsilons]
        self.window.judge(time, self.adaptive.missed(level), unadapted)
        if watched:
            pairs = zip(self.watches, unadapted, strict=True)
            found = [watch.after(error=error, time=time) for watch, error in pairs]
            for (_, alert), watch, epsilon in zip(found, self.watches, epsilons, strict=True):
                if alert is not None and time // DAY > self.quiet.get(str(epsilon), _NEVER):
                    self.quiet[str(epsilon)] = time // DAY
                    alerts.append(_in_words(alert, epsilon, watch.expected, self.window))
            self.watches = tuple(watch for watch, _ in found)
        self.adaptive = self.adaptive.after(level, so_far)
        self.today.judge(so_far.n)
        closed = None
        if self.window.n >= WINDOW:
            closed, self.window = self.window, Window()
            self.n_windows += 1
        return closed, alerts

    def once_a_day(self, alerts: Mapping[str, str]) -> list[str]:
        """Return the alerts, by cause, that this day did not have yet; from now on it has."""
        fresh = {cause: each for cause, each in alerts.items() if cause not in self.today.alerted}
        self.today.alerted += fresh
        return list(fresh.values())

    def sender_alerts(self, terms: LiveTerms, *, refused: bool) -> dict[str, str]:
        """Return the alerts that a day's senders are cause for, by cause."""
        found, today, share = {}, self.today, self.today.share
        if refused:
            limit = f"{terms.new_items_per_day:,} new items on {today.day}"
            until = "send them again tomorrow (UTC), or raise new_items_per_day in live.json"
            if terms.new_items is not None and self.new_items >= terms.new_items:
                limit = f"{terms.new_items:,} new items since this model was created"
                until = "raise new_items in live.json and restart"
            found["new items"] = (
                f"Events on further new items are refused: there were {limit}. If the items are "
                f"real, {until}."
            )
        if today.n_events >= _TELLING and share is not None and share > self.heaviest_limit:
            found["heaviest users"] = (
                f"{counted(today.n_heaviest, 'users')} sent {share:.0%} of the {today.n_events:,} "
                f"judged events of {today.day}; above {self.heaviest_limit:.0%} is unusual. Each "
                "user counts once a day, so one user cannot move the sets of others far, but many "
                "accounts of one sender can. See who they are with surerec live status "
                "--heaviest, and revoke the key that sends them or lower its rate limit."
            )
        return found

    @classmethod
    def from_state(cls, state: Any) -> Self:
        """Build it from what JSON holds; KeyError, TypeError or ValueError if that is no ledger."""
        parts = {
            "adaptive": AdaptiveLevel.from_state(state["adaptive"]),
            "watches": tuple(Watch.from_state(each) for each in state["watches"]),
            "window": Window(**state["window"]),
            "today": SenderDay(**state["today"]),
        }
        return cls(**{**state, **parts})


def _in_words(alert: DriftAlert, epsilon: float, expected: float, window: Window) -> str:
    """Return what is alarming: since when, how much, what may be the cause, what to do."""
    n_new, n_passed = window.not_judged.get(NEW_ITEM, 0), sum(window.not_judged.values())
    of_new = n_new / (window.n + n_passed)
    cause, usual = "", f"{epsilon:.1%}"
    if window.n + n_passed >= _ENOUGH and of_new >= _SHARE:
        cause = f"; new items are {of_new:.0%} of what is taken"
    if expected > epsilon:  # such events are harder than others
        usual = f"{expected:.1%} when it was counted (of all events {epsilon:.1%})"
    return (
        f"Since {day_of(alert.since)}, over {alert.n:,} people's first events of a day, "
        f"{alert.errors / alert.n:.1%} of what they took is outside of sets that are not steered, "
        f"instead of {usual}{cause}: recount or recalibrate."
    )


def usual_limit(profiles: Interactions) -> float:
    """Return the share of the heaviest users above which a day is unusual for some profiles.

    99% of the days of the data have a smaller share; it is between 25% and 80%. Only days with
    enough interactions count; without any, it is 80%.

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
        if some.sum() >= _TELLING
    ]
    return float(np.clip(np.quantile(shares, _RARE), *_LIMITS)) if shares else _LIMITS[1]


def now_text() -> str:
    """Return the present moment as ISO text."""
    return datetime.now(UTC).isoformat(timespec="seconds")
