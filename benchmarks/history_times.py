"""Observed miss of new users by their histories: with times, with `at=`, and with neither.

Fits on half of the users and asks for the others, each known by the first 60% of their items.
``python -m benchmarks.history_times shop`` prints one line for each way to ask and each ε.
"""

from __future__ import annotations

import argparse
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

import surerec as sr

if TYPE_CHECKING:
    from numpy.typing import NDArray

_HORIZON = 0.4
_TOP = 3_000


def data_of(name: str) -> sr.Interactions:
    """Load a set; ``shop`` is the Complete Journey with its 3,000 most consumed items."""
    if name == "synthetic":
        return sr.datasets.synthetic(1_200, 300, 36_000, drift=1.0, days=700, seed=0)
    if name != "shop":
        return sr.load_dataset(name)
    frame = sr.load_dataset("complete-journey").to_frame()
    items = frame.group_by("item_id").len().sort("len", "item_id", descending=[True, False])
    kept = frame.filter(pl.col("item_id").is_in(items.head(_TOP)["item_id"].implode()))
    return sr.read_interactions(kept, min_profile_length=10)


def misses(found: pl.DataFrame, future: dict[Any, set[Any]]) -> NDArray[np.float64]:
    """Return, for each user, the share of the future that is outside of the set."""
    sets = {
        user: set(items) for user, items in found.group_by("user_id").agg("item_id").iter_rows()
    }
    lost = [len(items - sets.get(user, set())) / len(items) for user, items in future.items()]
    return np.array(lost)


def measure(data: sr.Interactions, seed: int, measure_name: str, levels: list[float]) -> None:
    """Fit on half of the users, ask for the others, and print."""
    order = np.random.default_rng(seed).permutation(data.n_users)
    half, others = order[: data.n_users // 2], order[data.n_users // 2 :]
    frame = data.to_frame()
    users = data.users.ids.gather(np.sort(half)).implode()
    fitted = sr.read_interactions(frame.filter(pl.col("user_id").is_in(users)))
    model = sr.PopulationConformal(measure_name, horizon=_HORIZON).fit(fitted)
    print(f"{data}, seed {seed}: uses_times is {model.scorer_.uses_times}")
    known, future = {}, {}
    for code in np.sort(others):
        items = data.items.ids.gather(data.taken(int(code))).to_list()
        n_known = min(round((1 - _HORIZON) * len(items)), len(items) - 1)  # as calibration users
        if n_known < model.min_known or (fitted.items.codes(items[:n_known]) < 0).all():
            continue
        user, times = data.users[int(code)], data.times_of(int(code)).astype("datetime64[us]")
        known[user] = list(zip(items[:n_known], times, strict=False))
        future[user] = set(items[n_known:])
    untimed = {user: [item for item, _ in pairs] for user, pairs in known.items()}
    at_end = {user: [(item, pairs[-1][1]) for item, _ in pairs] for user, pairs in known.items()}
    ways = {"times": known, "at": at_end, "no times": untimed}
    for epsilon in levels:
        base = np.zeros(len(known))
        for way, histories in ways.items():
            found = model.recommend_many(histories=histories, significance=epsilon)
            lost = misses(found, future)
            base = lost if way == "times" else base
            off = lost - base
            print(
                f"ε = {epsilon}, {way}: {len(lost):,} users, observed miss {lost.mean():.4f} ± "
                f"{_error(lost):.4f}, {off.mean():+.4f} ± {_error(off):.4f} beside times, "
                f"{len(found) / len(lost):,.0f} items"
            )


def _error(values: NDArray[np.float64]) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", help="shop, synthetic, or a name of `surerec datasets`")
    parser.add_argument("--measure", default="learned")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--levels", default="0.1,0.2,0.3")
    given = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sr.errors.HistoriesWarning)
        levels = [float(level) for level in given.levels.split(",")]
        measure(data_of(given.data), given.seed, given.measure, levels)
