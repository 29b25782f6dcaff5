"""The new-user test: fit on some users, ask the others by their histories."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import polars as pl
from scipy import stats

from surerec._arguments import check_kind, check_number, check_seed
from surerec._checks import check_whole
from surerec.calibration import Cases, find_promise, observe, profile_cases
from surerec.errors import InputError, NotOffered
from surerec.evaluation._coverage import CHECKED_EPSILONS, coverage, losses_at, risk_curve
from surerec.evaluation._support import HeldOut, miss_by_support, ranking_rows
from surerec.interactions import Interactions
from surerec.measures import Query, as_recipe
from surerec.precedence import count_precedence
from surerec.recommenders import PopulationConformal, RecommendOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from surerec.calibration import Bins, Cut, Horizon, Outcomes, Promise
    from surerec.measures import RecipeLike
    from surerec.precedence import PrecedenceStatistics, Ties

FEWEST_USERS: Final = 20
"""With fewer calibration users or new users nothing is measured."""
DIAGNOSED: Final = 0.1
"""The ε at which misses are compared by the number of other users."""

_Z: Final = float(stats.norm.ppf(0.95))  # of a one-sided 95% limit
_POWER: Final = float(stats.norm.ppf(0.95) + stats.norm.ppf(0.8))
_CELLS: Final = 1 << 24  # candidates' shares held at once


class UserSplit(NamedTuple):
    """Users whose data are fitted, and users who are asked afterwards."""

    fit: Interactions
    """With the items that these users consumed, and no others."""
    new: Interactions


def split_users(
    interactions: Interactions, fit_share: float = 0.5, *, seed: int | tuple[int, ...] = 0
) -> UserSplit:
    """Split users at random, each part with a catalogue of its own.

    Parameters
    ----------
    interactions : Interactions
        The histories.
    fit_share : float, default=0.5
        The share of the users that are fitted.
    seed : int or tuple of int, default=0
        Of the split.

    Examples
    --------
    >>> import surerec as sr
    >>> films = sr.datasets.synthetic(n_users=50, n_items=40, n_rows=900, seed=1)
    >>> parts = split_users(films, 0.6)
    >>> parts.fit.n_users, parts.new.n_users
    (30, 20)
    >>> set(parts.fit.users.ids) & set(parts.new.users.ids)
    set()
    """
    users = np.flatnonzero(np.diff(interactions.offsets))
    order = np.random.default_rng(seed).permutation(users)
    return split_by(interactions, order[: round(fit_share * len(users))])


def split_by(interactions: Interactions, fitted: NDArray[np.integer]) -> UserSplit:
    """Split off users by code, each part as if there were no others."""
    rows = np.repeat(
        np.isin(np.arange(interactions.n_users), fitted), np.diff(interactions.offsets)
    )
    return UserSplit(interactions.only(rows), interactions.only(~rows))


@dataclass(frozen=True)
class NewUserTest:
    """What users who were not in the fit received, beside what was guaranteed.

    Attributes
    ----------
    splits : polars.DataFrame
        A row for each split and ε: ``observed``, the mean loss of new users (the share of held-out
        items left out; without a hit, 1; for a precision, the share of what was shown that was not
        consumed); ``calibration``, the mean loss of calibration users, each left out (the
        leave-one-out estimate; NaN for a precision); the ``standard_error`` of `observed` over
        calibration and new users; ``lower``, its one-sided 95% lower confidence limit; ``size``,
        the mean set size; ``floor``, the smallest ε that the model says it can guarantee;
        ``unknown``, the loss that no set of known items avoids; ``reachable``, whether ε is at
        least the floor; ``n_calibration`` and ``n_new`` users.
    support : polars.DataFrame or None
        Miss at ε = 0.1 by the number of other users of the fit who consumed the item, calibration
        users beside new users; see :func:`surerec.evaluation.miss_by_support`.
    ranking : polars.DataFrame or None
        For each split precision@10 of calibration users and of new users, and where calibration
        users' items that nobody else consumed were ranked.
    """

    splits: pl.DataFrame
    support: pl.DataFrame | None = None
    ranking: pl.DataFrame | None = None

    def table(self) -> pl.DataFrame:
        """Return the mean over splits for each ε, and whether the guarantee holds.

        Only splits whose model guarantees ε count, and the floor is the largest of theirs; where
        none does, it is the smallest of all. ``holds`` is false if the one-sided 95% lower
        confidence limit of the mean loss exceeds ε. ``detectable`` is the excess over ε that this
        test finds with a probability of 80%.

        Notes
        -----
        Splits of one data set are drawn independently, and so are calibration users. The standard
        error of their mean is therefore that of one split divided by the square root of their
        number.
        """
        rows = []
        for part in self.splits.partition_by("epsilon", maintain_order=True):
            judged = part.filter("reachable")
            row: dict[str, Any] = {"epsilon": part["epsilon"][0]}
            for name in ("observed", "calibration", "size"):
                row[name] = _mean(judged[name])
            errors = judged["standard_error"].to_numpy()
            error = float(np.linalg.norm(errors)) / max(len(judged), 1)
            lower = None if row["observed"] is None else row["observed"] - _Z * error
            row |= {
                "standard_error": error if len(judged) else None,
                "lower": lower,
                "holds": None if lower is None else lower <= row["epsilon"],
                "detectable": _POWER * error if len(judged) else None,
                "floor": judged["floor"].max() if len(judged) else part["floor"].min(),
                "unknown": _mean(part["unknown"]),
                "n_splits": len(judged),
                "n_calibration": int(part["n_calibration"].min()),  # type: ignore[arg-type]
                "n_new": int(part["n_new"].min()),  # type: ignore[arg-type]
            }
            rows.append(row)
        return pl.DataFrame(rows, infer_schema_length=None)

    @property
    def holds(self) -> bool:
        """Whether the guarantee holds at every ε that the model guarantees."""
        return bool(self.table()["holds"].drop_nulls().all())


def new_user_test(
    interactions: Interactions,
    measure: RecipeLike = "CM12",
    *,
    promise: str | Promise = "miss-rate",
    horizon: Horizon | None = None,
    cut: Cut = "score",
    significances: Sequence[float] = CHECKED_EPSILONS,
    n_splits: int = 3,
    fit_share: float = 0.5,
    max_users: int = 2000,
    min_known: int = 5,
    delta: float = 0.1,
    ties: Ties = "order",
    diagnose: bool = True,
    seed: int = 0,
) -> NewUserTest:
    """Fit a model on some users, and measure what the others receive.

    Catalogue, counts, learned parameters and thresholds are made without the users who are tested.
    These are asked by the known part of their history, with times. A held-out item that the model
    does not know counts as missed.

    Parameters
    ----------
    interactions : Interactions
        The histories.
    measure : str or object, default="CM12"
        What :class:`surerec.PopulationConformal` takes as `measure`, if it can be fitted.
    promise : {"miss-rate", "hit", "precision"} or Promise, default="miss-rate"
        The guarantee. For a precision, ε is one minus the precision.
    horizon : float or int, optional
        What is held out of each history; by default what the guarantee is usually about.
    cut : {"rank", "score"}, default="score"
        How sets are cut.
    significances : sequence of float
        The nominal ε.
    n_splits : int, default=3
        How many random splits of the users.
    fit_share : float, default=0.5
        The share of the users that are fitted.
    max_users : int, default=2000
        How many users calibrate, and how many are tested, at most, in each split.
    min_known : int, default=5
        Users with fewer known items neither calibrate nor are tested.
    delta : float, default=0.1
        For a precision, the probability with which the guarantee may fail.
    ties : {"order", "strict"}, default="order"
        How items of one instant are counted; see :func:`surerec.count_precedence`.
    diagnose : bool, default=True
        Rank the calibration users once more, for the tables `support` and `ranking`.
    seed : int, default=0
        Of splits and fits.

    Returns
    -------
    NewUserTest
        Per split, and :meth:`NewUserTest.table` over splits.

    Raises
    ------
    InputError
        If an argument is invalid, the measure cannot be fitted again, or too few users are left.

    Examples
    --------
    >>> import surerec as sr
    >>> from surerec.evaluation import new_user_test
    >>> films = sr.datasets.synthetic(n_users=400, n_items=80, n_rows=9000, seed=1)
    >>> found = new_user_test(films, "CM12", significances=(0.1, 0.3), n_splits=2)
    >>> found.table()["holds"].to_list()
    [True, True]
    """
    check_kind("interactions", interactions, Interactions, "Interactions")
    check_number("fit_share", fit_share, 0, 1, "between 0 and 1")
    check_whole("n_splits", n_splits)
    check_whole("max_users", max_users, lowest=FEWEST_USERS)
    check_seed(seed)
    recipe = as_recipe(measure)
    if not recipe.refits:
        raise InputError(
            f"{recipe.name} comes fitted: it cannot be fitted without the users who are tested. "
            "Pass what makes it from statistics, such as its class."
        )
    found = find_promise(promise)
    asked = _Asked(found, horizon or found.horizon, cut, tuple(significances), delta)
    rows: list[dict[str, Any]] = []
    held_out: list[tuple[HeldOut, HeldOut, float]] = []
    for split in range(n_splits):
        parts = split_users(interactions, fit_share, seed=(seed, split))
        model = PopulationConformal(
            measure,
            promise=found,
            horizon=asked.horizon,
            cut=cut,
            n_calibration=max_users,
            min_known=min_known,
            seed=seed + split,
        ).fit(count_precedence(parts.fit, ties=ties))
        cases = profile_cases(parts.new, asked.horizon, min_known=min_known)
        tested = _ask(model, cases.sample(max_users, seed + split), asked)
        rows += [{"split": split, **row} for row in tested.rows()]
        if diagnose:
            threshold = model.calibration_.curve("miss-rate").cut(DIAGNOSED)
            held_out.append((_calibration_users(model, cut), tested.held_out, threshold))
    return NewUserTest(
        pl.DataFrame(rows, infer_schema_length=None),
        miss_by_support(held_out) if diagnose else None,
        pl.DataFrame(ranking_rows(held_out)) if diagnose else None,
    )


class _Asked(NamedTuple):
    """What is measured."""

    promise: Promise
    horizon: Horizon
    cut: Cut
    significances: tuple[float, ...]
    delta: float


class _Rule(NamedTuple):
    """How a fitted model makes sets, at each ε."""

    sets: Callable[[Outcomes], tuple[NDArray[np.float64], NDArray[np.float64]]]
    """Returns losses (NaN where nothing is shown) and sizes of some users, both ε × users."""
    reachable: NDArray[np.bool_]
    floor: float
    calibration_losses: NDArray[np.float64] | None = None
    """ε × calibration users; None for a precision, which has no risk curve."""
    bins: Bins | None = None


def _risk_rule(model: PopulationConformal, asked: _Asked) -> _Rule:
    """Cut sets at the thresholds of the model's risk curve."""
    curve = model.calibration_.curve(asked.promise)

    def sets(some: Outcomes) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        tested, users = risk_curve(some, asked.cut, asked.promise), np.arange(len(some))
        found = [
            coverage(curve, tested, some, users, asked.cut, epsilon)
            for epsilon in asked.significances
        ]
        return np.stack([each.losses for each in found]), np.stack([each.sizes for each in found])

    floor = curve.lowest_level()
    losses = [losses_at(curve, curve.cut(epsilon)) for epsilon in asked.significances]
    return _Rule(sets, np.array(asked.significances) >= floor, floor, np.stack(losses))


def _precision_rule(model: PopulationConformal, asked: _Asked) -> _Rule:
    """Show what the model's tested thresholds let through."""
    chances = model.model_.calibration.chances
    n_bins = 0 if chances is None else chances.bins.n
    lowest = [_lowest_bin(model, epsilon, asked.delta, n_bins) for epsilon in asked.significances]

    def sets(some: Outcomes) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        nothing = np.zeros((len(some), 0))
        shown, consumed = (
            np.stack([(nothing if part is None else part)[:, at:].sum(axis=1) for at in lowest])
            for part in (some.counts, some.hits)
        )
        shares = np.divide(consumed, shown, out=np.full(shown.shape, np.nan), where=shown > 0)
        return 1 - shares, shown.astype(np.float64)

    reachable = np.array(lowest) < n_bins
    levels = np.array(asked.significances)[reachable]
    floor = float(levels.min()) if len(levels) else np.nan
    return _Rule(sets, reachable, floor, bins=None if chances is None else chances.bins)


def _lowest_bin(model: PopulationConformal, epsilon: float, delta: float, n_bins: int) -> int:
    """Return the lowest bin that is shown at ε; beyond the last where ε is refused."""
    anyone = Query(np.arange(min(model.min_known, model.statistics_.n_items)))
    try:
        found = model.model_.assess(anyone, options=RecommendOptions(precision=float(1 - epsilon)))
        return int(found.passed(delta).threshold)  # type: ignore[attr-defined]
    except NotOffered:
        return n_bins


@dataclass(frozen=True)
class _Tested:
    """The new users of one split; losses and sizes are ε × users."""

    asked: _Asked
    rule: _Rule
    held_out: HeldOut
    losses: NDArray[np.float64]
    sizes: NDArray[np.float64]
    unknown: NDArray[np.float64]
    """For each user, the loss that no set of known items avoids."""
    n_calibration: int

    def rows(self) -> Iterator[dict[str, Any]]:
        """Return a row for each ε."""
        for at, epsilon in enumerate(self.asked.significances):
            shown = ~np.isnan(self.losses[at])
            losses = self.losses[at, shown]
            observed = float(losses.mean()) if len(losses) else np.nan
            error = (_variance(losses) + self._calibration_variance(at, losses)) ** 0.5
            yield {
                "epsilon": float(epsilon),
                "observed": observed,
                "calibration": self._calibration_loss(at),
                "standard_error": error,
                "lower": observed - _Z * error,
                "size": float(self.sizes[at, shown].mean()) if len(losses) else np.nan,
                "floor": self.rule.floor,
                "unknown": float(self.unknown.mean()),
                "reachable": bool(self.rule.reachable[at]),
                "n_calibration": self.n_calibration,
                "n_new": len(self.unknown),
            }

    def _calibration_loss(self, at: int) -> float:
        """Return the mean loss of calibration users, each left out, with the same threshold."""
        losses = self.rule.calibration_losses
        return np.nan if losses is None else float(losses[at].mean())

    def _calibration_variance(self, at: int, losses: NDArray[np.float64]) -> float:
        if self.rule.calibration_losses is not None:
            return _variance(self.rule.calibration_losses[at])
        # Of a precision: as many calibration users in a hundred are shown anything.
        return _variance(losses) * len(self.unknown) / self.n_calibration


def _variance(losses: NDArray[np.float64]) -> float:
    """Return the variance of a mean over users."""
    return float(losses.var(ddof=1) / len(losses)) if len(losses) > 1 else np.nan


def _ask(model: PopulationConformal, cases: Cases, asked: _Asked) -> _Tested:
    """Ask a fitted model about new users."""
    rule = _precision_rule(model, asked) if asked.promise.tested else _risk_rule(model, asked)
    statistics, known = model.statistics_, _known_to(model)
    at_once = max(64, _CELLS // statistics.n_items)  # a cut by score needs all candidates' shares
    parts, sets, unknown = [], [], []
    for begin in range(0, len(cases), at_once):
        some = observe(
            model.scorer_,
            statistics,
            cases[begin : begin + at_once],
            keep_candidates=asked.cut == "score" and not asked.promise.tested,
            bins=rule.bins,
            doing="Asking new users",
        )
        parts.append(HeldOut.of(some, known, asked.cut))
        sets.append(rule.sets(some))
        monotone = "miss-rate" if asked.promise.tested else asked.promise
        unknown.append(losses_at(risk_curve(some, "rank", monotone), np.inf))
    n_calibration, n_new = len(model.calibration_), sum(map(len, unknown))
    if min(n_calibration, n_new) < FEWEST_USERS:
        raise InputError(
            f"The new-user test needs {FEWEST_USERS} calibration users and {FEWEST_USERS} new "
            f"users whom {model.recipe().name} can score, and there are {n_calibration} and "
            f"{n_new}. Give more users, or a smaller min_known."
        )
    losses, sizes = (np.concatenate(each, axis=1) for each in zip(*sets, strict=True))
    return _Tested(
        asked,
        rule,
        HeldOut.joined(parts, one_fit=True),
        losses,
        sizes,
        np.concatenate(unknown),
        n_calibration,
    )


def _calibration_users(model: PopulationConformal, cut: Cut) -> HeldOut:
    """Rank the calibration users' held-out items again, as they were ranked for calibration."""
    kept, known = model.calibration_, _known_to(model)
    interactions = model.statistics_.interactions
    begins = interactions.offsets[kept.users] + kept.n_known
    stops = begins + np.bincount(kept.owners, minlength=len(kept))
    cases = Cases(interactions, kept.users, begins, stops)
    found = observe(model.scorer_, known, cases, doing="Ranking calibration users")
    return HeldOut.of(found, known, cut, own=int(known is model.statistics_))


def _known_to(model: PopulationConformal) -> PrecedenceStatistics:
    """Return what its scorer was fitted on: nobody who calibrates, if users cannot be left out."""
    known = model.statistics_
    if model.scorer_.leaves_users_out is not False:
        return known
    others = known.interactions.without_users(model.calibration_.users)
    return count_precedence(others, ties=known.ties)


def _mean(column: pl.Series) -> float | None:
    return float(column.mean()) if len(column) else None  # type: ignore[arg-type]
