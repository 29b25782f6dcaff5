"""Replay of history as a stream: coverage of a static, a recalibrated and a live model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, get_args

import numpy as np
import polars as pl

from surerec._arguments import check_choice, check_kind, check_number, check_whole
from surerec._files import folder_aside, holds_output
from surerec._progress import progress
from surerec._words import DAY, day_of
from surerec.calibration import Cases, ThresholdUnit, observe
from surerec.conformal import DEFAULT_STEP, AdaptiveLevel, RiskCurve, UserDay
from surerec.errors import InputError
from surerec.evaluation import refittable
from surerec.interactions import Interactions
from surerec.live._ledger import NEW_ITEM, SHORT_HISTORY, WINDOW
from surerec.precedence import Ties
from surerec.reports import require_plots

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from surerec.calibration import Outcomes
    from surerec.measures import Measure, MeasureLike, Scorer

MODELS: Final = ("static", "recalibrated", "live")
"""The compared models: never refitted; refitted regularly; refitted with adapted thresholds."""

_FEWEST: Final = 100  # calibration events
_SHARES_AT_ONCE: Final = 1 << 24  # 128 MB of candidates' shares
_FILES: Final = {"summary.csv", "windows.csv"}


@dataclass(frozen=True)
class ReplayOptions:
    """Options of a replay.

    Attributes
    ----------
    threshold : {"rank", "score"}
        Unit of the threshold; see :class:`surerec.PopulationConformal`.
    epsilons : tuple of float
        Significance levels.
    step : float
        Step size γ of the live model.
    renew : float
        Days between refits.
    retrain : float
        Days between trainings of a learned measure; its counts are renewed at every refit.
    window : float
        Days of evaluated events that calibrate.
    min_history : int
        Events of users with shorter histories are not evaluated.
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
            days = getattr(self, name)
            check_number(name, days, 1e-3, 1e5, "a number of days", ends=(True, True))
        AdaptiveLevel.start(self.epsilons, step=self.step)


@dataclass(frozen=True)
class ReplayResult:
    """Results of a replay, event by event.

    Attributes
    ----------
    times : array of int
        Time of each evaluated event, in microseconds since 1970.
    outside : array of bool, models × events × ε
        Whether the consumed item was outside the set of each of :data:`MODELS`.
    sizes : array of int, models × events × ε
        Size of that set.
    n_candidates : array of int
        Number of candidate items.
    user_days : array of int
        Code of the user and day (event time) of each event; each pair counts once.
    not_evaluated : dict of str to int
        Number of events that were not evaluated, by reason.
    options : ReplayOptions
        Options of the replay.
    name : str
        Name of the data.
    """

    times: NDArray[np.int64]
    outside: NDArray[np.bool_]
    sizes: NDArray[np.int64]
    n_candidates: NDArray[np.int64]
    user_days: NDArray[np.int64]
    not_evaluated: dict[str, int]
    options: ReplayOptions
    name: str

    @property
    def all_or_nothing(self) -> NDArray[np.bool_]:
        """Whether each set contains all candidates or none; models × events × ε."""
        return np.asarray((self.sizes == 0) | (self.sizes >= self.n_candidates[:, None]))


def replay(
    interactions: Interactions,
    begin: int,
    measure: MeasureLike = "CM12",
    *,
    options: ReplayOptions | None = None,
) -> ReplayResult:
    """Replay history from a start time and compare three models, event by event.

    Each model computes a set at each ε before each event. An event is evaluated if its item is
    known and the user's history is long enough. Each user and day (event time) counts once in
    calibration, in adaptation and in the observed coverage.

    - *static* is fitted and calibrated once, at the start.
    - *recalibrated* is refitted every few days and calibrated on a rolling window of events.
    - *live* is the same with adapted thresholds.

    A user's own data are left out of the counts that score them. The counts contain no
    interactions after the last refit.

    Parameters
    ----------
    interactions : Interactions
        The complete history.
    begin : int
        Start of the stream, in microseconds since 1970; the window before it calibrates.
    measure : str or object, default="CM12"
        The same as for :class:`surerec.PopulationConformal`.
    options : ReplayOptions, optional
        Options of the replay.

    Returns
    -------
    ReplayResult

    Examples
    --------
    >>> import surerec as sr
    >>> films = sr.datasets.synthetic(
    ...     n_users=400, n_items=60, n_rows=9000, days=200, random_state=1
    ... )
    >>> begin = int(films.times.min()) + 120 * 86_400_000_000
    >>> result = replay(films, begin, options=ReplayOptions(renew=20, window=60))
    >>> result.outside.shape[0], result.outside.shape[2]
    (3, 3)
    """
    check_kind("interactions", interactions, Interactions, "Interactions")
    options, fittable = options or ReplayOptions(), refittable(measure)
    _check_begin(interactions, begin, options)
    return _Replay(interactions, fittable, begin, options).run()


def _check_begin(interactions: Interactions, begin: int, options: ReplayOptions) -> None:
    if not interactions.n_rows:
        raise InputError("The data contain no interactions. Pass a history to replay.")
    first, last = int(interactions.times.min()), int(interactions.times.max())
    if not first + int(options.window * DAY) < begin <= last:
        raise InputError(
            f"The stream cannot begin on {day_of(begin)}: the data range from {day_of(first)} to "
            f"{day_of(last)}, and the first {options.window:g} days calibrate. Choose a start "
            "after them, or a shorter window."
        )


def _weights(user_days: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the weight of each event; the weights of one user and day sum to 1."""
    _, owners, sizes = np.unique(user_days, return_inverse=True, return_counts=True)
    return np.asarray(1 / sizes[owners])


def _threshold_at(curve: RiskCurve, level: float) -> float:
    """Return the threshold of a curve at a level, which may be outside (0, 1)."""
    if level <= 0 or level >= 1:
        return np.inf if level <= 0 else -np.inf
    return curve.threshold(level)


class _ReplayFit:
    """A fit on the interactions up to a time, which ranks the candidates of later events."""

    def __init__(
        self,
        profiles: Interactions,
        measure: Measure,
        until: int,
        options: ReplayOptions,
        earlier: Any = None,
    ) -> None:
        self._options = options
        self.statistics = measure.count(profiles.until(until), options.ties)
        self.fitted = until
        """When the learned parts were trained."""
        self.scorer: Scorer
        since = until - int(options.retrain * DAY)
        if earlier is None or not measure.grows or since >= earlier.fitted:
            self.scorer = measure.fit(self.statistics)
        else:
            self.fitted = earlier.fitted
            self.scorer = measure.grown(earlier.scorer, self.statistics)
        self.knows = (self.statistics.support > 0)[profiles.item_codes]
        """Whether the item of each profile row is known to the fit."""

    def rank(self, cases: Cases) -> tuple[NDArray[np.float64], Outcomes]:
        """Return the threshold at which the item of each case enters the set, and the ranking.

        The threshold is infinite if the item or the user's whole history is unknown.
        """
        found = observe(
            self.scorer, self.statistics, cases, keep_candidates=self._options.threshold == "score"
        )
        return np.where(found.n_known > 0, found.entries(self._options.threshold), np.inf), found


class _Replay:
    def __init__(
        self, profiles: Interactions, measure: Measure, begin: int, options: ReplayOptions
    ) -> None:
        self._profiles, self._measure = profiles, measure
        self._begin, self._options = begin, options
        self._name = profiles.name or "The data"
        self._epsilons = sorted(options.epsilons)
        self._adaptive = AdaptiveLevel.start(options.epsilons, step=options.step)
        self._static: tuple[_ReplayFit, RiskCurve] | None = None
        self._now: _ReplayFit | None = None
        self._calibrated: RiskCurve | None = None
        self._so_far: dict[int, UserDay] = {}
        self._not_judged = {NEW_ITEM: 0, SHORT_HISTORY: 0}
        # Row, user, time and user day of every event, in time order.
        owners = np.repeat(np.arange(profiles.n_users), np.diff(profiles.offsets))
        self._order = np.argsort(profiles.times, kind="stable")
        self._owners, self._times = owners[self._order], profiles.times[self._order]
        pairs = np.stack([self._owners, self._times // DAY])
        self._user_days = np.unique(pairs, axis=1, return_inverse=True)[1].reshape(-1)
        self._entries = np.full(len(owners), np.nan)  # of evaluated events, by the latest fit
        self._events: list[int] = []
        self._seen: list[tuple[Any, ...]] = []

    def run(self) -> ReplayResult:
        """Run the replay."""
        every, last = int(self._options.renew * DAY), int(self._times[-1])
        n_before = -(-int(self._options.window * DAY) // every)
        # Refit dates: for the calibration window, and exactly at the start.
        dates = [self._begin - back * every for back in range(n_before, 0, -1)]
        dates += range(self._begin, last + 1, every)
        with progress("Replaying history", total=len(dates)) as advance:
            for start, stop in zip(dates, [*dates[1:], last + 1], strict=True):
                first, end = np.searchsorted(self._times, [start, stop])
                if first < end:
                    self._refit(start)
                    self._evaluate_all(np.arange(first, end), counts=start >= self._begin)
                advance(1)
        if not self._events:
            raise InputError(
                f"{self._name}: no event after {day_of(self._begin)} can be evaluated. Choose an "
                "earlier start or a smaller min_history."
            )
        outside, sizes, n_candidates = (np.array(each) for each in zip(*self._seen, strict=True))
        return ReplayResult(
            self._times[self._events],
            np.moveaxis(outside, 1, 0),
            np.moveaxis(sizes, 1, 0),
            n_candidates,
            self._user_days[self._events],
            self._not_judged,
            self._options,
            self._name,
        )

    def _refit(self, start: int) -> None:
        """Refit at a time, and recalibrate on the events of the window before it."""
        # The static model is trained on all data before the start, as in practice.
        earlier = None if start == self._begin else self._now
        self._now = _ReplayFit(self._profiles, self._measure, start, self._options, earlier)
        since = start - int(self._options.window * DAY)
        recent = (self._times >= since) & (self._times < start) & ~np.isnan(self._entries)
        if recent.sum() >= _FEWEST:
            days, owners = np.unique(self._user_days[recent], return_inverse=True)
            weights = _weights(self._user_days[recent])
            self._calibrated = RiskCurve(self._entries[recent], weights, owners, len(days))
        elif start == self._begin:
            raise InputError(
                f"{self._name}: the {self._options.window:g} days before {day_of(start)} have "
                f"fewer than {_FEWEST} calibration events. Use a longer window."
            )
        if start == self._begin and self._calibrated is not None:
            self._static = self._now, self._calibrated

    def _evaluate_all(self, events: NDArray[np.int64], *, counts: bool) -> None:
        now, static = self._now, self._static
        assert now is not None  # noqa: S101  # `_refit` sets it
        rows, users = self._order[events], self._owners[events]
        known = np.concatenate(([0], np.cumsum(now.knows)))
        is_new = ~now.knows[rows]
        n_known = known[rows] - known[self._profiles.offsets[users]]
        is_short = ~is_new & (n_known < self._options.min_history)
        if counts:
            self._not_judged[NEW_ITEM] += int(is_new.sum())
            self._not_judged[SHORT_HISTORY] += int(is_short.sum())
        evaluated = np.flatnonzero(~is_new & ~is_short)
        at_once = max(_SHARES_AT_ONCE // self._profiles.n_items, 1)
        for some in (evaluated[n : n + at_once] for n in range(0, len(evaluated), at_once)):
            cases = Cases(self._profiles, users[some], rows[some], rows[some] + 1)
            found = now.rank(cases)
            self._entries[events[some]] = found[0]
            if counts and static is not None:
                old = found if static[0] is now else static[0].rank(cases)
                for place, at in enumerate(events[some].tolist()):
                    self._evaluate(at, place, found, old, static[1])

    def _evaluate(self, at: int, place: int, found: Any, old: Any, static: RiskCurve) -> None:
        renewed = static if self._calibrated is None else self._calibrated
        models = (
            (old, static, self._epsilons),
            (found, renewed, self._epsilons),
            (found, renewed, self._adaptive.nested_thresholds),
        )
        outside, sizes = [], []
        for (entries, seen), curve, levels in models:
            thresholds = [_threshold_at(curve, level) for level in levels]
            outside.append([entries[place] > threshold for threshold in thresholds])
            sizes.append([self._size(seen, place, threshold) for threshold in thresholds])
        self._events.append(at)
        self._seen.append((outside, sizes, found[1].n_candidates[place]))
        level, user_day = float(renewed.levels([found[0][place]])[0]), self._user_days[at]
        so_far = self._so_far.get(user_day, UserDay())
        self._so_far[user_day] = so_far.after(self._adaptive.missed(level))
        self._adaptive = self._adaptive.after(level, so_far)

    def _size(self, found: Outcomes, place: int, threshold: float) -> int:
        """Return the set size at a threshold; 0 if the history is unknown."""
        if not found.n_known[place]:
            return 0
        if found.candidate_shares is None:
            return int(np.clip(threshold, 0, found.n_candidates[place]))
        return int((found.candidate_shares[place] >= max(-threshold, 0.0)).sum())


def windows_of(result: ReplayResult, length: int = WINDOW) -> pl.DataFrame:
    """Return nominal and observed coverage in windows of `length` evaluated events.

    Returns
    -------
    polars.DataFrame
        ``window``, ``from``, ``until``, ``n``, ``epsilon``, ``model``, ``outside`` (share of
        consumed items outside the sets, with each user and day counted once), ``outside_events``
        (with each event counted once), ``size`` (mean set size), ``all_or_nothing`` (share of
        sets with all candidates or none). The last window may be shorter.
    """
    rows = list[dict[str, Any]]()
    for number, first in enumerate(range(0, len(result.times), length)):
        some = slice(first, first + length)
        times = result.times[some]
        about = {"from": day_of(int(times[0])), "until": day_of(int(times[-1])), "n": len(times)}
        rows += [{"window": number, **about, **shares} for shares in _shares(result, some)]
    return pl.DataFrame(rows)


def _shares(result: ReplayResult, some: slice) -> list[dict[str, Any]]:
    """Return the share outside and the mean set size for each ε and model."""
    weights = _weights(result.user_days)[some]
    return [
        {
            "epsilon": epsilon,
            "model": model,
            "outside": float(np.average(result.outside[m, some, place], weights=weights)),
            "outside_events": float(result.outside[m, some, place].mean()),
            "size": float(result.sizes[m, some, place].mean()),
            "all_or_nothing": float(result.all_or_nothing[m, some, place].mean()),
        }
        for place, epsilon in enumerate(sorted(result.options.epsilons))
        for m, model in enumerate(MODELS)
    ]


def summary_of(result: ReplayResult, length: int = WINDOW) -> pl.DataFrame:
    """Return nominal and observed coverage over the whole stream, for each ε and model.

    Returns
    -------
    polars.DataFrame
        ``epsilon``, ``model``, ``outside`` (with each user and day counted once),
        ``outside_events`` (with each event counted once), ``size``, ``all_or_nothing``,
        ``size_ratio`` (to the recalibrated model's), ``worst_window`` (largest distance of
        ``outside`` from ε over all windows at any start; null if there is none), ``n`` and
        ``n_user_days``.
    """
    weights = _weights(result.user_days)
    rows = [
        row
        | {
            "worst_window": _worst_window(
                result.outside[number % len(MODELS), :, number // len(MODELS)],
                weights,
                row["epsilon"],
                length,
            ),
            "n": len(result.times),
            "n_user_days": round(weights.sum()),
        }
        for number, row in enumerate(_shares(result, slice(None)))
    ]
    recalibrated = pl.col("size").filter(model="recalibrated").first().over("epsilon")
    ratio = pl.col("size") / pl.max_horizontal(recalibrated, 1e-9)
    return pl.DataFrame(rows).with_columns(size_ratio=ratio)


def _worst_window(
    outside: NDArray[np.bool_], weights: NDArray[np.float64], epsilon: float, length: int
) -> float | None:
    """Return the largest distance of the share outside from ε over all windows."""
    if len(outside) < length:
        return None
    missed, total = (
        np.concatenate(([0.0], np.cumsum(each))) for each in (outside * weights, weights)
    )
    shares = (missed[length:] - missed[:-length]) / (total[length:] - total[:-length])
    return float(np.abs(shares - epsilon).max())


def check_replay_target(folder: Path) -> None:
    """Check, before a long computation, that a replay can be written to a folder."""
    holds_output(folder, _FILES, "a replay")


def write_replay(result: ReplayResult, folder: Path) -> None:
    """Write the tables and the figure; the folder is complete or absent."""
    check_replay_target(folder)
    figure = _draw(result)
    with folder_aside(folder) as aside:
        windows_of(result).write_csv(aside / "windows.csv")
        summary_of(result).write_csv(aside / "summary.csv")
        (aside / "figures").mkdir()
        for kind, content in figure.items():
            (aside / "figures" / f"replay.{kind}").write_bytes(content)


def _draw(result: ReplayResult) -> dict[str, bytes]:
    """Return the figure in every format: share outside by window, one panel per ε."""
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
    all_windows, epsilons = windows_of(result), sorted(result.options.epsilons)
    title = f"{result.name}: nominal and observed share outside the sets"
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
        figure.axes[0].set_ylabel("share outside (user days)")
        handles = figure.axes[0].get_legend_handles_labels()
        figure.legend(*handles, loc="outside lower center", ncols=len(MODELS) + 1)
        return render(figure)
