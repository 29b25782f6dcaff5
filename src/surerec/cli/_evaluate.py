"""Commands that evaluate: audit, replay, and the paper's empirical study."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from surerec import experiments
from surerec._progress import time_stages
from surerec.cli import _options as opt
from surerec.cli._options import Option
from surerec.cli._output import messages, plain, stdout, table
from surerec.errors import InputError
from surerec.experiments import DataSource, StudySettings
from surerec.interactions import is_address, read_user_segments
from surerec.measures import as_measure
from surerec.precedence import count_precedence
from surerec.recommenders import load_all
from surerec.reports import require_plots

if TYPE_CHECKING:
    from surerec.precedence import PrecedenceStatistics
    from surerec.recommenders import Recommender

_AUDIT: Final = {
    "scorer": opt.SCORER,
    "n_users": Option(int, "Largest number of users to evaluate.", 1000),
    "window": Option(float, "Days in a time window; by default, chosen from the data."),
    "segments": Option(str, "Column of segments to report separately."),
    "user_segments": Option(Path, "Table of users with that column; DATA by default."),
    "random_state": Option(int, "Seed of all random choices.", 0),
}
_REPLAY: Final = {
    "threshold": Option(Literal["rank", "score"], "Unit of the thresholds.", "score"),
    "renew": Option(float, "Days between two refits.", 3.0),
    "retrain": Option(float, "Days between two trainings of a learned measure.", 30.0),
    "window": Option(float, "Days of events that calibrate.", 30.0),
    "step": Option(float, "Step by which an error moves a threshold.", 0.01),
    "min_history": Option(int, "Shortest history whose events are evaluated.", 5),
    "ties": Option(Literal["order", "strict"], opt.TIES, "order"),
}
_SUMMARY: Final = {
    "epsilon": "{:g}",
    "model": "{}",
    "outside": "{:.4f}",
    "outside_events": "{:.4f}",
    "worst_window": "± {:.4f}",
    "size": "{:.1f}",
    "size_ratio": "{:.3f}",
    "all_or_nothing": "{:.2%}",
}
_STUDY: Final = {
    "n_users": Option(int, "Users to evaluate in each dataset.", 500),
    "random_state": Option(int, "Seed of the choice of users and of the random split.", 0),
    "k": Option(int, "Length of the lists for precision, recall and F1.", 10),
    "timed_users": Option(int, "Users for the timing experiment; 0 skips it.", 50),
}


@opt.accepts(reading=opt.READING, settings=_AUDIT)
def audit(
    data: opt.Data,
    *,
    reading: Any,
    measure: Annotated[
        str | None, typer.Option(help="Measure from `surerec measures`; CM12 by default.")
    ] = None,
    recommender: Annotated[
        str | None, typer.Option(help="Recommender in the model folder; all by default.")
    ] = None,
    settings: Any,
    output: Annotated[Path | None, typer.Option(help="Folder for the report.")] = None,
    overwrite: opt.Overwrite = False,
    ties: opt.Ties = "order",
) -> None:
    """Audit whether guarantees hold on your data, per user, over users and over time.

    DATA may also be a model folder; the audit then evaluates its recommenders.

    [bold]Examples:[/bold]

    surerec audit ml-1m

    surerec audit ratings.csv --measure CM3 --n-users 500 --output audit

    surerec audit films --recommender icrs12

    surerec audit orders.csv --segments country
    """
    segments = settings.get("segments")
    if "user_segments" in settings and segments is None:
        raise InputError("--user-segments needs a column name; add --segments COLUMN.")
    settings.setdefault("n_users", _AUDIT["n_users"].default)
    audited: dict[str, PrecedenceStatistics | Recommender]
    if (Path(data) / "manifest.json").is_file():
        if measure is not None:
            raise InputError(
                "--measure applies to data, and the recommenders of a model folder have their own "
                "measures; drop --measure."
            )
        audited = dict(load_all(data, scorer=settings.pop("scorer", None)))
        if recommender is not None and recommender not in audited:
            names = ", ".join(audited)
            raise InputError(f"{data}: no recommender {recommender!r}. Choose one of {names}.")
        audited = {recommender: audited[recommender]} if recommender else audited
    else:
        named = {"--recommender": recommender, "--scorer": settings.get("scorer")}
        for option in (option for option, value in named.items() if value is not None):
            source = opt.source_name(data)
            raise InputError(
                f"{option} applies to model folders, and {source} is not one; use --measure."
            )
        settings["measure"] = name = as_measure(measure or "CM12").name
        interactions = opt.read(data, **reading)
        if segments is not None and "user_segments" not in settings:
            if not Path(data).exists():
                raise InputError(
                    f"--segments {segments}: {opt.source_name(data)} is not a file with such a "
                    "column. Pass a table of users with --user-segments."
                )
            given = opt.chosen(reading)
            how = {each: given[each] for each in ("user", "columns") if each in given}
            users = interactions.users
            settings["segments"] = read_user_segments(Path(data), segments, users, **how)
        audited = {name: count_precedence(interactions, ties=ties)}
    _run_audits(audited, output, settings, overwrite=overwrite)


def _run_audits(
    audited: dict[str, Any], output: Path | None, settings: opt.Options, *, overwrite: bool
) -> None:
    from surerec.audit import audit as run_audit  # noqa: PLC0415  # imports scipy.stats
    from surerec.audit import check_target  # noqa: PLC0415
    from surerec.cli._show_audit import show_audit  # noqa: PLC0415

    targets = {}
    if output is not None:
        targets = {name: output if len(audited) == 1 else output / name for name in audited}
        require_plots()  # fails before minutes of work
        for target in targets.values():
            check_target(target, overwrite=overwrite)
    for name, data in audited.items():
        with time_stages() as spent:
            found = run_audit(data, name=name, **settings)
        show_audit(stdout(), found)
        if name in targets:
            found.write(targets[name], overwrite=overwrite)
            messages().print(f"Wrote {plain(str(targets[name] / 'report.html'))}")
        messages().print(f"Audited {plain(name)} in {spent}.")


@opt.accepts(reading=opt.READING, given=_REPLAY)
def replay(
    data: opt.Data,
    *,
    reading: Any,
    begin: Annotated[
        datetime, typer.Option("--from", help="Start of the stream in UTC, such as 2013-07-01.")
    ],
    output: Annotated[Path, typer.Option(help="Folder for the figure and the tables.")],
    measure: Annotated[str, typer.Option(help="Measure from `surerec measures`.")] = "CM12",
    given: Any,
) -> None:
    """Replay past interactions as a stream, and compare a static, a recalibrated and a live model.

    [bold]Example:[/bold] surerec live replay ml-1m --from 2001-01-01 --output replayed
    """
    from surerec import live  # noqa: PLC0415  # slow to import

    require_plots()
    live.check_replay_target(output)
    as_measure(measure)
    moment = begin if begin.tzinfo else begin.replace(tzinfo=UTC)
    first, clock = int(moment.timestamp()) * 1_000_000, perf_counter()
    how = live.ReplayOptions(**{name: each.default for name, each in _REPLAY.items()} | given)
    played = live.replay(opt.read(data, **reading), first, measure, options=how)
    live.write_replay(played, output)
    rows = [
        ["–" if row[name] is None else form.format(row[name]) for name, form in _SUMMARY.items()]
        for row in live.summary_of(played).to_dicts()
    ]
    headings = ("ε", "Model", "Outside", "Of all events", "Worst window", "Size",
                "Of recalibrated", "All or nothing")  # fmt: skip
    stdout().print(table(headings, rows, slice(2, None)))
    messages().print(
        f"Replayed {len(played.times):,} evaluated events in {perf_counter() - clock:.0f} s; wrote "
        f"{plain(str(output))}."
    )


@opt.accepts(study=_STUDY, reading=opt.READING)
def reproduce(
    *,
    datasets: Annotated[
        str, typer.Option(help="Comma-separated dataset names, NAME=PATH pairs or files.")
    ] = "ml-100k,ml-latest-small-2016,ml-1m",
    output: Annotated[Path, typer.Option(help="Folder for the report, figures and tables.")],
    study: Any,
    reading: Any,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted run.")] = False,
    overwrite: opt.Overwrite = False,
) -> None:
    """Reproduce the paper's experiments, and compare them with the published numbers.

    Writes report.html, figures, and all numbers as CSV and Parquet.

    [bold]Examples:[/bold]

    surerec reproduce --output out

    surerec reproduce --datasets ml-1m,ml-25m=~/ml-25m.zip --n-users 200 --output out

    surerec reproduce --datasets log.csv --user-column visitor --item-column page --time-column seen
    --output out
    """
    if "query" in reading or is_address(datasets):
        raise InputError(
            "reproduce does not read databases (--query), because --resume needs the same rows "
            "again. Write the rows to a file, and pass that file."
        )
    settings = StudySettings(
        tuple(DataSource.parse(text) for text in datasets.split(",") if text.strip()),
        reading=opt.chosen(reading),
        **study,
    )
    begin = perf_counter()
    experiments.reproduce(settings, output, resume=resume, overwrite=overwrite)
    messages().print(
        f"Done in {perf_counter() - begin:.0f} s; open {plain(str(output / 'report.html'))}"
    )
