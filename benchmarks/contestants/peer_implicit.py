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


def _neighbours(taken: Any) -> Any:
    model = CosineRecommender(K=_NEIGHBOURS, num_threads=n_threads())
    model.fit(taken, show_progress=False)
    return model


def fit_neighbours(folder: str, repeats: int) -> Figures:
    """Fit the 100 nearest neighbours of each item."""
    taken = users_by_items(folder, np.float64)
    seconds, _ = best(lambda: _neighbours(taken), repeats)
    return {"seconds": seconds, "peak": peak_memory()}


def one_user(folder: str, n_users: int, n_warm: int) -> Figures:
    """Recommend ten items, user by user, as implicit's documentation calls it."""
    taken = users_by_items(folder, np.float64)
    model = _neighbours(taken)
    users = some_users(taken.shape[0], n_users, n_warm)
    figures = each(lambda user: model.recommend(user, taken[user], N=10), users, n_warm)
    at_p99 = figures.pop("user_at_p99")
    rows = {int(user): taken[int(user)] for user in users}
    sliced = each(lambda user: model.recommend(user, rows[user], N=10), users, n_warm)
    return figures | {
        "profile_at_p99": int(taken[at_p99].nnz),
        "sliced_before_p50_ms": sliced["p50_ms"],
        "sliced_before_p99_ms": sliced["p99_ms"],
        "peak": peak_memory(),
    }


def _batch(model: Any, taken: Any, n_users: int, repeats: int) -> Figures:
    users = some_users(taken.shape[0], n_users, 0)
    seconds, _ = best(lambda: model.recommend(users, taken[users], N=10), repeats)
    return {"users_per_second": len(users) / seconds, "n_users": len(users)}


def many_users(folder: str, n_users: int, repeats: int) -> Figures:
    """Recommend ten items each to many users by neighbours."""
    taken = users_by_items(folder, np.float64)
    return _batch(_neighbours(taken), taken, n_users, repeats)


def many_users_als(folder: str, n_users: int, repeats: int) -> Figures:
    """Recommend ten items each to many users by 64 factors; how well they fit costs nothing."""
    taken = users_by_items(folder, np.float32)
    model = AlternatingLeastSquares(
        factors=_FACTORS, iterations=1, num_threads=n_threads(), random_state=0
    )
    model.fit(taken, show_progress=False)
    return _batch(model, taken, n_users, repeats)
