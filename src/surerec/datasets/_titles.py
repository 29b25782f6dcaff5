"""Titles of items, from each kind of file that data sets keep them in."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

import polars as pl

from surerec._columns import Columns
from surerec._inputs import damage_in_words, read_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import TypeAlias

    Pairs: TypeAlias = Iterator[tuple[str, str]]


def read_titles(path: Path) -> pl.DataFrame:
    """Read a file of titles; which kind it is shows in its name.

    Parameters
    ----------
    path : Path
        ``movies.csv``, ``movies.dat``, ``u.item``, ``movie_titles.csv`` or ``.txt`` (Netflix),
        ``products.parquet`` (Complete Journey), or a RecBole ``.item`` file.

    Returns
    -------
    polars.DataFrame
        Columns item_id and title, both strings.

    Raises
    ------
    InputError
        If the file is not of that kind.
    """
    pairs = _READERS.get(path.name.lower(), _recbole)
    with damage_in_words(path, f"is not a file of titles as {path.name} should be"):
        if path.suffix == ".parquet":
            return _products(path)
        return pl.DataFrame(
            list(pairs(_text(path))),
            schema={Columns.Item: pl.String, Columns.Title: pl.String},
            orient="row",
        )


def _products(path: Path) -> pl.DataFrame:
    """Say what a product is, the most exact that is known, and how large its package."""
    size = pl.format(" ({})", pl.col("package_size").str.strip_chars()).fill_null("")
    what = pl.coalesce("product_type", "product_category", "department")
    return pl.read_parquet(path).select(
        pl.col("product_id").cast(pl.String).alias(Columns.Item),
        (what.str.strip_chars() + size).alias(Columns.Title),
    )


def _text(path: Path) -> str:
    """Decode UTF-8, else Latin-1: accents in Latin-1 are no valid UTF-8, so the two never mix."""
    content = read_whole(path)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("latin-1")


def _lines(text: str) -> Iterator[str]:
    """Give lines that hold something; titles may hold separators that `splitlines` would cut at."""
    return (line for line in text.replace("\r\n", "\n").split("\n") if line)


def _movies_csv(text: str) -> Pairs:
    rows = csv.DictReader(io.StringIO(text), strict=True)
    return ((row["movieId"], row["title"]) for row in rows)


def _movies_dat(text: str) -> Pairs:
    # Genres come last; a title may hold "::" itself.
    parts = (line.split("::") for line in _lines(text))
    return ((item, "::".join([title, *rest])) for item, title, *rest, _ in parts)


def _u_item(text: str) -> Pairs:
    parts = (line.split("|", 2) for line in _lines(text))
    return ((item, title) for item, title, _ in parts)


def _netflix(text: str) -> Pairs:
    parts = (line.split(",", 2) for line in _lines(text))
    return ((item, title) for item, _, title in parts)


def _recbole(text: str) -> Pairs:
    """Read columns ``name:type``; the year, where there is one, goes back behind the title."""
    lines = _lines(text)
    names = [column.partition(":")[0] for column in next(lines, "").split("\t")]
    item, title = names.index("item_id"), names.index("movie_title")
    for line in lines:
        values = line.split("\t")
        year = dict(zip(names, values, strict=False)).get("release_year", "")
        yield values[item], f"{values[title]} ({year})" if year.isdecimal() else values[title]


_READERS: dict[str, Callable[[str], Pairs]] = {
    "movies.csv": _movies_csv,
    "movies.dat": _movies_dat,
    "u.item": _u_item,
    "movie_titles.csv": _netflix,
    "movie_titles.txt": _netflix,
}
