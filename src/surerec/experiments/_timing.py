"""Execution times: each algorithm is timed alone, without shared work."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from surerec._progress import progress
from surerec.evaluation import candidates_of, choose_users, split_user
from surerec.experiments._study import ALGORITHMS, PLAIN
from surerec.measures import Query
from surerec.recommenders import TransductiveConformal, make_recommender

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.experiments._settings import StudySettings
    from surerec.precedence import PrecedenceStatistics
    from surerec.recommenders import Recommender

_REPEATS = 3


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
