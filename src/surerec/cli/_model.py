"""Asking a model: recommend, recommend-all, explain."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from surerec._files import is_stream
from surerec.cli import _options as opt
from surerec.cli import _show
from surerec.cli._output import (
    about_output,
    format_of,
    messages,
    stdout,
    write_frames,
    write_json,
    write_result,
)
from surerec.cli._reading import reads_histories, takes_options
from surerec.cli._spark import check_engine, recommend_on_spark
from surerec.cli._tally import Tally
from surerec.cli._together import (
    is_group,
    members,
    one_of,
    recommend_file,
    satisfaction,
)
from surerec.errors import InputError
from surerec.interactions import (
    is_address,
    refuse_unknown_address,
    without_password,
    write_table,
)
from surerec.recommenders import GroupSet, load

if TYPE_CHECKING:
    from surerec.recommenders import Histories, Recommender


_Output = Annotated[
    Path | None, typer.Option(help="Write to this file instead, complete or not at all.")
]


@takes_options
def recommend(
    model: opt.Model,
    *,
    user: opt.Users = None,
    history: opt.History = None,
    times: opt.Times = None,
    at: opt.At = None,
    segment: opt.Segment = None,
    together: opt.Together = None,
    group_file: opt.GroupFile = None,
    options: Any,
    recommender: opt.RecommenderName = None,
    show: Annotated[int, typer.Option(min=1, help="How many rows of the table to show.")] = 10,
    format: opt.Format = "table",  # noqa: A002  # the option's name
    output: _Output = None,
) -> None:
    """Recommend items to a user or a group: a set with a guarantee, or the k best.

    [bold]Examples:[/bold]

    surerec recommend films --user 196 --confidence 0.9

    surerec recommend films --user 196 --k 10

    surerec recommend films --history 50,172,133 --confidence 0.7 --format json

    surerec recommend films --history 50,172 --times 1998-03-01,1998-03-09

    surerec recommend films --user 196 --user 22 --history 50,172,133,7,9 --together any
    """
    format = format_of(format, output)  # noqa: A001
    fitted = load(model, recommender)
    asked = opt.read_options(fitted, options)
    if group_file is not None:
        if any((user, history, times, at, segment)):
            raise InputError("--group-file has the users: only request options go with it.")
        recommend_file(fitted, group_file, format, output, together=together, **asked)
        return
    is_party = is_group(user, together)
    picks = fitted.recommend(
        None if is_party else one_of(user),
        history=None if is_party else opt.as_items(fitted, history),
        times=None if is_party else opt.as_times(times),
        at=at,
        segment=segment,
        group=members(fitted, user, history, times) if is_party else None,
        together=together,
        **asked,
    )
    if picks.ignored:
        named = ", ".join(str(item) for item in picks.ignored)
        messages().print(_show.plain(f"Nobody in the data took {named}: ignored."))
    if format != "table":
        write_result(picks, format, output)
        return
    _show.recommendations(stdout(), picks, show)
    if isinstance(picks, GroupSet):
        satisfaction(stdout(), picks)
    elif user and len(picks):
        about = ["--user", one_of(user) or "", "--item", str(picks.items[0])]
        given = {"history": history, "times": times, "at": at, "segment": segment}
        for name, value in {**given, "recommender": recommender}.items():
            for each in [value] if isinstance(value, str) else value or ():
                about += [f"--{name}", each]
        _show.next_steps(messages(), {("surerec", "explain", str(model), *about): "why?"})


@reads_histories
@takes_options
def recommend_all(
    model: opt.Model,
    *,
    output: Annotated[
        str,
        typer.Option(
            help="The file to write: .parquet or .csv; on Spark a folder of Parquet. Or the "
            "address of a database, with --table."
        ),
    ],
    table: Annotated[
        str | None, typer.Option(help="Of a database: the table to write, in one transaction.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a table of that name.")
    ] = False,
    users: Annotated[
        Path | None, typer.Option(help="A file with one user id a line; all users if not given.")
    ] = None,
    histories: Any = None,
    leave_out: Annotated[
        bool,
        typer.Option(
            "--leave-out",
            help="People of --histories with ids of the data are these users, and left out of all "
            "that scores them.",
        ),
    ] = False,
    at: opt.At = None,
    options: Any,
    hits: Annotated[
        bool,
        typer.Option("--hits", help="With --k: each list's probabilities of 1, 2 and 3 hits."),
    ] = False,
    recommender: opt.RecommenderName = None,
    engine: opt.Engine = "memory",
    master: opt.Master = None,
    executor_memory: opt.ExecutorMemory = None,
) -> None:
    """Recommend to many users, on all cores or on Spark, written as results come.

    [bold]Examples:[/bold]

    surerec recommend-all films --confidence 0.9 --k 20 --output picks.parquet

    surerec recommend-all films --histories people.csv --k 20 --output picks.csv

    surerec recommend-all films --k 20 --output postgresql://shop@db/shop --table picks --overwrite

    surerec recommend-all /shared/films --output /shared/picks --engine spark --master yarn
    """
    into = is_address(output)
    if (table is not None or overwrite) and not into:
        raise InputError("--table and --overwrite are for databases: give the address as --output.")
    check_engine(engine, master=master, **{"executor-memory": executor_memory})
    if histories is not None and (users is not None or engine == "spark"):
        raise InputError("--histories says for whom, in memory: leave --users and Spark away.")
    if leave_out and histories is None:
        raise InputError("--leave-out is about --histories: users of the data are always left out.")
    if at is not None and histories is None:
        raise InputError("--at is about --histories: users of the data have times of their own.")
    options = {**options, "hits": hits}
    if engine == "spark":
        items = opt.read_ids(options.get("items"), "items")
        recommend_on_spark(
            model,
            Path(output),
            opt.read_ids(users, "users"),
            {"master": master, "executor_memory": executor_memory},
            recommender=recommender,
            **{**options, "items": items},
        )
        return
    refuse_unknown_address(output)
    path = Path(output)
    kind = path.suffix.lstrip(".").lower() or ("csv" if is_stream(path) else "")
    if kind not in ("csv", "parquet") and not into:
        raise InputError(f"{output}: the name must end in .parquet or .csv.")
    fitted = load(model, recommender)
    profiles = fitted.statistics_.interactions
    unknown = options.get("unknown", "check")
    wanted = opt.read_known(users, None if profiles is None else profiles.users, unknown)
    asked = opt.read_options(fitted, options)
    begin = perf_counter()
    people = None if histories is None else _people(fitted, histories, leave_out=leave_out, at=at)
    frames = fitted.iter_recommendations(wanted, histories=people, **asked)
    checked = fitted.options(**asked)
    said = fitted.guarantee_to_all(checked).assuming("" if people is None else people.assumes)
    tally = Tally(fitted, len(wanted) if wanted is not None else None, people)
    counted = tally.counting(frames)
    about = about_output(fitted.name_, said)
    if into:
        n_rows = write_table(counted, output, table, overwrite=overwrite, about=about)
    else:
        n_rows = write_frames(counted, kind, path, about)
    target = f"the table {table} of {without_password(output)}" if into else output
    messages().print(
        f"Wrote {n_rows:,} recommendations by {fitted.name_} to {_show.plain(target)} "
        f"in {perf_counter() - begin:.1f} s."
    )
    for sentence in (*tally.sentences(checked.k), said.labelled):
        messages().print(_show.plain(sentence))


def _people(fitted: Recommender, histories: tuple[Path, dict[str, Any]], **asked: Any) -> Histories:
    """Read people's histories, and say what is not used of them."""
    path, reading = histories
    people = fitted.histories(path, **asked, **reading)
    said = people.warnings()
    if n := len(people.ignored):
        rows = "1 row" if n == 1 else f"{n:,} rows"
        said.append(f"Nobody in the data took the items of {rows}: ignored.")
    for sentence in said:
        messages().print(_show.plain(sentence))
    return people


def explain(
    model: opt.Model,
    *,
    item: Annotated[str, typer.Option(help="The item to explain.")],
    user: opt.Users = None,
    history: opt.History = None,
    times: opt.Times = None,
    at: opt.At = None,
    segment: opt.Segment = None,
    together: opt.Together = None,
    recommender: opt.RecommenderName = None,
    show: Annotated[int, typer.Option(min=1, help="How many earlier items to show.")] = 8,
    format: opt.Format = "table",  # noqa: A002
    output: _Output = None,
) -> None:
    """Say which earlier items speak for an item, with the counts in words.

    To several users, or with --together, it says it by member.

    [bold]Example:[/bold] surerec explain films --user 196 --item 302
    """
    format = format_of(format, output)  # noqa: A001
    fitted = load(model, recommender)
    if is_group(user, together):
        people = members(fitted, user, history, times)
        said = fitted.explain_group(people, item=item, together=together, at=at)
        if format == "table":
            stdout().print(_show.plain(str(said)), highlight=False)
        elif format == "json":
            write_json(said.to_dict(show), output)
        else:
            raise InputError("Reasons by member are written as a table or as json.")
        return
    why = fitted.explain(
        one_of(user),
        history=opt.as_items(fitted, history),
        times=opt.as_times(times),
        at=at,
        segment=segment,
        item=item,
    )
    if format == "table":
        _show.explanation(stdout(), why, show)
    else:
        write_result(why, format, output)
