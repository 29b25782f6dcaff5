"""History played as a stream: what a static, a recalibrated and a live model would have kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, get_args

import numpy as np
import polars as pl

from surerec._arguments import check_choice, check_kind, check_number, check_whole
from surerec._files import check_utf8, folder_aside
from surerec._progress import progress
from surerec._words import DAY, day_of
from surerec.calibration import Cases, ThresholdUnit, observe
from surerec.conformal import DEFAULT_STEP, AdaptiveLevel, RiskCurve, UserDay
from surerec.errors import InputError
from surerec.evaluation import refittable
from surerec.interactions import Interactions
from surerec.live._ledger import NEW_ITEM, TOO_LITTLE, WINDOW
from surerec.precedence import Ties
from surerec.reports import require_plots

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from surerec.calibration import Outcomes
    from surerec.measures import Measure, MeasureLike, Scorer

MODELS: Final = ("static", "recalibrated", "live")
"""What is compared: never refitted; refitted and recalibrated; that, with adapted thresholds."""

_FEWEST: Final = 100  # events that calibrate
_SHARES_AT_ONCE: Final = 1 << 24  # 128 MB of candidates' shares
_FILES: Final = {"summary.csv", "windows.csv"}


@dataclass(frozen=True)
class Playing:
    """How history is played.

    Attributes
    ----------
    threshold : {"rank", "score"}
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
    min_history : int
        Events of users of whom less is known are not judged.
    ties : {"order", "strict"}
        See :func:`surerec.count_precedence`.
    """

    threshold: ThresholdUnit = "score"
    epsilons: tuple[float, ...] = (0.1, 0.2, 0.3)
    step: float = DEFAULT_STEP
    renew: float = 3.0
    retrain: float = 30.0
    window: float = 30.0
    min_history: int = 5
    ties: Ties = "order"

    def __post_init__(self) -> None:
        check_choice("threshold", self.threshold, get_args(ThresholdUnit))
        check_choice("ties", self.ties, get_args(Ties))
        check_whole("min_history", self.min_history)
        for name in ("renew", "retrain", "window"):
            check_number(
                name, getattr(self, name), 1e-3, 1e5, "a number of days", ends=(True, True)
            )
        AdaptiveLevel.start(self.epsilons, step=self.step)


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
    user_days: NDArray[np.int64]
    not_judged: dict[str, int]
    playing: Playing
    name: str

    @property
    def all_or_nothing(self) -> NDArray[np.bool_]:
        """Which sets were of everything or of nothing; models × events × ε."""
        return np.asarray((self.sizes == 0) | (self.sizes >= self.n_candidates[:, None]))


def replay(
    interactions: Interactions,
    begin: int,
    measure: MeasureLike = "CM12",
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
    >>> films = sr.datasets.synthetic(
    ...     n_users=400, n_items=60, n_rows=9000, days=200, random_state=1
    ... )
    >>> begin = int(films.times.min()) + 120 * 86_400_000_000
    >>> played = replay(films, begin, playing=Playing(renew=20, window=60))
    >>> played.outside.shape[0], played.outside.shape[2]
    (3, 3)
    """
    check_kind("interactions", interactions, Interactions, "Interactions")
    how, recipe = playing or Playing(), refittable(measure)
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


def _weights(user_days: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the weight of each event: those of one user and day have 1 together."""
    _, owners, sizes = np.unique(user_days, return_inverse=True, return_counts=True)
    return np.asarray(1 / sizes[owners])


def _cut_of(curve: RiskCurve, level: float) -> float:
    """Return the largest entry that is in a set at a level."""
    if level <= 0 or level >= 1:
        return np.inf if level <= 0 else -np.inf
    return curve.threshold(level)


class _ReplayFit:
    """A fit on what was known at an instant, which ranks what users may consume after it."""

    def __init__(
        self, profiles: Interactions, recipe: Measure, until: int, how: Playing, earlier: Any = None
    ) -> None:
        self._how = how
        self.statistics = recipe.count(profiles.until(until), how.ties)
        self.fitted = until
        """When what was learned was learned."""
        self.scorer: Scorer
        if earlier is None or not recipe.grows or until >= earlier.fitted + int(how.retrain * DAY):
            self.scorer = recipe.fit(self.statistics)
        else:
            self.fitted = earlier.fitted
            self.scorer = recipe.grown(earlier.scorer, self.statistics)
        self.knows = (self.statistics.support > 0)[profiles.item_codes]
        """Whether the item of each row of the profiles is known."""

    def rank(self, cases: Cases) -> tuple[NDArray[np.float64], Outcomes]:
        """Return the threshold at which the item of each case enters the set, and what was ranked.

        The threshold is infinite if the item, or all of the user's history, is not known.
        """
        found = observe(
            self.scorer, self.statistics, cases, keep_candidates=self._how.threshold == "score"
        )
        return np.where(found.n_known > 0, found.entries(self._how.threshold), np.inf), found


class _Player:
    def __init__(self, profiles: Interactions, recipe: Measure, begin: int, how: Playing) -> None:
        self._profiles, self._recipe, self._begin, self._how = profiles, recipe, begin, how
        self._name = profiles.name or "The data"
        self._epsilons = sorted(how.epsilons)
        self._adaptive = AdaptiveLevel.start(how.epsilons, step=how.step)
        self._static: tuple[_ReplayFit, RiskCurve] | None = None
        self._now: _ReplayFit | None = None
        self._calibrated: RiskCurve | None = None
        self._so_far: dict[int, UserDay] = {}
        self._not_judged = {NEW_ITEM: 0, TOO_LITTLE: 0}
        # Of every event, in the order of time: its row, user, time and day of a user.
        owners = np.repeat(np.arange(profiles.n_users), np.diff(profiles.offsets))
        self._order = np.argsort(profiles.times, kind="stable")
        self._owners, self._times = owners[self._order], profiles.times[self._order]
        pairs = np.stack([self._owners, self._times // DAY])
        self._user_days = np.unique(pairs, axis=1, return_inverse=True)[1].reshape(-1)
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
                "earlier, or set a smaller min_history."
            )
        outside, sizes, n_candidates = (np.array(each) for each in zip(*self._seen, strict=True))
        return Replayed(
            self._times[self._events],
            np.moveaxis(outside, 1, 0),
            np.moveaxis(sizes, 1, 0),
            n_candidates,
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
            days, owners = np.unique(self._user_days[recent], return_inverse=True)
            weights = _weights(self._user_days[recent])
            self._calibrated = RiskCurve(self._entries[recent], weights, owners, len(days))
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
        rows, users = self._order[events], self._owners[events]
        known = np.concatenate(([0], np.cumsum(now.knows)))
        is_new = ~now.knows[rows]
        n_known = known[rows] - known[self._profiles.offsets[users]]
        is_little = ~is_new & (n_known < self._how.min_history)
        if counts:
            self._not_judged[NEW_ITEM] += int(is_new.sum())
            self._not_judged[TOO_LITTLE] += int(is_little.sum())
        judged = np.flatnonzero(~is_new & ~is_little)
        at_once = max(_SHARES_AT_ONCE // self._profiles.n_items, 1)
        for some in (judged[n : n + at_once] for n in range(0, len(judged), at_once)):
            cases = Cases(self._profiles, users[some], rows[some], rows[some] + 1)
            found = now.rank(cases)
            self._entries[events[some]] = found[0]
            if counts and static is not None:
                old = found if static[0] is now else static[0].rank(cases)
                for place, at in enumerate(events[some].tolist()):
                    self._judge(at, place, found, old, static[1])

    def _judge(self, at: int, place: int, found: Any, old: Any, static: RiskCurve) -> None:
        renewed = static if self._calibrated is None else self._calibrated
        models = (
            (old, static, self._epsilons),
            (found, renewed, self._epsilons),
            (found, renewed, self._adaptive.nested_thresholds),
        )
        outside, sizes = [], []
        for (entries, seen), curve, levels in models:
            cuts = [_cut_of(curve, level) for level in levels]
            outside.append([entries[place] > threshold for threshold in cuts])
            sizes.append([self._size(seen, place, threshold) for threshold in cuts])
        self._events.append(at)
        self._seen.append((outside, sizes, found[1].n_candidates[place]))
        level, user_day = float(renewed.levels([found[0][place]])[0]), self._user_days[at]
        so_far = self._so_far.get(user_day, UserDay())
        self._so_far[user_day] = so_far.after(self._adaptive.missed(level))
        self._adaptive = self._adaptive.after(level, so_far)

    def _size(self, found: Outcomes, place: int, threshold: float) -> int:
        """Return how many candidates a threshold lets in; none where nothing is known."""
        if not found.n_known[place]:
            return 0
        if found.candidate_shares is None:
            return int(np.clip(threshold, 0, found.n_candidates[place]))
        return int((found.candidate_shares[place] >= max(-threshold, 0.0)).sum())


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
        times = played.times[some]
        about = {"from": day_of(int(times[0])), "until": day_of(int(times[-1])), "n": len(times)}
        rows += [{"window": number, **about, **shares} for shares in _shares(played, some)]
    return pl.DataFrame(rows)


def _shares(played: Replayed, some: slice) -> list[dict[str, Any]]:
    """Return for each ε and model what was outside of its sets, and how large these were."""
    weights = _weights(played.user_days)[some]
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
        from ε in the worst of all windows, wherever they begin; null if there is none), ``n`` and
        ``n_user_days``.
    """
    weights = _weights(played.user_days)
    rows = [
        row
        | {
            "worst_window": _worst_window(
                played.outside[number % len(MODELS), :, number // len(MODELS)],
                weights,
                row["epsilon"],
                length,
            ),
            "n": len(played.times),
            "n_user_days": round(weights.sum()),
        }
        for number, row in enumerate(_shares(played, slice(None)))
    ]
    recalibrated = pl.col("size").filter(model="recalibrated").first().over("epsilon")
    ratio = pl.col("size") / pl.max_horizontal(recalibrated, 1e-9)
    return pl.DataFrame(rows).with_columns(size_ratio=ratio)


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
