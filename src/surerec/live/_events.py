"""Events, and a fitted model with growing statistics that evaluates and ingests them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import numpy as np

from surerec._arguments import is_number
from surerec._memory import available_memory
from surerec._threads import run_blocks
from surerec._words import DAY, shown
from surerec.errors import InputError
from surerec.live import _ledger as reasons
from surerec.live._adaptive import AdaptiveCalibration
from surerec.measures import Query
from surerec.precedence import GrowingStatistics, count_precedence, linear_budget
from surerec.recommenders import measure_of, refitted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.conformal import AdaptiveLevel
    from surerec.interactions import Interactions
    from surerec.recommenders import FittedModel, Recommender

FIELDS: Final = ("user", "item", "time", "id")
"""Fields of an event; the last two are optional."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_AHEAD: Final = timedelta(minutes=5)  # tolerated difference between clocks
_LONGEST: Final = 500  # characters of an id
_MICROSECOND: Final = timedelta(microseconds=1)
_MOST: Final = 2000  # reference events


class FutureTimeError(InputError):
    """The time of an event is ahead of the server's clock."""

    alerted: bool = False
    """Whether this error raised an alert, which happens at most once a day."""


@dataclass(frozen=True)
class Event:
    """One interaction: a user consumed an item.

    Attributes
    ----------
    user, item : int or str
        Ids of the user and the item.
    time : int
        Time in microseconds since 1970.
    id : str or None
        Identifier of the event; without one, user, item and time identify it.

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
        """Unique key of the event; a second event with the same key changes nothing."""
        if self.id is not None:
            return f"id {self.id}"
        return f"at {self.time} {len(str(self.user))} {self.user} {self.item}"

    @classmethod
    def of(cls, given: Any, *, now: datetime | None = None, where: str = "The event") -> Self:
        """Build an event from a mapping.

        Parameters
        ----------
        given : mapping
            Fields ``user`` and ``item``, optionally ``time`` and ``id``. The time is a datetime,
            an ISO text (UTC without a time zone) or a number of seconds since 1970; by default now.
        now : datetime, optional
            Current time, by default of this machine. Times more than 5 minutes later are refused.
        where : str
            Name of the event in error messages.
        """
        if not isinstance(given, Mapping):
            raise InputError(
                f"{where} is {shown(given)}. Pass a mapping with the fields user and item."
            )
        unknown = sorted(str(name) for name in given if name not in FIELDS)
        if unknown:
            raise InputError(
                f"{where} has the unknown field {shown(unknown[0])}. Use only {', '.join(FIELDS)}."
            )
        for name in ("user", "item"):
            if given.get(name) is None:
                raise InputError(f"{where} has no {name}. Add the field {name}.")
        time = _time_of(given.get("time"), now or datetime.now(UTC), where)
        return cls(
            _id_of(given["user"], "user", where),
            _id_of(given["item"], "item", where),
            time,
            None if given.get("id") is None else str(_id_of(given["id"], "id", where)),
        )


def _id_of(value: Any, name: str, where: str) -> int | str:
    if isinstance(value, np.integer):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise InputError(f"{where}: {name} is {shown(value)}. Use a string or an integer.")
    text = str(value)
    # PostgreSQL cannot store NUL, and no store accepts lone surrogates.
    is_encodable = text == text.encode(errors="replace").decode()
    if not text or len(text) > _LONGEST or "\0" in text or not is_encodable:
        raise InputError(
            f"{where}: the {name} {shown(value)} cannot be stored. Use 1 to {_LONGEST} characters "
            "without NUL or lone surrogates."
        )
    return value


def _time_of(value: Any, now: datetime, where: str) -> int:
    moment: object = value
    try:
        if value is None:
            moment = now
        elif isinstance(value, str):
            moment = datetime.fromisoformat(value)
        elif is_number(value):
            moment = _EPOCH + timedelta(microseconds=round(float(value) * 1_000_000))
    except (ValueError, OverflowError):
        moment = None
    if not isinstance(moment, datetime):
        raise InputError(
            f"{where}: cannot parse time {shown(value)}. Use an ISO time such as "
            "2026-11-17T09:30:00Z, or seconds since 1970."
        )
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    if moment > now + _AHEAD:
        raise FutureTimeError(
            f"{where}: the time {moment.isoformat()} is more than 5 minutes ahead of the server's "
            f"clock ({now.isoformat(timespec='seconds')}). Correct the clock of the sender or the "
            "server, and send the event again."
        )
    return (moment - _EPOCH) // _MICROSECOND


def check_supports_live(estimator: Recommender) -> Recommender:
    """Return the estimator if it can be live; otherwise raise InputError with the reason."""
    features, measure = estimator.model_.features, measure_of(estimator)
    if "period" not in features:
        raise InputError(
            f"{type(estimator).__name__} cannot be live: a live model needs user-level "
            "calibration. Fit PopulationConformal, or --recommender recall-cm12 on the command "
            "line."
        )
    if "levels" not in features:
        raise InputError(
            "A precision guarantee cannot be live: an event evaluates one item, and precision is "
            'a property of whole lists. Fit with guarantee="recall" or guarantee="hit".'
        )
    if not measure.refits or not measure.grows:
        reason = "cannot be updated with events, as it has no parameters for new users and items"
        if not measure.refits:
            reason = "is already fitted and cannot be refitted on events"
        raise InputError(
            f"{measure.name} {reason}. Fit one of the paper's measures, such as CM12, or the "
            "learned measure. Update this model with `surerec recalibrate`."
        )
    return estimator


class EventOutcome(NamedTuple):
    """Evaluation of an event against the model before it is ingested."""

    reason: str
    """"evaluated", or the reason why it was not evaluated."""
    level: float = float("nan")
    """The ε below which the fitted calibration includes the item."""
    watched: bool = False
    """Whether it is the user's first event of a day."""


class GrowingModel:
    """A fitted model that ingests events.

    Parameters
    ----------
    estimator : Recommender
        The fitted estimator, which is not changed.

    Attributes
    ----------
    model : FittedModel
        The model on the growing statistics, with the fitted thresholds.
    statistics : GrowingStatistics
        Current statistics.
    learned : str
        Description of the learned parts of the scorer, which change only with a refit.
    """

    def __init__(self, estimator: Recommender) -> None:
        fitted, measure = estimator.model_, measure_of(estimator)
        self.statistics = GrowingStatistics(fitted.statistics)
        self.learned = measure.stays
        scorer = measure.grown(fitted.scorer, self.statistics)
        self.model = replace(fitted, statistics=self.statistics, scorer=scorer)
        self._estimator = estimator

    @property
    def profiles(self) -> Any:
        """Current user profiles."""
        return self.statistics.interactions

    def adapted(self, adaptive: AdaptiveLevel, calibrated: str) -> FittedModel:
        """Return the model with adapted thresholds; see :class:`AdaptiveCalibration`."""
        calibration = AdaptiveCalibration(
            self.model.calibration, adaptive, calibrated, self.learned
        )
        return replace(self.model, calibration=calibration)

    def check(self, user: Any, item: Any) -> tuple[str, str]:
        """Return the ids of an event as stored, or raise InputError."""
        return str(self.profiles.users.check(user)), str(self.profiles.items.check(item))

    def is_new(self, item: str) -> bool:
        """Return whether the item is unknown to the model."""
        return bool(self.profiles.items.find(item) < 0)

    def forget(self, user: str) -> tuple[int, bool]:
        """Remove a user; return their number of items and whether they were a calibration user."""
        code = self.profiles.users.code(user)
        n_items, calibrated = len(self.profiles.consumed(code)), self.model.calibrates(code)
        self.statistics.forget(user)
        self.model = self.model.without_user(code)
        return n_items, calibrated

    def evaluate(self, user: str, item: str, time: int) -> EventOutcome:
        """Compare an event with the set that the user would have received before it."""
        who, what = self.profiles.users.find(user), self.profiles.items.find(item)
        consumed = self.profiles.consumed(who) if who >= 0 else np.empty(0, dtype=np.uint32)
        if what >= 0 and (consumed == what).any():
            return EventOutcome(reasons.REPEAT)
        if len(consumed) and time < self.profiles.times_of(who)[-1]:
            return EventOutcome(reasons.LATE)
        if what < 0 or not self.statistics.support[what]:
            return EventOutcome(reasons.NEW_ITEM)
        if len(consumed) < self.model.calibration.min_history:
            return EventOutcome(reasons.SHORT_HISTORY)
        segments = self.model.segments
        if segments is not None and segments.label(who) is None:
            return EventOutcome(reasons.NO_SEGMENT)
        level = self.model.level(Query.of_user(self.profiles, who), what)
        watched = self.profiles.times_of(who)[-1] // DAY != time // DAY
        return EventOutcome(reasons.EVALUATED, level, bool(watched))

    def refitted(self, profiles: Interactions, n_new: int) -> Recommender:
        """Return the estimator refitted on profiles with `n_new` items that are new to it."""
        # With dense counts, disk use would grow with the square of the number of new items.
        budget = linear_budget(profiles.n_rows, max(profiles.n_items - n_new, 0))
        memory = max(min(available_memory() // 2, budget), 2 * profiles.n_items)
        counted = count_precedence(profiles, ties=self.statistics.ties, memory=memory)
        fresh = refitted(self._estimator, counted)
        for name, items in self._estimator.item_lists_.items():
            known = [item for item in items if item in profiles.items]
            if known:
                fresh.add_item_list(name, known)
        return fresh


def usual_levels(model: FittedModel, most: int = _MOST) -> NDArray[np.float64]:
    """Return the levels of the latest watched events in the model's own profiles.

    Each is evaluated like an incoming event: with the user's earlier history, and without the
    user's own data in the counts. The counts include later interactions of other users, so the
    latest events are used.

    Examples
    --------
    >>> import surerec as sr
    >>> films = sr.datasets.synthetic(n_users=300, n_items=60, n_rows=6000, random_state=1)
    >>> levels = usual_levels(sr.PopulationConformal("CM12").fit(films).model_, most=100)
    >>> len(levels), bool((levels <= 1).all())
    (100, True)
    """
    profiles, segments = model.profiles(), model.segments
    items, times, offsets = profiles.item_codes, profiles.times, profiles.offsets
    owners = np.repeat(np.arange(profiles.n_users), np.diff(offsets))
    before = np.concatenate((times[:1], times[:-1]))  # first of a profile: masked by min_history
    watched = np.arange(len(times)) - offsets[owners] >= model.calibration.min_history
    watched &= before // DAY != times // DAY
    watched &= model.statistics.support[items] > 1  # else it would have been a new item
    if segments is not None:
        watched &= segments.codes[owners] >= 0
    places = np.flatnonzero(watched)
    places = places[np.argsort(-times[places], kind="stable")[:most]]

    def level(place: int) -> float:
        user = int(owners[place])
        known = slice(int(offsets[user]), place)
        query = Query(items[known].astype(np.int64), (user,), times[known])
        return model.level(query, int(items[place]))

    return np.array(list(run_blocks(level, places.tolist())), dtype=np.float64)
