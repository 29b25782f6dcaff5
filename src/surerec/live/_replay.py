"""History played as a stream: what a static, a recalibrated and a live model would have kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, get_args

import numpy as np
import polars as pl

from surerec._arguments import check_choice, check_kind, check_number, check_whole
from surerec._files import check_utf8, folder_aside
from surerec._progress import progress
from surerec._threads import run_blocks
from surerec._words import DAY, day_of
from surerec.calibration import Cut, rank_items
from surerec.conformal import (
    DEFAULT_FALSE_ALARMS,
    DEFAULT_STEP,
    RiskCurve,
    Steering,
    UserDay,
    Watch,
)
from surerec.errors import InputError
from surerec.interactions import Interactions
from surerec.live._ledger import NEW_ITEM, TOO_LITTLE, WINDOW, is_first_of_day
from surerec.measures import Query, as_recipe
from surerec.precedence import Ties
from surerec.reports import require_plots

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from surerec.measures import Recipe, RecipeLike, Scorer

MODELS: Final = ("static", "recalibrated", "live")
"""What is compared: never refitted; refitted and recalibrated; that, with adapted thresholds."""

_FEWEST: Final = 100  # events that calibrate
_FILES: Final = {"summary.csv", "windows.csv"}


@dataclass(frozen=True)
class Playing:
    """How history is played.

    Attributes
    ----------
    cut : {"rank", "score"}
        Where sets are cut; see :class:`surerec.PopulationConformal`.
    epsilons : tuple of float
        The nominal shares of misses.
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
        Events of users of whom less is known are not judged.
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
    return _Player(interactions, recipe, begin, how).play()


def _check_begin(interactions: Interactions, begin: int, playing: Playing) -> None:
    if not interactions.n_rows:
        raise InputError("The data hold no interactions: there is no history to play.")
    first, last = int(interactions.times.min()), int(interactions.times.max())
    if not first + int(playing.window * DAY) < begin <= last:
        raise InputError(
            f"The stream cannot begin on {day_of(begin)}: the data go from {day_of(first)} to "
            f"{day_of(last)}, and the {playing.window:g} days before it calibrate."
        )


class _Calibrated(NamedTuple):
    """The calibration on the events of a window."""

    curve: RiskCurve
    cuts: tuple[float, ...]
    """For each ε."""
    usual: tuple[tuple[int, int], ...]
    """For each ε, the errors among users' first events of a day, and how many there are."""


def _cut_of(curve: RiskCurve, level: float) -> float:
    """Return the largest entry that is in a set at a level."""
    if level <= 0 or level >= 1:
        return np.inf if level <= 0 else -np.inf
    return curve.cut(level)


class _ReplayFit:
    """A fit on what was known at an instant, which ranks what users may consume after it."""

    def __init__(
        self, profiles: Interactions, recipe: Recipe, until: int, how: Playing, earlier: Any = None
    ) -> None:
        self._profiles, self._how = profiles, how
        self.statistics = recipe.count(profiles.until(until), how.ties)
        self.fitted = until
        """When what was learned was learned."""
        self.scorer: Scorer
        if earlier is None or not recipe.grows or until >= earlier.fitted + int(how.retrain * DAY):
            self.scorer = recipe.fit(self.statistics)
        else:
            self.fitted = earlier.fitted
            self.scorer = recipe.grown(earlier.scorer, self.statistics)
        self.knows = (self.statistics.support > 0)[profiles.items_taken]
        """Whether the item of each row of the profiles is known."""

    def rank(self, user: int, place: int) -> tuple[float, NDArray[np.float64]]:
        """Return the threshold at which the item of a row enters the set, and all scores' shares.

        The threshold is infinite if the item is not known; shares are ascending.
        """
        profiles, before = self._profiles, slice(int(self._profiles.offsets[user]), place)
        knows = self.knows[before]
        history = profiles.items_taken[before][knows].astype(np.int64)
        if not len(history):
            return np.inf, np.empty(0)
        query = Query(history, (user,), profiles.times[before][knows], int(profiles.times[place]))
        query = query.known_to(self.statistics)
        scores = self.scorer.score_query(query)
        ranking, _ = rank_items(self.scorer, self.statistics, query, scores)
        at = np.flatnonzero(ranking.items == int(profiles.items_taken[place]))
        entry = np.inf
        if len(at):
            is_rank = self._how.cut == "rank"
            entry = float(at[0] + 1) if is_rank else -float(ranking.shares[at[0]])
        return entry, ranking.shares[::-1]


class _Player:
    def __init__(self, profiles: Interactions, recipe: Recipe, begin: int, how: Playing) -> None:
        self._profiles, self._recipe, self._begin, self._how = profiles, recipe, begin, how
        self._name = profiles.name or "The data"
        self._epsilons = sorted(how.epsilons)
        self._steering = Steering.start(how.epsilons, step=how.step)
        self._static: tuple[_ReplayFit, _Calibrated] | None = None
        self._now: _ReplayFit | None = None
        self._calibrated: _Calibrated | None = None
        self._so_far: dict[int, UserDay] = {}
        self._not_judged = {NEW_ITEM: 0, TOO_LITTLE: 0}
        # Of every event, in the order of time: its row, user, time, day of a user, first of a day.
        owners = np.repeat(np.arange(profiles.n_users), np.diff(profiles.offsets))
        self._order = np.argsort(profiles.times, kind="stable")
        self._owners, self._times = owners[self._order], profiles.times[self._order]
        pairs = np.stack([self._owners, self._times // DAY])
        self._user_days = np.unique(pairs, axis=1, return_inverse=True)[1].reshape(-1)
        self._watched = is_first_of_day(profiles.times[self._order - 1], self._times)
        self._entries = np.full(len(owners), np.nan)  # of judged events, by the latest fit
        self._events: list[int] = []
        self._seen: list[tuple[Any, ...]] = []

    def play(self) -> Replayed:
        """Play all of it."""
        every, last = int(self._how.renew * DAY), int(self._times[-1])
        n_before = -(-int(self._how.window * DAY) // every)
        # Fitted for the events that calibrate, and exactly at the beginning.
        dates = [self._begin - back * every for back in range(n_before, 0, -1)]
        dates += range(self._begin, last + 1, every)
        with progress("Playing history", total=len(dates)) as advance:
            for start, stop in zip(dates, [*dates[1:], last + 1], strict=True):
                first, end = np.searchsorted(self._times, [start, stop])
                if first < end:
                    self._refit(start)
                    self._judge_all(np.arange(first, end), counts=start >= self._begin)
                advance(1)
        if not self._events:
            raise InputError(
                f"{self._name}: no event after {day_of(self._begin)} could be judged; begin "
                "earlier, or set a smaller min_known."
            )
        outside, sizes, usual, n_candidates = (
            np.array(each) for each in zip(*self._seen, strict=True)
        )
        outside, sizes, usual = (np.moveaxis(each, 1, 0) for each in (outside, sizes, usual))
        return Replayed(
            self._times[self._events],
            outside,
            sizes,
            n_candidates,
            self._watched[self._events],
            usual,
            self._user_days[self._events],
            self._not_judged,
            self._how,
            self._name,
        )

    def _refit(self, start: int) -> None:
        """Refit at an instant, and recalibrate on the events of the window before it."""
        # The static model is fitted on all that was known at the beginning, as a team would.
        earlier = None if start == self._begin else self._now
        self._now = _ReplayFit(self._profiles, self._recipe, start, self._how, earlier)
        since = start - int(self._how.window * DAY)
        recent = (self._times >= since) & (self._times < start) & ~np.isnan(self._entries)
        if recent.sum() >= _FEWEST:
            entries, watched = self._entries[recent], self._watched[recent]
            _, owners, sizes = np.unique(
                self._user_days[recent], return_inverse=True, return_counts=True
            )
            curve = RiskCurve(entries, 1 / sizes[owners], owners, len(sizes))
            cuts = tuple(_cut_of(curve, epsilon) for epsilon in self._epsilons)
            first = entries[watched]
            usual = tuple((int((first > cut).sum()), len(first)) for cut in cuts)
            self._calibrated = _Calibrated(curve, cuts, usual)
        elif start == self._begin:
            raise InputError(
                f"{self._name}: fewer than {_FEWEST} events of the {self._how.window:g} days "
                f"before {day_of(start)} can calibrate; set a longer window."
            )
        if start == self._begin and self._calibrated is not None:
            self._static = self._now, self._calibrated

    def _judge_all(self, events: NDArray[np.int64], *, counts: bool) -> None:
        now, static = self._now, self._static
        assert now is not None  # noqa: S101  # it was fitted a line before
        rows = self._order[events]
        known = np.concatenate(([0], np.cumsum(now.knows)))
        is_new = ~now.knows[rows]
        n_known = known[rows] - known[self._profiles.offsets[self._owners[events]]]
        is_little = ~is_new & (n_known < self._how.min_known)
        if counts:
            self._not_judged[NEW_ITEM] += int(is_new.sum())
            self._not_judged[TOO_LITTLE] += int(is_little.sum())

        def rank(at: int) -> tuple[int, Any, Any]:
            user, row = int(self._owners[at]), int(self._order[at])
            found = now.rank(user, row)
            is_old = static is not None and static[0] is not now
            return at, found, static[0].rank(user, row) if static and is_old else found

        for at, found, old in run_blocks(rank, events[~is_new & ~is_little].tolist()):
            if counts and static is not None:
                self._judge(at, found, old, static[1])
            self._entries[at] = found[0]

    def _judge(self, at: int, found: Any, old: Any, static: _Calibrated) -> None:
        renewed = self._calibrated or static
        adapted = tuple(_cut_of(renewed.curve, cut) for cut in self._steering.cuts_nested)
        models = [(old, static.cuts), (found, renewed.cuts), (found, adapted)]
        outside = [[entry > cut for cut in cuts] for (entry, _), cuts in models]
        sizes = [[self._size(shares, cut) for cut in cuts] for (_, shares), cuts in models]
        usual = static.usual, renewed.usual, renewed.usual
        self._events.append(at)
        self._seen.append((outside, sizes, usual, len(found[1])))
        level, user_day = float(renewed.curve.levels([found[0]])[0]), int(self._user_days[at])
        so_far = self._so_far.get(user_day, UserDay())
        self._so_far[user_day] = so_far.after(self._steering.missed(level))
        self._steering = self._steering.after(level, so_far)

    def _size(self, shares: NDArray[np.float64], cut: float) -> int:
        """Return how many candidates a threshold lets in."""
        if self._how.cut == "rank":
            return int(np.clip(cut, 0, len(shares)))
        return len(shares) - int(np.searchsorted(shares, -cut, side="left"))


def windows_of(played: Replayed, length: int = WINDOW) -> pl.DataFrame:
    """Return nominal and observed in windows of so many judged events.

    Returns
    -------
    polars.DataFrame
        ``window``, ``from``, ``until``, ``n``, ``epsilon``, ``model``, ``outside`` (the share of
        what was consumed that was outside, with each user and day counted once),
        ``outside_events`` (with each event counted once), ``size`` (the mean), ``all_or_nothing``
        (the share of sets that were); the last window may be shorter.
    """
    rows = list[dict[str, Any]]()
    for number, first in enumerate(range(0, len(played.times), length)):
        some = slice(first, first + length)
        days = {
            "from": day_of(int(played.times[first])),
            "until": day_of(int(played.times[some][-1])),
        }
        rows += [
            {"window": number, **days, "n": len(played.times[some]), **shares}
            for shares in _shares(played, some)
        ]
    return pl.DataFrame(rows)


def _shares(played: Replayed, some: slice) -> list[dict[str, Any]]:
    """Return for each ε and model what was outside of its sets, and how large these were."""
    weights = played.weights[some]
    return [
        {
            "epsilon": epsilon,
            "model": model,
            "outside": float(np.average(played.outside[m, some, place], weights=weights)),
            "outside_events": float(played.outside[m, some, place].mean()),
            "size": float(played.sizes[m, some, place].mean()),
            "all_or_nothing": float(played.all_or_nothing[m, some, place].mean()),
        }
        for place, epsilon in enumerate(sorted(played.playing.epsilons))
        for m, model in enumerate(MODELS)
    ]


def summary_of(played: Replayed, length: int = WINDOW) -> pl.DataFrame:
    """Return nominal and observed over the whole stream, for each ε and model.

    Returns
    -------
    polars.DataFrame
        ``epsilon``, ``model``, ``outside`` (with each user and day counted once),
        ``outside_events`` (with each event counted once), ``size``, ``all_or_nothing``,
        ``size_ratio`` (to the recalibrated model's), ``worst_window`` (how far ``outside`` was
        from ε in the worst of all windows, wherever they begin; null if there is none),
        ``first_alarm`` (the day on which errors were first alarming, null if never; adapted errors
        are not watched), ``n`` and ``n_user_days``.
    """
    rows, weights = _shares(played, slice(None)), played.weights
    for number, row in enumerate(rows):
        place, m = divmod(number, len(MODELS))
        recalibrated = rows[len(MODELS) * place + MODELS.index("recalibrated")]["size"]
        is_live = row["model"] == "live"
        row |= {
            "size_ratio": row["size"] / max(recalibrated, 1e-9),
            "worst_window": _worst_window(
                played.outside[m, :, place], weights, row["epsilon"], length
            ),
            "first_alarm": None if is_live else _first_alarm(played, m, place, row["epsilon"]),
            "n": len(played.times),
            "n_user_days": round(weights.sum()),
        }
    return pl.DataFrame(rows, schema_overrides={"first_alarm": pl.String})


def _worst_window(
    outside: NDArray[np.bool_], weights: NDArray[np.float64], epsilon: float, length: int
) -> float | None:
    """Return how far from ε the share outside was in the worst of all windows of some length."""
    if len(outside) < length:
        return None
    missed, all_of_it = (
        np.concatenate(([0.0], np.cumsum(each))) for each in (outside * weights, weights)
    )
    shares = (missed[length:] - missed[:-length]) / (all_of_it[length:] - all_of_it[:-length])
    return float(np.abs(shares - epsilon).max())


def _first_alarm(played: Replayed, model: int, place: int, epsilon: float) -> str | None:
    """Return the day of the first alarm on the errors of a model that is not adapted."""
    false_alarms = DEFAULT_FALSE_ALARMS / len(played.playing.epsilons)
    watch, usual = Watch.start(epsilon, false_alarms=false_alarms), None
    for at in np.flatnonzero(played.watched).tolist():
        now = tuple(played.usual[model, at, place].tolist())
        if now != usual:  # it was recalibrated
            usual = now
            watch = watch.expecting(Watch.start(epsilon, false_alarms=false_alarms, usual=now))
        time = int(played.times[at])
        watch, alarm = watch.after(error=bool(played.outside[model, at, place]), time=time)
        if alarm is not None:
            return day_of(time)
    return None


def check_replay_target(folder: Path) -> None:
    """Refuse a folder that holds something else than a replay; before minutes of work."""
    check_utf8(folder)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is a file; name a folder.")
    names = {each.name for each in folder.iterdir()} if folder.exists() else set()
    if names and not names >= _FILES:
        raise InputError(f"{folder}: holds something else than a replay; name another folder.")


def write_replay(played: Replayed, folder: Path) -> None:
    """Write the tables and the figure; the folder appears when it is complete."""
    check_replay_target(folder)
    figure = _draw(played)
    with folder_aside(folder) as aside:
        windows_of(played).write_csv(aside / "windows.csv")
        summary_of(played).write_csv(aside / "summary.csv")
        (aside / "figures").mkdir()
        for kind, content in figure.items():
            (aside / "figures" / f"replay.{kind}").write_bytes(content)


def _draw(played: Replayed) -> dict[str, bytes]:
    """Return the figure in every format: what was outside, window by window, a panel for each ε."""
    require_plots()
    from surerec.reports.figures import (  # noqa: PLC0415  # an extra
        LINES,
        Line,
        panels,
        plain,
        render,
        styled,
    )

    looks = {"static": Line("#D55E00", "-", "P"), "recalibrated": LINES[1], "live": LINES[0]}
    nominal: Any = {"color": "#7f7f7f", "linestyle": (0, (1, 1)), "linewidth": 1.2, "zorder": 1}
    all_windows, epsilons = windows_of(played), sorted(played.playing.epsilons)
    title = f"{played.name}: nominal and observed, of items new to the user"
    with styled():
        figure, all_axes = panels(1, len(epsilons), (3.6 * len(epsilons), 3.9))
        figure.suptitle(plain(title, 100), fontsize=12)
        for axes, epsilon in zip(all_axes, epsilons, strict=True):
            windows = all_windows.filter(epsilon=epsilon)
            axes.axhline(epsilon, label="nominal", **nominal)
            for model in MODELS:
                mine = windows.filter(model=model)
                axes.plot(mine["window"], mine["outside"], label=model, **looks[model].thin())
            days = windows.filter(model="live")["from"].to_list()
            step = max(1, len(days) // 4)
            axes.set_xticks(range(0, len(days), step), days[::step], rotation=30, ha="right")
            highest: Any = windows["outside"].max()
            axes.set_ylim(bottom=0, top=max(2.2 * epsilon, 1.08 * highest))
            axes.set_title(f"ε = {epsilon:g}")
        figure.axes[0].set_ylabel("share outside, by users' days")
        handles = figure.axes[0].get_legend_handles_labels()
        figure.legend(*handles, loc="outside lower center", ncols=len(MODELS) + 1)
        return render(figure)
