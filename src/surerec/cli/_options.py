"""Tables of options that commands share, and the decorator that adds them to a command."""

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
    """One option of a command; an optional one without a default value has None."""

    kind: Any
    help: str
    default: Any = None
    more: Mapping[str, Any] = {}
    """Further arguments of `typer.Option`."""


Options = dict[str, Any]
"""The options that were typed, by name; those with default values are left out."""

Data = Annotated[
    str,
    typer.Argument(
        help="Interactions: a file, a dataset name (see `surerec datasets`), a database address or "
        "synthetic data such as synthetic:drift=0.5,random_state=4.",
        autocompletion=lambda: list(CATALOGUE),
    ),
]
Model = Annotated[Path, typer.Argument(help="Model folder written by `surerec fit`.")]
NewModel = Annotated[Path, typer.Argument(help="Model folder to write.")]
Output = Annotated[Path | None, typer.Option(help="File to write instead of the terminal.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace existing output.")]
TIES: Final = "Order of interactions at the same time: as in the file (order), or none (strict)."
Ties = Annotated[Literal["order", "strict"], typer.Option(help=TIES)]
Format = Annotated[
    Literal["table", "json", "csv", "parquet"],
    typer.Option(help="Output format."),
]
RecommenderName = Annotated[
    str | None,
    typer.Option(
        "--recommender",
        help="Recommender in the model folder; by default, the first of the most recent fit.",
        autocompletion=lambda: recommender_names(),  # noqa: PLW0108  # evaluated on completion only
    ),
]
SCORER: Final = Option(
    str, "Wrapped model to import, as package.module:object, if it was saved without its code."
)

READING: Final = {
    "columns": Option(str, "Comma-separated names of all columns, for a file without a header."),
    "user_column": Option(str, "Column of user ids."),
    "item_column": Option(str, "Column of item ids."),
    "time_column": Option(str, 'Column of times; "" if the rows are in time order.'),
    "rating_column": Option(str, "Column of ratings."),
    "title_column": Option(str, "Column of item titles, in DATA or in the file of --titles."),
    "titles": Option(str, "File with a column of item ids and a column of titles."),
    "rating_above": Option(float, "Keep only ratings above this value; 0 by default."),
    "min_profile_length": Option(int, "Leave out users with fewer items.", 1),
    "time_format": Option(str, "Unit of numeric times (s, ms, us, ns), or a pattern: %d.%m.%Y."),
    "skip_bad": Option(bool, "Skip and count rows that cannot be parsed.", default=False),
    "query": Option(str, "SQL query, for database sources."),
}
"""How data are read; :func:`chosen` maps the names to those of `read_interactions`."""

_NOT_OF_HISTORIES: Final = ("min_profile_length", "query", "title_column", "titles")
HISTORIES: Final = {k: option for k, option in READING.items() if k not in _NOT_OF_HISTORIES}
"""How a file of histories is read."""

QUERY: Final = {
    "user": Option(list[str], "User id; repeat it for each member of a group."),
    "history": Option(list[str], "Items of a new user, oldest first, comma-separated or repeated."),
    "times": Option(list[str], "Time of each item of --history; sorts the history."),
    "at": Option(str, "Time of the request, for a history without times."),
    "segment": Option(str, "Segment of a new user, for models with segments."),
    "group_guarantee": Option(
        str, "Group guarantee: any, most, all, worst, hit-any or hit-all; or a merge such as mean."
    ),
}
"""The user, new user or group of a request."""

REQUEST: Final = {
    "confidence": Option(float, "Confidence level between 0 and 1; 0.9 without --k."),
    "significance": Option(float, "Significance level ε = 1 − confidence."),
    "k": Option(int, "Return the k best items, with the probability of a hit."),
    "exclude": Option(list[str], "Item to leave out; may be repeated."),
    "precision": Option(float, "Share of shown items that are consumed, for precision-… models."),
    "min_probability": Option(float, "Drop less probable items; voids the guarantee."),
    "items": Option(Path, "File of the only item ids to show, one per line; voids the guarantee."),
    "item_list": Option(str, "Show only items of this calibrated list (see `surerec item-list`)."),
    "unknown": Option(
        Literal["check", "skip"],
        "Skip unknown ids in files; check fails if most of them are unknown.",
        "check",
    ),
}
"""The request options, with the names of `recommend`."""

ENGINE: Final = {
    "engine": Option(Literal["memory", "spark"], "Run in memory or on Apache Spark.", "memory"),
    "master": Option(str, "Spark master: local[4], spark://host:7077, yarn or k8s://…"),
    "executor_memory": Option(str, "Memory of a Spark executor, in Spark's notation: 4g."),
}
"""Where a command runs."""


def accepts(**tables: Mapping[str, Option]) -> Callable[..., Callable[..., None]]:
    """Replace parameters of a command by tables of options; each receives the typed options."""

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
    """Return the typed form of an option name.

    Examples
    --------
    >>> flag("item_list")
    '--item-list'
    """
    return f"--{name.replace('_', '-')}"


def as_words(options: Options) -> list[str]:
    """Return the typed form of options and their values.

    Examples
    --------
    >>> as_words({"user_column": "who", "min_profile_length": 5, "skip_bad": True})
    ['--user-column', 'who', '--min-profile-length', '5', '--skip-bad']
    """
    found: list[str] = []
    for name, value in options.items():
        for each in value if isinstance(value, list) else [value]:
            found += [flag(name)] if each is True else [flag(name), str(each)]
    return found


def chosen(reading: Options) -> Options:
    """Return the reading options as parameters of `read_interactions`.

    Examples
    --------
    >>> chosen({"time_column": "", "columns": "user,item,time"})
    {'time': '', 'columns': ['user', 'item', 'time']}
    """
    found = {name.removesuffix("_column"): value for name, value in reading.items()}
    return found if "columns" not in found else {**found, "columns": found["columns"].split(",")}


def source_name(data: str) -> str:
    """Return a source as it was typed, without the password of a database address.

    Examples
    --------
    >>> source_name("log.csv"), source_name("sqlite:///shop.db")
    ('log.csv', 'sqlite:///shop.db')
    """
    refuse_unknown_address(data)
    return without_password(data) if is_address(data) else data


def read(data: str, **reading: Any) -> Interactions:
    """Read interactions from a file, a database or a named dataset."""
    given = chosen(reading)
    name = source_name(data)
    if is_address(data):
        database = name.rsplit("/", 1)[-1] or data.partition("://")[0]
        return read_interactions(data, name=database, **given)
    path = Path(data)
    if path.exists():
        return read_interactions(path, name=path.name, **given)
    if is_described(data):
        if reading:
            option = flag(next(iter(reading)))
            raise InputError(f"{option} applies to files, and {data} is synthetic; drop {option}.")
        return synthetic_of(data)
    is_name = not path.suffix and path.name == data and not did_you_mean(path, "")
    if data in CATALOGUE or is_name:
        return load_dataset(data, **given)  # an unknown name raises an error with similar names
    raise InputError(f"{path}: no such file{did_you_mean(path)}")


def read_ids(path: Path | None, noun: str) -> list[str] | None:
    """Read a file with one id per line; None if there is no file."""
    if path is None:
        return None
    ids = [line.strip() for line in read_text(path).split("\n") if line.strip()]
    if not ids:
        raise InputError(f"{path}: the list of {noun} is empty; write one id per line.")
    return ids


def read_known(path: Path | None, ids: IdMap, unknown: str) -> list[Any] | None:
    """Read the known ids of a file with one id per line, and print how many are unknown."""
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
    """Return the request options as parameters of :meth:`Recommender.recommend`."""
    found = dict(given)
    if "items" in found:
        unknown = found.get("unknown", "check")
        found["items"] = read_known(found["items"], fitted.items_, unknown)
    if "exclude" in found:
        found["exclude"] = as_items(fitted, found["exclude"])
    return found


def as_horizon(value: float | None) -> float | int | None:
    """Return a whole number as a number of items, and a fraction as a share.

    Examples
    --------
    >>> as_horizon(5.0), as_horizon(0.4)
    (5, 0.4)
    """
    return int(value) if value is not None and value >= 1 and value == int(value) else value


def as_segments(value: str | None) -> int | str | tuple[str, int] | None:
    """Parse a number, a column name, or both separated by a comma.

    Examples
    --------
    >>> as_segments("3"), as_segments("country"), as_segments("country,3")
    (3, 'country', ('country', 3))
    """
    if value is None:
        return None
    if value.strip().lstrip("-").isdigit():
        return int(value)
    column, comma, number = value.rpartition(",")
    return (column, int(number)) if comma and number.strip().isdigit() else value


def as_items(fitted: Recommender, given: list[str] | None) -> list[str] | None:
    """Return each text that is an item id, and split the others at commas."""
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


def check_engine(engine: Options) -> tuple[bool, Options]:
    """Return whether to run on Spark, and the session options; refuse them without Spark."""
    session = {name: value for name, value in engine.items() if name != "engine"}
    on_spark = engine.get("engine") == "spark"
    if session and not on_spark:
        raise InputError(f"{flag(next(iter(session)))} applies to Spark only; add --engine spark.")
    return on_spark, session
