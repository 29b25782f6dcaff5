"""Every algorithm on every chosen user, kept in parts so that an interrupted run goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from surerec._progress import progress
from surerec._threads import run_blocks
from surerec.evaluation import choose_users, hits_curve, ranking_metrics, split_user, validity
from surerec.experiments._algorithms import candidates_of, judge
from surerec.experiments._tables import K_MAX, write_table

if TYPE_CHECKING:
    from pathlib import Path

    from surerec.evaluation import SplitOrder
    from surerec.experiments._settings import Settings
    from surerec.precedence import PrecedenceStatistics

__all__ = ["evaluate_users"]

_USERS_AT_ONCE = 10
_ORDERS: tuple[SplitOrder, ...] = ("time", "random")


def evaluate_users(
    name: str, statistics: PrecedenceStatistics, settings: Settings, folder: Path
) -> pl.DataFrame:
    """Evaluate all algorithms, in time order and under the random split.

    Returns
    -------
    polars.DataFrame
        A row for each split, user and algorithm, with the metrics, the expected hits at each k, and
        for each significance level the validity error, efficiency error and set size.
    """
    assert statistics.interactions is not None  # noqa: S101  # they were read from a data set
    users = choose_users(statistics.interactions, settings.n_users, seed=settings.seed)
    folder.mkdir(parents=True, exist_ok=True)
    tasks = [(order, start) for order in _ORDERS for start in range(0, len(users), _USERS_AT_ONCE)]

    def do(task: tuple[SplitOrder, int]) -> pl.DataFrame:
        order, start = task
        path = folder / f"{order}-{start:05d}.parquet"
        if path.exists():
            return pl.read_parquet(path)
        rows = [
            row
            for user in users[start : start + _USERS_AT_ONCE]
            for row in _user_rows(statistics, int(user), order, settings)
        ]
        frame = pl.DataFrame(rows, infer_schema_length=None)
        write_table(frame, path)
        return frame

    frames = []
    with progress(f"{name}: every algorithm on {len(users)} users", total=len(tasks)) as advance:
        for frame in run_blocks(do, tasks):
            frames.append(frame)
            advance(1)
    return pl.concat(frames, how="vertical_relaxed")


def _user_rows(
    statistics: PrecedenceStatistics, user: int, order: SplitOrder, settings: Settings
) -> list[dict[str, Any]]:
    assert statistics.interactions is not None  # noqa: S101
    split = split_user(statistics.interactions, user, order=order, seed=settings.seed)
    candidates = candidates_of(statistics, split)
    relevant = np.isin(candidates, split.test)
    rows = []
    for algorithm, judgement in judge(statistics, split, candidates):
        metrics = ranking_metrics(judgement.key, relevant, k=settings.k)
        row = {"split": order, "user": user, "algorithm": algorithm, **metrics._asdict()}
        row["hits"] = hits_curve(judgement.key, relevant, K_MAX).tolist()
        row["n_relevant"] = len(split.test)
        missed = let_in = size = None
        if judgement.counts is not None:
            found = validity(judgement.counts, judgement.levels, relevant)
            missed, let_in, size = (column.astype(float).tolist() for column in found)
        rows.append(row | {"missed": missed, "let_in": let_in, "set_size": size})
    return rows
