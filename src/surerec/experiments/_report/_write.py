"""Figures, report and tables of a run, written to its folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from surerec._files import file_aside
from surerec.evaluation import write_table
from surerec.experiments._comparison import comparison_table, friedman_table, ranks_table
from surerec.experiments._names import titles_of
from surerec.experiments._report import (
    _claims,
    _costs,
    _extra,
    _guarantees,
    _results,
    _validity_claims,
)
from surerec.reports import (
    Heading,
    Paragraph,
    Verdicts,
    require_plots,
    to_html,
    to_markdown,
)

if TYPE_CHECKING:
    from pathlib import Path

    from surerec.experiments._settings import Settings
    from surerec.experiments._tables import Results
    from surerec.reports import Block


_TITLE = "The Inductive Conformal Recommender System, reproduced"
_FILES = {
    "datasets": "the data sets",
    "metrics": "every metric, in both splits",
    "curves": "precision, recall and F1 over k",
    "validity": "validity, efficiency and set sizes",
    "times": "execution times",
    "growth": "growth of execution times",
    "tuning": "sweeps of I and of the shares",
    "ranks": "means and ranks in time order",
    "friedman": "the tests over data sets",
    "comparison": "ours beside the paper's",
    "extra": "every metric of the measures outside the paper",
    "extra_validity": "their validity, efficiency and set sizes",
}


def write_report(results: Results, settings: Settings, output: Path) -> None:
    """Write the figures, the report, and the tables that belong to it.

    Parameters
    ----------
    results : Results
        The tables of a run.
    settings : Settings
        What was run.
    output : Path
        The folder of the run. It gets ``figures/`` (PNG, SVG, PDF), ``report.html``, which needs
        no other file, ``report.md``, and ``ranks``, ``friedman`` (for two data sets or more) and
        ``comparison`` as CSV and Parquet.

    Raises
    ------
    InputError
        If matplotlib is not installed.
    """
    require_plots()
    from surerec.experiments._figures import draw_figures  # noqa: PLC0415  # an extra

    (output / "figures").mkdir(parents=True, exist_ok=True)
    ranks = ranks_table(results.metrics)
    own = {
        "ranks": ranks,
        "friedman": friedman_table(ranks),
        "comparison": comparison_table(ranks),
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
    blocks = _blocks(results, ranks, settings)
    _write(output / "report.md", to_markdown(_TITLE, blocks).encode())
    _write(output / "report.html", to_html(_TITLE, blocks, pictures).encode())


def _blocks(results: Results, ranks: pl.DataFrame, settings: Settings) -> list[Block]:
    titles = titles_of(results.datasets)
    comparison = comparison_table(ranks)
    blocks = [
        *_introduction(results, ranks),
        *_guarantees.truth_section(titles),
        *_results.data_section(results.datasets),
        *_results.results_section(ranks, titles),
        *_results.comparison_section(comparison, titles),
        *_results.statistics_section(ranks),
        *_extra.extra_section(results, titles),
        *_guarantees.top_k_section(results.metrics, titles, settings.k),
        *_guarantees.validity_section(results.validity, titles),
        *_guarantees.efficiency_section(results.validity, titles),
    ]
    if results.times is not None:
        blocks += _costs.times_section(results.times, titles)
    if results.growth is not None:
        blocks += _costs.growth_section(results.growth)
    if results.tuning is not None:
        blocks += _costs.tuning_section(results.tuning, titles)
    optional = ("times", "growth", "tuning", "extra", "extra_validity")
    absent = {name for name in optional if getattr(results, name) is None}
    if friedman_table(ranks) is None:
        absent.add("friedman")
    files = tuple(f"{name}: {words}" for name, words in _FILES.items() if name not in absent)
    return blocks + _costs.settings_section(settings, files)


def _introduction(results: Results, ranks: pl.DataFrame) -> list[Block]:
    titles = titles_of(results.datasets)
    users = results.metrics.filter(pl.col("metric") == "ap")["n_users"]
    about = (
        f"The paper's empirical study on {_claims.listed(list(titles.values()))}, with "
        f"{_reach(users)} users each: 30 % of a profile for training, 30 % for calibration, the "
        "rest as test, in time order; for validity and efficiency also with calibration and test "
        "drawn at random. What follows is written from the numbers of this run."
    )
    named = ranks.with_columns(pl.col("dataset").replace(titles))
    validity = results.validity.with_columns(pl.col("dataset").replace(titles))
    claims = [
        _claims.mean_and_median_are_best(named),
        _claims.minimum_is_worst(named),
        _claims.conformal_beats_precedence_mining(named),
    ]
    if results.times is not None:
        times = results.times.with_columns(pl.col("dataset").replace(titles))
        claims.append(_claims.inductive_is_faster(times))
    claims += [
        _validity_claims.valid_in_time_order(validity),
        _validity_claims.valid_at_random(validity),
        _validity_claims.efficient(validity),
        _claims.noise_floor(named),
    ]
    return [Paragraph(about), Heading("The paper's claims"), Verdicts(tuple(map(tuple, claims)))]  # type: ignore[arg-type]


def _reach(numbers: pl.Series) -> str:
    found = sorted(set(numbers.to_list()))
    return f"{found[0]}" if len(found) == 1 else f"{found[0]} to {found[-1]}"


def _write(path: Path, content: bytes) -> None:
    with file_aside(path) as aside:
        aside.write_bytes(content)
