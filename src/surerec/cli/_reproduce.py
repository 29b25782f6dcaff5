"""The command that runs the paper's whole empirical study."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003  # typer reads it at run time
from time import perf_counter
from typing import Annotated

import typer

from surerec.cli import _options as opt
from surerec.cli import _show
from surerec.cli._output import messages
from surerec.cli._reading import Reading, takes_reading
from surerec.cli._spark import check_engine, spark_engine
from surerec.errors import InputError
from surerec.experiments import DataSource, StudySettings, reproduce
from surerec.interactions import is_address


@takes_reading
def reproduce_paper(
    *,
    datasets: Annotated[
        str,
        typer.Option(
            help="Names of `surerec datasets`, NAME=PATH, or ratings files, with commas between."
        ),
    ] = "ml-100k,ml-latest-small-2016,ml-1m",
    output: Annotated[Path, typer.Option(help="The folder for report, figures and numbers.")],
    users: Annotated[int, typer.Option(help="Users evaluated in each data set.")] = 500,
    seed: Annotated[int, typer.Option(help="Of the choice of users and the random split.")] = 0,
    k: Annotated[int, typer.Option("--k", help="The cut of precision, recall and F1.")] = 10,
    timed_users: Annotated[
        int, typer.Option(help="Users over whom times are taken; 0 leaves them out.")
    ] = 50,
    tuning_users: Annotated[
        int, typer.Option(help="Users over whom I and the shares are swept; 0 leaves it out.")
    ] = 100,
    extra: Annotated[
        list[str] | None,
        typer.Option(
            help="A trained measure to run the paper's method on as well, outside its ranks: als "
            "or learned. May be given several times."
        ),
    ] = None,
    reading: Reading,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with an interrupted run.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Start anew in a folder that holds another run.")
    ] = False,
    engine: opt.Engine = "memory",
    master: opt.Master = None,
    executor_memory: opt.ExecutorMemory = None,
) -> None:
    """Reproduce the paper: every algorithm, metric, test and figure, beside its own numbers.

    Writes report.html, report.md, figures, and every number as CSV and Parquet.

    [bold]Examples:[/bold]

    surerec reproduce --output out

    surerec reproduce --datasets ml-1m,ml-25m=~/ml-25m.zip --users 200 --output out

    surerec reproduce --datasets ml-100k --extra als --output out

    surerec reproduce --datasets log.csv --user visitor --item page --time seen --output out

    surerec reproduce --datasets ml-1m --output /shared/out --engine spark --master spark://host:7077
    """
    check_engine(engine, master=master, **{"executor-memory": executor_memory})
    if "query" in reading or is_address(datasets):
        raise InputError(
            "reproduce reads no database and takes no --query: a study that goes on where it was "
            "stopped needs the same rows again. Write them into a file, and name that instead."
        )
    settings = StudySettings(
        tuple(DataSource.parse(text) for text in datasets.split(",") if text.strip()),
        n_users=users,
        seed=seed,
        k=k,
        timed_users=timed_users,
        tuning_users=tuning_users,
        extra=tuple(dict.fromkeys(extra or ())),
        reading=opt.chosen(reading),
    )
    begin = perf_counter()
    session = {"master": master, "executor_memory": executor_memory}
    reproduce(
        settings,
        output,
        resume=resume,
        overwrite=overwrite,
        engine=spark_engine(session) if engine == "spark" else None,
    )
    messages().print(
        f"Done in {perf_counter() - begin:.0f} s: open {_show.plain(str(output / 'report.html'))}"
    )
