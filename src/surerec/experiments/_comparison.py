"""Ours beside the paper's: ranks, Friedman's test, and the difference to its result table."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from surerec.evaluation import average_ranks, friedman, nemenyi_critical_difference
from surerec.experiments._algorithms import ALGORITHMS

if TYPE_CHECKING:
    import numpy as np


RANKED: Final = ("ap", "auc", "ndcg", "rr")
"""The metrics of the paper's result table; its names are these in capitals."""

PAPER_NAMES: Final = {
    "personality-2018": "Personality-2018",
    "flixster": "Flixster",
    "ml-10m": "MovieLens 10M",
    "ml-20m": "MovieLens 20M",
    "ml-25m": "MovieLens 25M",
    "ml-latest-v1": "MovieLens-Latest-V1",
    "ml-latest-v2": "MovieLens-Latest-V2",
}
"""The paper's data sets: the catalogue's name, and the paper's."""

_FEWEST = 2  # data sets for a test over data sets
_DECIMALS = 12  # means that differ in the last bits of a sum are ties


@cache
def _paper() -> dict[str, Any]:
    text = files("surerec.experiments").joinpath("paper.json").read_text(encoding="utf-8")
    return json.loads(text)  # type: ignore[no-any-return]


def paper_means(metric: str) -> pl.DataFrame:
    """Give the paper's table of a metric: dataset (the catalogue's name), algorithm, paper."""
    table = _paper()["metrics"][metric.upper()]
    ours = {theirs: name for name, theirs in PAPER_NAMES.items()}
    names = [ours[name] for name in _paper()["datasets"]]
    return pl.DataFrame(
        [
            {"dataset": name, "algorithm": algorithm, "paper": mean}
            for algorithm in ALGORITHMS
            for name, mean in zip(names, table[algorithm]["mean"], strict=True)
        ]
    )


def ranks_table(metrics: pl.DataFrame) -> pl.DataFrame:
    """Rank the algorithms on every data set, in time order; ties share the average of their ranks.

    Parameters
    ----------
    metrics : polars.DataFrame
        dataset, split, algorithm, metric, mean, standard_error.

    Returns
    -------
    polars.DataFrame
        metric, dataset, algorithm, mean, standard_error, rank; an algorithm outside the paper's 20
        has no rank.
    """
    shown = metrics.filter(pl.col("split") == "time", pl.col("metric").is_in(RANKED))
    ranked = pl.col("algorithm").is_in(ALGORITHMS)
    key = pl.when(ranked).then(pl.col("mean").round(_DECIMALS))
    return shown.select(
        "metric",
        "dataset",
        "algorithm",
        "mean",
        "standard_error",
        key.rank("average", descending=True).over("metric", "dataset").alias("rank"),
    )


def _means(ranks: pl.DataFrame, metric: str) -> np.ndarray:
    """Give the table of data sets × algorithms that the tests take."""
    ranked = ranks.filter(pl.col("metric") == metric, pl.col("rank").is_not_null())
    wide = ranked.pivot("algorithm", index="dataset", values="mean").drop_nulls()
    return wide.drop("dataset").to_numpy().round(_DECIMALS)


def average_ranks_table(ranks: pl.DataFrame) -> pl.DataFrame:
    """Give the average over data sets of each algorithm's rank: metric, algorithm, rank."""
    ranked = ranks.filter(pl.col("rank").is_not_null())
    return ranked.group_by("metric", "algorithm", maintain_order=True).agg(pl.col("rank").mean())


def paper_average_ranks(metric: str) -> dict[str, float]:
    """Give the average rank of each algorithm over the paper's seven data sets."""
    wide = paper_means(metric).pivot("algorithm", index="dataset", values="paper").drop("dataset")
    return dict(zip(wide.columns, average_ranks(wide.to_numpy()).tolist(), strict=True))


def friedman_table(ranks: pl.DataFrame) -> pl.DataFrame | None:
    """Test whether the algorithms perform alike; nothing where there are fewer than two data sets.

    Returns
    -------
    polars.DataFrame or None
        metric, f_f, critical_value, p_value, rejects, q, cd, algorithms, datasets.
    """
    rows = [_tests(metric, _means(ranks, metric)) for metric in RANKED]
    found = [row for row in rows if row is not None]
    return pl.DataFrame(found) if found else None


def _tests(metric: str, means: np.ndarray) -> dict[str, Any] | None:
    if len(means) < _FEWEST:
        return None
    test = friedman(means)
    q, cd = nemenyi_critical_difference(test.k, test.n)
    return {
        "metric": metric,
        "f_f": test.f_f,
        "critical_value": test.critical_value,
        "p_value": test.p_value,
        "rejects": test.rejects,
        "q": q,
        "cd": cd,
        "algorithms": test.k,
        "datasets": test.n,
    }


def paper_friedman() -> dict[str, Any]:
    """Give the statistics that the paper prints."""
    return _paper()["friedman"]  # type: ignore[no-any-return]


def comparison_table(ranks: pl.DataFrame) -> pl.DataFrame:
    """Set ours beside the paper's.

    Returns
    -------
    polars.DataFrame
        metric, dataset, algorithm, ours, standard_error, paper, difference, paper_lowest,
        paper_highest: the mean in the paper where it has the data set, and the range over its seven
        data sets.
    """
    tables = []
    for metric in RANKED:
        theirs = paper_means(metric)
        ranges = theirs.group_by("algorithm").agg(
            pl.col("paper").min().alias("paper_lowest"),
            pl.col("paper").max().alias("paper_highest"),
        )
        tables.append(
            ranks.filter(pl.col("metric") == metric, pl.col("rank").is_not_null())
            .join(theirs, on=["dataset", "algorithm"], how="left", maintain_order="left")
            .join(ranges, on="algorithm", how="left", maintain_order="left")
        )
    return pl.concat(tables).select(
        "metric",
        "dataset",
        "algorithm",
        pl.col("mean").alias("ours"),
        "standard_error",
        "paper",
        (pl.col("mean") - pl.col("paper")).alias("difference"),
        "paper_lowest",
        "paper_highest",
    )
