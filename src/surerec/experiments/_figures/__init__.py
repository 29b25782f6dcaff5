"""The paper's figures, and the one that tells the truth about validity; they need matplotlib."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from surerec._progress import progress
from surerec.experiments._comparison import (
    RANKED,
    average_ranks_table,
    friedman_table,
    paper_average_ranks,
    paper_friedman,
)
from surerec.experiments._figures import _bars, _lines, _sweeps
from surerec.experiments._figures._ranks import Diagram, critical_differences
from surerec.experiments._names import file_names, titles_of
from surerec.reports.figures import render, styled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from matplotlib.figure import Figure

    from surerec.experiments._tables import Results

__all__ = ["draw_figures"]


def draw_figures(
    results: Results, ranks: pl.DataFrame, k: int
) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Draw every figure that the results allow.

    Parameters
    ----------
    results : Results
        The tables of a run.
    ranks : polars.DataFrame
        Its table of ranks.
    k : int
        The cut of precision, recall and F1.

    Yields
    ------
    name, formats : str, dict of str to bytes
        The name of the file without its ending, and its content for each ending.
    """
    plans = list(_plans(results, ranks, k))
    with progress("Figures", total=len(plans)) as advance:
        for name, draw in plans:
            with styled():
                formats = render(draw())
            yield name, formats
            advance(1)


def _plans(
    results: Results, ranks: pl.DataFrame, k: int
) -> Iterator[tuple[str, Callable[[], Figure]]]:
    titles = titles_of(results.datasets)
    for dataset, file in file_names(titles).items():
        title = titles[dataset]
        known = results.validity.filter(pl.col("dataset") == dataset)
        yield f"truth-{file}", partial(_lines.truth, known, title)
        yield f"validity-{file}", partial(_lines.validity, known, title)
        yield f"efficiency-{file}", partial(_lines.efficiency, known, title)
        over_k = results.curves.filter(pl.col("dataset") == dataset)
        yield f"curves-{file}", partial(_lines.curves, over_k, title)
        if results.tuning is not None:
            tuning = results.tuning.filter(pl.col("dataset") == dataset)
            yield f"tuning-top-{file}", partial(_sweeps.tops, tuning, title)
            yield f"tuning-shares-{file}", partial(_sweeps.shares, tuning, title)
    yield "top-k", partial(_bars.top_k, results.metrics, titles, k)
    for metric, diagrams in _diagrams(ranks).items():
        yield f"cd-{metric}", partial(critical_differences, diagrams)
    if results.times is not None:
        yield "times", partial(_bars.times, results.times, titles)
    if results.growth is not None:
        yield "growth", partial(_sweeps.growth, results.growth)


def _diagrams(ranks: pl.DataFrame) -> dict[str, list[Diagram]]:
    """Give ours, if there are at least two data sets, and the paper's."""
    found: dict[str, list[Diagram]] = {metric: [] for metric in RANKED}
    tests = friedman_table(ranks)
    averages = average_ranks_table(ranks)
    for test in tests.to_dicts() if tests is not None else ():
        metric = test["metric"]
        ours = averages.filter(pl.col("metric") == metric).select("algorithm", "rank").iter_rows()
        title = f"{metric.upper()}: {test['datasets']} data sets at hand"
        found[metric].append(Diagram(title, dict(ours), test["cd"]))
    cd = paper_friedman()["critical_difference"]
    for metric in RANKED:
        title = f"{metric.upper()}: the paper's 7 data sets"
        found[metric].append(Diagram(title, paper_average_ranks(metric), cd))
    return found
