"""The paper's empirical study on given data sets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from surerec._inputs import as_input_error
from surerec.datasets import CATALOGUE
from surerec.evaluation import Evaluation, write_table
from surerec.experiments._evaluating import evaluate_users
from surerec.experiments._report import write_report
from surerec.experiments._settings import Results, prepare_folder
from surerec.experiments._timing import times_table
from surerec.precedence import count_precedence
from surerec.reports import require_plots

if TYPE_CHECKING:
    from pathlib import Path

    from surerec.experiments._settings import DataSource, StudySettings
    from surerec.interactions import Interactions


def reproduce(
    settings: StudySettings,
    output: Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    report: bool = True,
) -> Results:
    """Run every algorithm on every data set, and write all tables, figures and the report.

    Finished parts are stored in ``parts/`` of the output folder, so that an interrupted run can
    resume.

    Parameters
    ----------
    settings : StudySettings
        The settings of the run.
    output : Path
        The folder of the results: new, empty, or of another run with `resume` or `overwrite`.
    resume, overwrite : bool
        Resume an interrupted run with the same settings, or replace it.
    report : bool, default=True
        Write figures and report, which need the ``plots`` extra; otherwise tables only.
    """
    if report:
        require_plots()  # before hours of work, not after
    for source in settings.datasets:
        source.check()
    prepare_folder(output, settings, resume=resume, overwrite=overwrite)
    tables: dict[str, list[pl.DataFrame]] = {}
    for source in settings.datasets:
        parts = output / "parts" / source.name
        for kind, table in _dataset_tables(source, settings, parts).items():
            named = table.select(pl.lit(source.name).alias("dataset"), pl.all())
            tables.setdefault(kind, []).append(named)
    joined = {kind: pl.concat(found, how="diagonal_relaxed") for kind, found in tables.items()}
    for kind, written in joined.items():
        for ending in ("csv", "parquet"):
            write_table(written, output / f"{kind}.{ending}")
    results = Results(**joined)
    if report:
        write_report(results, settings, output)
    return results


def _dataset_tables(
    source: DataSource, settings: StudySettings, parts: Path
) -> dict[str, pl.DataFrame]:
    name, interactions = source.name, source.load(**settings.reading)
    statistics = count_precedence(interactions)
    tables = {"datasets": _about(name, interactions)}
    parts.mkdir(parents=True, exist_ok=True)
    found = Evaluation(evaluate_users(name, statistics, settings, parts))
    tables |= {"metrics": found.metrics(), "validity": found.validity()}
    if settings.timed_users:
        path = parts / "times.parquet"
        if not path.exists():
            write_table(times_table(name, statistics, settings), path)
        with as_input_error(path, "not a readable table", "replace the run with --overwrite"):
            tables["times"] = pl.read_parquet(path, glob=False)
    return tables


def _about(name: str, interactions: Interactions) -> pl.DataFrame:
    entry = CATALOGUE.get(name)
    paper = entry.paper if entry else None
    counts = ("users", "items", "rows")
    row = {
        "title": entry.title if entry else name,
        **{kind: getattr(interactions, f"n_{kind}") for kind in counts},
        "origin": interactions.origin,
        **{f"paper_{kind}": getattr(paper, kind, None) for kind in counts},
    }
    types = {"origin": pl.String, **dict.fromkeys([f"paper_{kind}" for kind in counts], pl.Int64)}
    return pl.DataFrame([row], schema_overrides=types)
