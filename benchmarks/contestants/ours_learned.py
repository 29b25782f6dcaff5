"""surerec: the learned measure, for one user and for many."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import surerec as sr
from benchmarks.data import profiles
from benchmarks.measuring import best, each, some_users

if TYPE_CHECKING:
    from benchmarks.measuring import Figures


def answer(folder: str, n_users: int, n_warm: int, repeats: int) -> Figures:
    """Time sets for each user, and lists of twenty items for all."""
    data = profiles(folder)
    start = time.perf_counter()
    model = sr.PopulationConformal("learned").fit(data)
    fitted = time.perf_counter() - start
    users, ids = some_users(data.n_users, n_users, n_warm), data.users.ids
    one = each(lambda user: model.recommend(ids[user], confidence=0.9), users, n_warm)
    queries = ids.gather(users).to_list()
    seconds, _ = best(lambda: model.recommend_many(queries, confidence=0.9, k=20), repeats)
    return {
        "fit_seconds": fitted,
        "p50_ms": one["p50_ms"],
        "p99_ms": one["p99_ms"],
        "ms_per_user": 1000 * seconds / len(queries),
    }
