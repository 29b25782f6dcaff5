"""The calendar table: models of several ages, averaged over windows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from surerec.evaluation import backtest
from surerec.experiments.guarantees._observed import recipe_by

if TYPE_CHECKING:
    from surerec.evaluation import Calendar
    from surerec.interactions import Interactions
    from surerec.measures import RecipeLike


def calendar_table(
    interactions: Interactions,
    scorer: RecipeLike,
    calendar: Calendar,
    *,
    epsilons: tuple[float, ...] = (0.1, 0.2, 0.3),
    n_windows: int | None = None,
) -> pl.DataFrame:
    """Compute each model age's miss rate and set size, averaged over the windows.

    The floor is the smallest ε that every window supports; below it the size is null.
    """
    found = backtest(
        interactions,
        recipe_by(scorer),
        calendar,
        epsilons=epsilons,
        n_windows=n_windows,
    )
    return found.group_by("model", "epsilon", maintain_order=True).agg(
        pl.lit(interactions.name or "data").alias("data"),
        pl.col("loss").mean(),
        pl.col("size").fill_null(float("nan")).mean().fill_nan(None),
        pl.col("floor").max(),
        pl.col("unknown").mean(),
        pl.col("n_test").mean(),
        pl.len().alias("n_windows"),
    )
