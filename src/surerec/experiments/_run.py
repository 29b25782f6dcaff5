"""The paper's whole empirical study, on data at hand."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

import polars as pl

from surerec._inputs import damage_in_words
from surerec.datasets import CATALOGUE
from surerec.evaluation import (
    curves_table,
    metrics_table,
    validity_table,
    write_table,
)
from surerec.experiments._engine import Threads
from surerec.experiments._extra import extra_users
from surerec.experiments._report import write_report
from surerec.experiments._settings import prepare_folder
from surerec.experiments._tables import Results
from surerec.experiments._timing import growth_table, times_table
from surerec.experiments._tuning import tuning_table
from surerec.experiments._users import evaluate_users
from surerec.precedence import count_precedence
from surerec.reports import require_plots

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from surerec.experiments._engine import Engine
    from surerec.experiments._settings import DataSource, Settings
    from surerec.interactions import Interactions


def run(
    settings: Settings,
    output: Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    engine: Engine | None = None,
) -> Results:
    """Run every algorithm on every data set, and write every number.

    What is finished is kept in ``parts/`` of the output folder, so that an interrupted run goes on
    where it stopped.

    Parameters
    ----------
    settings : Settings
        What to run.
    output : Path
        The folder for the results: new, empty, or another run's with `resume` or `overwrite`.
    resume, overwrite : bool
        Go on with an interrupted run of the same settings, or start anew in its folder.
    engine : Engine, optional
        Where users are evaluated: by default on this machine's cores, or
        :class:`surerec.spark.SparkEngine`. It changes no number; times are always taken here.
    """
    engine = engine or Threads()
    for source in settings.datasets:
        source.check()
    prepare_folder(output, settings, resume=resume, overwrite=overwrite)
    kinds = ("datasets", "metrics", "curves", "validity", "times", "tuning")
    extra = ("extra", "extra_validity")
    tables: dict[str, list[pl.DataFrame]] = {kind: [] for kind in (*kinds, *extra)}
    for source in settings.datasets:
        parts = output / "parts" / source.name
        for kind, table in _dataset_tables(source, settings, parts, engine):
            named = table.select(pl.lit(source.name).alias("dataset"), pl.all())
            tables[kind].append(named)
    growth = None
    if settings.timed_users:
        growth = _kept(output / "parts" / "growth.parquet", growth_table)
    joined = {
        kind: pl.concat(found, how="diagonal_relaxed") if found else None
        for kind, found in tables.items()
    }
    results = Results(**joined, growth=growth)  # type: ignore[arg-type]
    for kind, written in {**joined, "growth": growth}.items():
        if written is not None:
            write_table(written, output / f"{kind}.csv")
            write_table(written, output / f"{kind}.parquet")
    return results


def reproduce(
    settings: Settings,
    output: Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    engine: Engine | None = None,
) -> Results:
    """Run the study, and write its report and figures; see :func:`run`.

    Needs the ``plots`` extra: ``pip install surerec[plots]``.
    """
    require_plots()  # before hours of work, not after
    results = run(settings, output, resume=resume, overwrite=overwrite, engine=engine)
    write_report(results, settings, output)
    return results


def _dataset_tables(
    source: DataSource, settings: Settings, parts: Path, engine: Engine
) -> list[tuple[str, pl.DataFrame]]:
    interactions = source.load(**settings.reading)
    begin = perf_counter()
    statistics = count_precedence(interactions)
    seconds = perf_counter() - begin
    parts.mkdir(parents=True, exist_ok=True)
    extra = None
    if settings.extra:  # first, as it may need what is not installed
        path = parts / "extra.parquet"
        extra = _kept(path, lambda: extra_users(source.name, statistics, settings))
    with engine.holding(statistics, parts) as spread:
        users = evaluate_users(source.name, interactions, settings, parts, spread)
        tuning = None
        if settings.tuning_users:
            tuning = _kept(
                parts / "tuning.parquet",
                lambda: tuning_table(source.name, interactions, settings, spread),
            )
    tables = [
        ("datasets", _about(source, interactions, seconds)),
        ("metrics", metrics_table(users)),
        ("curves", curves_table(users)),
        ("validity", validity_table(users)),
    ]
    if settings.timed_users:
        path = parts / "times.parquet"
        times = _kept(path, lambda: times_table(source.name, statistics, settings))
        tables.append(("times", times))
    if tuning is not None:
        tables.append(("tuning", tuning))
    if extra is not None:
        tables.append(("extra", metrics_table(extra)))
        tables.append(("extra_validity", validity_table(extra)))
    return tables


def _about(source: DataSource, interactions: Interactions, seconds: float) -> pl.DataFrame:
    entry = CATALOGUE.get(source.name)
    paper = entry.paper if entry else None
    return pl.DataFrame(
        {
            "title": [entry.title if entry else source.name],
            "users": [interactions.n_users],
            "items": [interactions.n_items],
            "rows": [interactions.n_rows],
            "origin": [interactions.origin],
            "paper_users": [paper.users if paper else None],
            "paper_items": [paper.items if paper else None],
            "paper_rows": [paper.rows if paper else None],
            "seconds_counting": [seconds],
        },
        schema_overrides={
            "paper_users": pl.Int64,
            "paper_items": pl.Int64,
            "paper_rows": pl.Int64,
            "origin": pl.String,
        },
    )


def _kept(path: Path, make: Callable[[], pl.DataFrame]) -> pl.DataFrame:
    """Make a table, or take it from an interrupted run."""
    if path.exists():
        with damage_in_words(path, "not a readable table", "start anew with --overwrite"):
            return pl.read_parquet(path, glob=False)
    table = make()
    write_table(table, path)
    return table
