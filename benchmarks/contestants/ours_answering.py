"""surerec: recommending, p-values and metrics."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

import surerec as sr
from benchmarks.data import profiles
from benchmarks.inputs import calibration_and_candidates, rankings
from benchmarks.measuring import best, each, peak_memory, some_users
from surerec.conformal import p_value_counts, smoothed_p_values
from surerec.evaluation import ranking_metrics
from surerec.measures import Query

if TYPE_CHECKING:
    from benchmarks.measuring import Figures
    from surerec.recommenders import Recommender

POPULATION = "population-"


def _model(name: str) -> Recommender:
    if name.startswith(POPULATION):
        return sr.PopulationConformal(name.removeprefix(POPULATION))
    if name == "CRS-max":
        return sr.TransductiveConformal("max")
    return sr.InductiveConformal(name)


def one_user(folder: str, name: str, n_users: int, n_warm: int, memory: int | None) -> Figures:
    """Time p-values of all items, sets, and sets as frames, for each user."""
    data = profiles(folder)
    model = _model(name).fit(sr.count_precedence(data, memory=memory))

    def p_values(user: int) -> object:
        return model.model_.assess(Query.of_user(data, user)).p_values

    users = some_users(data.n_users, n_users, n_warm)
    figures = each(p_values, users, n_warm)
    at_p99 = figures.pop("user_at_p99")
    ids = data.users.ids
    sets = each(lambda user: model.recommend(ids[user], confidence=0.9), users, n_warm)
    frames = each(lambda user: model.recommend(ids[user], confidence=0.9).to_frame(), users, n_warm)
    lengths = np.diff(data.offsets)
    return figures | {
        "profile_at_p99": int(lengths[at_p99]),
        "median_profile": float(np.median(lengths[users[n_warm:]])),
        "set_p50_ms": sets["p50_ms"],
        "set_p99_ms": sets["p99_ms"],
        "frame_p50_ms": frames["p50_ms"],
        "frame_p99_ms": frames["p99_ms"],
        "peak": peak_memory(),
    }


def many_users(folder: str, name: str, n_users: int, repeats: int, k: int = 10) -> Figures:
    """Recommend `k` items to each of many users."""
    data = profiles(folder)
    model = _model(name).fit(data)
    users = data.users.ids.gather(some_users(data.n_users, n_users, 0)).to_list()
    seconds, _ = best(lambda: model.recommend_many(users, confidence=0.9, k=k), repeats)
    return {"users_per_second": len(users) / seconds, "n_users": len(users)}


def p_values(n_calibration: int, n_candidates: int, repeats: int) -> Figures:
    """Return p-values per second, plain and smoothed."""
    scores, new, probabilities = calibration_and_candidates(n_calibration, n_candidates)
    plain, counts = best(lambda: p_value_counts(scores, new) / (n_calibration + 1), repeats)
    smoothed, values = best(lambda: smoothed_p_values(scores, new, probabilities), repeats)
    return {
        "plain_per_second": n_candidates / plain,
        "smoothed_per_second": n_candidates / smoothed,
        "plain_head": counts[:1000].tolist(),
        "smoothed_head": values[:1000].tolist(),
    }


def metrics(n_users: int, n_items: int, repeats: int) -> Figures:
    """Measure full rankings: AP, NDCG and RR (with AUC and others)."""
    scores, relevant = rankings(n_users, n_items)

    def measure() -> list[float]:
        pairs = zip(scores, relevant, strict=True)
        found = [ranking_metrics(values, mask) for values, mask in pairs]
        means: list[float] = np.mean([(m.ap, m.ndcg, m.rr) for m in found], axis=0).tolist()
        return means

    seconds, means = best(measure, repeats)
    return {"seconds": seconds, "means": means}


def learned_answers(folder: str, n_users: int, n_warm: int, repeats: int) -> Figures:
    """Time sets of the learned measure for each user, and lists of twenty items for all."""
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
