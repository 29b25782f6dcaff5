"""Every algorithm on every chosen user, kept in parts so that an interrupted run goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from surerec._progress import progress
from surerec._threads import run_blocks
from surerec.evaluation import choose_users, evaluate_user, write_table
from surerec.experiments._algorithms import judge

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
            for row in evaluate_user(
                judge, statistics, int(user), order=order, k=settings.k, seed=settings.seed
            )
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
