"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.markup import escape

from surerec._inputs import did_you_mean, read_text
from surerec.cli._output import Format as FormatName
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
    from surerec.interactions import IdMap
    from surerec.recommenders import Recommender


def _datasets() -> list[str]:
    return list(CATALOGUE)


def _recommenders() -> list[str]:
    return recommender_names()


Data = Annotated[
    str,
    typer.Argument(
        help="A ratings file, a name that `surerec datasets` lists, the address of a database, or "
        "made-up data as synthetic:drift=0.5,seed=4.",
        autocompletion=_datasets,
    ),
]
Columns = Annotated[
    str | None, typer.Option(help="Names of all columns, with commas, of a file without a header.")
]
UserColumn = Annotated[str | None, typer.Option("--user", help="The column of users.")]
ItemColumn = Annotated[str | None, typer.Option("--item", help="The column of items.")]
TimeColumn = Annotated[str | None, typer.Option("--time", help="The column of times.")]
RatingColumn = Annotated[str | None, typer.Option("--rating", help="The column of ratings.")]
TitleColumn = Annotated[
    str | None,
    typer.Option("--title", help="The column of item titles, in DATA or in the file of --titles."),
]
Titles = Annotated[
    str | None, typer.Option(help="A file of item titles: a column of item ids, one of titles.")
]
Threshold = Annotated[
    float | None, typer.Option(help="Only ratings above it count; 0 if not given.")
]
MinProfileLength = Annotated[int, typer.Option(help="Leave out users with fewer items.")]
TimeFormat = Annotated[
    str | None, typer.Option(help="Unit of numbers (s, ms, us, ns), or a pattern like %d.%m.%Y.")
]
SkipBad = Annotated[
    bool, typer.Option("--skip-bad", help="Drop and count rows that cannot be used.")
]
Query = Annotated[
    str | None, typer.Option(help="Of a database: what to read, such as SELECT … FROM orders.")
]
Ties = Annotated[
    Literal["order", "strict"],
    typer.Option(help="Do items of one instant precede each other in the file's order?"),
]

Model = Annotated[Path, typer.Argument(help="A model folder that `surerec fit` made.")]
Users = Annotated[
    list[str] | None,
    typer.Option("--user", help="A user of the data; again for each member of a group."),
]
Together = Annotated[
    str | None,
    typer.Option(
        help="Promise it to a group: of what any, most or all take, to the worst served, a hit-any "
        "or hit-all; or how p-values are merged (mean, …). Every --history is then a member's."
    ),
]
GroupFile = Annotated[
    Path | None,
    typer.Option(help="Recommend to every group of a table with columns user_id and group."),
]
History = Annotated[
    list[str] | None,
    typer.Option(help="Items in the order taken: ids with commas, or the option again for each."),
]
Times = Annotated[
    list[str] | None,
    typer.Option(
        help="When each item of --history was consumed: dates or Unix times with commas, or the "
        "option again for each. They sort the history."
    ),
]
At = Annotated[
    str | None,
    typer.Option(
        help="The moment at which the question is asked, for a history without times: a date or a "
        "Unix time."
    ),
]
Histories = Annotated[
    Path | None,
    typer.Option(
        help="A file of people who need not be in the data: user, item and perhaps time. They are "
        "newcomers, whatever their ids."
    ),
]
Segment = Annotated[
    str | None,
    typer.Option(help="The segment of a new user, where thresholds are calibrated by segment."),
]
Confidence = Annotated[
    float | None,
    typer.Option(help="Confidence level between 0 and 1; 0.9 if neither it nor --k is given."),
]
Significance = Annotated[float | None, typer.Option(help="ε, instead of the confidence.")]
TopK = Annotated[
    int | None,
    typer.Option(
        "--k",
        help="The k best items, with the probability of a hit; with --confidence, the k best of "
        "the set. Such a list has no guarantee.",
    ),
]
Exclude = Annotated[list[str] | None, typer.Option(help="An item to leave out; may be repeated.")]
Precision = Annotated[
    float | None,
    typer.Option(
        help="For precision-…: the share of what is shown that must be taken, such as 0.3; "
        "--confidence is then that of this promise."
    ),
]
MinProbability = Annotated[
    float | None,
    typer.Option(help="Over users: only items taken at least so probably; voids the guarantee."),
]
Items = Annotated[
    Path | None,
    typer.Option(
        help="A file with one item id a line: only these may be recommended; voids the guarantee."
    ),
]
ItemList = Annotated[
    str | None,
    typer.Option(help="Only the items of this list of `surerec allow`, with a guarantee on them."),
]
Unknown = Annotated[
    Literal["check", "skip"],
    typer.Option(
        help="Unknown ids of a list are skipped: check refuses a list of which more than half is "
        "unknown, skip does not."
    ),
]
RecommenderName = Annotated[
    str | None,
    typer.Option(
        "--recommender",
        help="Which of the folder's recommenders; the first of those fitted last if not given.",
        autocompletion=_recommenders,
    ),
]
Format = Annotated[
    FormatName,
    typer.Option(help="A table for people; json, csv or parquet for programs."),
]

Engine = Annotated[
    Literal["memory", "spark"],
    typer.Option(help="Work in this machine's memory, or on Apache Spark (the extra spark)."),
]
Master = Annotated[
    str | None,
    typer.Option(help="The Spark master: local[4], spark://host:7077, yarn, k8s://…"),
]
ExecutorMemory = Annotated[
    str | None, typer.Option(help="Memory of a Spark executor, as Spark writes it: 4g.")
]


def chosen(reading: dict[str, Any]) -> dict[str, Any]:
    """Give the settings of reading that were given, as `read_interactions` takes them.

    Examples
    --------
    >>> chosen({"user": None, "time": "", "columns": "user,item,time"})
    {'time': '', 'columns': ['user', 'item', 'time']}
    """
    given = {name: value for name, value in reading.items() if value is not None}
    if "columns" in given:
        given["columns"] = given["columns"].split(",")
    return given


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
    """Read a file, or a data set by name; options that were not given keep their defaults."""
    given = chosen(reading)
    if is_address(data):
        database = source_name(data).rsplit("/", 1)[-1] or data.partition("://")[0]
        return read_interactions(data, name=database, **given)
    refuse_unknown_address(data)
    path = Path(data)
    if path.exists():
        return read_interactions(path, name=path.name, **given)
    if is_described(data):
        if given:
            option = next(iter(given)).replace("_", "-")
            raise InputError(f"--{option} says how a file is read, and {data} is made up.")
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


def read_options(fitted: Recommender, given: dict[str, Any]) -> dict[str, Any]:
    """Return the request options as :meth:`Recommender.recommend` takes them."""
    found = dict(given)
    if "items" in found:
        unknown = found.get("unknown", "check")
        found["items"] = read_known(found["items"], fitted.items_, unknown)
    if "exclude" in found:
        found["exclude"] = as_items(fitted, found["exclude"])
    return found


def as_horizon(value: float | None) -> float | int | None:
    """Take a whole number as a number of items; the command line knows only one kind of number.

    Examples
    --------
    >>> as_horizon(5.0), as_horizon(0.4)
    (5, 0.4)
    """
    return int(value) if value is not None and value >= 1 and value == int(value) else value


def as_groups(value: str | None) -> int | str | tuple[str, int] | None:
    """Take a number, the name of a column, or both with a comma between them.

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
    """Take each text as an id if it is one, else as ids with commas between them."""
    if given is None:
        return None
    found: list[str] = []
    for text in given:
        whole = text in fitted.items_ or "," not in text
        found += [text] if whole else [part.strip() for part in text.split(",") if part.strip()]
    return found


def as_times(given: list[str] | None) -> list[str] | None:
    """Split texts at commas into times.

    Examples
    --------
    >>> as_times(["2024-05-01,2024-05-02", "2024-05-03"])
    ['2024-05-01', '2024-05-02', '2024-05-03']
    """
    if given is None:
        return None
    return [part.strip() for text in given for part in text.split(",") if part.strip()]
