"""The new-user test: fit on some users, and query the others by their histories."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import polars as pl
from scipy import stats

from surerec._arguments import check_kind, check_random_state, check_whole
from surerec.calibration import Cases, codes_in, find_guarantee, observe, profile_cases
from surerec.errors import InputError, NotSupportedError
from surerec.evaluation._sets import (
    CHECKED_EPSILONS,
    losses_at,
    measure_sets,
    refittable,
    risk_curve,
)
from surerec.interactions import Interactions
from surerec.measures import Query
from surerec.precedence import count_precedence
from surerec.recommenders import PopulationConformal, RecommendOptions, measure_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from surerec.calibration import GuaranteeKind, Horizon, Outcomes, ThresholdUnit
    from surerec.measures import MeasureLike
    from surerec.precedence import Ties

FEWEST_USERS: Final = 20
"""Fewest calibration users, and fewest new users."""
DIAGNOSED: Final = 0.1
"""The ε at which misses are compared by the number of other users of an item."""
OTHER_USERS: Final = ("0", "1", "2", "3–4", "5–9", "10–29", "30 or more")
"""Rows of the table of misses, by the number of other users of an item."""
MATERIAL: Final = 0.005
"""A gap is a leak if it adds this much to the miss rate over all items."""

_Z: Final = float(stats.norm.ppf(0.95))  # one-sided 95% limit
_POWER: Final = float(stats.norm.ppf(0.95) + stats.norm.ppf(0.8))
_DELTA: Final = 0.1  # probability that a guarantee of precision fails
_BEST: Final = 10
_CELLS: Final = 1 << 24  # candidates' shares in memory
_BEGINS: Final = np.array([0, 1, 2, 3, 5, 10, 30])
_BEYOND: Final = float(stats.norm.ppf(1 - 0.025 / len(OTHER_USERS)))
"""Standard errors that correspond to two for one row, for seven rows (Bonferroni)."""


class UserSplit(NamedTuple):
    """Users of the fit, and new users."""

    fit: Interactions
    """Interactions of the fitted users, with their items only."""
    new: Interactions


def split_users(
    interactions: Interactions, fit_share: float = 0.5, *, random_state: int | tuple[int, ...] = 0
) -> UserSplit:
    """Split users at random into two parts, each with its own catalogue.

    Parameters
    ----------
    interactions : Interactions
        Histories of users.
    fit_share : float, default=0.5
        Share of users in the fit.
    random_state : int or tuple of int, default=0
        Seed of the split.

    Examples
    --------
    >>> import surerec as sr
    >>> films = sr.datasets.synthetic(n_users=50, n_items=40, n_rows=900, random_state=1)
    >>> parts = split_users(films, 0.6)
    >>> parts.fit.n_users, parts.new.n_users
    (30, 20)
    >>> set(parts.fit.users.ids) & set(parts.new.users.ids)
    set()
    """
    users = np.flatnonzero(np.diff(interactions.offsets))
    order = np.random.default_rng(random_state).permutation(users)
    return split_by(interactions, order[: round(fit_share * len(users))])


def split_by(interactions: Interactions, fitted: NDArray[np.integer]) -> UserSplit:
    """Split users by code into two parts, each with its own catalogue."""
    rows = np.repeat(
        np.isin(np.arange(interactions.n_users), fitted), np.diff(interactions.offsets)
    )
    return UserSplit(interactions.only(rows), interactions.only(~rows))


@dataclass(frozen=True)
class NewUserTest:
    """Observed and nominal losses of users who were not in the fit.

    Attributes
    ----------
    splits : polars.DataFrame
        A row for each split and ε: ``observed``, the mean loss of new users (1 − recall; 1 without
        a hit; 1 − precision); ``calibration``, the leave-one-out mean loss of calibration users
        (NaN for a precision); the ``standard_error`` of `observed` over calibration and new users;
        ``lower``, its one-sided 95% lower confidence limit; ``size``, the mean set size;
        ``served``, the share of users who are shown anything (below 1 for a precision only);
        ``floor``, the smallest ε that the model can guarantee; ``unknown``, the loss that no set of
        known items avoids; ``precision_at_10``, the share of the ten best items that new users
        consume in the held-out part; ``reachable``, whether ε is at least the floor;
        ``n_calibration`` and ``n_new`` users.
    support : polars.DataFrame or None
        Miss rates at ε = 0.1 of calibration users and new users, by the number of other users of
        the fit who consumed the item; see :func:`surerec.evaluation.miss_by_support`.
    """

    splits: pl.DataFrame
    support: pl.DataFrame | None = None

    def table(self) -> pl.DataFrame:
        """Return the mean over splits for each ε, and whether the guarantee holds.

        Only splits whose model guarantees ε count, and the floor is their largest; if there is
        none, it is the smallest of all. ``holds`` is false if the one-sided 95% lower
        confidence limit of the mean loss exceeds ε. ``detectable`` is the excess over ε that this
        test detects with a probability of 80%.

        Notes
        -----
        Splits of one data set and calibration users are drawn independently. The standard error of
        the mean is therefore that of one split divided by the square root of their number.
        """
        counted, n_counted = pl.col("reachable"), pl.col("reachable").sum()
        error = (pl.col("standard_error").filter(counted) ** 2).sum().sqrt() / n_counted
        floors = pl.col("floor").filter(counted).max(), pl.col("floor").min()
        table = self.splits.group_by("epsilon", maintain_order=True).agg(
            pl.col("observed", "calibration", "size", "served").filter(counted).mean(),
            pl.when(n_counted > 0).then(error).alias("standard_error"),
            pl.when(n_counted > 0).then(floors[0]).otherwise(floors[1]).alias("floor"),
            pl.col("unknown", "precision_at_10").mean(),
            n_counted.alias("n_splits"),
            pl.col("n_calibration", "n_new").min(),
        )
        return table.with_columns(
            lower=pl.col("observed") - _Z * pl.col("standard_error"),
            detectable=_POWER * pl.col("standard_error"),
        ).with_columns(holds=pl.col("lower") <= pl.col("epsilon"))

    @property
    def holds(self) -> bool:
        """Whether the guarantee holds at every ε that the model guarantees."""
        return bool(self.table()["holds"].drop_nulls().all())


def new_user_test(
    interactions: Interactions,
    measure: MeasureLike = "CM12",
    *,
    guarantee: str | GuaranteeKind = "recall",
    horizon: Horizon | None = None,
    threshold: ThresholdUnit = "score",
    significances: Sequence[float] = CHECKED_EPSILONS,
    n_splits: int = 3,
    max_users: int = 2000,
    min_history: int = 5,
    ties: Ties = "order",
    diagnose: bool = True,
    random_state: int = 0,
) -> NewUserTest:
    """Fit a model on some users, and measure the losses of the others.

    Catalogue, statistics, learned parameters and thresholds are fitted without the tested users.
    These are queried by the known part of their history, with times. A held-out item unknown to the
    model counts as missed.

    Parameters
    ----------
    interactions : Interactions
        Histories of users.
    measure : str or object, default="CM12"
        A measure of :class:`surerec.PopulationConformal` that can be refitted.
    guarantee : {"recall", "hit", "precision"} or GuaranteeKind, default="recall"
        The guarantee. For a precision, ε is one minus the precision.
    horizon : float or int, optional
        Length of the held-out part; by default that of the guarantee.
    threshold : {"rank", "score"}, default="score"
        Unit of the thresholds.
    significances : sequence of float
        The nominal ε.
    n_splits : int, default=3
        Number of random splits of the users.
    max_users : int, default=2000
        Largest number of calibration users, and of tested users, in each split.
    min_history : int, default=5
        Users with fewer known items are left out.
    ties : {"order", "strict"}, default="order"
        Whether items with equal times precede each other; see :func:`surerec.count_precedence`.
    diagnose : bool, default=True
        Whether to rank the calibration users again, for the table `support`.
    random_state : int, default=0
        Seed of splits and fits.

    Returns
    -------
    NewUserTest
        Results by split; :meth:`NewUserTest.table` averages over splits.

    Raises
    ------
    InputError
        If an argument is invalid, the measure cannot be refitted, or too few users are left.

    Examples
    --------
    >>> import surerec as sr
    >>> from surerec.evaluation import new_user_test
    >>> films = sr.datasets.synthetic(n_users=400, n_items=80, n_rows=9000, random_state=1)
    >>> found = new_user_test(films, "CM12", significances=(0.1, 0.3), n_splits=2)
    >>> found.table()["holds"].to_list()
    [True, True]
    """
    check_kind("interactions", interactions, Interactions, "Interactions")
    check_whole("n_splits", n_splits)
    check_whole("max_users", max_users, lowest=FEWEST_USERS)
    check_random_state(random_state)
    refittable(measure)
    guarantee = find_guarantee(guarantee)
    horizon = horizon or guarantee.horizon
    rows: list[dict[str, Any]] = []
    ranked: list[pl.DataFrame] = []
    for split in range(n_splits):
        parts = split_users(interactions, random_state=(random_state, split))
        model = PopulationConformal(
            measure,
            guarantee=guarantee,
            horizon=horizon,
            threshold=threshold,
            n_calibration=max_users,
            min_history=min_history,
            random_state=random_state + split,
        ).fit(count_precedence(parts.fit, ties=ties))
        cases = profile_cases(parts.new, horizon, min_history=min_history)
        cases = cases.sample(max_users, random_state + split)
        outcomes, found = _query_new_users(model, cases, threshold, significances)
        rows += [{"split": split, **row} for row in found]
        if diagnose:
            # Users and items of different fits are distinct.
            item = pl.when(pl.col("item") >= 0).then(pl.col("item") + split * interactions.n_items)
            ranked += [
                items.with_columns(
                    pl.col("user") + split * interactions.n_users,
                    item.otherwise(-1).alias("item"),
                )
                for items in _ranked_items(model, outcomes, threshold)
            ]
    support = miss_by_support(pl.concat(ranked)) if diagnose else None
    return NewUserTest(pl.DataFrame(rows, infer_schema_length=None), support)


def _variance(losses: NDArray[np.float64]) -> float:
    """Return the variance of a mean over users."""
    return float(losses.var(ddof=1) / len(losses)) if len(losses) > 1 else np.nan


def _query_new_users(
    model: PopulationConformal,
    cases: Cases,
    threshold: ThresholdUnit,
    significances: Sequence[float],
) -> tuple[list[Outcomes], list[dict[str, Any]]]:
    """Return the outcomes of new users with a fitted model, and a row for each ε."""
    guarantee, statistics = find_guarantee(model.guarantee), model.statistics_
    probabilities, levels = model.model_.calibration.probabilities, np.array(significances)
    bins = probabilities.bins if guarantee.tested and probabilities is not None else None
    if guarantee.tested:
        n_bins = 0 if bins is None else bins.n
        lowest = [_lowest_bin(model, epsilon, n_bins) for epsilon in significances]
        reachable = np.array(lowest) < n_bins
        floor = float(levels[reachable].min()) if reachable.any() else np.nan
    else:
        curve = model.calibration_.curve(guarantee)
        floor = curve.lowest_level()
        reachable = levels >= floor
    at_once = max(64, _CELLS // statistics.n_items)  # score thresholds need all candidates' shares
    parts, sets = [], []
    for begin in range(0, len(cases), at_once):
        some = observe(
            model.scorer_,
            statistics,
            cases[begin : begin + at_once],
            keep_candidates=threshold == "score" and not guarantee.tested,
            bins=bins,
            doing="Scoring new users",
        )
        if guarantee.tested:
            sets.append(_shown(some, lowest))
        else:
            found = measure_sets(
                some, threshold, guarantee, calibration=curve, epsilons=significances
            )
            sets.append((found.losses, found.sizes))
        parts.append(replace(some, candidate_shares=None))
    n_calibration, n_new = len(model.calibration_), sum(map(len, parts))
    if min(n_calibration, n_new) < FEWEST_USERS:
        raise InputError(
            f"The new-user test needs {FEWEST_USERS} calibration users and {FEWEST_USERS} new "
            f"users that {measure_of(model).name} can score, and there are {n_calibration} and "
            f"{n_new}. Pass more users, or a smaller min_history."
        )
    all_losses, all_sizes = (np.concatenate(each, axis=1) for each in zip(*sets, strict=True))
    monotone = "recall" if guarantee.tested else guarantee
    curves = [risk_curve(part, "rank", monotone) for part in parts]
    unknown = np.concatenate([losses_at(each, np.inf) for each in curves])
    precision = np.concatenate([part.ranks <= _BEST for part in parts]).sum() / (_BEST * n_new)
    rows = []
    for epsilon, losses, sizes, is_reached in zip(
        significances, all_losses, all_sizes, reachable, strict=True
    ):
        shown = ~np.isnan(losses)
        new = _variance(losses[shown])
        if guarantee.tested:  # assumes an equal share of calibration users with items
            calibration, variance = np.nan, new * n_new / n_calibration
        else:
            left_out = losses_at(curve, curve.threshold(epsilon))
            calibration, variance = float(left_out.mean()), _variance(left_out)
        observed = float(losses[shown].mean()) if shown.any() else np.nan
        error = (new + variance) ** 0.5
        rows.append(
            {
                "epsilon": float(epsilon),
                "observed": observed,
                "calibration": calibration,
                "standard_error": error,
                "lower": observed - _Z * error,
                "size": float(sizes[shown].mean()) if shown.any() else np.nan,
                "served": float(shown.mean()),
                "floor": floor,
                "unknown": float(unknown.mean()),
                "precision_at_10": float(precision),
                "reachable": bool(is_reached),
                "n_calibration": n_calibration,
                "n_new": n_new,
            }
        )
    return parts, rows


def _lowest_bin(model: PopulationConformal, epsilon: float, n_bins: int) -> int:
    """Return the lowest bin that is shown at ε; beyond the last if ε is not supported."""
    query = Query(np.arange(min(model.min_history, model.statistics_.n_items)))
    try:
        found = model.model_.assess(query, options=RecommendOptions(precision=float(1 - epsilon)))
        return int(found.passed(_DELTA).threshold)  # type: ignore[attr-defined]
    except NotSupportedError:
        return n_bins


def _shown(
    some: Outcomes, lowest: Sequence[int]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return losses (NaN if nothing is shown) and sizes of lists from some bins on."""
    nothing = np.zeros((len(some), 0))
    shown, consumed = (
        np.stack([(nothing if part is None else part)[:, at:].sum(axis=1) for at in lowest])
        for part in (some.counts, some.hits)
    )
    shares = np.divide(consumed, shown, out=np.full(shown.shape, np.nan), where=shown > 0)
    return 1 - shares, shown.astype(np.float64)


def _ranked_items(
    model: PopulationConformal, new: list[Outcomes], unit: ThresholdUnit
) -> Iterator[pl.DataFrame]:
    """Yield the ranked held-out items of calibration users and of new users."""
    kept, known = model.calibration_, model.statistics_
    interactions = known.interactions
    if model.scorer_.leaves_users_out is False:  # it was fitted without calibration users
        known = count_precedence(interactions.without_users(kept.users), ties=known.ties)
    begins = interactions.offsets[kept.users] + kept.n_known
    stops = begins + np.bincount(kept.owners, minlength=len(kept))
    cases = Cases(interactions, kept.users, begins, stops)
    calibration = observe(model.scorer_, known, cases, doing="Ranking calibration users")
    threshold = kept.curve("recall").threshold(DIAGNOSED)
    own = int(known is model.statistics_)  # whether their own items are counted
    sides = [("calibration", calibration, own), *(("new", part, 0) for part in new)]
    for side, outcomes, counted in sides:
        entries = outcomes.entries(unit)
        codes = codes_in(known, outcomes.cases.interactions)[1]
        consumed = [outcomes.cases.future(case) for case in range(len(outcomes))]
        items = codes[np.concatenate(consumed)]
        support = np.append(known.support.astype(np.int64), counted)  # last: unknown items
        yield pl.DataFrame(
            {
                "side": [side] * len(items),
                "user": outcomes.cases.users[outcomes.owners],
                "item": items,
                "others": support[items] - counted,
                "missed": (entries > threshold) | np.isinf(entries),
            }
        )


def miss_by_support(items: pl.DataFrame) -> pl.DataFrame:
    """Compare the misses of calibration users and new users, by the number of other users.

    A score without the user's own data ranks an item of a left-out calibration user like an equally
    rare item of a new user. A gap between the two is a leak.

    Parameters
    ----------
    items : polars.DataFrame
        Held-out items: ``side`` ("calibration" or "new"), ``user``, ``item``, ``others`` (number of
        other users of the fit who consumed it) and ``missed``.

    Returns
    -------
    polars.DataFrame
        ``other_users``; ``calibration`` and ``new``, the shares of items that are left out;
        ``gap``, new minus calibration, with its ``standard_error``, clustered by user and by item
        (Cameron, Gelbach and Miller, 2011), as users share items; ``share``, the share of new
        users' items in the row; ``n_calibration`` and ``n_new`` items; ``leak``,
        whether new users miss more, by two standard errors (adjusted for seven rows), and enough
        to add 0.005 to the miss rate over all items.
    """
    row_of = np.searchsorted(_BEGINS, items["others"].to_numpy(), "right") - 1
    n_new = int((items["side"] == "new").sum())
    rows = []
    for place, words in enumerate(OTHER_USERS):
        part = items.filter(row_of == place)
        before, before_error, n_before = _clustered(part.filter(side="calibration"))
        after, after_error, n_after = _clustered(part.filter(side="new"))
        gap, error = after - before, float(np.hypot(before_error, after_error))
        share = n_after / max(n_new, 1)
        rows.append(
            {
                "other_users": words,
                "calibration": before,
                "new": after,
                "gap": gap,
                "standard_error": error,
                "share": share,
                "n_calibration": n_before,
                "n_new": n_after,
                "leak": gap > _BEYOND * error and gap * share > MATERIAL,
            }
        )
    return pl.DataFrame(rows)


def _clustered(items: pl.DataFrame) -> tuple[float, float, int]:
    """Return the share of missed items, its standard error, and the number of items."""
    n = len(items)
    if not n:
        return np.nan, np.nan, 0
    out = items["missed"].to_numpy().astype(np.float64)
    share = float(out.mean())
    rest = out - share
    by_user, by_item = (_between(rest, items[of].to_numpy()) for of in ("user", "item"))
    both = by_user + by_item - float((rest**2).sum())
    return share, max(by_user, both) ** 0.5 / n, n  # NaN for one user


def _between(rest: NDArray[np.float64], clusters: NDArray[np.int64]) -> float:
    """Return the sum of squared sums of clusters, scaled for few of them; NaN for one."""
    sums = np.bincount(np.unique(clusters, return_inverse=True)[1], weights=rest)
    return float((sums**2).sum() * len(sums) / (len(sums) - 1)) if len(sums) > 1 else np.nan
