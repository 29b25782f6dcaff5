"""implicit: nearest neighbours of items, and alternating least squares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from implicit.als import AlternatingLeastSquares
from implicit.nearest_neighbours import CosineRecommender

from benchmarks.inputs import users_by_items
from benchmarks.measuring import best, each, n_threads, peak_memory, some_users

if TYPE_CHECKING:
    from benchmarks.measuring import Figures

_NEIGHBOURS = 100
_FACTORS = 64


def _neighbours(consumed: Any) -> Any:
    model = CosineRecommender(K=_NEIGHBOURS, num_threads=n_threads())
    model.fit(consumed, show_progress=False)
    return model


def fit_neighbours(folder: str, repeats: int) -> Figures:
    """Fit the 100 nearest neighbours of each item."""
    consumed = users_by_items(folder, np.float64)
    seconds, _ = best(lambda: _neighbours(consumed), repeats)
    return {"seconds": seconds, "peak": peak_memory()}


def one_user(folder: str, n_users: int, n_warm: int) -> Figures:
    """Recommend ten items to each user, as in implicit's documentation."""
    consumed = users_by_items(folder, np.float64)
    model = _neighbours(consumed)
    users = some_users(consumed.shape[0], n_users, n_warm)
    figures = each(lambda user: model.recommend(user, consumed[user], N=10), users, n_warm)
    at_p99 = figures.pop("user_at_p99")
    rows = {int(user): consumed[int(user)] for user in users}
    sliced = each(lambda user: model.recommend(user, rows[user], N=10), users, n_warm)
    return figures | {
        "profile_at_p99": int(consumed[at_p99].nnz),
        "sliced_before_p50_ms": sliced["p50_ms"],
        "sliced_before_p99_ms": sliced["p99_ms"],
        "peak": peak_memory(),
    }


def _batch(model: Any, consumed: Any, n_users: int, repeats: int) -> Figures:
    users = some_users(consumed.shape[0], n_users, 0)
    seconds, _ = best(lambda: model.recommend(users, consumed[users], N=10), repeats)
    return {"users_per_second": len(users) / seconds, "n_users": len(users)}


def many_users(folder: str, n_users: int, repeats: int) -> Figures:
    """Recommend ten items each to many users by neighbours."""
    consumed = users_by_items(folder, np.float64)
    return _batch(_neighbours(consumed), consumed, n_users, repeats)


def many_users_als(folder: str, n_users: int, repeats: int) -> Figures:
    """Recommend ten items each to many users by ALS with 64 factors."""
    consumed = users_by_items(folder, np.float32)
    model = AlternatingLeastSquares(
        factors=_FACTORS, iterations=1, num_threads=n_threads(), random_state=0
    )
    model.fit(consumed, show_progress=False)
    return _batch(model, consumed, n_users, repeats)
