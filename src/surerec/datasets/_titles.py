"""Titles and genres of items, read from the files of the data sets."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Final

import polars as pl

from surerec._columns import Columns
from surerec._inputs import as_input_error, read_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path
    from typing import TypeAlias

    Rows: TypeAlias = Iterator[tuple[str, str, str | None]]

# In the order of MovieLens' u.genre.
_U_GENRES: Final = (
    "unknown", "Action", "Adventure", "Animation", "Children's", "Comedy", "Crime", "Documentary",
    "Drama", "Fantasy", "Film-Noir", "Horror", "Musical", "Mystery", "Romance", "Sci-Fi",
    "Thriller", "War", "Western",
)  # fmt: skip
_NO_GENRE: Final = ("unknown", "(no genres listed)")


def read_titles(path: Path) -> pl.DataFrame:
    """Read a file of titles; its name determines the format.

    Parameters
    ----------
    path : Path
        ``movies.csv``, ``movies.dat``, ``u.item``, ``movie_titles.csv`` or ``.txt`` (Netflix),
        ``products.parquet`` (Complete Journey), or a RecBole ``.item`` file.

    Returns
    -------
    polars.DataFrame
        String columns item_id, title and, if the file has any, genres.

    Raises
    ------
    InputError
        If the file has another format.
    """
    rows = _READERS.get(path.name.lower(), _recbole)
    with as_input_error(path, f"is not a file of titles in the format of {path.name}"):
        if path.suffix == ".parquet":
            return _products(path)
        columns = (Columns.Item, Columns.Title, Columns.Genres)
        found = pl.DataFrame(
            list(rows(_text(path))), schema=dict.fromkeys(columns, pl.String), orient="row"
        )
    has_genres = found[Columns.Genres].null_count() < len(found)
    return found if has_genres else found.drop(Columns.Genres)


def _products(path: Path) -> pl.DataFrame:
    """Read products: the most specific type, with the package size, and the department."""
    size = pl.format(" ({})", pl.col("package_size").str.strip_chars()).fill_null("")
    what = pl.coalesce("product_type", "product_category", "department")
    return pl.read_parquet(path, glob=False).select(
        pl.col("product_id").cast(pl.String).alias(Columns.Item),
        (what.str.strip_chars() + size).alias(Columns.Title),
        pl.col("department").str.strip_chars().str.to_titlecase().alias(Columns.Genres),
    )


def _text(path: Path) -> str:
    """Decode UTF-8, else Latin-1, whose accents are never valid UTF-8."""
    content = read_whole(path)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("latin-1")


def _lines(text: str) -> Iterator[str]:
    """Return the non-empty lines; titles may contain other separators of `splitlines`."""
    return (line for line in text.replace("\r\n", "\n").split("\n") if line)


def _genres(names: Iterable[str]) -> str | None:
    known = [name for name in names if name and name.lower() not in _NO_GENRE]
    return ", ".join(known) or None


def _movies_csv(text: str) -> Rows:
    rows = csv.DictReader(io.StringIO(text), strict=True)
    return (
        (row["movieId"], row["title"], _genres((row.get("genres") or "").split("|")))
        for row in rows
    )


def _movies_dat(text: str) -> Rows:
    # Genres come last; a title may contain "::".
    parts = (line.split("::") for line in _lines(text))
    return (
        (item, "::".join([title, *rest]), _genres(genres.split("|")))
        for item, title, *rest, genres in parts
    )


def _u_item(text: str) -> Rows:
    """Read the flags of the genres, which follow title, two dates and a URL."""
    for line in _lines(text):
        item, title, *more = line.split("|")
        names = (name for name, flag in zip(_U_GENRES, more[3:], strict=False) if flag == "1")
        yield item, title, _genres(names)


def _netflix(text: str) -> Rows:
    parts = (line.split(",", 2) for line in _lines(text))
    return ((item, title, None) for item, _, title in parts)


def _recbole(text: str) -> Rows:
    """Read columns ``name:type``; append the year, if there is one, to the title."""
    lines = _lines(text)
    names = [column.partition(":")[0] for column in next(lines, "").split("\t")]
    item, title = names.index("item_id"), names.index("movie_title")
    for line in lines:
        values = line.split("\t")
        row = dict(zip(names, values, strict=False))
        year = row.get("release_year", "")
        genres = _genres((row.get("genre") or row.get("class") or "").split())
        full = f"{values[title]} ({year})" if year.isdecimal() else values[title]
        yield values[item], full, genres


_READERS: dict[str, Callable[[str], Rows]] = {
    "movies.csv": _movies_csv,
    "movies.dat": _movies_dat,
    "u.item": _u_item,
    "movie_titles.csv": _netflix,
    "movie_titles.txt": _netflix,
}
