"""Evaluating: audit, replay, and the paper's empirical study."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from surerec._progress import time_stages
from surerec.cli import _options as opt
from surerec.cli._options import Option
from surerec.cli._output import messages, plain, stdout, table
from surerec.errors import InputError
from surerec.experiments import DataSource, StudySettings, reproduce
from surerec.interactions import is_address, read_user_segments
from surerec.measures import as_measure
from surerec.precedence import count_precedence
from surerec.recommenders import load_all
from surerec.reports import require_plots

if TYPE_CHECKING:
    from surerec.precedence import PrecedenceStatistics
    from surerec.recommenders import Recommender

_AUDIT: Final = {
    "users": Option(int, "How many users to look at, at most.", 1000),
    "window": Option(float, "Days in a window of the calendar; chosen by the data by default."),
    "segments": Option(str, "Report nominal and observed for each segment of this column."),
    "segments_file": Option(Path, "A table of users with that column; DATA itself by default."),
    "random_state": Option(int, "Of everything that is drawn.", 0),
}
_AUDIT_NAMES: Final = {"users": "n_users", "segments_file": "user_segments"}
_PLAYING: Final = {
    "threshold": Option(Literal["rank", "score"], "Where sets are cut.", "score"),
    "renew": Option(float, "Days after which it is refitted.", 3.0),
    "retrain": Option(float, "Days for which what a measure learned is kept.", 30.0),
    "window": Option(float, "Days of events that calibrate.", 30.0),
    "step": Option(float, "How far one error moves a threshold.", 0.01),
    "min_history": Option(int, "Judge only events of users with so many known items.", 5),
    "ties": Option(Literal["order", "strict"], opt.TIES, "order"),
}
_PLAYED: Final = {
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
    "users": Option(int, "Users evaluated in each data set.", 500),
    "random_state": Option(int, "Of the choice of users and the random split.", 0),
    "k": Option(int, "The cut of precision, recall and F1.", 10),
    "timed_users": Option(int, "Users over whom times are taken; 0 leaves them out.", 50),
    "tuning_users": Option(int, "Users over whom I and the shares are swept; 0 for none.", 100),
}


@opt.takes(reading=opt.READING, settings=_AUDIT)
def audit(
    data: opt.Data,
    *,
    reading: Any,
    measure: Annotated[str | None, typer.Option(help="Which of `surerec measures`; CM12.")] = None,
    recommender: Annotated[
        str | None, typer.Option(help="Which of a model folder's recommenders; all if not given.")
    ] = None,
    settings: Any,
    output: Annotated[Path | None, typer.Option(help="A folder for the report.")] = None,
    overwrite: opt.Overwrite = False,
    ties: opt.Ties = "order",
) -> None:
    """Measure whether guarantees hold here: in time order, over users, over the calendar.

    DATA may also be a model folder, whose recommenders are then audited on its own profiles.

    [bold]Examples:[/bold]

    surerec audit ml-1m

    surerec audit ratings.csv --measure CM3 --users 500 --output audit

    surerec audit films --recommender icrs12

    surerec audit orders.csv --segments country
    """
    segments = settings.get("segments")
    if "segments_file" in settings and segments is None:
        raise InputError("--segments-file needs the name of its column: add --segments country.")
    settings = {_AUDIT_NAMES.get(name, name): value for name, value in settings.items()}
    settings.setdefault("n_users", _AUDIT["users"].default)
    audited: dict[str, PrecedenceStatistics | Recommender]
    if (Path(data) / "manifest.json").is_file():
        if measure is not None:
            raise InputError("--measure is for data; a model folder's recommenders have their own.")
        audited = dict(load_all(data))
        if recommender is not None and recommender not in audited:
            names = ", ".join(audited)
            raise InputError(f"{data}: no recommender {recommender!r}; it has {names}.")
        audited = {recommender: audited[recommender]} if recommender else audited
    else:
        if recommender is not None:
            source = opt.source_name(data)
            raise InputError(f"--recommender is for model folders, and {source} is none.")
        settings["measure"] = name = as_measure(measure or "CM12").name
        interactions = opt.read(data, **reading)
        if segments is not None and "user_segments" not in settings:
            if not Path(data).exists():
                raise InputError(
                    f"--segments {segments}: {opt.source_name(data)} is no file with such a "
                    "column; name one with --segments-file."
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
    from surerec.audit import audit as run_audit  # noqa: PLC0415  # only this needs scipy's tests
    from surerec.audit import check_target  # noqa: PLC0415
    from surerec.cli._show_audit import show_audit  # noqa: PLC0415

    targets = {}
    if output is not None:
        targets = {name: output if len(audited) == 1 else output / name for name in audited}
        require_plots()  # before minutes of work
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


@opt.takes(reading=opt.READING, playing=_PLAYING)
def replay(
    data: opt.Data,
    *,
    reading: Any,
    begin: Annotated[
        datetime, typer.Option("--from", help="When the stream begins, in UTC, as 2013-07-01.")
    ],
    output: Annotated[Path, typer.Option(help="A folder for the picture and the tables.")],
    measure: Annotated[str, typer.Option(help="Which of `surerec measures`.")] = "CM12",
    playing: Any,
) -> None:
    """Play history as a stream: what a static, a recalibrated and a live model would have kept.

    [bold]Example:[/bold] surerec live replay ml-1m --from 2001-01-01 --output played
    """
    from surerec import live  # noqa: PLC0415  # only this command needs it

    require_plots()
    live.check_replay_target(output)
    as_measure(measure)
    moment = begin if begin.tzinfo else begin.replace(tzinfo=UTC)
    first, clock = int(moment.timestamp()) * 1_000_000, perf_counter()
    how = live.ReplayOptions(**{name: each.default for name, each in _PLAYING.items()} | playing)
    played = live.replay(opt.read(data, **reading), first, measure, options=how)
    live.write_replay(played, output)
    rows = [
        ["–" if row[name] is None else form.format(row[name]) for name, form in _PLAYED.items()]
        for row in live.summary_of(played).to_dicts()
    ]
    headings = ("ε", "Model", "Outside", "Of all events", "Worst window", "Size",
                "Of recalibrated", "All or nothing")  # fmt: skip
    stdout().print(table(headings, rows, slice(2, None)))
    messages().print(
        f"Played {len(played.times):,} judged events in {perf_counter() - clock:.0f} s; wrote "
        f"{plain(str(output))}."
    )


@opt.takes(study=_STUDY, reading=opt.READING, engine=opt.ENGINE)
def reproduce_paper(
    *,
    datasets: Annotated[
        str, typer.Option(help="Names of `surerec datasets`, NAME=PATH, or files, with commas.")
    ] = "ml-100k,ml-latest-small-2016,ml-1m",
    output: Annotated[Path, typer.Option(help="The folder for report, figures and numbers.")],
    study: Any,
    extra: Annotated[
        list[str] | None, typer.Option(help="A trained measure beside the paper's: als or learned.")
    ] = None,
    reading: Any,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with an interrupted run.")
    ] = False,
    overwrite: opt.Overwrite = False,
    engine: Any,
) -> None:
    """Reproduce the paper: every algorithm, metric, test and figure, beside its own numbers.

    Writes report.html, figures, and every number as CSV and Parquet.

    [bold]Examples:[/bold]

    surerec reproduce --output out

    surerec reproduce --datasets ml-1m,ml-25m=~/ml-25m.zip --users 200 --output out

    surerec reproduce --datasets ml-100k --extra als --output out

    surerec reproduce --datasets log.csv --user visitor --item page --time seen --output out

    surerec reproduce --datasets ml-1m --output /shared/out --engine spark --master spark://host:7077
    """
    on_spark, session = opt.check_engine(engine)
    if "query" in reading or is_address(datasets):
        raise InputError(
            "reproduce reads no database and takes no --query: a study that goes on where it was "
            "stopped needs the same rows again. Write them into a file, and name that instead."
        )
    if "users" in study:
        study["n_users"] = study.pop("users")
    settings = StudySettings(
        tuple(DataSource.parse(text) for text in datasets.split(",") if text.strip()),
        extra=tuple(dict.fromkeys(extra or ())),
        reading=opt.chosen(reading),
        **study,
    )
    begin, evaluates = perf_counter(), None
    if on_spark:
        from surerec.spark import SparkEngine, spark_session  # noqa: PLC0415  # an extra

        evaluates = SparkEngine(spark_session(**session))
    reproduce(settings, output, resume=resume, overwrite=overwrite, engine=evaluates)
    messages().print(
        f"Done in {perf_counter() - begin:.0f} s: open {plain(str(output / 'report.html'))}"
    )
