"""What a live model knows of its own errors: cuts, alarms, and what was delivered by window."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Self

from surerec._arguments import check_list, check_number
from surerec._calendar import DAY, day_of
from surerec._checks import check_whole
from surerec.conformal import (
    DEFAULT_FALSE_ALARMS,
    DEFAULT_STEP,
    DEFAULT_TOLERANCE,
    Steering,
    UserDay,
    Watch,
    is_inside,
)
from surerec.live._senders import LEAST_IN_TOTAL, LEAST_PER_DAY, HeaviestUsers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from surerec.conformal import Alarm

WINDOW: Final = 2000
"""Judged events of a window."""

JUDGED: Final = "judged"
"""What an event is; or, as follows, why it is not."""
NEW_ITEM: Final = "new item"
TOO_LITTLE: Final = "too little known of the person"
LATE: Final = "late"
REPEAT: Final = "repeat"
NO_SEGMENT: Final = "segment not known"

_ENOUGH: Final = 100  # events to say a share of
_NEVER: Final = -(2**63)  # before any day
_NO_EVENT: Final = UserDay()
_SHARE: Final = 0.01  # of new items that is worth a word


@dataclass(frozen=True)
class Terms:
    """What a live model promises, and when it raises the alarm.

    Attributes
    ----------
    confidences : tuple of float
        Those at which a live promise is kept.
    step : float
        γ: how far one error moves a cut.
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
        for name in ("new_items_per_day", "new_items"):
            if getattr(self, name) is not None:
                check_whole(name, getattr(self, name), lowest=0)

    def for_items(self, n_items: int) -> Self:
        """Return the terms with the limits on new items of a model of so many items."""
        per_day, in_total = self.new_items_per_day, self.new_items
        return replace(
            self,
            new_items_per_day=max(LEAST_PER_DAY, n_items // 10) if per_day is None else per_day,
            new_items=max(LEAST_IN_TOTAL, n_items) if in_total is None else in_total,
        )

    @property
    def limits(self) -> tuple[int, int]:
        """The limits on new items, per day and in total."""
        per_day, in_total = self.new_items_per_day, self.new_items
        return (
            LEAST_PER_DAY if per_day is None else per_day,
            LEAST_IN_TOTAL if in_total is None else in_total,
        )

    @property
    def epsilons(self) -> tuple[float, ...]:
        """1 − confidence of each, ascending."""
        return tuple(sorted(round(1 - confidence, 12) for confidence in self.confidences))

    def steering(self) -> Steering:
        """Begin to steer."""
        return Steering.start(self.epsilons, step=self.step)

    def watches(self, usual: Sequence[float] = ()) -> tuple[Watch, ...]:
        """Begin to watch, with the false alarms shared among the confidences.

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
    """What was delivered over some judged events in a row.

    Attributes
    ----------
    first, last : int
        When, in microseconds since 1970.
    n : int
        Judged events.
    outside, unsteered : tuple of int
        For each ε, how many of them were outside of the live sets, and of those without steering.
    groups : dict of str to tuple of int
        By group of people or items, the judged events and those outside for each ε.
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
        """Give it with one more judged event."""
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

    def passed_over(self, reason: str) -> Self:
        """Give it with one more event that was not judged."""
        counts = {**self.not_judged, reason: self.not_judged.get(reason, 0) + 1}
        return replace(self, not_judged=counts)

    def to_state(self) -> dict[str, Any]:
        """Give all of it in a form that JSON holds."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Read it back."""
        return cls(
            first=int(state["first"]),
            last=int(state["last"]),
            n=int(state["n"]),
            outside=tuple(state["outside"]),
            unsteered=tuple(state["unsteered"]),
            groups={name: tuple(tally) for name, tally in state["groups"].items()},
            not_judged=dict(state["not_judged"]),
        )


def _plus(tally: Sequence[int], more: Sequence[bool]) -> tuple[int, ...]:
    before = tally or (0,) * len(more)
    return tuple(n + bool(one) for n, one in zip(before, more, strict=True))


@dataclass(frozen=True)
class Ledger:
    """All that is known of a live model's errors; a new one after each event.

    Examples
    --------
    >>> ledger, closed, alarms = Ledger.start(Terms()).judge(0.15, time=0, groups=["people"])
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
    heaviest: HeaviestUsers = field(default_factory=HeaviestUsers)

    @classmethod
    def start(cls, terms: Terms, usual: Sequence[float] = ()) -> Self:
        """Begin; see :meth:`Terms.watches`."""
        return cls(terms.steering(), terms.watches(usual))

    def passed_over(self, reason: str) -> Self:
        """Give it after an event that is not judged."""
        counts = {**self.not_judged, reason: self.not_judged.get(reason, 0) + 1}
        return replace(self, window=self.window.passed_over(reason), not_judged=counts)

    def judge(
        self,
        level: float,
        time: int,
        groups: Iterable[str],
        *,
        watched: bool = True,
        so_far: UserDay = _NO_EVENT,
    ) -> tuple[Self, Window | None, list[str]]:
        """Give it after a judged event, the window if that closed one, and alarms in words.

        Parameters
        ----------
        level : float
            The ε below which calibration lets in what was taken.
        time : int
            When, in microseconds since 1970.
        groups : iterable of str
            Of people and items that it counts for.
        watched : bool, default=True
            Whether it is the person's first event of a day. Only these are watched: what somebody
            takes in a row goes together, and one person is no cause for alarm.
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
            heaviest=self.heaviest.judged(so_far.n),
        )
        return ledger, closed, alarms

    def watching_anew(self, terms: Terms, usual: Sequence[float] = ()) -> Self:
        """Give it with watches that begin anew, as after a recount."""
        return replace(self, watches=terms.watches(usual), quiet=())

    def with_heaviest(self, **changes: Any) -> Self:
        """Return it with some fields of the heaviest users changed."""
        return replace(self, heaviest=replace(self.heaviest, **changes))

    def to_state(self) -> dict[str, Any]:
        """Give all of it in a form that JSON holds."""
        return {
            "steering": self.steering.to_state(),
            "watches": [watch.to_state() for watch in self.watches],
            "window": self.window.to_state(),
            "n_windows": self.n_windows,
            "n_alarms": self.n_alarms,
            "not_judged": self.not_judged,
            "quiet": list(self.quiet),
            "heaviest": self.heaviest.to_state(),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Read it back."""
        return cls(
            Steering.from_state(state["steering"]),
            tuple(Watch.from_state(each) for each in state["watches"]),
            Window.from_state(state["window"]),
            int(state["n_windows"]),
            int(state["n_alarms"]),
            dict(state["not_judged"]),
            tuple(state["quiet"]),
            HeaviestUsers.from_state(state["heaviest"]),
        )


def is_first_of_day(before: Any, time: Any) -> Any:
    """Tell whether a person's event is not on the day of the one before it, in UTC.

    Of one event, or of arrays of them.

    Examples
    --------
    >>> is_first_of_day(5, 86_399_999_999), is_first_of_day(5, 86_400_000_000)
    (False, True)
    """
    return before // DAY != time // DAY


def _in_words(alarm: Alarm, epsilon: float, expected: float, window: Window) -> str:
    """Say what is alarming: since when, how much, what may be the cause, what to do."""
    share = alarm.errors / alarm.n
    n_new, n_passed = window.not_judged.get(NEW_ITEM, 0), sum(window.not_judged.values())
    of_new = n_new / (window.n + n_passed)
    cause = ""
    if window.n + n_passed >= _ENOUGH and of_new >= _SHARE:
        cause = f"; new items are {of_new:.0%} of what is taken"
    return (
        f"Since {day_of(alarm.since)}, over {alarm.n:,} people's first events of a day, "
        f"{share:.1%} of what they took is outside of sets that are not steered, instead of "
        f"{_usual_words(epsilon, expected)}{cause}: recount or recalibrate."
    )


def _usual_words(epsilon: float, expected: float) -> str:
    """Say what is expected of such events, where they are harder than others."""
    if expected <= epsilon:
        return f"{epsilon:.1%}"
    return f"{expected:.1%} when it was counted (of all events {epsilon:.1%})"
