"""Whether the probabilities of items are what happens, to users who calibrated nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from surerec._threads import run_blocks
from surerec.calibration import (
    ItemChances,
    LengthGroups,
    Ranking,
    candidates_of,
    choose,
    codes_in,
    observe,
)
from surerec.conformal import isotonic_rates
from surerec.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.calibration import Cases, Outcomes
    from surerec.measures import Scorer
    from surerec.precedence import PrecedenceStatistics

TOP: Final = 1000
"""So many of each person's best items are looked at."""
N_BINS: Final = 15

_MANY: Final = 10
_RANKS: Final = (1, 11, 101)
_LEAST: Final = 1e-6  # a probability of 0 that happened would cost all others their loss
_AT_ONCE: Final = 8


@dataclass(frozen=True)
class ItemReliability:
    """What was said of items, and what happened.

    Attributes
    ----------
    bins : polars.DataFrame
        For each group of pairs (user, item) and each of 15 bins of equal mass: ``said`` (mean
        probability), ``happened`` (share taken), ``error`` (standard error over users), ``n``.
    groups : polars.DataFrame
        For each group: ``said``, ``happened``, ``calibration_error`` and its ``noise`` (what it
        would be on average for probabilities without fault, as so few users were seen),
        ``log_loss``, ``log_loss_by_rank`` (of a table by rank alone), ``n_users``, ``n``.
    """

    bins: pl.DataFrame
    groups: pl.DataFrame


def item_reliability(
    scorer: Scorer, statistics: PrecedenceStatistics, cases: Cases, *, seed: int = 0
) -> ItemReliability:
    """Calibrate probabilities on half of the users, and compare them with what the others took.

    Parameters
    ----------
    scorer : Scorer
        What scores.
    statistics : PrecedenceStatistics
        What was known.
    cases : Cases
        Pasts and futures; half of them, at random, calibrate.
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
    calibrating = cases[half]
    chances, outcomes = calibrated_chances(scorer, statistics, calibrating, seed)
    pairs = _pairs(scorer, statistics, cases[~half], chances)
    by_rank = _table_by_rank(outcomes.ranks, len(outcomes))
    pairs = pairs.with_columns(by_rank=by_rank[pairs["rank"].to_numpy() - 1])
    bins, groups = [], []
    for by, group, some in _groups(pairs):
        found, row = _compare(some)
        bins.append(found.select(pl.lit(by).alias("by"), pl.lit(group).alias("group"), pl.all()))
        groups.append({"by": by, "group": group, **row})
    return ItemReliability(pl.concat(bins), pl.DataFrame(groups))


def calibrated_chances(
    scorer: Scorer, statistics: PrecedenceStatistics, cases: Cases, seed: int
) -> tuple[ItemChances, Outcomes]:
    """Return the probabilities that these cases calibrate, and what they are calibrated on."""
    choice = choose(scorer, statistics, cases, seed=seed)
    if choice is None:
        raise InputError(f"{len(cases):,} users are too few to calibrate probabilities on.")
    outcomes = observe(scorer, statistics, cases, bins=choice.bins)
    return ItemChances.of(outcomes, choice), outcomes


def _pairs(
    scorer: Scorer, statistics: PrecedenceStatistics, cases: Cases, chances: ItemChances
) -> pl.DataFrame:
    """Give the best items of each user with their probability, and whether they were taken."""
    users, items = codes_in(statistics, cases.interactions)

    def some(start: int) -> list[dict[str, NDArray[Any]]]:
        return [one(case) for case in range(start, min(start + _AT_ONCE, len(cases)))]

    def one(case: int) -> dict[str, NDArray[Any]]:
        query = cases.query(case, users, items)
        scores = scorer.score_query(query)
        values = scorer.value(scores, len(query.history), statistics.n_users)
        candidates = candidates_of(scorer, statistics, query, scores)
        popularity = statistics.popularity_without(query.users, query.history)
        ranking = Ranking.of(candidates, scores, values, popularity)
        best = ranking.items[:TOP]
        return {
            "user": np.full(len(best), case),
            "known": np.full(len(best), len(query.history)),
            "rank": np.arange(1, len(best) + 1),
            "popularity": statistics.popularity[best],
            "said": chances.probabilities(ranking.shares[:TOP], len(query.history)).probability,
            "taken": np.isin(best, items[cases.future(case)]),
        }

    parts = [part for found in run_blocks(some, range(0, len(cases), _AT_ONCE)) for part in found]
    return pl.DataFrame({name: np.concatenate([part[name] for part in parts]) for name in parts[0]})


def _table_by_rank(ranks: NDArray[np.float64], n_users: int) -> NDArray[np.float64]:
    """Give the share of users who took the item of each rank, never rising with the rank."""
    taken = np.bincount(ranks[ranks <= TOP].astype(np.int64) - 1, minlength=TOP)
    return isotonic_rates(np.full(TOP, n_users), taken[::-1])[::-1]


def _groups(pairs: pl.DataFrame) -> list[tuple[str, str, pl.DataFrame]]:
    found = [
        ("all", f"the {TOP:,} best", pairs),
        ("top", f"the {_MANY} best", pairs.filter(pl.col("rank") <= _MANY)),
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
    for first, end in zip(_RANKS, (*_RANKS[1:], TOP + 1), strict=True):
        some = pairs.filter(pl.col("rank").is_between(first, end - 1))
        found.append(("rank", f"{first:,} to {end - 1:,}", some))
    return [each for each in found if len(each[2])]


def _compare(pairs: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, Any]]:
    table = pairs.sort("said", maintain_order=True)
    said, taken = table["said"].to_numpy(), table["taken"].cast(pl.Float64).to_numpy()
    _, place = np.unique(np.arange(len(table)) * N_BINS // len(table), return_inverse=True)
    users, who = np.unique(table["user"].to_numpy(), return_inverse=True)
    bins = _by_bin(place, who, len(users), said, taken)
    weights = bins["n"].to_numpy() / len(table)
    gaps = np.abs(bins["said"].to_numpy() - bins["happened"].to_numpy())
    row = {
        "said": float(said.mean()),
        "happened": float(taken.mean()),
        "calibration_error": float(weights @ gaps),
        "noise": float(weights @ bins["error"].to_numpy() * np.sqrt(2 / np.pi)),
        "log_loss": _log_loss(said, taken),
        "log_loss_by_rank": _log_loss(table["by_rank"].to_numpy(), taken),
        "n_users": len(users),
        "n": len(table),
    }
    return bins, row


def _by_bin(
    place: NDArray[np.intp],
    who: NDArray[np.intp],
    n_users: int,
    said: NDArray[np.float64],
    taken: NDArray[np.float64],
) -> pl.DataFrame:
    """Give what was said and what happened in each bin, and the standard error of their difference.

    Added up in order: polars' sums of groups end in other digits from one time to the next.
    """
    cells, shape = place * n_users + who, (int(place.max()) + 1, n_users)

    def by_user(weights: NDArray[np.float64] | None) -> NDArray[Any]:
        return np.bincount(cells, weights, shape[0] * n_users).reshape(shape)

    n, gaps = by_user(None), by_user(said - taken)
    in_all = n.sum(axis=1)
    # Of the mean of all pairs, whose sums by user are independent.
    off = gaps - (gaps.sum(axis=1) / in_all)[:, None] * n
    return pl.DataFrame(
        {
            "said": by_user(said).sum(axis=1) / in_all,
            "happened": by_user(taken).sum(axis=1) / in_all,
            "error": np.sqrt((off**2).sum(axis=1)) / in_all,
            "n": in_all,
        }
    )


def _log_loss(said: NDArray[np.float64], taken: NDArray[np.float64]) -> float:
    sure = np.clip(said, _LEAST, 1 - _LEAST)
    return float(-np.where(taken > 0, np.log(sure), np.log1p(-sure)).mean())
