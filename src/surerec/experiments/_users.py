"""Every algorithm on every chosen user, kept in parts so that an interrupted run goes on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from surerec.evaluation import choose_users, evaluate_user, write_table
from surerec.experiments._algorithms import judge

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from surerec.evaluation import SplitOrder
    from surerec.experiments._engine import Spread
    from surerec.experiments._settings import Settings
    from surerec.interactions import Interactions
    from surerec.precedence import PrecedenceStatistics


_USERS_AT_ONCE = 10
ORDERS: Final[tuple[SplitOrder, ...]] = ("time", "random")
"""The orders in which profiles are split."""


@dataclass(frozen=True)
class _Evaluate:
    """Evaluates some users, and keeps their rows in a file of their own."""

    users: NDArray[np.int64]
    settings: Settings
    folder: Path

    def path(self, task: tuple[SplitOrder, int]) -> Path:
        """Say where the rows of the users from one on are."""
        order, start = task
        return self.folder / f"{order}-{start:05d}.parquet"

    def __call__(self, statistics: PrecedenceStatistics, task: tuple[SplitOrder, int]) -> None:
        """Do one piece of work, unless it is done already."""
        path, (order, start) = self.path(task), task
        if path.exists():
            return
        rows = [
            row
            for user in self.users[start : start + _USERS_AT_ONCE]
            for row in evaluate_user(
                judge,
                statistics,
                int(user),
                order=order,
                k=self.settings.k,
                seed=self.settings.seed,
            )
        ]
        write_table(pl.DataFrame(rows, infer_schema_length=None), path)


def evaluate_users(
    name: str, interactions: Interactions, settings: Settings, folder: Path, spread: Spread
) -> pl.DataFrame:
    """Evaluate all algorithms, in time order and under the random split.

    Returns
    -------
    polars.DataFrame
        A row for each split, user and algorithm, with the metrics, the expected hits at each k, and
        for each significance level the validity error, efficiency error and set size.
    """
    users = choose_users(interactions, settings.n_users, seed=settings.seed)
    evaluate = _Evaluate(users, settings, folder.absolute())
    tasks = [(order, start) for order in ORDERS for start in range(0, len(users), _USERS_AT_ONCE)]
    spread(evaluate, tasks, f"{name}: every algorithm on {len(users)} users")
    frames = [pl.read_parquet(evaluate.path(task), glob=False) for task in tasks]
    return pl.concat(frames, how="vertical_relaxed")
