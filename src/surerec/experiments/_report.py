"""The report of a run: claims, tables and figures, compared with the paper."""

from __future__ import annotations

from math import isinf
from typing import TYPE_CHECKING, Any

import polars as pl

from surerec._files import file_aside
from surerec.evaluation import write_table
from surerec.experiments import _study as study
from surerec.experiments._claims import all_claims, at_levels, listed
from surerec.experiments._settings import versions
from surerec.reports import (
    Bullets,
    Heading,
    Paragraph,
    Picture,
    Strong,
    Table,
    Verdicts,
    load_texts,
    require_plots,
    to_html,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from surerec.experiments._settings import Results, StudySettings
    from surerec.reports import Block

_TITLE = "The Inductive Conformal Recommender System, reproduced"
_NONE = "–"
_INCLUDED = "{efficiency_error:.3f} ({set_size:,.0f})"
_TIME = "{median_ms:.3f} ({p90_ms:.3f})"
_TEXTS: dict[str, dict[str, str]] = load_texts("surerec.experiments", "report.json")


def write_report(results: Results, settings: StudySettings, output: Path) -> None:
    """Write the figures, the report, and the tables that belong to it.

    Parameters
    ----------
    results : Results
        The tables of a run.
    settings : StudySettings
        The settings of the run.
    output : Path
        The folder of the run. The report writes ``figures/`` (PNG, SVG, PDF), a self-contained
        ``report.html``, and ``ranks``, ``friedman`` (for two data sets or more) and ``comparison``
        as CSV and Parquet.

    Raises
    ------
    InputError
        If matplotlib is not installed.
    """
    require_plots()
    from surerec.experiments._figures import draw_figures  # noqa: PLC0415  # an extra

    (output / "figures").mkdir(parents=True, exist_ok=True)
    ranks = study.ranks_table(results.metrics)
    own = {
        "ranks": ranks,
        "friedman": study.friedman_table(ranks),
        "comparison": study.comparison_table(ranks),
    }
    for name, table in own.items():
        if table is not None:
            write_table(table, output / f"{name}.csv")
            write_table(table, output / f"{name}.parquet")
    pictures = {}
    for name, formats in draw_figures(results, ranks, settings.k):
        for ending, content in formats.items():
            _write(output / "figures" / f"{name}.{ending}", content)
        pictures[name] = formats["svg"]
    blocks = report_blocks(results, ranks, settings)
    _write(output / "report.html", to_html(_TITLE, blocks, pictures).encode())


def _write(path: Path, content: bytes) -> None:
    with file_aside(path) as aside:
        aside.write_bytes(content)


def report_blocks(results: Results, ranks: pl.DataFrame, settings: StudySettings) -> list[Block]:
    """Return the blocks of the report."""
    titles, files = study.titles_of(results.datasets), _TEXTS["files"].items()
    there = [f"{name}: {words}" for name, words in files if getattr(results, name, 0) is not None]
    return [
        *_introduction(results, ranks, titles),
        Heading("Data"),
        _data(results.datasets),
        *_results(ranks, titles),
        *_comparison(study.comparison_table(ranks), titles),
        *_statistics(ranks),
        Heading("Precision, recall and F1"),
        Picture("top-k", _TEXTS["captions"]["top-k"].format(settings.k)),
        *_levels("validity", results.validity, titles, _error),
        *_levels("efficiency", results.validity, titles, _INCLUDED.format_map),
        *([] if results.times is None else _times(results.times, titles)),
        Heading("Settings"),
        _settings(settings),
        Paragraph("All numbers are in these files, as CSV and Parquet:"),
        Bullets(tuple(there)),
    ]


def _introduction(
    results: Results, ranks: pl.DataFrame, titles: Mapping[str, str]
) -> Iterable[Block]:
    users = sorted(set(results.metrics.filter(pl.col("metric") == "ap")["n_users"]))
    reach = " to ".join(map(str, dict.fromkeys((users[0], users[-1]))))
    yield Paragraph(
        f"The paper's empirical study on {listed(list(titles.values()))}, with {reach} users each: "
        "30% of a history for training, 30% for calibration and the rest for testing, in time "
        "order. Validity and efficiency are also measured with calibration and test items drawn at "
        "random. All statements below are computed from this run."
    )
    yield Heading("The paper's claims")
    yield Verdicts(tuple(all_claims(results, ranks)))


def _rows(
    table: pl.DataFrame,
    key: str,
    keys: Iterable[Any],
    cells: Callable[[dict[str, Any]], str | tuple[str, ...]],
) -> tuple[tuple[str, ...], ...]:
    """Return a row for each algorithm, with the cells for each value of `key`."""
    columns, rows = list(keys), []
    for (algorithm,), some in table.group_by("algorithm", maintain_order=True):
        made = {row[key]: cells(row) for row in some.to_dicts()}
        tuples = {at: (cell,) if isinstance(cell, str) else cell for at, cell in made.items()}
        missing = (_NONE,) * len(next(iter(tuples.values())))
        rows.append((str(algorithm), *(cell for at in columns for cell in tuples.get(at, missing))))
    return tuple(rows)


def _mean(mean: float, error: float | None) -> str:
    return f"{mean:.3f}" if error is None else f"{mean:.3f} ± {error:.3f}"


def _data(datasets: pl.DataFrame) -> Table:
    """Return the counts of the data and of the paper's Table 1."""
    kinds = ("users", "items", "rows")
    columns = (*(f"paper_{kind}" for kind in kinds), *kinds)
    rows = tuple(
        (
            row["title"],
            *(_NONE if row.get(name) is None else f"{row[name]:,}" for name in columns),
            row["origin"] or _NONE,
        )
        for row in datasets.to_dicts()
    )
    in_paper = ("users, paper", "items, paper", "records, paper")
    header = ("data set", *in_paper, *kinds, "source")
    caption = "The data, and the paper's Table 1"
    return Table(caption, header, rows, frozenset({0, len(header) - 1}))


def _results(ranks: pl.DataFrame, titles: Mapping[str, str]) -> Iterable[Block]:
    """Yield AP, AUC, NDCG and RR with ranks, the best in bold."""
    yield Heading("Results")
    yield Paragraph(_TEXTS["words"]["results"])
    place = {name: number for number, name in enumerate((*study.ALGORITHMS, study.EXTRA))}
    ordered = ranks.sort(pl.col("algorithm").replace_strict(place), maintain_order=True)
    header = ("algorithm", *(word for title in titles.values() for word in (title, "rank")))
    best = pl.col("rank").min().over("metric", "dataset")
    marked = ordered.with_columns(best=pl.col("rank") == best)
    for metric in study.RANKED:
        chosen = marked.filter(pl.col("metric") == metric)
        yield Table(metric.upper(), header, _rows(chosen, "dataset", titles, _result))


def _result(row: dict[str, Any]) -> tuple[str, str]:
    if row["mean"] is None:
        return _NONE, _NONE
    rank = _NONE if row["rank"] is None else f"{row['rank']:g}"
    cells = _mean(row["mean"], row["standard_error"]), rank
    return (Strong(cells[0]), Strong(cells[1])) if row["best"] else cells


def _comparison(comparison: pl.DataFrame, titles: Mapping[str, str]) -> Iterable[Block]:
    """Yield our means and the paper's, for the data sets of the paper."""
    found = comparison.drop_nulls("paper")
    if not len(found):
        return
    yield Heading("Comparison with the paper")
    yield Paragraph(_TEXTS["words"]["comparison"])
    columns = (word for metric in study.RANKED for word in (metric.upper(), "paper", "difference"))
    header = ("algorithm", *columns)
    for (dataset,), table in found.group_by("dataset", maintain_order=True):
        rows = _rows(table, "metric", study.RANKED, _beside)
        yield Table(f"{titles[str(dataset)]}: ours and the paper's", header, rows)


def _beside(row: dict[str, Any]) -> tuple[str, ...]:
    difference = f"{row['difference']:+z.2f}".replace("-", "−")
    return f"{row['ours']:.3f}", f"{row['paper']:.2f}", difference


def _statistics(ranks: pl.DataFrame) -> Iterable[Block]:
    """Yield our and the paper's Friedman test and Nemenyi difference, with diagrams."""
    found, paper = study.friedman_table(ranks), study.paper_tables()["friedman"]
    tests = {} if found is None else {row["metric"]: row for row in found.to_dicts()}
    yield Heading("Tests over data sets")
    yield Paragraph(_TEXTS["words"]["tests" if tests else "one data set"])
    rows = []
    for metric in study.RANKED:
        cells = [_NONE] * 4
        if test := tests.get(metric):
            f_f = "∞" if isinf(test["f_f"]) else f"{test['f_f']:.4f}"
            answer = "yes" if test["rejects"] else "no"
            cells = [f_f, f"{test['critical_value']:.4f}", answer, f"{test['cd']:.4f}"]
        theirs = paper["F_F"][metric.upper()], paper["critical_value_0.05"]
        numbers = (f"{number:.4f}" for number in (*theirs, paper["critical_difference"]))
        rows.append((metric.upper(), *cells, *numbers))
    tested = ("metric", "F_F", "critical value", "significant", "CD", "F_F, paper",
              "critical value, paper", "CD, paper")  # fmt: skip
    yield Table("Friedman's test and Nemenyi's critical difference", tested, tuple(rows))
    for metric in study.RANKED:
        yield Picture(f"cd-{metric}", _TEXTS["captions"]["cd"].format(metric.upper()))


def _levels(
    kind: str,
    validity: pl.DataFrame,
    titles: Mapping[str, str],
    cells: Callable[[dict[str, Any]], str | tuple[str, ...]],
) -> Iterable[Block]:
    """Yield a figure for each data set, and a table of the levels for each split."""
    yield Heading(kind.capitalize())
    yield Paragraph(_TEXTS["words"][kind])
    header = ("algorithm", *(f"ε = {level:g}" for level in study.LEVELS))
    for dataset, file in study.file_names(titles).items():
        title = titles[dataset]
        yield Picture(f"{kind}-{file}", _TEXTS["captions"][kind].format(title))
        for split, words in study.SPLITS.items():
            chosen = (pl.col("dataset") == dataset) & (pl.col("split") == split)
            table = at_levels(validity.filter(chosen))
            rows = _rows(table, "epsilon", table["epsilon"].unique().sort(), cells)
            yield Table(f"{title}, {words}: {_TEXTS['cells'][kind]}", header, rows, folded=True)


def _error(row: dict[str, Any]) -> str:
    found, error = row["validity_error"], row["standard_error"] or 0.0
    text = _mean(found, error)
    return Strong(text) if found - row["epsilon"] > 2 * error else text


def _times(times: pl.DataFrame, titles: Mapping[str, str]) -> Iterable[Block]:
    """Yield the time of one recommendation by each algorithm."""
    yield Heading("Execution time")
    yield Paragraph(_TEXTS["words"]["times"])
    yield Picture("times", "Execution time of each algorithm, on a logarithmic scale.")
    rows = _rows(times, "dataset", titles, _TIME.format_map)
    header = ("algorithm", *titles.values())
    yield Table("Milliseconds per recommendation", header, rows, folded=True)


def _settings(settings: StudySettings) -> Table:
    """Return the settings and versions of the run."""
    rows = {
        "data sets": ", ".join(source.name for source in settings.datasets),
        "users evaluated in each": str(settings.n_users),
        "random_state": str(settings.random_state),
        **versions(),
    }
    return Table(
        "Settings and versions", ("setting", "value"), tuple(rows.items()), frozenset({0, 1})
    )
