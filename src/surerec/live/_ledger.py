"""What a live model knows of its errors and senders: thresholds, alarms, windows, days."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import polars as pl

from surerec._arguments import check_list, check_number
from surerec._calendar import DAY, day_of
from surerec._checks import check_whole
from surerec._shown import counted
from surerec.conformal import (
    DEFAULT_FALSE_ALARMS,
    DEFAULT_STEP,
    DEFAULT_TOLERANCE,
    Steering,
    UserDay,
    Watch,
    is_inside,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from surerec.conformal import Alarm
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
    tolerance : float
        By how much errors may be more frequent than ε before they are alarming.
    new_items_per_day, new_items : int, optional
        How many items that are new to the model events may name, per day and in total; events on
        further ones are refused. By default a tenth of the model's items (at least 1,000) and as
        many as the model has (at least 10,000).
    """

    confidences: tuple[float, ...] = (0.7, 0.8, 0.9)
    step: float = DEFAULT_STEP
    false_alarms: float = DEFAULT_FALSE_ALARMS
    tolerance: float = DEFAULT_TOLERANCE
    new_items_per_day: int | None = None
    new_items: int | None = None

    def __post_init__(self) -> None:
        given = check_list("confidences", self.confidences, "confidences")
        stated = tuple(check_number("confidence", each, 0, 1, "between 0 and 1") for each in given)
        object.__setattr__(self, "confidences", stated)
        self.watches()  # which refuse what is impossible
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

    def steering(self) -> Steering:
        """Return the thresholds before the first event."""
        return Steering.start(self.epsilons, step=self.step)

    def watches(self, usual: Sequence[float] = ()) -> tuple[Watch, ...]:
        """Return watches before the first event, with the false alarms shared among them.

        Parameters
        ----------
        usual : sequence of float, optional
            The levels of events of the kind that is watched, when nothing had changed yet.
        """
        share = self.false_alarms / max(len(self.steering().epsilons), 1)
        return tuple(
            Watch.start(
                epsilon,
                tolerance=self.tolerance,
                false_alarms=share,
                usual=(sum(not is_inside(level, epsilon) for level in usual), len(usual)),
            )
            for epsilon in self.epsilons
        )


@dataclass(frozen=True)
class Window:
    """What was observed over some judged events in a row.

    Attributes
    ----------
    first, last : int
        When, in microseconds since 1970.
    n : int
        Judged events.
    outside, unsteered : tuple of int
        For each ε, how many of them were outside of the live sets, and of those without adaptation.
    groups : dict of str to tuple of int
        By group of users or items, the judged events and those outside for each ε.
    not_judged : dict of str to int
        Events meanwhile that were not judged, by reason.
    """

    first: int = 0
    last: int = 0
    n: int = 0
    outside: tuple[int, ...] = ()
    unsteered: tuple[int, ...] = ()
    groups: dict[str, tuple[int, ...]] = field(default_factory=dict)
    not_judged: dict[str, int] = field(default_factory=dict)

    def judged(
        self, time: int, outside: Sequence[bool], unsteered: Sequence[bool], groups: Iterable[str]
    ) -> Self:
        """Return it with one more judged event."""
        tallies = dict(self.groups)
        for group in groups:
            tallies[group] = _plus(tallies.get(group, ()), (True, *outside))
        return replace(
            self,
            first=min(self.first, time) if self.n else time,
            last=max(self.last, time) if self.n else time,
            n=self.n + 1,
            outside=_plus(self.outside, outside),
            unsteered=_plus(self.unsteered, unsteered),
            groups=tallies,
        )

    def rows(self, number: int, epsilons: Sequence[float]) -> Iterator[tuple[Any, ...]]:
        """Return a row of :func:`observed_frame` for each confidence and group."""
        when = day_of(self.first), day_of(self.last)
        for place, epsilon in enumerate(epsilons):
            confidence = round(1 - epsilon, 12)
            both = (1 - tally[place] / self.n for tally in (self.outside, self.unsteered))
            yield number, *when, "all", confidence, *both, self.n
            for group, (n, *outside) in sorted(self.groups.items()):
                yield number, *when, group, confidence, 1 - outside[place] / n, None, n

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Build it from what JSON holds of it."""
        return cls(**_tuples(state))


def observed_frame(windows: Sequence[Window], epsilons: Sequence[float]) -> pl.DataFrame:
    """Return nominal and observed, a row for each window, group and confidence."""
    texts = dict.fromkeys(("from", "until", "group"), pl.String)
    shares = dict.fromkeys(("confidence", "delivered", "unsteered"), pl.Float64)
    schema = {"window": pl.Int64, **texts, **shares, "n": pl.Int64}
    rows = [row for number, each in enumerate(windows) for row in each.rows(number, epsilons)]
    return pl.DataFrame(rows, schema=schema, orient="row")


def _plus(tally: Sequence[int], more: Sequence[bool]) -> tuple[int, ...]:
    before = tally or (0,) * len(more)
    return tuple(n + bool(one) for n, one in zip(before, more, strict=True))


def _plus_one(counts: Mapping[str, int], name: str) -> dict[str, int]:
    return {**counts, name: counts.get(name, 0) + 1}


def _tuples(value: Any) -> Any:
    """Return what JSON holds with tuples for lists."""
    if isinstance(value, dict):
        return {name: _tuples(each) for name, each in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


@dataclass(frozen=True)
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
    alerted : tuple of str
        The causes of the alerts that it had.

    Examples
    --------
    >>> day = SenderDay("2026-11-17")
    >>> for n_before in (0, 0, 1, 2):  # two users, one of whom has three events
    ...     day = day.judged(n_before)
    >>> day.n_events, day.share
    (4, 0.75)
    """

    day: str = ""
    users: dict[str, int] = field(default_factory=dict)
    new_items: int = 0
    alerted: tuple[str, ...] = ()

    def judged(self, n_before: int) -> Self:
        """Return the counts after a judged event of a user who had so many before."""
        users = _plus_one(self.users, str(n_before + 1))
        if n_before:
            users[str(n_before)] -= 1
        return replace(self, users={n: some for n, some in users.items() if some})

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
        if not self.users:
            return None
        left, events = self.n_heaviest, 0
        for n in sorted(map(int, self.users), reverse=True):
            some = min(left, self.users[str(n)])
            events, left = events + n * some, left - some
        return events / self.n_events


@dataclass(frozen=True)
class Ledger:
    """All that is known of a live model's errors and senders; a new one after each event.

    Examples
    --------
    >>> ledger, closed, alarms = Ledger.start(LiveTerms()).judge(0.15, time=0, groups=["people"])
    >>> ledger.steering.errors, ledger.window.groups, closed, alarms
    ((0, 1, 1), {'people': (1, 0, 1, 1)}, None, [])
    """

    steering: Steering
    watches: tuple[Watch, ...]
    window: Window = field(default_factory=Window)
    n_windows: int = 0
    n_alarms: int = 0
    not_judged: dict[str, int] = field(default_factory=dict)
    quiet: tuple[int, ...] = ()
    """For each ε, the day of its latest alarm, which is repeated on a later one; if there was."""
    today: SenderDay = field(default_factory=SenderDay)
    new_items: int = 0
    """Items that events named first, since the live model was created."""
    heaviest_limit: float = _LIMITS[1]
    """The share of the heaviest users above which a day is unusual."""

    @classmethod
    def start(cls, terms: LiveTerms, usual: Sequence[float] = ()) -> Self:
        """Return the ledger before the first event; see :meth:`LiveTerms.watches`."""
        return cls(terms.steering(), terms.watches(usual))

    def on(self, day: str) -> Self:
        """Return the ledger at a day, in UTC by the server's clock."""
        return self if day == self.today.day else replace(self, today=SenderDay(day))

    def passed_over(self, reason: str) -> Self:
        """Return the ledger after an event that is not judged."""
        window = replace(self.window, not_judged=_plus_one(self.window.not_judged, reason))
        return replace(self, window=window, not_judged=_plus_one(self.not_judged, reason))

    def admits(self, terms: LiveTerms) -> bool:
        """Return whether one more new item is within the limits."""
        pairs = (self.today.new_items, terms.new_items_per_day), (self.new_items, terms.new_items)
        return all(limit is None or n < limit for n, limit in pairs)

    def admitted(self) -> Self:
        """Return the ledger after one more new item."""
        today = replace(self.today, new_items=self.today.new_items + 1)
        return replace(self, today=today, new_items=self.new_items + 1)

    def judge(
        self,
        level: float,
        time: int,
        groups: Iterable[str],
        *,
        watched: bool = True,
        so_far: UserDay = _NO_EVENT,
    ) -> tuple[Self, Window | None, list[str]]:
        """Return the ledger after a judged event, the window if it closed one, and alarms in words.

        Parameters
        ----------
        level : float
            The ε below which the fitted calibration includes what was consumed.
        time : int
            When, in microseconds since 1970.
        groups : iterable of str
            Of users and items that it counts for.
        watched : bool, default=True
            Whether it is the user's first event of a day. Only these are watched: what a user
            consumes in a row goes together, and one user is no cause for alarm.
        so_far : UserDay, optional
            The earlier judged events of the same user and day; by default it is their first.
        """
        outside = self.steering.missed(level)
        unsteered = [not is_inside(level, epsilon) for epsilon in self.steering.epsilons]
        window = self.window.judged(time, outside, unsteered, groups)
        watches, alarms, quiet = [], list[str](), list(self.quiet or (_NEVER,) * len(outside))
        for place, (watch, epsilon, error) in enumerate(
            zip(self.watches, self.steering.epsilons, unsteered, strict=True)
        ):
            after, alarm = watch.after(error=error, time=time) if watched else (watch, None)
            watches.append(after)
            if alarm is not None and time // DAY > quiet[place]:
                quiet[place] = time // DAY
                alarms.append(_in_words(alarm, epsilon, watch.expected, window))
        closed = window if window.n >= WINDOW else None
        ledger = replace(
            self,
            steering=self.steering.after(level, so_far),
            watches=tuple(watches),
            window=window if closed is None else Window(),
            n_windows=self.n_windows + (closed is not None),
            quiet=tuple(quiet) if alarms else self.quiet,
            today=self.today.judged(so_far.n),
        )
        return ledger, closed, alarms

    def raising(self, alerts: Mapping[str, str]) -> tuple[Self, list[str]]:
        """Return the ledger and the alerts, by cause, that its day did not have yet."""
        fresh = {cause: each for cause, each in alerts.items() if cause not in self.today.alerted}
        today = replace(self.today, alerted=(*self.today.alerted, *fresh))
        return replace(self, today=today), list(fresh.values())

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

    def refitted(self, terms: LiveTerms, usual: Sequence[float], heaviest_limit: float) -> Self:
        """Return the ledger after a refit: its watches begin again."""
        watches = terms.watches(usual)
        return replace(self, watches=watches, quiet=(), heaviest_limit=heaviest_limit)

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Build it from what JSON holds; KeyError, TypeError or ValueError if that is no ledger."""
        parts = {
            "steering": Steering.from_state(state["steering"]),
            "watches": tuple(Watch.from_state(each) for each in state["watches"]),
            "window": Window.from_state(state["window"]),
            "today": SenderDay(**_tuples(state["today"])),
        }
        return cls(**{**_tuples(state), **parts})

    def to_state(self) -> dict[str, Any]:
        """Return all of it in a form that JSON holds."""
        return asdict(self)


def is_first_of_day(before: Any, time: Any) -> Any:
    """Return whether a user's event is not on the day of the one before it, in UTC.

    Of one event, or of arrays of them.

    Examples
    --------
    >>> is_first_of_day(5, 86_399_999_999), is_first_of_day(5, 86_400_000_000)
    (False, True)
    """
    return before // DAY != time // DAY


def _in_words(alarm: Alarm, epsilon: float, expected: float, window: Window) -> str:
    """Return what is alarming: since when, how much, what may be the cause, what to do."""
    n_new, n_passed = window.not_judged.get(NEW_ITEM, 0), sum(window.not_judged.values())
    of_new = n_new / (window.n + n_passed)
    cause, usual = "", f"{epsilon:.1%}"
    if window.n + n_passed >= _ENOUGH and of_new >= _SHARE:
        cause = f"; new items are {of_new:.0%} of what is taken"
    if expected > epsilon:  # such events are harder than others
        usual = f"{expected:.1%} when it was counted (of all events {epsilon:.1%})"
    return (
        f"Since {day_of(alarm.since)}, over {alarm.n:,} people's first events of a day, "
        f"{alarm.errors / alarm.n:.1%} of what they took is outside of sets that are not steered, "
        f"instead of {usual}{cause}: recount or recalibrate."
    )


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
        np.sort(some)[-math.ceil(_HEAVIEST * len(some)) :].sum() / some.sum()
        for some in by_day
        if some.sum() >= _TELLING
    ]
    return float(np.clip(np.quantile(shares, _RARE), *_LIMITS)) if shares else _LIMITS[1]


def now_text() -> str:
    """Return the present moment as ISO text."""
    return datetime.now(UTC).isoformat(timespec="seconds")
