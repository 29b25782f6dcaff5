"""Execution times: each algorithm is timed alone, without shared work."""

from __future__ import annotations

import math
from functools import lru_cache
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from surerec._progress import progress
from surerec.datasets import synthetic
from surerec.evaluation import candidates_of, choose_users, split_user
from surerec.experiments._study import ALGORITHMS, PLAIN
from surerec.measures import Query
from surerec.precedence import count_precedence
from surerec.recommenders import TransductiveConformal, make_recommender

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.experiments._settings import StudySettings
    from surerec.precedence import PrecedenceStatistics
    from surerec.recommenders import Recommender

_REPEATS = 3
_SIZES = (16, 32, 64, 128, 256)
_CANDIDATES = (500, 1_000, 2_000, 4_000, 8_000)
_GROWING = (ALGORITHMS[0], "ICRS3", "ICRS4", "ICRS12", "CRS-Max", PLAIN)


def _recommender(name: str) -> Recommender:
    if name == PLAIN:
        return TransductiveConformal("max", search="plain")
    return make_recommender(name.lower().replace(" ", "-"))


def _milliseconds(model: Recommender, query: Query, candidates: NDArray[np.int64]) -> float:
    """Return the shortest of several times, which other processes disturb least."""
    times = []
    for _ in range(_REPEATS):
        begin = perf_counter()
        model.model_.assess(query, candidates)  # no frames, no titles
        times.append(1000 * (perf_counter() - begin))
    return min(times)


def times_table(
    name: str, statistics: PrecedenceStatistics, settings: StudySettings
) -> pl.DataFrame:
    """Measure the time per recommendation: all p-values of one user, on one thread."""
    interactions = statistics.interactions
    users = choose_users(interactions, settings.timed_users, random_state=settings.random_state + 1)
    names = (*ALGORITHMS, PLAIN)
    rows = []
    with progress(f"{name}: execution times", total=len(names)) as advance:
        for algorithm in names:
            model = _recommender(algorithm).fit(statistics)
            times = []
            for user in users.tolist():
                split = split_user(interactions, user)
                query, candidates = Query(split.known, (user,)), candidates_of(statistics, split)
                times.append(_milliseconds(model, query, candidates))
            middle, high = np.percentile(times, (50, 90)).tolist()
            row = {"algorithm": algorithm, "median_ms": middle, "p90_ms": high}
            rows.append({**row, "n_users": len(users)})
            advance(1)
    return pl.DataFrame(rows)


@lru_cache(maxsize=1)
def _counts(n_items: int) -> PrecedenceStatistics:
    return count_precedence(synthetic(2_000, n_items, 100_000, popularity=0.5, random_state=0))


def growth_table() -> pl.DataFrame:
    """Measure how execution time grows with m, l and n_c on synthetic data.

    Returns
    -------
    polars.DataFrame
        algorithm, variable ("m", "l", "n_c"), value, milliseconds, and the slope of log time
        against the log of the variable over its larger half.
    """
    tasks = [("m", size, size, 64, 2_000) for size in _SIZES]
    tasks += [("l", size, 64, size, 2_000) for size in _SIZES]
    tasks += [("n_c", size, 64, 64, size) for size in _CANDIDATES]
    rows = []
    with progress("Growth of execution times", total=len(tasks)) as advance:
        for variable, value, n_training, n_later, n_items in tasks:
            statistics = _counts(n_items)
            known = np.random.default_rng(0).permutation(400)[: n_training + n_later]
            candidates = np.setdiff1d(np.arange(statistics.n_items), known)
            for algorithm in _GROWING:
                model = _recommender(algorithm)
                if algorithm != ALGORITHMS[0]:
                    model.set_params(train_share=n_training / (n_training + n_later))
                model.fit(statistics).model_.assess(Query(known), candidates)  # warm up
                milliseconds = _milliseconds(model, Query(known), candidates)
                rows.append((algorithm, variable, value, milliseconds))
            advance(1)
    _counts.cache_clear()
    table = pl.DataFrame(rows, ["algorithm", "variable", "value", "milliseconds"], orient="row")
    by = table.group_by("algorithm", "variable", maintain_order=True)
    return by.map_groups(_with_slope)


def _with_slope(group: pl.DataFrame) -> pl.DataFrame:
    larger = group.sort("value").tail(3)
    x, y = larger["value"].log().to_numpy(), larger["milliseconds"].log().to_numpy()
    found = float(np.polyfit(x, y, 1)[0])
    return group.with_columns(slope=pl.lit(found if math.isfinite(found) else None))
