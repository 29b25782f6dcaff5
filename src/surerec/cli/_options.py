"""Options that commands share, as tables, and the decorator that adds them to a command."""

from __future__ import annotations

import inspect
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple

import typer
from rich.markup import escape

from surerec._inputs import did_you_mean, read_text
from surerec.cli._output import messages
from surerec.datasets import CATALOGUE, is_described, load_dataset, synthetic_of
from surerec.errors import InputError
from surerec.interactions import (
    Interactions,
    is_address,
    read_interactions,
    refuse_unknown_address,
    without_password,
)
from surerec.recommenders import recommender_names

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from surerec.interactions import IdMap
    from surerec.recommenders import Recommender


class Option(NamedTuple):
    """One option of a table; None is the default of what need not be given."""

    kind: Any
    help: str
    default: Any = None
    more: Mapping[str, Any] = {}
    """Further arguments of `typer.Option`."""


Options = dict[str, Any]
"""The options of a table that were given, by name."""

Data = Annotated[
    str,
    typer.Argument(
        help="A ratings file, a name that `surerec datasets` lists, the address of a database, or "
        "synthetic data such as synthetic:drift=0.5,random_state=4.",
        autocompletion=lambda: list(CATALOGUE),
    ),
]
Model = Annotated[Path, typer.Argument(help="A model folder that `surerec fit` made.")]
NewModel = Annotated[Path, typer.Argument(help="The model folder to write.")]
Output = Annotated[Path | None, typer.Option(help="Write to this file, complete or not at all.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")]
TIES: Final = "Do items of one instant precede each other in the file's order?"
Ties = Annotated[Literal["order", "strict"], typer.Option(help=TIES)]
Format = Annotated[
    Literal["table", "json", "csv", "parquet"],
    typer.Option(help="A table for people; json, csv or parquet for programs."),
]
RecommenderName = Annotated[
    str | None,
    typer.Option(
        "--recommender",
        help="Which of the folder's recommenders; the first of those fitted last if not given.",
        autocompletion=lambda: recommender_names(),  # noqa: PLW0108  # as late as may be
    ),
]

READING: Final = {
    "columns": Option(str, "Names of all columns, with commas, of a file without a header."),
    "user": Option(str, "The column of users."),
    "item": Option(str, "The column of items."),
    "time": Option(str, "The column of times."),
    "rating": Option(str, "The column of ratings."),
    "title": Option(str, "The column of item titles, in DATA or in the file of --titles."),
    "titles": Option(str, "A file of item titles: a column of item ids, one of titles."),
    "rating_above": Option(float, "Only ratings above it count; 0 if not given."),
    "min_profile_length": Option(int, "Leave out users with fewer items.", 1),
    "time_format": Option(str, "Unit of numbers (s, ms, us, ns), or a pattern like %d.%m.%Y."),
    "skip_bad": Option(bool, "Drop and count rows that cannot be used.", default=False),
    "query": Option(str, "SQL query, for database sources."),
}
"""How data are read."""

_NOT_OF_HISTORIES: Final = ("min_profile_length", "query", "title", "titles")
HISTORIES: Final = {
    f"{name}_column" if name in ("user", "item", "time", "rating") else name: option
    for name, option in READING.items()
    if name not in _NOT_OF_HISTORIES
}
"""How a file of histories is read, beside `--user` as an id."""

WHOM: Final = {
    "user": Option(list[str], "A user of the data; again for each member of a group."),
    "history": Option(list[str], "Items in the order consumed, with commas or repeated."),
    "times": Option(list[str], "When each item of --history was consumed; sorts the history."),
    "at": Option(str, "The moment of the question, for a history without times."),
    "segment": Option(str, "The segment of a new user, with thresholds by segment."),
    "group_guarantee": Option(str, "A group: any, most, all, worst, hit-any, hit-all, or mean, …"),
}
"""About whom a question is."""

REQUEST: Final = {
    "confidence": Option(float, "Confidence level between 0 and 1; 0.9 without --k."),
    "significance": Option(float, "ε, instead of the confidence."),
    "k": Option(int, "The k best items, with the probability of a hit and no guarantee."),
    "exclude": Option(list[str], "An item to leave out; may be repeated."),
    "precision": Option(float, "For precision-…: the share of what is shown that is consumed."),
    "min_probability": Option(float, "Only items consumed so probably; voids the guarantee."),
    "items": Option(Path, "A file with one item id a line: only these; voids the guarantee."),
    "item_list": Option(
        str, "Only the items of this list of `surerec item-list`, with a guarantee."
    ),
    "unknown": Option(
        Literal["check", "skip"], "Unknown ids of a list are skipped; check refuses most.", "check"
    ),
}
"""The request options, by the names that `recommend` has for them."""

ENGINE: Final = {
    "engine": Option(Literal["memory", "spark"], "Work in memory, or on Apache Spark.", "memory"),
    "master": Option(str, "The Spark master: local[4], spark://host:7077, yarn, k8s://…"),
    "executor_memory": Option(str, "Memory of a Spark executor, as Spark writes it: 4g."),
}
"""Where the work is done."""


def takes(**tables: Mapping[str, Option]) -> Callable[..., Callable[..., None]]:
    """Replace parameters of a command by the options of tables; each gets those that were given."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True)

        @wraps(command)
        def run(**given: Any) -> None:
            for name, table in tables.items():
                values = {each: given.pop(each) for each in table}
                given[name] = {
                    each: value for each, value in values.items() if value != table[each].default
                }
            command(**given)

        parameters: list[inspect.Parameter] = []
        for parameter in own.parameters.values():
            table = tables.get(parameter.name)
            if table is None:
                parameters.append(parameter)
            else:
                parameters += [_parameter(name, option) for name, option in table.items()]
        run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {}
        return run

    return decorate


def _parameter(name: str, option: Option) -> inspect.Parameter:
    flags = () if option.default is True else (flag(name),)
    kind: Any = option.kind | None if option.default is None else option.kind
    about = typer.Option(*flags, help=option.help, **option.more)
    annotation = Annotated[kind, about]
    only = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, only, default=option.default, annotation=annotation)


def flag(name: str) -> str:
    """Return an option as it is typed.

    Examples
    --------
    >>> flag("item_list")
    '--item-list'
    """
    return f"--{name.replace('_', '-')}"


def as_words(options: Options) -> list[str]:
    """Return options as they are typed.

    Examples
    --------
    >>> as_words({"user": "who", "min_profile_length": 5, "skip_bad": True})
    ['--user', 'who', '--min-profile-length', '5', '--skip-bad']
    """
    found: list[str] = []
    for name, value in options.items():
        for each in value if isinstance(value, list) else [value]:
            found += [flag(name)] if each is True else [flag(name), str(each)]
    return found


def chosen(reading: Options) -> Options:
    """Return the reading options as `read_interactions` takes them.

    Examples
    --------
    >>> chosen({"time": "", "columns": "user,item,time"})
    {'time': '', 'columns': ['user', 'item', 'time']}
    """
    columns = reading.get("columns")
    return reading if columns is None else {**reading, "columns": columns.split(",")}


def source_name(data: str) -> str:
    """Return a source as it was typed, the address of a database without its password.

    Examples
    --------
    >>> source_name("log.csv"), source_name("sqlite:///shop.db")
    ('log.csv', 'sqlite:///shop.db')
    """
    refuse_unknown_address(data)
    return without_password(data) if is_address(data) else data


def read(data: str, **reading: Any) -> Interactions:
    """Read a file, a database, or a data set by name."""
    given = chosen(reading)
    name = source_name(data)
    if is_address(data):
        database = name.rsplit("/", 1)[-1] or data.partition("://")[0]
        return read_interactions(data, name=database, **given)
    path = Path(data)
    if path.exists():
        return read_interactions(path, name=path.name, **given)
    if is_described(data):
        if given:
            option = flag(next(iter(given)))
            raise InputError(f"{option} says how a file is read, and {data} is synthetic.")
        return synthetic_of(data)
    is_name = not path.suffix and path.name == data and not did_you_mean(path, "")
    if data in CATALOGUE or is_name:
        return load_dataset(data, **given)  # an unknown name is refused with near ones
    raise InputError(f"{path}: no such file{did_you_mean(path)}")


def read_ids(path: Path | None, noun: str) -> list[str] | None:
    """Read a file with one id a line; None if there is no file."""
    if path is None:
        return None
    ids = [line.strip() for line in read_text(path).split("\n") if line.strip()]
    if not ids:
        raise InputError(f"{path}: the list of {noun} is empty; write one id a line.")
    return ids


def read_known(path: Path | None, ids: IdMap, unknown: str) -> list[Any] | None:
    """Read the known ids of a file with one id a line, and print how many are unknown."""
    if path is None:
        return None
    given = read_ids(path, f"{ids.noun}s") or []
    try:
        found = ids.select(given, unknown)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    if found.skipped:
        messages().print(escape(f"{path}: {found.message}"))
    return list(ids.ids.gather(found.codes))


def read_options(fitted: Recommender, given: Options) -> Options:
    """Return the request options as :meth:`Recommender.recommend` takes them."""
    found = dict(given)
    if "items" in found:
        unknown = found.get("unknown", "check")
        found["items"] = read_known(found["items"], fitted.items_, unknown)
    if "exclude" in found:
        found["exclude"] = as_items(fitted, found["exclude"])
    return found


def as_horizon(value: float | None) -> float | int | None:
    """Return a whole number as a number of items; the command line knows only one kind of number.

    Examples
    --------
    >>> as_horizon(5.0), as_horizon(0.4)
    (5, 0.4)
    """
    return int(value) if value is not None and value >= 1 and value == int(value) else value


def as_groups(value: str | None) -> int | str | tuple[str, int] | None:
    """Return a number, the name of a column, or both with a comma between them.

    Examples
    --------
    >>> as_groups("3"), as_groups("country"), as_groups("country,3")
    (3, 'country', ('country', 3))
    """
    if value is None:
        return None
    if value.strip().lstrip("-").isdigit():
        return int(value)
    column, comma, number = value.rpartition(",")
    return (column, int(number)) if comma and number.strip().isdigit() else value


def as_items(fitted: Recommender, given: list[str] | None) -> list[str] | None:
    """Return each text as an id if it is one, else as ids with commas between them."""
    if given is None:
        return None
    found: list[str] = []
    for text in given:
        whole = text in fitted.items_ or "," not in text
        found += [text] if whole else as_times([text]) or []
    return found


def as_times(given: list[str] | None) -> list[str] | None:
    """Split texts at commas.

    Examples
    --------
    >>> as_times(["2024-05-01,2024-05-02", "2024-05-03"])
    ['2024-05-01', '2024-05-02', '2024-05-03']
    """
    if given is None:
        return None
    return [part.strip() for text in given for part in text.split(",") if part.strip()]


def check_engine(engine: Options, **given: Any) -> tuple[bool, Options]:
    """Return whether to work on Spark, and its session; refuse options of Spark without it."""
    session = {name: value for name, value in engine.items() if name != "engine"}
    on_spark = engine.get("engine") == "spark"
    for name, value in {**session, **given}.items():
        if not on_spark and value is not None:
            raise InputError(f"{flag(name)} is for Spark: add --engine spark.")
    return on_spark, session
