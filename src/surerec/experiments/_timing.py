"""How long a recommendation takes: each algorithm does its own work, sharing nothing."""

from __future__ import annotations

import math
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from surerec._progress import progress
from surerec.datasets import synthetic
from surerec.evaluation import candidates_of, choose_users, split_user
from surerec.experiments._algorithms import ALGORITHMS
from surerec.measures import Query
from surerec.precedence import count_precedence
from surerec.recommenders import PrecedenceMining, TransductiveConformal, make_recommender

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from surerec.experiments._settings import Settings
    from surerec.precedence import PrecedenceStatistics
    from surerec.recommenders import Recommender


PLAIN = "CRS-Max, as in the paper"
"""CRS-max as the paper's O(n_c · l · m), beside ours with sorted search."""

_REPEATS = 3
_SIZES = (16, 32, 64, 128, 256)
_CANDIDATES = (500, 1_000, 2_000, 4_000, 8_000)


def _recommenders(statistics: PrecedenceStatistics) -> dict[str, Recommender]:
    made: dict[str, Recommender] = {}
    for name in ALGORITHMS:
        made[name] = make_recommender(name.lower().replace(" ", "-"))
    made[PLAIN] = TransductiveConformal("max", search="plain")
    return {name: model.fit(statistics) for name, model in made.items()}


def _seconds(task: Callable[[], object]) -> float:
    """Give the shortest of a few times: what the work takes when nothing disturbs it."""
    times = []
    for _ in range(_REPEATS):
        begin = perf_counter()
        task()
        times.append(perf_counter() - begin)
    return min(times)


def _ask(
    model: Recommender, known: NDArray[np.int64], user: int | None, candidates: NDArray[np.int64]
) -> Callable[[], object]:
    query = Query(known, () if user is None else (user,))
    return lambda: model.model_.assess(query, candidates)  # without frames and titles


def times_table(name: str, statistics: PrecedenceStatistics, settings: Settings) -> pl.DataFrame:
    """Give the time per recommendation of each algorithm: all p-values of one user, one thread."""
    interactions = statistics.interactions
    users = choose_users(interactions, settings.timed_users, seed=settings.seed + 1)
    models = _recommenders(statistics)
    rows = []
    with progress(f"{name}: execution times", total=len(models)) as advance:
        for algorithm, model in models.items():
            times = []
            for user in users.tolist():
                split = split_user(interactions, user)
                candidates = candidates_of(statistics, split)
                times.append(_seconds(_ask(model, split.known, user, candidates)))
            milliseconds = 1000 * np.array(times)
            rows.append(
                {
                    "algorithm": algorithm,
                    "median_ms": float(np.median(milliseconds)),
                    "p90_ms": float(np.percentile(milliseconds, 90)),
                    "n_users": len(users),
                }
            )
            advance(1)
    return pl.DataFrame(rows)


def growth_table(seed: int = 0) -> pl.DataFrame:
    """Measure how time grows with m, l and n_c, one at a time, on made-up data.

    Returns
    -------
    polars.DataFrame
        algorithm, variable ("m", "l", "n_c"), value, milliseconds, and the slope of the logarithm
        of time against that of the variable over its larger half.
    """
    tasks = [("m", size, 64, 2_000) for size in _SIZES]
    tasks += [("l", 64, size, 2_000) for size in _SIZES]
    tasks += [("n_c", 64, 64, size) for size in _CANDIDATES]
    rows = []
    with progress("Growth of execution times", total=len(tasks)) as advance:
        for (variable, n_training, n_later, n_items), statistics in _with_statistics(tasks, seed):
            value = {"m": n_training, "l": n_later, "n_c": n_items}[variable]
            known = np.random.default_rng(seed).permutation(400)[: n_training + n_later]
            candidates = np.setdiff1d(np.arange(statistics.n_items), known)
            share = n_training / (n_training + n_later)
            for algorithm, model in _growing(share).items():
                model.fit(statistics)
                task = _ask(model, known, None, candidates)
                task()
                milliseconds = 1000 * _seconds(task)
                rows.append(
                    {
                        "algorithm": algorithm,
                        "variable": variable,
                        "value": value,
                        "milliseconds": milliseconds,
                    }
                )
            advance(1)
    return _with_slopes(pl.DataFrame(rows))


def _with_statistics(
    tasks: Iterable[tuple[str, int, int, int]], seed: int
) -> Iterable[tuple[tuple[str, int, int, int], PrecedenceStatistics]]:
    """Give each task with counts over as many items, made once for each number."""
    made: dict[int, PrecedenceStatistics] = {}
    for task in tasks:
        n_items = task[3]
        if n_items not in made:
            data = synthetic(2_000, n_items, 100_000, popularity=0.5, seed=seed)
            made = {n_items: count_precedence(data)}
        yield task, made[n_items]


def _growing(share: float) -> dict[str, Recommender]:
    models: dict[str, Recommender] = {"Precedence Mining": PrecedenceMining()}
    for name in ("ICRS3", "ICRS4", "ICRS12"):
        models[name] = make_recommender(name).set_params(train_share=share)
    models["CRS-Max"] = TransductiveConformal("max", train_share=share)
    models[PLAIN] = TransductiveConformal("max", search="plain", train_share=share)
    return models


def _with_slopes(table: pl.DataFrame) -> pl.DataFrame:
    def slope(group: pl.DataFrame) -> pl.DataFrame:
        larger = group.sort("value").tail(3)
        x, y = larger["value"].log().to_numpy(), larger["milliseconds"].log().to_numpy()
        found = float(np.polyfit(x, y, 1)[0])
        return group.with_columns(slope=pl.lit(found if math.isfinite(found) else None))

    return table.group_by("algorithm", "variable", maintain_order=True).map_groups(slope)
