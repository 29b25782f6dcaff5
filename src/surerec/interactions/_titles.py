"""Titles of items: from a column of the interactions, another file, a frame or a mapping."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from surerec._arguments import check_path
from surerec._columns import Columns
from surerec._inputs import damage_in_words
from surerec._words import counted, shown
from surerec.errors import InputError
from surerec.interactions._database import is_address, without_password
from surerec.interactions._sources import concatenate, read_tables
from surerec.interactions._user_groups import as_labels, as_text, is_pandas_series

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.interactions._ids import IdMap


@dataclass(frozen=True)
class TitlesRead:
    """How many items have a title, and what was skipped of the titles that were given.

    Examples
    --------
    >>> print(TitlesRead(items=100, titled=90, several=2, unknown=7))
    90 of 100 items have one; 2 have several, of which the most frequent is used; 7 ids of titles
    have no interactions and were skipped
    """

    items: int
    """Items with interactions."""
    titled: int
    """Those of them that have a title."""
    several: int = 0
    """Those with several titles, of which the most frequent is used, or the latest of these."""
    unknown: int = 0
    """Ids with a title and without any interaction."""

    @classmethod
    def of(cls, each: pl.DataFrame, unknown: int = 0) -> TitlesRead:
        """Count what :func:`one_text_each` found."""
        titled = int((each["n_texts"] > 0).sum())
        return cls(len(each), titled, int((each["n_texts"] > 1).sum()), unknown)

    def __str__(self) -> str:
        verb = "has" if self.titled == 1 else "have"
        found = [f"{self.titled:,} of {counted(self.items, 'items')} {verb} one"]
        if self.several:
            verb = "has" if self.several == 1 else "have"
            found.append(f"{self.several:,} {verb} several, of which the most frequent is used")
        if self.unknown:
            verbs = "has no interactions and was" if self.unknown == 1 else (
                "have no interactions and were"
            )  # fmt: skip
            found.append(f"{counted(self.unknown, 'ids')} of titles {verbs} skipped")
        return "; ".join(found)


def read_titles(source: Any, *, item: str | None = None, title: str | None = None) -> pl.DataFrame:
    """Read titles by item id.

    Parameters
    ----------
    source : path, frame, mapping or pandas Series
        A CSV or Parquet file, or a pandas, polars or Arrow frame, with a column of item ids and one
        of titles, and perhaps one of ``genres``; or titles by item id, the index of a Series.
    item, title : str, optional
        The columns, where they do not have one of the usual names. A table without the column
        `item` is searched for a usual name, as interactions may have another one.

    Returns
    -------
    polars.DataFrame
        ``item_id`` as found, ``title`` and perhaps ``genres`` as text.

    Examples
    --------
    >>> read_titles(pl.DataFrame({"sku": [7], "product_name": ["Lamp"]})).to_dicts()
    [{'item_id': 7, 'title': 'Lamp'}]
    """
    if isinstance(source, Mapping) or is_pandas_series(source):
        if title is not None:
            raise InputError(
                f"title is {title!r}, but titles are given by item id: pass title= or titles=."
            )
        ids, titles = [one for one, _ in source.items()], [text for _, text in source.items()]
        found = {Columns.Item: pl.Series(ids, dtype=pl.Object), Columns.Title: as_labels(titles)}
        return pl.DataFrame(found)
    frame, name = _table(source, item, title)
    texts = {"title": Columns.Title, "genres": Columns.Genres}
    with damage_in_words(name, "titles and genres must be texts or numbers"):
        columns = {texts[role]: as_text(frame[role]) for role in texts if role in frame.columns}
    return pl.DataFrame({Columns.Item: frame["item"], **columns})


def _table(source: Any, item: str | None, title: str | None) -> tuple[pl.DataFrame, str]:
    """Return the columns of items, titles and genres, and the name of the source."""
    if is_address(source):
        raise InputError(
            f"{without_password(source)}: titles are not read from a database on their own. Select "
            "them in the query of the interactions, and name their column: --title NAME (title=)."
        )
    if isinstance(source, (str, os.PathLike)):
        source = check_path("titles", source)
        if not source.is_file():
            raise InputError(
                f"{source}: no such file of titles. The column of titles in the interactions "
                "themselves is named with --title NAME (title= in Python)."
            )
    elif isinstance(source, pl.LazyFrame):
        source = source.collect()
    elif not (hasattr(source, "columns") or hasattr(source, "__arrow_c_stream__")):
        raise InputError(
            f"titles is {shown(source)}; it must be a mapping of item ids to titles, a pandas "
            "Series, a frame of item_id and title, or the path of a file."
        )
    names = [item, None] if item else [None]
    for place, name in enumerate(names, start=1):
        try:
            table = concatenate(
                read_tables(source, {"item": name, "title": title, "genres": ""}, None)
            )
        except InputError as error:
            if "is data, not names of columns" in str(error):
                raise InputError(
                    f"{source}: titles need a first line with names of columns, such as "
                    "item_id,title."
                ) from None
            if place == len(names) or f"no column {name!r}" not in str(error):
                raise
            continue
        break
    return table.frame, table.name


def titles_by_code(titles: pl.DataFrame, items: IdMap) -> tuple[dict[str, pl.Series], TitlesRead]:
    """Return the texts of each item by code, null where there is none, and how many there are.

    Parameters
    ----------
    titles : polars.DataFrame
        As :func:`read_titles` returns it.
    items : IdMap
        The items with interactions. Ids match by its rules: "12346.0" is 12346.
    """
    ids = titles[Columns.Item]
    if ids.dtype in (pl.Categorical, pl.Enum):
        ids = ids.cast(pl.String)
    if ids.dtype == pl.String:
        ids = ids.str.strip_chars()
    codes = items.codes(ids)
    named = titles[Columns.Title].is_not_null().to_numpy()
    unknown = {value for value in ids.filter((codes < 0) & named) if value is not None}
    known = codes >= 0
    found = {
        name: one_text_each(codes[known], titles[name].filter(known), None, len(items))
        for name in (Columns.Title, Columns.Genres)
        if name in titles.columns
    }
    texts: dict[str, pl.Series] = {name: each["text"] for name, each in found.items()}
    return texts, TitlesRead.of(found[Columns.Title], len(unknown))


def one_text_each(
    codes: NDArray[np.integer],
    texts: pl.Series,
    times: NDArray[np.int64] | None,
    n_items: int,
) -> pl.DataFrame:
    """Return by code the most frequent ``text`` of each item, and ``n_texts`` that differ.

    Of equally frequent ones the latest counts: by time, then by the order of the rows.

    Examples
    --------
    >>> texts = pl.Series(["Lamp", "lamp", "Lamp", "Vase", "Vase, blue"])
    >>> one_text_each(np.array([0, 0, 0, 2, 2]), texts, None, 3).rows()
    [('Lamp', 2), (None, 0), ('Vase, blue', 2)]
    """
    rows = pl.DataFrame({"code": codes.astype(np.int64), "text": texts})
    if times is not None:
        rows = rows.with_columns(time=times).sort("time", maintain_order=True).drop("time")
    best = (
        rows.with_row_index("place")
        .filter(pl.col("text").is_not_null())
        .group_by("code", "text")
        .agg(pl.len(), pl.col("place").max())
        .sort("len", "place")
        .group_by("code", maintain_order=True)
        .agg(pl.col("text").last(), pl.len().alias("n_texts"))
    )
    by_code = pl.DataFrame({"code": np.arange(n_items)}).join(
        best, on="code", how="left", maintain_order="left"
    )
    return by_code.select("text", pl.col("n_texts").fill_null(0))
