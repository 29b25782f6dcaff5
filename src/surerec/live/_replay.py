"""History played as a stream: what a static, a recalibrated and a live model would have kept."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, get_args

import numpy as np

from surerec._arguments import check_choice, check_kind, check_number
from surerec._calendar import DAY, day_of
from surerec._checks import check_whole
from surerec._progress import progress
from surerec._threads import run_blocks
from surerec.calibration import Cut, Ranking, candidates_of
from surerec.conformal import DEFAULT_STEP, RiskCurve, Steering, UserDay
from surerec.errors import InputError
from surerec.interactions import Interactions
from surerec.live._ledger import is_first_of_day
from surerec.measures import Query, as_recipe
from surerec.precedence import Ties

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from surerec.measures import Recipe, RecipeLike, Scorer
    from surerec.precedence import PrecedenceStatistics

MODELS: Final = ("static", "recalibrated", "live")
"""What is compared: never renewed; counted and calibrated anew; that, steered by its errors."""

_FEWEST: Final = 100  # events that calibrate


@dataclass(frozen=True)
class Playing:
    """How history is played.

    Attributes
    ----------
    cut : {"rank", "score"}
        Where sets are cut; see :class:`surerec.PopulationConformal`.
    epsilons : tuple of float
        The shares of misses that are promised.
    step : float
        γ, by which the live model is steered.
    renew : float
        Days after which it is counted and calibrated anew.
    retrain : float
        Days for which what a measure learns is kept while its counts are renewed; formulas learn
        nothing.
    window : float
        Days of judged events that calibrate.
    min_known : int
        Events of people of whom less is known are not judged.
    ties : {"order", "strict"}
        See :func:`surerec.count_precedence`.
    """

    cut: Cut = "score"
    epsilons: tuple[float, ...] = (0.1, 0.2, 0.3)
    step: float = DEFAULT_STEP
    renew: float = 3.0
    retrain: float = 30.0
    window: float = 30.0
    min_known: int = 5
    ties: Ties = "order"

    def __post_init__(self) -> None:
        check_choice("cut", self.cut, get_args(Cut))
        check_choice("ties", self.ties, get_args(Ties))
        check_whole("min_known", self.min_known)
        for name in ("renew", "retrain", "window"):
            check_number(
                name, getattr(self, name), 1e-3, 1e5, "a number of days", ends=(True, True)
            )
        Steering.start(self.epsilons, step=self.step)


@dataclass(frozen=True)
class Replayed:
    """What happened, event by event.

    Attributes
    ----------
    times : array of int
        When each judged event happened, in microseconds since 1970.
    outside : array of bool, models × events × ε
        Whether what was taken was outside of the set of each of :data:`MODELS`.
    sizes : array of int, models × events × ε
        How large that set was.
    n_candidates : array of int
        How many items there were to choose from.
    watched : array of bool
        Which events were a person's first of a day: alarms are raised on these.
    usual : array of int, models × events × ε × 2
        Among the events that calibrated a model then, the errors of those that are watched, and how
        many there were.
    user_days : array of int
        Which user and day, of the event's time, each event is of: each counts once.
    not_judged : dict of str to int
        Events that were not judged, by reason.
    playing : Playing
        How history was played.
    name : str
        What the data are.
    """

    times: NDArray[np.int64]
    outside: NDArray[np.bool_]
    sizes: NDArray[np.int64]
    n_candidates: NDArray[np.int64]
    watched: NDArray[np.bool_]
    usual: NDArray[np.int64]
    user_days: NDArray[np.int64]
    not_judged: dict[str, int]
    playing: Playing
    name: str

    @property
    def weights(self) -> NDArray[np.float64]:
        """The weight of each event: those of one user and day have 1 together."""
        _, owners, sizes = np.unique(self.user_days, return_inverse=True, return_counts=True)
        return np.asarray(1 / sizes[owners])

    @property
    def all_or_nothing(self) -> NDArray[np.bool_]:
        """Which sets were of everything or of nothing; models × events × ε."""
        return np.asarray((self.sizes == 0) | (self.sizes >= self.n_candidates[:, None]))


class _Seen(NamedTuple):
    """One judged event, as one model's counts rank it."""

    entry: float
    """The cut that lets in what was taken; infinite if the counts do not know it."""
    ordered: NDArray[np.float64]
    """Every candidate's share, ascending."""
    rank_cut: bool

    def size(self, cut: float) -> int:
        """Give how many candidates a cut lets in."""
        n = len(self.ordered)
        if self.rank_cut:
            return int(np.clip(cut, 0, n))
        return n - int(np.searchsorted(self.ordered, -cut, side="left"))


class _Judged(NamedTuple):
    """What is recorded of a judged event; see :class:`Replayed`."""

    time: int
    outside: list[list[bool]]
    sizes: list[list[int]]
    n_candidates: int
    watched: bool
    usual: Any
    user_day: int


class _Entry(NamedTuple):
    """An event that may calibrate, by the counts that were renewed last."""

    entry: float
    time: int
    user_day: int
    watched: bool


class _Calibrated(NamedTuple):
    """The calibration on the events of a window."""

    curve: RiskCurve
    cuts: tuple[float, ...]
    """For each ε."""
    usual: tuple[tuple[int, int], ...]
    """For each ε, the errors among users' first events of a day, and how many there are."""

    @classmethod
    def of(cls, recent: list[_Entry], epsilons: list[float]) -> _Calibrated:
        """Calibrate on events, with each user and day counted once."""
        entries, _, user_days, watched = (np.array(each) for each in zip(*recent, strict=True))
        _, owners, sizes = np.unique(user_days, return_inverse=True, return_counts=True)
        curve = RiskCurve(entries, 1 / sizes[owners], owners, len(sizes))
        cuts = tuple(_cut_of(curve, epsilon) for epsilon in epsilons)
        first = entries[watched]
        usual = tuple((int((first > cut).sum()), len(first)) for cut in cuts)
        return cls(curve, cuts, usual)


def _cut_of(curve: RiskCurve, level: float) -> float:
    """Return the largest entry that is in a set at a level."""
    if level <= 0 or level >= 1:
        return np.inf if level <= 0 else -np.inf
    return curve.cut(level)


class _Counted:
    """Counts up to a date, and what they say of events after it."""

    def __init__(
        self,
        profiles: Interactions,
        recipe: Recipe,
        until: int,
        playing: Playing,
        earlier: _Counted | None = None,
    ) -> None:
        self.profiles = profiles
        self.playing = playing
        self.statistics: PrecedenceStatistics = recipe.count(profiles.until(until), playing.ties)
        self.fitted = until
        """When what was learned was learned."""
        self.scorer: Scorer
        days = int(playing.retrain * DAY)
        if earlier is None or not recipe.grows or until >= earlier.fitted + days:
            self.scorer = recipe.fit(self.statistics)
        else:
            self.fitted = earlier.fitted
            self.scorer = recipe.grown(earlier.scorer, self.statistics)
        self.knows = self.statistics.support > 0

    def history(self, user: int, place: int) -> NDArray[np.int64]:
        """Give what was known of a user before a place in the flat profiles, as far as counted."""
        taken = self.profiles.items_taken[self.profiles.offsets[user] : place].astype(np.int64)
        return taken[self.knows[taken]]

    def see(self, user: int, place: int) -> _Seen:
        """Rank all that a user might take at a place in the flat profiles."""
        history, item = self.history(user, place), int(self.profiles.items_taken[place])
        rank_cut = self.playing.cut == "rank"
        if not len(history):
            return _Seen(np.inf, np.empty(0), rank_cut)
        times = self.profiles.times[self.profiles.offsets[user] : place]
        moment = int(self.profiles.times[place])
        taken = self.profiles.items_taken[self.profiles.offsets[user] : place]
        query = Query(history, (user,), times[self.knows[taken]], moment).known_to(self.statistics)
        scores = self.scorer.score_query(query)
        values = self.scorer.value(scores, len(query.history), self.statistics.n_users)
        candidates = candidates_of(self.scorer, self.statistics, query, scores)
        popularity = self.statistics.popularity_without(query.users, query.history)
        ranking = Ranking.of(candidates, scores, values, popularity)
        at = np.flatnonzero(ranking.items == item)
        entry = np.inf
        if len(at):
            entry = float(at[0] + 1) if rank_cut else -float(ranking.shares[at[0]])
        return _Seen(entry, ranking.shares[::-1], rank_cut)


def replay(
    interactions: Interactions,
    begin: int,
    measure: RecipeLike = "CM12",
    *,
    playing: Playing | None = None,
) -> Replayed:
    """Play history from an instant on, in time order, and compare three models event by event.

    All of them serve sets at each ε; an event is judged by whether it is in them, if its item is
    known and enough is known of the person. Each user and day, of the event's time, counts once in
    calibration, in adaptation and in what is observed. *static* was counted and calibrated at the
    beginning; *recalibrated* is counted and calibrated anew every few days, on the judged events of
    a rolling window; *live* is that, with cuts that its own errors steer. A person's own past is
    left out of all counts that score them, and nothing later than the last renewal is in them.

    Parameters
    ----------
    interactions : Interactions
        All of history.
    begin : int
        When the stream begins, in microseconds since 1970; the window before it calibrates.
    measure : str or object, default="CM12"
        As of :class:`surerec.PopulationConformal`; it is fitted anew at each renewal, but for what
        the learned measure learns, which is kept for some days.
    playing : Playing, optional
        How it is played.

    Returns
    -------
    Replayed

    Examples
    --------
    >>> import surerec as sr
    >>> films = sr.datasets.synthetic(n_users=400, n_items=60, n_rows=9000, days=200, seed=1)
    >>> begin = int(films.times.min()) + 120 * 86_400_000_000
    >>> played = replay(films, begin, playing=Playing(renew=20, window=60))
    >>> played.outside.shape[0], played.outside.shape[2]
    (3, 3)
    """
    check_kind("interactions", interactions, Interactions, "Interactions")
    how, recipe = playing or Playing(), as_recipe(measure)
    if not recipe.refits:
        raise InputError(
            f"The scorer {recipe.name} comes fitted and cannot be fitted on the past: give a "
            "function that makes it from statistics."
        )
    _check_begin(interactions, begin, how)
    player = _Player(interactions, recipe, begin, how)
    return player.play()


def _check_begin(interactions: Interactions, begin: int, playing: Playing) -> None:
    if not interactions.n_rows:
        raise InputError("The data hold no interactions: there is no history to play.")
    first, last = int(interactions.times.min()), int(interactions.times.max())
    if not first + int(playing.window * DAY) < begin <= last:
        raise InputError(
            f"The stream cannot begin on {day_of(begin)}: the data go from {day_of(first)} to "
            f"{day_of(last)}, and the {playing.window:g} days before it calibrate."
        )


class _Player:
    def __init__(self, profiles: Interactions, recipe: Recipe, begin: int, how: Playing) -> None:
        self._profiles, self._recipe, self._begin, self._how = profiles, recipe, begin, how
        self._judged_events: list[_Judged] = []
        self._entries: list[_Entry] = []
        self._steering = Steering.start(how.epsilons, step=how.step)
        self._static: _Counted | None = None
        self._now: _Counted | None = None
        self._static_calibrated: _Calibrated | None = None
        self._calibrated: _Calibrated | None = None
        self._user_days: dict[tuple[int, int], int] = {}
        self._so_far: dict[int, UserDay] = {}
        self._not_judged = {"new item": 0, "too little known of the person": 0}
        owners = np.repeat(np.arange(profiles.n_users), np.diff(profiles.offsets))
        self._order = np.argsort(profiles.times, kind="stable")
        self._owners = owners[self._order]
        self._times = profiles.times[self._order]

    def play(self) -> Replayed:
        """Play all of it."""
        dates = self._dates()
        with progress("Playing history", total=len(dates)) as advance:
            for start, stop in zip(dates, [*dates[1:], int(self._times[-1]) + 1], strict=True):
                self._play_until_renewal(start, stop)
                advance(1)
        if not self._judged_events:
            raise InputError(
                f"{self._profiles.name or 'The data'}: no event after {day_of(self._begin)} could "
                "be judged; begin earlier, or set a smaller min_known."
            )
        times, outside, sizes, n_candidates, watched, usual, user_days = (
            np.array(each) for each in zip(*self._judged_events, strict=True)
        )
        return Replayed(
            times,
            np.moveaxis(outside, 1, 0),
            np.moveaxis(sizes, 1, 0),
            n_candidates,
            watched,
            np.moveaxis(usual, 1, 0),
            user_days,
            self._not_judged,
            self._how,
            self._profiles.name or "The data",
        )

    def _dates(self) -> list[int]:
        """Give when it is counted: for the events that calibrate, and exactly at the beginning."""
        every = int(self._how.renew * DAY)
        n_before = -(-int(self._how.window * DAY) // every)
        last = int(self._times[-1])
        before = [self._begin - back * every for back in range(n_before, 0, -1)]
        return [*before, *range(self._begin, last + 1, every)]

    def _play_until_renewal(self, start: int, stop: int) -> None:
        first, last = np.searchsorted(self._times, [start, stop])
        if first == last:
            return
        # The static model is fitted on all that was known at the beginning, as a team would.
        earlier = None if start == self._begin else self._now
        now = self._now = _Counted(self._profiles, self._recipe, start, self._how, earlier)
        since = start - int(self._how.window * DAY)
        recent = self._entries[bisect_left(self._entries, since, key=lambda each: each.time) :]
        calibrated = None
        if len(recent) >= _FEWEST:
            calibrated = _Calibrated.of(recent, sorted(self._how.epsilons))
        if start == self._begin:
            if calibrated is None:
                raise InputError(
                    f"{self._profiles.name or 'The data'}: fewer than {_FEWEST} events of the "
                    f"{self._how.window:g} days before {day_of(start)} can calibrate; set a longer "
                    "window."
                )
            self._static, self._static_calibrated = now, calibrated
        self._calibrated = calibrated or self._calibrated
        judged = list(self._judged(now, first, last, counts=start >= self._begin))
        static = self._static if self._static is not now else None

        def see(at: int) -> tuple[int, _Seen, _Seen]:
            user, place = int(self._owners[at]), int(self._order[at])
            seen = now.see(user, place)
            return at, seen, seen if static is None else static.see(user, place)

        for at, seen, old in run_blocks(see, judged):
            day = int(self._owners[at]), int(self._times[at]) // DAY
            user_day = self._user_days.setdefault(day, len(self._user_days))
            watched = self._is_watched(at)
            self._judge(int(self._times[at]), user_day, seen, old, watched=watched)

    def _judged(self, now: _Counted, first: int, last: int, *, counts: bool) -> Iterator[int]:
        profiles = self._profiles
        for at in range(first, last):
            place = int(self._order[at])
            reason = ""
            if not now.knows[profiles.items_taken[place]]:
                reason = "new item"
            elif len(now.history(int(self._owners[at]), place)) < self._how.min_known:
                reason = "too little known of the person"
            if not reason:
                yield at
            elif counts:
                self._not_judged[reason] += 1

    def _is_watched(self, at: int) -> bool:
        """Tell whether an event is its person's first of a day; a judged one has others before."""
        before = int(self._profiles.times[self._order[at] - 1])
        return bool(is_first_of_day(before, int(self._times[at])))

    def _judge(self, time: int, user_day: int, seen: _Seen, old: _Seen, *, watched: bool) -> None:
        static, renewed = self._static_calibrated, self._calibrated
        if time >= self._begin and renewed is not None and static is not None:
            steered = [_cut_of(renewed.curve, cut) for cut in self._steering.cuts_nested]
            models = list(zip((old, seen, seen), (static.cuts, renewed.cuts, steered), strict=True))
            outside = [[one.entry > cut for cut in some] for one, some in models]
            sizes = [[one.size(cut) for cut in some] for one, some in models]
            usual = static.usual, renewed.usual, renewed.usual
            self._judged_events.append(
                _Judged(time, outside, sizes, len(seen.ordered), watched, usual, user_day)
            )
            level = float(renewed.curve.levels([seen.entry])[0])
            so_far = self._so_far.get(user_day, UserDay())
            self._so_far[user_day] = so_far.after(self._steering.missed(level))
            self._steering = self._steering.after(level, so_far)
        self._entries.append(_Entry(seen.entry, time, user_day, watched))
