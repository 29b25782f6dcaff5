"""Whether items are consumed as often as their probabilities say, by users who calibrated none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import numpy as np
import polars as pl

from surerec.calibration import (
    CalibrationUsers,
    ItemChances,
    LengthGroups,
    choose,
    codes_in,
    hit_probabilities,
    list_features,
    observe,
    profile_cases,
    rank_items,
)
from surerec.conformal import isotonic_rates
from surerec.errors import InputError
from surerec.evaluation._new_users import split_by
from surerec.evaluation._sets import for_each
from surerec.measures import as_recipe
from surerec.precedence import count_precedence

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from surerec.calibration import Cases, Horizon, Outcomes, Ranking
    from surerec.interactions import Interactions
    from surerec.measures import RecipeLike, Scorer
    from surerec.precedence import PrecedenceStatistics

N_BINS: Final = 15
"""Bins of equal mass of a reliability diagram."""

_TOP: Final = 1000  # of each known user's best items are looked at
_RANKS: Final = (1, 11, 101)
_LEAST: Final = 1e-6  # a probability of 0 that happened would cost all others their loss
_SHOWN: Final = 10  # the length of short lists
_LIKELY, _UNLIKELY = 0.5, 0.001
_NEW_GROUPS: Final = (f"top {_SHOWN}", f"p >= {_LIKELY}", f"p < {_UNLIKELY}", "all items")
_MOST: Final = 2000  # calibration users, as PopulationConformal has them
_Result = TypeVar("_Result")


def _calibrated(
    scorer: Scorer, statistics: PrecedenceStatistics, cases: Cases, seed: int
) -> tuple[ItemChances, Outcomes]:
    """Return the probabilities that these cases calibrate, and what they are calibrated on."""
    choice = choose(scorer, statistics, cases, seed=seed)
    if choice is None:
        raise InputError(f"{len(cases):,} users are too few to calibrate probabilities on.")
    outcomes = observe(scorer, statistics, cases, bins=choice.bins)
    chances = ItemChances.of(outcomes, choice)
    chances.probabilities(np.ones(1), 1)  # fitted once, before threads ask for it
    return chances, outcomes


def _each_ranking(
    scorer: Scorer,
    statistics: PrecedenceStatistics,
    cases: Cases,
    look: Callable[[int, int, Ranking, NDArray[np.bool_]], _Result],
) -> list[_Result]:
    """Return what is seen of each case: its place, known items, ranking, and what was consumed."""
    users, items = codes_in(statistics, cases.interactions)

    def one(case: int) -> _Result | None:
        query = cases.query(case, users, items)
        if not len(query.history):
            return None
        ranking, _ = rank_items(scorer, statistics, query, scorer.score_query(query))
        consumed = np.isin(ranking.items, items[cases.future(case)])
        return look(case, len(query.history), ranking, consumed)

    found = for_each(one, range(len(cases)), "Probabilities of items")
    return [each for each in found if each is not None]


class ItemReliability(NamedTuple):
    """What was said of items, and what happened."""

    bins: pl.DataFrame
    """For each group of pairs (user, item) and each of 15 bins of equal mass: ``said`` (mean
    probability), ``happened`` (share consumed), ``error`` (standard error over users), ``n``."""
    groups: pl.DataFrame
    """For each group: ``said``, ``happened``, ``calibration_error`` and its ``noise`` (what it
    would be on average for probabilities without fault, as so few users were seen), ``log_loss``,
    ``log_loss_by_rank`` (of a table by rank alone), ``n_users``, ``n``."""


def item_reliability(
    scorer: Scorer, statistics: PrecedenceStatistics, cases: Cases, *, seed: int = 0
) -> ItemReliability:
    """Calibrate probabilities on half of the users, and compare with what the others consumed.

    Parameters
    ----------
    scorer : Scorer
        What scores.
    statistics : PrecedenceStatistics
        What was known.
    cases : Cases
        Known and held-out parts of histories; half of them, at random, calibrate.
    seed : int, default=0
        Of the halves.

    Raises
    ------
    InputError
        If there are too few users to calibrate.
    """
    users = codes_in(statistics, cases.interactions)[0]
    cases = cases[scorer.reaches(users[cases.users])]
    half = np.random.default_rng((seed, 6)).permutation(len(cases)) < len(cases) // 2
    chances, outcomes = _calibrated(scorer, statistics, cases[half], seed)

    def look(
        case: int, n_known: int, ranking: Ranking, consumed: NDArray[np.bool_]
    ) -> dict[str, NDArray[Any]]:
        best = ranking.items[:_TOP]
        return {
            "user": np.full(len(best), case),
            "known": np.full(len(best), n_known),
            "rank": np.arange(1, len(best) + 1),
            "popularity": statistics.popularity[best],
            "said": chances.probabilities(ranking.shares[:_TOP], n_known).probability,
            "taken": consumed[:_TOP],
        }

    parts = _each_ranking(scorer, statistics, cases[~half], look)
    pairs = pl.DataFrame({name: np.concatenate([p[name] for p in parts]) for name in parts[0]})
    # The share of users who consumed the item of each rank, never rising with the rank.
    at_rank = outcomes.ranks[outcomes.ranks <= _TOP].astype(np.int64) - 1
    consumed = np.bincount(at_rank, minlength=_TOP)
    by_rank = isotonic_rates(np.full(_TOP, len(outcomes)), consumed[::-1])[::-1]
    pairs = pairs.with_columns(by_rank=by_rank[pairs["rank"].to_numpy() - 1])
    bins, groups = [], []
    for by, group, some in _groups(pairs):
        found, row = compare_probabilities(some)
        bins.append(found.select(pl.lit(by).alias("by"), pl.lit(group).alias("group"), pl.all()))
        groups.append({"by": by, "group": group, **row})
    return ItemReliability(pl.concat(bins), pl.DataFrame(groups))


def _groups(pairs: pl.DataFrame) -> list[tuple[str, str, pl.DataFrame]]:
    found = [
        ("all", f"the {_TOP:,} best", pairs),
        ("top", f"the {_SHOWN} best", pairs.filter(pl.col("rank") <= _SHOWN)),
    ]
    lengths = LengthGroups.equal(pairs.unique("user")["known"].to_numpy(), 3)
    place = pl.Series(lengths.of(pairs["known"].to_numpy()))
    found += [
        ("known items", lengths.in_words(group), pairs.filter(place == group))
        for group in range(lengths.n)
    ]
    low, high = (int(pairs["popularity"].quantile(share) or 0) + 1 for share in (1 / 3, 2 / 3))
    by_popularity = {
        f"the {low:,} most popular": pl.col("popularity") < low,
        f"the next {high - low:,}": pl.col("popularity").is_between(low, high - 1),
        "rarer ones": pl.col("popularity") >= high,
    }
    found += [("popularity", name, pairs.filter(some)) for name, some in by_popularity.items()]
    for first, end in zip(_RANKS, (*_RANKS[1:], _TOP + 1), strict=True):
        some = pairs.filter(pl.col("rank").is_between(first, end - 1))
        found.append(("rank", f"{first:,} to {end - 1:,}", some))
    return [each for each in found if len(each[2])]


def compare_probabilities(pairs: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Compare said and happened of pairs of user and item, in bins of equal mass and over all.

    Parameters
    ----------
    pairs : polars.DataFrame
        ``user``, ``said``, ``taken`` and ``by_rank``, the probability by rank alone.
    """
    table = pairs.sort("said", maintain_order=True)
    said, taken = table["said"].to_numpy(), table["taken"].cast(pl.Float64).to_numpy()
    _, place = np.unique(np.arange(len(table)) * N_BINS // len(table), return_inverse=True)
    users, who = np.unique(table["user"].to_numpy(), return_inverse=True)
    n_bins = int(place.max()) + 1

    def by_user(weights: NDArray[np.float64] | None) -> NDArray[Any]:
        # Added up in order: polars' sums of groups end in other digits from one run to the next.
        sums = np.bincount(place * len(users) + who, weights, n_bins * len(users))
        return sums.reshape(n_bins, len(users))

    n, gaps = by_user(None), by_user(said - taken)
    in_all = n.sum(axis=1)
    # Of the mean of all pairs, whose sums by user are independent.
    off = gaps - (gaps.sum(axis=1) / in_all)[:, None] * n
    bins = pl.DataFrame(
        {
            "said": by_user(said).sum(axis=1) / in_all,
            "happened": by_user(taken).sum(axis=1) / in_all,
            "error": np.sqrt((off**2).sum(axis=1)) / in_all,
            "n": in_all,
        }
    )
    weights = bins["n"].to_numpy() / len(table)
    apart = np.abs(bins["said"].to_numpy() - bins["happened"].to_numpy())
    row = {
        "said": float(said.mean()),
        "happened": float(taken.mean()),
        "calibration_error": float(weights @ apart),
        "noise": float(weights @ bins["error"].to_numpy() * np.sqrt(2 / np.pi)),
        "log_loss": _log_loss(said, taken),
        "log_loss_by_rank": _log_loss(table["by_rank"].to_numpy(), taken),
        "n_users": len(users),
        "n": len(table),
    }
    return bins, row


def _log_loss(said: NDArray[np.float64], taken: NDArray[np.float64]) -> float:
    sure = np.clip(said, _LEAST, 1 - _LEAST)
    return float(-np.where(taken > 0, np.log(sure), np.log1p(-sure)).mean())


def new_user_reliability(
    interactions: Interactions,
    measure: RecipeLike = "CM12",
    *,
    fitted: NDArray[np.integer] | float = 0.5,
    horizon: Horizon = 0.4,
    min_known: int = 5,
    seed: int = 0,
) -> pl.DataFrame:
    """Compare the probabilities that new users are told with what they consume.

    The catalogue, the counts, the measure and the probabilities are made from some users. The
    others are asked by their histories, of which the last part is held out.

    Parameters
    ----------
    interactions : Interactions
        The data.
    measure : str, measure or scorer, default="CM12"
        Any measure that :class:`surerec.PopulationConformal` accepts.
    fitted : float or array of int, default=0.5
        The users to fit on: a share, drawn at random, or codes.
    horizon : float or int, default=0.4
        What is held out: a share of the history, or a number of items.
    min_known : int, default=5
        Users with a shorter history are left out.
    seed : int, default=0
        Seed of the draws.

    Returns
    -------
    polars.DataFrame
        For the 10 best items of each new user, for items with a probability of at least 0.5 or
        below 0.001, for all items, and for a hit among the 10 best: ``predicted`` and
        ``observed`` (means over pairs of user and item), ``difference``, its standard error
        ``error`` with its two parts ``error_calibration`` and ``error_test`` (both over users;
        that of the calibration users is missing for a hit), ``n_users`` and ``n``. What no pair
        is in has no row.

    Raises
    ------
    InputError
        If there are too few users to calibrate or to ask.

    Examples
    --------
    >>> import surerec as sr
    >>> films = sr.datasets.synthetic(n_users=300, n_items=60, n_rows=6000, seed=3)
    >>> top = new_user_reliability(films).row(0, named=True)
    >>> top["group"], abs(top["difference"]) < 3 * top["error"]
    ('top 10', True)
    """
    if isinstance(fitted, float):
        if not 0 < fitted < 1:
            raise InputError(f"fitted is {fitted}; it must be a share between 0 and 1.")
        n = interactions.n_users
        fitted = np.random.default_rng((seed, 7)).permutation(n)[: round(fitted * n)]
    mine, others = split_by(interactions, np.asarray(fitted))
    statistics = count_precedence(mine)
    scorer = as_recipe(measure).fit(statistics)
    calibrating = profile_cases(mine, horizon, min_known=min_known).sample(_MOST, seed)
    chances, outcomes = _calibrated(scorer, statistics, calibrating, seed)

    def look(
        _: int, n_known: int, ranking: Ranking, consumed: NDArray[np.bool_]
    ) -> tuple[NDArray[np.float64], ...]:
        """Return, for each group, the number of items, probabilities, consumed, and the spread."""
        ranks = np.arange(1, len(ranking.items) + 1)
        said = chances.probabilities(ranking.shares, n_known).probability
        bins = chances.bins.of(ranking.shares, n_known)
        groups = np.array([ranks <= _SHOWN, said >= _LIKELY, said < _UNLIKELY, ranks > 0])
        hits = consumed.astype(np.float64)
        sums = np.stack((groups.sum(axis=1), groups @ said, groups @ hits), axis=1)
        spreads = chances.curve.spreads(bins, ranks, n_known, groups)
        best, mass = ranking.of_the_best()
        features = list_features(np.array([n_known]), best[[_SHOWN - 1]], mass[[_SHOWN - 1]])[0]
        return sums, spreads, np.append(features, consumed[:_SHOWN].any())

    found = _each_ranking(
        scorer, statistics, profile_cases(others, horizon, min_known=min_known), look
    )
    if not found:
        raise InputError("No new user has a history of items that the fitted users consumed.")
    sums, spreads, lists = (np.array(part) for part in zip(*found, strict=True))
    rows = [
        _row(name, sums[:, group], spreads[:, group].sum(axis=0))
        for group, name in enumerate(_NEW_GROUPS)
        if sums[:, group, 0].any()
    ]
    users = CalibrationUsers.of(outcomes, "rank", statistics)
    known = list_features(users.n_known, users.values[:, _SHOWN - 1], users.masses[:, _SHOWN - 1])
    hit = hit_probabilities(known, users.first_ranks <= _SHOWN, lists[:, :-1]).probability
    every = np.column_stack((np.ones(len(lists)), hit, lists[:, -1]))
    rows.append(_row(f"a hit in the top {_SHOWN}", every, None))
    return pl.DataFrame(rows)


def _row(
    group: str, sums: NDArray[np.float64], spread: NDArray[np.float64] | None
) -> dict[str, float | int | str | None]:
    """Return one group's row, from each user's number of items, probabilities and consumed."""
    counts, said, consumed = sums.T
    n = counts.sum()
    difference = (said.sum() - consumed.sum()) / n
    off = said - consumed - difference * counts  # of a ratio of sums, which are independent
    test = float(np.sqrt((off**2).sum()) / n)
    calibration = None if spread is None else float(np.linalg.norm(spread) / n)
    return {
        "group": group,
        "predicted": said.sum() / n,
        "observed": consumed.sum() / n,
        "difference": difference,
        "error": float(np.hypot(test, calibration or 0.0)),
        "error_calibration": calibration,
        "error_test": test,
        "n_users": int(np.count_nonzero(counts)),
        "n": int(n),
    }
