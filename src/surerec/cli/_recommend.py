"""Asking a model: recommend to a user, a group or many users, and explain."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from surerec._columns import Columns
from surerec._files import is_stream
from surerec._words import counted
from surerec.cli import _options as opt
from surerec.cli import _show
from surerec.cli._options import Option
from surerec.cli._output import (
    about_output,
    format_of,
    messages,
    next_steps,
    plain,
    stdout,
    write_frames,
    write_json,
    write_result,
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
    from collections.abc import Iterable, Iterator

    import polars as pl

    from surerec.recommenders import Histories, Recommender

_MANY: Final = {
    "all": Option(bool, "Recommend to all users of the data.", default=False),
    "users": Option(Path, "Recommend to the users of a file with one id a line."),
    "histories": Option(Path, "Recommend to new users: a file of user, item and perhaps time."),
    "group_file": Option(Path, "Recommend to groups: a table with columns user_id and group."),
    "leave_out": Option(bool, "Users of --histories are the data's own users.", default=False),
    "hits": Option(bool, "With --k: each list's probabilities of 1, 2 and 3 hits.", default=False),
    "table": Option(str, "For --output with the address of a database: the table to write."),
    "overwrite": Option(bool, "Replace a table of that name.", default=False),
}
_PANEL: Final = {"rich_help_panel": "Many users"}
_MANY_USERS, _HISTORIES, _ENGINE = (
    {name: option._replace(more={**option.more, **_PANEL}) for name, option in table.items()}
    for table in (_MANY, opt.HISTORIES, opt.ENGINE)
)
_WHOM: Final = ("all", "users", "histories", "group_file")


@opt.takes(whom=opt.WHOM, options=opt.REQUEST, many=_MANY_USERS, reading=_HISTORIES, engine=_ENGINE)
def recommend(
    model: opt.Model,
    *,
    whom: Any,
    options: Any,
    recommender: opt.RecommenderName = None,
    show: Annotated[int, typer.Option(min=1, help="How many rows of the table to show.")] = 10,
    format: opt.Format = "table",  # noqa: A002  # the option's name
    output: Annotated[
        str | None, typer.Option(help="A file to write; for many users also a database's address.")
    ] = None,
    many: Any,
    reading: Any,
    engine: Any,
) -> None:
    """Recommend items to a user, a group or many users: a set with a guarantee, or the k best.

    [bold]Examples:[/bold]

    surerec recommend films --user 196 --confidence 0.9

    surerec recommend films --user 196 --k 10

    surerec recommend films --history 50,172,133 --confidence 0.7 --format json

    surerec recommend films --history 50,172 --times 1998-03-01,1998-03-09

    surerec recommend films --user 196 --user 22 --history 50,172,133,7,9 --group-guarantee any

    surerec recommend films --all --confidence 0.9 --k 20 --output picks.parquet

    surerec recommend films --histories people.csv --k 20 --output picks.csv

    surerec recommend films --all --k 20 --output postgresql://shop@db/shop --table picks
    --overwrite

    surerec recommend /shared/films --all --output /shared/picks --engine spark --master yarn
    """
    asked = _Typed(model, whom, options, many, reading, engine, recommender, format, output)
    _check(asked)
    if any(name in many for name in _WHOM[:3]):
        if asked.engine.get("engine") == "spark":
            _on_spark(asked)
        else:
            _to_many(asked)
        return
    path = None if output is None else Path(output)
    kind = format_of(format, path)
    fitted = load(model, recommender)
    request = opt.read_options(fitted, options)
    if "group_file" in many:
        _to_groups(fitted, many["group_file"], kind, path, whom.get("group_guarantee"), request)
        return
    picks = fitted.recommend(**_person(fitted, whom), **request)
    if picks.ignored:
        named = ", ".join(str(item) for item in picks.ignored)
        messages().print(plain(f"Nobody in the data took {named}: ignored."))
    if kind != "table":
        write_result(picks, kind, path)
        return
    _show.recommendations(stdout(), picks, show)
    if not isinstance(picks, GroupSet) and "user" in whom and len(picks):
        about = {**whom, "item": str(picks.items[0])}
        about |= {} if recommender is None else {"recommender": recommender}
        next_steps({("surerec", "explain", str(model), *opt.as_words(about)): "why?"})


class _Typed(NamedTuple):
    """What was typed, table by table."""

    model: Path
    whom: opt.Options
    options: opt.Options
    many: opt.Options
    reading: opt.Options
    engine: opt.Options
    recommender: str | None
    format: str
    output: str | None


def _check(asked: _Typed) -> None:
    """Refuse options that do not go together."""
    on_spark, _ = opt.check_engine(asked.engine)
    whom, many, output = asked.whom, asked.many, asked.output
    named = [name for name in _WHOM if name in many]
    if len(named) > 1 or (on_spark and "histories" in many):
        raise InputError(
            f"{' and '.join(map(opt.flag, named))} do not go together: say once for whom, and "
            "histories are read in memory only."
        )
    of_histories = [*asked.reading, *(name for name in ("leave_out",) if name in many)]
    of_histories += ["at"] if named and "at" in whom else []
    if of_histories and "histories" not in many:
        raise InputError(f"{opt.flag(of_histories[0])} is about --histories: give that too.")
    others = set(whom) - {"group_guarantee" if "group_file" in many else "at"}
    if named and others:
        flags = opt.flag(named[0]), opt.flag(min(others))
        raise InputError("{} has the users, so {} and its like are not needed.".format(*flags))
    into = output is not None and is_address(output)
    if ("table" in many or "overwrite" in many) and not into:
        raise InputError("--table and --overwrite are for databases: give the address as --output.")
    is_many = bool(set(named) - {"group_file"})
    if (on_spark or into or "hits" in many) and not is_many:
        raise InputError("Spark, databases and --hits are for many users: add --all or --users.")
    if is_many and output is None:
        raise InputError("Recommendations to many users are written to a file: add --output.")


def _person(fitted: Recommender, whom: opt.Options) -> dict[str, Any]:
    """Return whom a question is about, as `recommend` takes it."""
    users, history, times = (whom.get(name) for name in ("user", "history", "times"))
    found = {name: whom.get(name) for name in ("at", "segment", "group_guarantee")}
    if is_group(whom):
        return {**found, "group": _members(fitted, users or [], history or [], times)}
    one = {"history": opt.as_items(fitted, history), "times": opt.as_times(times)}
    return {**found, **one, "user": users[0] if users else None}


def is_group(whom: opt.Options) -> bool:
    """Return whether a question is about several users."""
    return "group_guarantee" in whom or len(whom.get("user", ())) > 1


def _members(
    fitted: Recommender, users: list[str], histories: list[str], times: list[str] | None
) -> list[Any]:
    """Return the members of a group: every user, and a new user for every history.

    Every --times is of the --history at the same place.
    """
    consumed = [opt.as_items(fitted, [text]) or [] for text in histories]
    if times is None:
        return [*users, *consumed]
    moments = [opt.as_times([text]) or [] for text in times]
    n_items, n_times = (", ".join(str(len(x)) for x in found) for found in (consumed, moments))
    if n_items != n_times:
        raise InputError(
            f"--history have {n_items} items, and --times {n_times} values: in a group, pass one "
            "--times for each --history, with one time for each item."
        )
    return [
        *users,
        *(list(zip(*pair, strict=True)) for pair in zip(consumed, moments, strict=True)),
    ]


def _to_groups(
    fitted: Recommender,
    path: Path,
    kind: str,
    output: Path | None,
    group_guarantee: str | None,
    request: opt.Options,
) -> None:
    frame = fitted.recommend_groups(path, group_guarantee=group_guarantee, **request)
    answering = fitted.model_
    said = answering.guarantee_to_groups(path, answering.options(**request), group_guarantee)
    if kind == "json":
        answer = {"recommender": fitted.name_, "guarantee": said.to_dict()}
        write_json({**answer, "items": frame.to_dicts()}, output)
        return
    about = about_output(fitted.name_, said)
    write_frames([frame], "csv" if kind == "table" else kind, output, about)
    n_groups = frame["group"].n_unique()
    covered = frame.filter(Columns.Covered)["group"].n_unique()
    messages().print(
        f"Answered {counted(n_groups, 'groups')} by {plain(fitted.name_)}. The guarantee "
        f"covers {covered:,} of these {n_groups:,}; the column {Columns.Covered} says which."
    )
    messages().print(plain(said.labelled))


def _to_many(asked: _Typed) -> None:
    output, many = asked.output or "", asked.many
    into, path = is_address(output), Path(output)
    refuse_unknown_address(output)
    kind = asked.format
    if kind == "table":
        kind = path.suffix.lstrip(".").lower() or ("csv" if is_stream(path) else "")
    if kind not in ("csv", "parquet") and not into:
        raise InputError(f"{output}: the name must end in .parquet or .csv.")
    fitted = load(asked.model, asked.recommender)
    profiles = fitted.statistics_.interactions
    ids = None if profiles is None else profiles.users
    wanted = opt.read_known(many.get("users"), ids, asked.options.get("unknown", "check"))
    request = opt.read_options(fitted, {**asked.options, "hits": "hits" in many})
    begin = perf_counter()
    people = _read_histories(fitted, asked) if "histories" in many else None
    said = fitted.model_.guarantee_to_all(fitted.model_.options(**request)).assuming(
        "" if people is None else people.assumes
    )
    about = about_output(fitted.name_, said)
    kept: list[pl.DataFrame] = []
    frames = _keeping(fitted.iter_recommendations(wanted, histories=people, **request), kept)
    if into:
        table, overwrite = many.get("table"), "overwrite" in many
        n_rows = write_table(frames, output, table, overwrite=overwrite, about=about)
        output = f"the table {table} of {without_password(output)}"
    else:
        n_rows = write_frames(frames, kind, path, about)
    messages().print(
        f"Wrote {n_rows:,} recommendations by {fitted.name_} to {plain(output)} "
        f"in {perf_counter() - begin:.1f} s."
    )
    chosen = people if people is not None else wanted
    n_asked = profiles.n_users if chosen is None else len(chosen)
    for sentence in (*_tally(kept, n_asked), said.labelled):
        messages().print(plain(sentence))


def _read_histories(fitted: Recommender, asked: _Typed) -> Histories:
    """Read histories, and print what is not used of them."""
    reading = {name.removesuffix("_column"): value for name, value in asked.reading.items()}
    how: opt.Options = {"leave_out": "leave_out" in asked.many, "at": asked.whom.get("at")}
    people = fitted.histories(asked.many["histories"], **how, **opt.chosen(reading))
    said = people.warnings()
    if n := len(people.ignored):
        said.append(f"Nobody in the data took the items of {counted(n, 'rows')}: ignored.")
    for sentence in said:
        messages().print(plain(sentence))
    return people


def _keeping(frames: Iterable[pl.DataFrame], kept: list[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Yield the frames, and keep who has rows and is covered."""
    for frame in frames:
        kept.append(frame.select(Columns.User, Columns.Covered).unique())
        yield frame


def _tally(kept: list[pl.DataFrame], n_asked: int) -> list[str]:
    """Return for how many users there is something or nothing, and who is covered."""
    n = sum(map(len, kept))
    said = f"{n:,} of {n_asked:,} people have recommendations"
    if nothing := max(n_asked - n, 0):
        said += f"; nothing qualified for {nothing:,}"
    if not n:
        return [f"{said}."]
    covered = sum(int(each[Columns.Covered].sum()) for each in kept)
    column = f"the column {Columns.Covered} says which"
    return [f"{said}.", f"The guarantee covers {covered:,} of these {n:,}; {column}."]


def _on_spark(asked: _Typed) -> None:
    from surerec.spark import recommend_spark, spark_session  # noqa: PLC0415  # an extra

    fitted, output = load(asked.model, asked.recommender, verify=False), asked.output or ""
    users = opt.read_ids(asked.many.get("users"), "users")
    wanted = opt.read_options(fitted, {**asked.options, "hits": "hits" in asked.many})
    said = fitted.model_.guarantee_to_all(fitted.model_.options(**wanted))
    begin = perf_counter()
    spark = spark_session(**opt.check_engine(asked.engine)[1])
    wanted["recommender"] = asked.recommender
    n_rows = recommend_spark(spark, asked.model, output, users, **wanted)
    messages().print(
        f"Wrote {n_rows:,} recommendations by {fitted.name_} to {plain(output)} on Spark "
        f"in {perf_counter() - begin:.1f} s."
    )
    messages().print(plain(f"Guarantee, to users with covered = true: {said}"))


@opt.takes(whom=opt.WHOM)
def explain(
    model: opt.Model,
    *,
    item: Annotated[str, typer.Option(help="The item to explain.")],
    whom: Any,
    recommender: opt.RecommenderName = None,
    show: Annotated[int, typer.Option(min=1, help="How many earlier items to show.")] = 8,
    format: opt.Format = "table",  # noqa: A002
    output: opt.Output = None,
) -> None:
    """Explain which earlier items speak for an item, with the counts in words.

    For several users, or with --group-guarantee, the reasons are by member.

    [bold]Example:[/bold] surerec explain films --user 196 --item 302
    """
    kind = format_of(format, output)
    fitted = load(model, recommender)
    about = _person(fitted, whom)
    if is_group(whom):
        del about["segment"]
        said = fitted.explain_group(about.pop("group"), item=item, **about)
        if kind == "table":
            stdout().print(plain(str(said)))
        elif kind == "json":
            write_json(said.to_dict(show), output)
        else:
            raise InputError("Reasons by member are written as a table or as json.")
        return
    del about["group_guarantee"]
    why = fitted.explain(about.pop("user"), item=item, **about)
    if kind == "table":
        _show.explanation(stdout(), why, show)
    else:
        write_result(why, kind, output)
