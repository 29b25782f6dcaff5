"""From one row per user to the tables of the report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from surerec._files import check_utf8, file_aside
from surerec.evaluation._validity import EPSILONS

if TYPE_CHECKING:
    from pathlib import Path


K_MAX: Final = 50
"""The largest k of the curves."""

METRICS: Final = ("ap", "auc", "ndcg", "rr", "precision", "recall", "f1")

_GROUP = ("split", "algorithm")


def write_table(table: pl.DataFrame, path: Path) -> None:
    """Write CSV or Parquet by the name's ending, complete or not at all."""
    check_utf8(path)
    with file_aside(path) as aside:
        if path.suffix == ".csv":
            table.write_csv(aside)
        else:
            table.write_parquet(aside)


def _standard_error(column: str) -> pl.Expr:
    return (pl.col(column).std() / pl.col(column).count().sqrt()).alias("standard_error")


def metrics_table(users: pl.DataFrame) -> pl.DataFrame:
    """Give the mean of each metric with its standard error: split, algorithm, metric, mean, …."""
    long = users.select(*_GROUP, *METRICS).unpivot(
        index=list(_GROUP), variable_name="metric", value_name="value"
    )
    # AUC is not defined for a user whose candidates are all test items.
    known = long.with_columns(pl.col("value").fill_nan(None))
    return known.group_by(*_GROUP, "metric", maintain_order=True).agg(
        pl.col("value").mean().alias("mean"),
        _standard_error("value"),
        pl.col("value").count().alias("n_users"),
    )


def curves_table(users: pl.DataFrame) -> pl.DataFrame:
    """Give precision, recall and F1 at every k."""
    ks = pl.DataFrame({"k": range(1, K_MAX + 1)}).select(pl.col("k").implode())
    long = (
        users.select(*_GROUP, "hits", "n_relevant")
        .join(ks, how="cross")
        .explode("hits", "k")
        .with_columns(
            precision=pl.col("hits") / pl.col("k"),
            recall=pl.col("hits") / pl.col("n_relevant"),
            f1=2 * pl.col("hits") / (pl.col("k") + pl.col("n_relevant")),
        )
    )
    return long.group_by(*_GROUP, "k", maintain_order=True).agg(
        pl.col("precision", "recall", "f1").mean()
    )


def validity_table(users: pl.DataFrame) -> pl.DataFrame:
    """Give validity error, efficiency error and set size at every significance level."""
    epsilons = pl.DataFrame({"epsilon": EPSILONS}).select(pl.col("epsilon").implode())
    long = (
        users.filter(pl.col("missed").is_not_null())
        .select(*_GROUP, "missed", "let_in", "set_size")
        .join(epsilons, how="cross")
        .explode("missed", "let_in", "set_size", "epsilon")
    )
    return long.group_by(*_GROUP, "epsilon", maintain_order=True).agg(
        pl.col("missed").mean().alias("validity_error"),
        _standard_error("missed"),
        pl.col("let_in").mean().alias("efficiency_error"),
        pl.col("set_size").mean().alias("set_size"),
        pl.col("missed").count().alias("n_users"),
    )
