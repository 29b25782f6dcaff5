"""The sections on data, results, the paper's results, and the tests over data sets."""

from __future__ import annotations

from math import isinf
from typing import TYPE_CHECKING, Any

import polars as pl

from surerec.datasets import CATALOGUE
from surerec.experiments._algorithms import ALGORITHMS, EXTRA
from surerec.experiments._comparison import (
    PAPER_NAMES,
    RANKED,
    average_ranks_table,
    friedman_table,
    paper_average_ranks,
    paper_friedman,
)
from surerec.reports import Heading, Paragraph, Picture, Strong, Table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from surerec.reports import Block


_NONE = "–"
_COUNTS_IN_PAPER = ("users, paper", "items, paper", "records, paper")
_TESTS = ("F_F", "critical value", "they differ", "CD")
_TESTS_IN_PAPER = ("F_F, paper", "critical value, paper", "CD, paper")


def _count(number: int | None) -> str:
    return _NONE if number is None else f"{number:,}"


def data_section(datasets: pl.DataFrame) -> list[Block]:
    """Set the paper's Table 1 beside the data at hand."""
    at_hand = {row["dataset"]: row for row in datasets.to_dicts()}
    rows = []
    for name in [*at_hand, *(name for name in PAPER_NAMES if name not in at_hand)]:
        here = at_hand.get(name, {})
        entry = CATALOGUE.get(name)
        paper = entry.paper if entry else None
        counts = [paper.users, paper.items, paper.rows] if paper else [None] * 3
        title = here.get("title") or PAPER_NAMES.get(name, name)
        ours = [here.get("users"), here.get("items"), here.get("rows")]
        source = (here.get("origin") or _NONE) if here else "not run"
        rows.append((title, *map(_count, counts), *map(_count, ours), source))
    header = ("data set", *_COUNTS_IN_PAPER, "users", "items", "rows", "source")
    caption = "The paper's Table 1 beside the data at hand"
    words = frozenset({0, len(header) - 1})
    return [Heading("Data"), Table(caption, header, tuple(rows), words)]


def results_section(ranks: pl.DataFrame, titles: Mapping[str, str]) -> list[Block]:
    """Give AP, AUC, NDCG and RR with ranks, the best in bold."""
    blocks: list[Block] = [
        Heading("Results"),
        Paragraph(
            "Means over users with one standard error, in time order, and the rank among the "
            f"paper's 20 algorithms on each data set; the best are bold. {EXTRA!r} stands outside "
            "the ranks. Metrics are exact expectations over random orders of tied items; ranks "
            "are taken from unrounded means."
        ),
    ]
    return blocks + [_result_table(ranks, metric, titles) for metric in RANKED]


def _result_table(ranks: pl.DataFrame, metric: str, titles: Mapping[str, str]) -> Table:
    chosen = ranks.filter(pl.col("metric") == metric)
    found = {(row["dataset"], row["algorithm"]): row for row in chosen.to_dicts()}
    lowest = chosen.group_by("dataset").agg(pl.col("rank").min())
    best: dict[str, float] = dict(lowest.iter_rows())
    rows = []
    for algorithm in (*ALGORITHMS, EXTRA):
        cells = [algorithm]
        for dataset in titles:
            cells += _result(found.get((dataset, algorithm)), best.get(dataset))
        rows.append(tuple(cells))
    header = ["algorithm"]
    for title in titles.values():
        header += [title, "rank"]
    return Table(metric.upper(), tuple(header), tuple(rows))


def _result(row: dict[str, Any] | None, best: float | None) -> tuple[str, str]:
    if row is None or row["mean"] is None:
        return _NONE, _NONE
    rank = row["rank"]
    cells = _mean(row["mean"], row["standard_error"]), _NONE if rank is None else f"{rank:g}"
    if rank is not None and rank == best:
        return Strong(cells[0]), Strong(cells[1])
    return cells


def _mean(mean: float, error: float | None) -> str:
    return f"{mean:.3f}" if error is None else f"{mean:.3f} ± {error:.3f}"


def comparison_section(comparison: pl.DataFrame, titles: Mapping[str, str]) -> list[Block]:
    """Set ours beside the paper's: the difference where it has the data set, else its range."""
    blocks: list[Block] = [
        Heading("Beside the paper's table"),
        Paragraph(
            "For a data set of the paper: ours, the paper's mean, and ours minus the paper's. For "
            "any other: ours, and the lowest and highest mean over the paper's seven data sets. "
            "The paper prints two decimals."
        ),
    ]
    for dataset, title in titles.items():
        table = comparison.filter(pl.col("dataset") == dataset)
        if table.is_empty():
            continue
        known = table["paper"].is_not_null().any()
        blocks.append(_beside(table, title) if known else _in_range(table, title))
    return blocks


def _by_algorithm(table: pl.DataFrame) -> list[tuple[str, dict[str, dict[str, Any]]]]:
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for row in table.to_dicts():
        found.setdefault(row["algorithm"], {})[row["metric"]] = row
    return list(found.items())


def _beside(table: pl.DataFrame, title: str) -> Table:
    rows = []
    for algorithm, metrics in _by_algorithm(table):
        cells = [algorithm]
        for row in metrics.values():
            difference = f"{row['difference']:+z.2f}".replace("-", "−")
            cells += [f"{row['ours']:.3f}", f"{row['paper']:.2f}", difference]
        rows.append(tuple(cells))
    header = ["algorithm"]
    for metric in RANKED:
        header += [metric.upper(), "paper", "difference"]
    caption = f"{title}: ours and the paper's"
    return Table(caption, tuple(header), tuple(rows))


def _in_range(table: pl.DataFrame, title: str) -> Table:
    rows = []
    for algorithm, metrics in _by_algorithm(table):
        cells = [algorithm]
        for row in metrics.values():
            reach = f"{row['paper_lowest']:.2f}–{row['paper_highest']:.2f}"
            cells += [f"{row['ours']:.3f}", reach]
        rows.append(tuple(cells))
    header = ["algorithm"]
    for metric in RANKED:
        header += [metric.upper(), "paper"]
    ours = pl.col("ours").round(2)
    inside = table.select(
        ((ours >= pl.col("paper_lowest")) & (ours <= pl.col("paper_highest"))).sum()
    ).item()
    caption = (
        f"{title} (not in the paper): {inside} of {table.height} means are within the paper's range"
    )
    return Table(caption, tuple(header), tuple(rows))


def statistics_section(ranks: pl.DataFrame) -> list[Block]:
    """Give Friedman's test, Nemenyi's difference and the average ranks, ours and the paper's."""
    tests = friedman_table(ranks)
    paper = paper_friedman()
    blocks: list[Block] = [Heading("Tests over data sets"), Paragraph(_words_on(tests))]
    ours = {row["metric"]: row for row in tests.to_dicts()} if tests is not None else {}
    rows = []
    for metric in RANKED:
        test = ours.get(metric)
        cells = [_NONE] * 4
        if test:
            f_f = "∞" if isinf(test["f_f"]) else f"{test['f_f']:.4f}"
            answer = "yes" if test["rejects"] else "no"
            cells = [f_f, f"{test['critical_value']:.4f}", answer, f"{test['cd']:.4f}"]
        theirs = [f"{paper['F_F'][metric.upper()]:.4f}", f"{paper['critical_value_0.05']:.4f}"]
        rows.append((metric.upper(), *cells, *theirs, f"{paper['critical_difference']:.4f}"))
    header = ("metric", *_TESTS, *_TESTS_IN_PAPER)
    blocks.append(Table("Friedman's test and Nemenyi's critical difference", header, tuple(rows)))
    blocks.append(_average_ranks(ranks, shown=tests is not None))
    for metric in RANKED:
        caption = (
            f"Average ranks in {metric.upper()}, best to the left. A bar joins algorithms that "
            "differ by less than the critical difference CD."
        )
        blocks.append(Picture(f"cd-{metric}", caption))
    return blocks


def _words_on(tests: pl.DataFrame | None) -> str:
    if tests is None:
        return (
            "Friedman's and Nemenyi's tests ask whether data sets rank the algorithms alike, so "
            "they need at least two data sets; with one they are left out, and only the paper's "
            "are shown."
        )
    first = tests.to_dicts()[0]
    words = (
        f"At the level 0.05, over {first['datasets']} data sets and {first['algorithms']} "
        f"algorithms; for Nemenyi's test q = {first['q']:.4f} and two algorithms differ from an "
        f"average rank of CD = {first['cd']:.4f} apart."
    )
    if first["cd"] > first["algorithms"] - 1:
        words += (
            f" No two average ranks can be more than {first['algorithms'] - 1} apart, so with so "
            "few data sets Nemenyi's test cannot tell any two algorithms apart."
        )
    return words


def _average_ranks(ranks: pl.DataFrame, *, shown: bool) -> Table:
    ours = {
        (row["metric"], row["algorithm"]): row["rank"]
        for row in (average_ranks_table(ranks).to_dicts() if shown else ())
    }
    theirs = {metric: paper_average_ranks(metric) for metric in RANKED}
    rows = []
    for algorithm in ALGORITHMS:
        found = [ours.get((metric, algorithm)) for metric in RANKED]
        cells = [_NONE if rank is None else f"{rank:.2f}" for rank in found]
        cells += [f"{theirs[metric][algorithm]:.2f}" for metric in RANKED]
        rows.append((algorithm, *cells))
    names = [metric.upper() for metric in RANKED]
    header = ("algorithm", *names, *(f"{name}, paper" for name in names))
    return Table("Average ranks", header, tuple(rows), folded=True)
