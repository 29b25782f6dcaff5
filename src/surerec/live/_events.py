"""Events: what may be one, and how a fitted model on growing statistics judges and ingests them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import numpy as np

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
"""What an event may have; the last two may be missing."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_AHEAD: Final = timedelta(minutes=5)  # that clocks may differ by
_LONGEST: Final = 500  # letters of an id
_MICROSECOND: Final = timedelta(microseconds=1)
_MOST: Final = 2000  # events whose levels are usual


class FutureTimeError(InputError):
    """The time of an event is ahead of the server's clock."""

    alerted: bool = False
    """Whether this error raised an alert; it is not raised again on its day."""


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
        given : mapping
            With ``user`` and ``item``, and perhaps ``time`` (a datetime or its ISO text, UTC if it
            does not say; a number of seconds since 1970; now if it is missing) and ``id``.
        now : datetime, optional
            By default the clock's; times more than 5 minutes later are refused.
        where : str
            What to call it in an error.
        """
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
        raise FutureTimeError(
            f"{where}: the time {moment.isoformat()} is more than 5 minutes ahead of the server's "
            f"clock ({now.isoformat(timespec='seconds')}); correct the clock of the sender, or of "
            "the server, and send it again."
        )
    return (moment - _EPOCH) // _MICROSECOND


def check_can_live(estimator: Recommender) -> Recommender:
    """Return a fitted estimator whose statistics can grow, or raise InputError with the reason."""
    features, recipe = estimator.model_.features, measure_of(estimator)
    if "period" not in features:
        raise InputError(
            f"A live model needs sets calibrated over users, and this is "
            f"{type(estimator).__name__}: fit PopulationConformal, on the command line "
            "--recommender recall-cm12."
        )
    if "levels" not in features:
        raise InputError(
            "Precision cannot be kept live: an event judges one item, and precision is of whole "
            "lists. Fit the promise recall or hit."
        )
    if not recipe.refits or not recipe.grows:
        why = "does not grow with events: what it learned has no place for new users and items"
        if not recipe.refits:
            why = "comes fitted, and cannot be refitted on events"
        raise InputError(
            f"{recipe.name} {why}. Fit one of the paper's measures, such as CM12, or the learned "
            "one, and renew this one by `surerec recalibrate`."
        )
    return estimator


class EventVerdict(NamedTuple):
    """What an event says of the model before it is ingested."""

    reason: str
    """"judged", or why it is not."""
    level: float = float("nan")
    """The ε below which the fitted calibration includes the item."""
    watched: bool = False
    """Whether it is the user's first event of a day."""


class GrowingModel:
    """A fitted model that ingests events.

    Parameters
    ----------
    estimator : Recommender
        As it was loaded; it stays as it is.

    Attributes
    ----------
    model : FittedModel
        On the growing statistics, with thresholds as fitted.
    statistics : GrowingStatistics
        What is known at this moment.
    learned : str
        What the scorer knows beside counts, which stays until a refit; in words.
    """

    def __init__(self, estimator: Recommender) -> None:
        fitted, recipe = estimator.model_, measure_of(estimator)
        self.statistics = GrowingStatistics(fitted.statistics)
        self.learned = recipe.stays
        scorer = recipe.grown(fitted.scorer, self.statistics)
        self.model = replace(fitted, statistics=self.statistics, scorer=scorer)
        self._estimator = estimator

    @property
    def profiles(self) -> Any:
        """The users' profiles at this moment."""
        return self.statistics.interactions

    def adapted(self, adaptive: AdaptiveLevel, calibrated: str) -> FittedModel:
        """Return the model with adapted thresholds; see :class:`AdaptiveCalibration`."""
        calibration = AdaptiveCalibration(
            self.model.calibration, adaptive, calibrated, self.learned
        )
        return replace(self.model, calibration=calibration)

    def check(self, user: Any, item: Any) -> tuple[str, str]:
        """Return the ids of an event as they are stored, or refuse them."""
        return str(self.profiles.users.check(user)), str(self.profiles.items.check(item))

    def is_new(self, item: str) -> bool:
        """Return whether the model has no such item yet."""
        return bool(self.profiles.items.find(item) < 0)

    def forget(self, user: str) -> tuple[int, bool]:
        """Remove a user; return how many items they had, and whether they calibrated."""
        code = self.profiles.users.code(user)
        n_items, calibrated = len(self.profiles.consumed(code)), self.model.calibrates(code)
        self.statistics.forget(user)
        self.model = self.model.without_user(code)
        return n_items, calibrated

    def judge(self, user: str, item: str, time: int) -> EventVerdict:
        """Compare an event with the set that the user would have been given."""
        who, what = self.profiles.users.find(user), self.profiles.items.find(item)
        known = who >= 0
        consumed = self.profiles.consumed(who) if known else np.empty(0, dtype=np.uint32)
        if what >= 0 and (consumed == what).any():
            return EventVerdict(reasons.REPEAT)
        if len(consumed) and time < self.profiles.times_of(who)[-1]:
            return EventVerdict(reasons.LATE)
        if what < 0 or not self.statistics.support[what]:
            return EventVerdict(reasons.NEW_ITEM)
        if len(consumed) < self.model.calibration.min_history:
            return EventVerdict(reasons.TOO_LITTLE)
        segments = self.model.segments
        if segments is not None and segments.label(who) is None:
            return EventVerdict(reasons.NO_SEGMENT)
        level = self.model.level(Query.of_user(self.profiles, who), what)
        watched = self.profiles.times_of(who)[-1] // DAY != time // DAY
        return EventVerdict(reasons.JUDGED, level, bool(watched))

    def refitted(self, profiles: Interactions, n_new: int) -> Recommender:
        """Return the estimator fitted on profiles, of whose items so many are new to the base."""
        # Dense counts would let new items fill the disk with the square of their number.
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
    """Return the level of each of the latest watched events of the model's own profiles.

    Each is judged as an event is when it comes: by what was known of the user before it, with the
    user left out of all that scores them. The counts also know what others consumed later, which
    is why the latest events are taken.

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
    before = np.concatenate((times[:1], times[:-1]))  # another user's at the start of a profile
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
