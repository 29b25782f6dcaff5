"""The paper's study as data: algorithms, metrics, levels and result tables."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from surerec.evaluation import average_ranks, friedman, nemenyi_critical_difference
from surerec.measures import find_measure
from surerec.reports import load_texts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from surerec.evaluation import SplitOrder

ALGORITHMS: Final = (
    "Precedence Mining",
    "CRS-Med",
    "CRS-Max",
    *(f"ICRS{number}" for number in range(1, 18)),
)
"""The paper's 20 algorithms, in the order of its table."""
EXTRA: Final = "Precedence Mining, top 1"
"""A variant that is not ranked (paper.md 3)."""
PLAIN: Final = "CRS-Max, as in the paper"
"""CRS-max in the paper's O(n_c · l · m) form; ours uses a sorted search."""
ORDERS: Final[tuple[SplitOrder, ...]] = ("time", "random")
"""The orders in which histories are split."""
SPLITS: Final = {"time": "in time order", "random": "random split"}
RANKED: Final = ("ap", "auc", "ndcg", "rr")
"""The metrics of the paper's result table, which writes them in capitals."""
LEVELS: Final = (0.05, 0.1, 0.2, 0.3, 0.5)
"""The significance levels of the tables."""
SHOWN: Final = ("ICRS1", "ICRS3", "ICRS7", "ICRS11", "ICRS15")
"""The measures of the paper's figures on validity and efficiency."""
PAPER_NAMES: Final = {
    "personality-2018": "Personality-2018",
    "flixster": "Flixster",
    "ml-10m": "MovieLens 10M",
    "ml-20m": "MovieLens 20M",
    "ml-25m": "MovieLens 25M",
    "ml-latest-v1": "MovieLens-Latest-V1",
    "ml-latest-v2": "MovieLens-Latest-V2",
}
"""The paper's data sets: name in the catalogue, and name in the paper."""

_FEWEST = 2  # data sets for a test over data sets
_DECIMALS = 12  # means that differ in the last bits of a sum are ties


def titles_of(datasets: pl.DataFrame) -> dict[str, str]:
    """Return each data set's title by its name."""
    return dict(datasets.select("dataset", "title").iter_rows())


def file_names(names: Iterable[str]) -> dict[str, str]:
    """Return a safe and unique part of a file name for each data set.

    Examples
    --------
    >>> file_names(["ml-100k", "my ratings", "my/ratings"])
    {'ml-100k': 'ml-100k', 'my ratings': 'my-ratings', 'my/ratings': 'my-ratings-2'}
    """
    found: dict[str, str] = {}
    for name in names:
        safe = unique = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-") or "data"
        number = 2
        while unique in found.values():
            unique = f"{safe}-{number}"
            number += 1
        found[name] = unique
    return found


def family(algorithm: str) -> str:
    """Return how an algorithm aggregates over the history.

    Examples
    --------
    >>> family("ICRS12"), family("ICRS1"), family("CRS-Max")
    ('mean', 'maximum', 'not inductive')
    """
    if not algorithm.startswith("ICRS"):
        return "not inductive"
    aggregate = find_measure(algorithm).aggregate
    # CM1 with I = 1 is the largest factor (paper.md 4).
    return "maximum" if aggregate == "top" else aggregate


def paper_tables() -> dict[str, Any]:
    """Return the numbers printed in the paper."""
    return load_texts("surerec.experiments", "paper.json")


def paper_means(metric: str) -> pl.DataFrame:
    """Return the paper's table of a metric: dataset (the catalogue's name), algorithm, paper."""
    table = paper_tables()["metrics"][metric.upper()]
    ours = {theirs: name for name, theirs in PAPER_NAMES.items()}
    names = [ours[name] for name in paper_tables()["datasets"]]
    return pl.DataFrame(
        [
            {"dataset": name, "algorithm": algorithm, "paper": mean}
            for algorithm in ALGORITHMS
            for name, mean in zip(names, table[algorithm]["mean"], strict=True)
        ]
    )


def paper_average_ranks(metric: str) -> dict[str, float]:
    """Return the average rank of each algorithm over the paper's seven data sets."""
    wide = paper_means(metric).pivot("algorithm", index="dataset", values="paper").drop("dataset")
    return dict(zip(wide.columns, average_ranks(wide.to_numpy()).tolist(), strict=True))


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
    rank = key.rank("average", descending=True).over("metric", "dataset").alias("rank")
    return shown.select("metric", "dataset", "algorithm", "mean", "standard_error", rank)


def average_ranks_table(ranks: pl.DataFrame) -> pl.DataFrame:
    """Return the average over data sets of each algorithm's rank: metric, algorithm, rank."""
    ranked = ranks.filter(pl.col("rank").is_not_null())
    return ranked.group_by("metric", "algorithm", maintain_order=True).agg(pl.col("rank").mean())


def friedman_table(ranks: pl.DataFrame) -> pl.DataFrame | None:
    """Test whether the algorithms perform equally; None for fewer than two data sets.

    Returns
    -------
    polars.DataFrame or None
        metric, f_f, critical_value, p_value, rejects, q, cd, algorithms, datasets.
    """
    rows = []
    for metric in RANKED:
        ranked = ranks.filter(pl.col("metric") == metric, pl.col("rank").is_not_null())
        wide = ranked.pivot("algorithm", index="dataset", values="mean").drop_nulls()
        if len(wide) < _FEWEST:
            continue
        test = friedman(wide.drop("dataset").to_numpy().round(_DECIMALS))
        q, cd = nemenyi_critical_difference(test.k, test.n)
        fields = ("f_f", "critical_value", "p_value", "rejects")
        found = {name: getattr(test, name) for name in fields}
        more = {"q": q, "cd": cd, "algorithms": test.k, "datasets": test.n}
        rows.append({"metric": metric, **found, **more})
    return pl.DataFrame(rows) if rows else None


def comparison_table(ranks: pl.DataFrame) -> pl.DataFrame:
    """Compare our means with the paper's.

    Returns
    -------
    polars.DataFrame
        metric, dataset, algorithm, ours, standard_error, paper, difference: the
        paper's mean if it has the data set.
    """
    tables = []
    for metric in RANKED:
        theirs = paper_means(metric)
        tables.append(
            ranks.filter(pl.col("metric") == metric, pl.col("rank").is_not_null()).join(
                theirs, on=["dataset", "algorithm"], how="left", maintain_order="left"
            )
        )
    columns = ("ours", "standard_error", "paper", "difference")
    found = pl.concat(tables).rename({"mean": "ours"})
    found = found.with_columns(difference=pl.col("ours") - pl.col("paper"))
    return found.select("metric", "dataset", "algorithm", *columns)
