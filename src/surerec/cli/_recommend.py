"""The recommend and explain commands: for a user, a group or many users."""

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
    "all": Option(bool, "Recommend to all users of the model.", default=False),
    "users": Option(Path, "File of user ids to recommend to, one per line."),
    "histories": Option(Path, "File of new users' histories, with user, item and optional time."),
    "groups": Option(Path, "Table of groups to recommend to, with columns user_id and group."),
    "leave_out": Option(bool, "Users of --histories are users of the model.", default=False),
    "hits": Option(bool, "Add the probabilities of 1, 2 and 3 hits, with --k.", default=False),
    "table": Option(str, "Table to write, if --output is a database address."),
    "overwrite": Option(bool, "Replace an existing table.", default=False),
}
_PANEL: Final = {"rich_help_panel": "Many users"}
_MANY_USERS, _HISTORIES, _ENGINE = (
    {name: option._replace(more={**option.more, **_PANEL}) for name, option in table.items()}
    for table in (_MANY, opt.HISTORIES, opt.ENGINE)
)
_MODEL: Final = {"scorer": opt.SCORER}
_SOURCES: Final = ("all", "users", "histories", "groups")


@opt.accepts(
    query=opt.QUERY,
    options=opt.REQUEST,
    code=_MODEL,
    many=_MANY_USERS,
    reading=_HISTORIES,
    engine=_ENGINE,
)
def recommend(
    model: opt.Model,
    *,
    query: Any,
    options: Any,
    recommender: opt.RecommenderName = None,
    code: Any,
    show: Annotated[int, typer.Option(min=1, help="Number of rows to print.")] = 10,
    format: opt.Format = "table",  # noqa: A002  # the option's name
    output: Annotated[
        str | None, typer.Option(help="File to write, or a database address for many users.")
    ] = None,
    many: Any,
    reading: Any,
    engine: Any,
) -> None:
    """Recommend items to a user, a group or many users.

    [bold]Examples:[/bold]

    surerec recommend films --user 196 --confidence 0.9

    surerec recommend films --user 196 --k 10

    surerec recommend films --history 50,172,133 --confidence 0.7 --format json

    surerec recommend films --history 50,172 --times 1998-03-01,1998-03-09

    surerec recommend films --user 196 --user 22 --history 50,172,133,7,9 --group-guarantee any

    surerec recommend films --all --confidence 0.9 --k 20 --output picks.parquet

    surerec recommend films --histories visitors.csv --k 20 --output picks.csv

    surerec recommend films --all --k 20 --output postgresql://shop@db/shop --table picks
    --overwrite

    surerec recommend /shared/films --all --output /shared/picks --engine spark --master yarn
    """
    source = _Source(model, recommender, code.get("scorer"))
    request = _Command(source, query, options, many, reading, engine, format, output)
    _check(request)
    if any(name in many for name in _SOURCES[:3]):
        if engine.get("engine") == "spark":
            _recommend_on_spark(request)
        else:
            _recommend_to_many(request)
        return
    path = None if output is None else Path(output)
    kind = format_of(format, path)
    fitted = source.load()
    given = opt.read_options(fitted, options)
    if "groups" in many:
        _recommend_to_groups(request, fitted, kind, path, given)
        return
    picks = fitted.recommend(**_parse_query(fitted, query), **given)
    if picks.ignored:
        named = ", ".join(str(item) for item in picks.ignored)
        messages().print(plain(f"Ignored items that are not in the model: {named}."))
    if kind != "table":
        write_result(picks, kind, path)
        return
    _show.recommendations(stdout(), picks, show)
    if not isinstance(picks, GroupSet) and "user" in query and len(picks):
        about = {**query, "item": str(picks.items[0])}
        about |= {} if recommender is None else {"recommender": recommender}
        command = ("surerec", "explain", str(model), *opt.as_words(about))
        next_steps({command: "explain the first item"})


class _Source(NamedTuple):
    """The recommender that answers."""

    model: Path
    recommender: str | None
    scorer: str | None

    def load(self, *, verify: bool = True) -> Recommender:
        """Load it from the model folder."""
        return load(self.model, self.recommender, scorer=self.scorer, verify=verify)


class _Command(NamedTuple):
    """The options of a request, table by table."""

    source: _Source
    query: opt.Options
    options: opt.Options
    many: opt.Options
    reading: opt.Options
    engine: opt.Options
    format: str
    output: str | None


def _check(request: _Command) -> None:
    """Refuse options that cannot be combined."""
    on_spark, _ = opt.check_engine(request.engine)
    query, many, output = request.query, request.many, request.output
    named = [name for name in _SOURCES if name in many]
    if len(named) > 1:
        flags = " and ".join(map(opt.flag, named))
        raise InputError(f"{flags} cannot be combined; pass one of them.")
    if on_spark and "histories" in many:
        raise InputError("--histories does not run on Spark; drop --engine spark.")
    of_histories = [*request.reading, *(name for name in ("leave_out",) if name in many)]
    of_histories += ["at"] if named and "at" in query else []
    if of_histories and "histories" not in many:
        raise InputError(f"{opt.flag(of_histories[0])} applies to --histories only; add it.")
    others = set(query) - {"group_guarantee" if "groups" in many else "at"}
    if named and others:
        flags = f"{opt.flag(named[0])} and {opt.flag(min(others))}"
        raise InputError(f"{flags} cannot be combined; pass one of them.")
    into = output is not None and is_address(output)
    if ("table" in many or "overwrite" in many) and not into:
        raise InputError(
            "--table and --overwrite apply to databases; pass a database address as --output."
        )
    is_many = bool(set(named) - {"groups"})
    if (on_spark or into or "hits" in many) and not is_many:
        raise InputError(
            "--engine spark, database output and --hits apply to many users; add --all or --users."
        )
    if is_many and output is None:
        raise InputError("Recommendations to many users go to a file; add --output FILE.")


def _parse_query(fitted: Recommender, query: opt.Options) -> dict[str, Any]:
    """Return the user, new user or group of a request, as parameters of `recommend`."""
    users, history, times = (query.get(name) for name in ("user", "history", "times"))
    found = {name: query.get(name) for name in ("at", "segment", "group_guarantee")}
    if _is_group(query):
        return {**found, "group": _members(fitted, users or [], history or [], times)}
    one = {"history": opt.as_items(fitted, history), "times": opt.as_times(times)}
    return {**found, **one, "user": users[0] if users else None}


def _is_group(query: opt.Options) -> bool:
    """Return whether a request is for a group."""
    return "group_guarantee" in query or len(query.get("user", ())) > 1


def _members(
    fitted: Recommender, users: list[str], histories: list[str], times: list[str] | None
) -> list[Any]:
    """Return the members of a group: all users, and a new user for each history.

    Each --times belongs to the --history at the same position.
    """
    consumed = [opt.as_items(fitted, [text]) or [] for text in histories]
    if times is None:
        return [*users, *consumed]
    moments = [opt.as_times([text]) or [] for text in times]
    n_items, n_times = (", ".join(str(len(x)) for x in found) for found in (consumed, moments))
    if n_items != n_times:
        raise InputError(
            f"--history has {n_items} items, and --times has {n_times} values. In a group, pass "
            "one --times for each --history, with one time for each item."
        )
    return [
        *users,
        *(list(zip(*pair, strict=True)) for pair in zip(consumed, moments, strict=True)),
    ]


def _recommend_to_groups(
    request: _Command, fitted: Recommender, kind: str, output: Path | None, given: opt.Options
) -> None:
    groups, by = request.many["groups"], request.query.get("group_guarantee")
    frame = fitted.recommend_groups(groups, group_guarantee=by, **given)
    guarantee = fitted.model_.guarantee_to_groups(groups, fitted.model_.options(**given), by)
    if kind == "json":
        answer = {"recommender": fitted.name_, "guarantee": guarantee.to_dict()}
        write_json({**answer, "items": frame.to_dicts()}, output)
        return
    about = about_output(fitted.name_, guarantee)
    write_frames([frame], "csv" if kind == "table" else kind, output, about)
    n_groups = frame["group"].n_unique()
    covered = frame.filter(Columns.Covered)["group"].n_unique()
    messages().print(
        f"Recommended to {counted(n_groups, 'groups')} with {plain(fitted.name_)}. "
        f"{_coverage(covered, n_groups)}"
    )
    messages().print(plain(guarantee.labelled))


def _recommend_to_many(request: _Command) -> None:
    output, many = request.output or "", request.many
    into, path = is_address(output), Path(output)
    refuse_unknown_address(output)
    kind = request.format
    if kind == "table":
        kind = path.suffix.lstrip(".").lower() or ("csv" if is_stream(path) else "")
    if kind not in ("csv", "parquet") and not into:
        raise InputError(f"{output}: the suffix is not .parquet or .csv; use one of them.")
    fitted = request.source.load()
    profiles = fitted.statistics_.interactions
    ids = None if profiles is None else profiles.users
    users = opt.read_known(many.get("users"), ids, request.options.get("unknown", "check"))
    given = opt.read_options(fitted, {**request.options, "hits": "hits" in many})
    begin = perf_counter()
    histories = _read_histories(fitted, request) if "histories" in many else None
    guarantee = fitted.model_.guarantee_to_all(fitted.model_.options(**given)).assuming(
        "" if histories is None else histories.assumes
    )
    about = about_output(fitted.name_, guarantee)
    kept: list[pl.DataFrame] = []
    frames = _keeping(fitted.iter_recommendations(users, histories=histories, **given), kept)
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
    requested = histories if histories is not None else users
    n_users = profiles.n_users if requested is None else len(requested)
    n = sum(map(len, kept))
    messages().print(f"{n:,} of {n_users:,} users have recommendations.")
    if n:
        messages().print(_coverage(sum(int(each[Columns.Covered].sum()) for each in kept), n))
    messages().print(plain(guarantee.labelled))


def _coverage(covered: int, n: int) -> str:
    return f"The guarantee covers {covered:,} of {n:,} (column {Columns.Covered})."


def _read_histories(fitted: Recommender, request: _Command) -> Histories:
    """Read histories, and print warnings about ignored rows."""
    how: opt.Options = {"leave_out": "leave_out" in request.many, "at": request.query.get("at")}
    found = fitted.histories(request.many["histories"], **how, **opt.chosen(request.reading))
    for sentence in found.warnings():
        messages().print(plain(sentence))
    if n := len(found.ignored):
        messages().print(f"Ignored {counted(n, 'rows')} with items that are not in the model.")
    return found


def _keeping(frames: Iterable[pl.DataFrame], kept: list[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Yield the frames, and keep which users have rows and are covered."""
    for frame in frames:
        kept.append(frame.select(Columns.User, Columns.Covered).unique())
        yield frame


def _recommend_on_spark(request: _Command) -> None:
    from surerec.spark import recommend_spark, spark_session  # noqa: PLC0415  # an extra

    fitted, output = request.source.load(verify=False), request.output or ""
    users = opt.read_ids(request.many.get("users"), "users")
    given = opt.read_options(fitted, {**request.options, "hits": "hits" in request.many})
    guarantee = fitted.model_.guarantee_to_all(fitted.model_.options(**given))
    begin = perf_counter()
    spark = spark_session(**opt.check_engine(request.engine)[1])
    model, recommender, scorer = request.source
    given |= {"recommender": recommender, "scorer": scorer}
    n_rows = recommend_spark(spark, model, output, users, **given)
    messages().print(
        f"Wrote {n_rows:,} recommendations by {fitted.name_} to {plain(output)} on Spark "
        f"in {perf_counter() - begin:.1f} s."
    )
    messages().print(plain(f"Guarantee for users with {Columns.Covered} = true: {guarantee}"))


@opt.accepts(query=opt.QUERY, code=_MODEL)
def explain(
    model: opt.Model,
    *,
    item: Annotated[str, typer.Option(help="Item to explain.")],
    query: Any,
    recommender: opt.RecommenderName = None,
    code: Any,
    show: Annotated[int, typer.Option(min=1, help="Number of earlier items to print.")] = 8,
    format: opt.Format = "table",  # noqa: A002
    output: opt.Output = None,
) -> None:
    """Explain which items of a history speak for an item.

    For a group, the explanation has one part for each member.

    [bold]Example:[/bold] surerec explain films --user 196 --item 302
    """
    kind = format_of(format, output)
    fitted = load(model, recommender, scorer=code.get("scorer"))
    about = _parse_query(fitted, query)
    if _is_group(query):
        del about["segment"]
        why = fitted.explain_group(about.pop("group"), item=item, **about)
        if kind == "table":
            stdout().print(plain(str(why)))
        elif kind == "json":
            write_json(why.to_dict(show), output)
        else:
            raise InputError(
                f"--format {kind} is not available for groups; use --format table or json."
            )
        return
    del about["group_guarantee"]
    found = fitted.explain(about.pop("user"), item=item, **about)
    if kind == "table":
        _show.explanation(stdout(), found, show)
    else:
        write_result(found, kind, output)
