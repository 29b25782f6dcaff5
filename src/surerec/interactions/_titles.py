"""Titles of items: from a column of the interactions, another file, a frame or a mapping."""

from __future__ import annotations

import os
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
from surerec.interactions._sources import read_table
from surerec.interactions._tables import is_frame
from surerec.interactions._user_segments import as_text, by_id

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.interactions._ids import IdMap


@dataclass(frozen=True)
class TitlesRead:
    """How many items have a title, and what was skipped of the titles that were given.

    Examples
    --------
    >>> print(TitlesRead(items=100, titled=90, unknown=7))
    90 of 100 items have one; 7 ids of titles have no interactions and were skipped
    """

    items: int
    """Items with interactions."""
    titled: int
    """Those of them that have a title."""
    unknown: int = 0
    """Ids with a title and without any interaction."""

    def __str__(self) -> str:
        verb = "has" if self.titled == 1 else "have"
        found = [f"{self.titled:,} of {counted(self.items, 'items')} {verb} one"]
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
    given = by_id(source)
    if given is not None:
        if title is not None:
            raise InputError(
                f"title is {title!r}, but titles are given by item id: pass title= or titles=."
            )
        return given.rename({"id": Columns.Item, "label": Columns.Title})
    if is_address(source):
        raise InputError(
            f"{without_password(source)}: titles are not read from a database on their own. Select "
            "them in the query of the interactions, and pass --title-column NAME (title=)."
        )
    if isinstance(source, (str, os.PathLike)):
        source = check_path("titles", source)
        if not source.is_file():
            raise InputError(
                f"{source}: no such file of titles. The column of titles in the interactions "
                "themselves is named with --title-column NAME (title= in Python)."
            )
    elif not is_frame(source):
        raise InputError(
            f"titles is {shown(source)}; it must be a mapping of item ids to titles, a pandas "
            "Series, a frame of item_id and title, or the path of a file."
        )
    wanted = {"title": title, "genres": ""}
    try:
        table = read_table(source, {"item": item, **wanted})
    except InputError as error:
        if not item or f"no column {item!r}" not in str(error):
            raise
        table = read_table(source, {"item": None, **wanted})
    texts = {"item": Columns.Item, "title": Columns.Title, "genres": Columns.Genres}
    found = table.frame.rename(texts, strict=False)
    with damage_in_words(table.name, "titles and genres must be texts or numbers"):
        return found.with_columns(as_text(c) for c in found if c.name != Columns.Item)


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
    texts: dict[str, pl.Series] = {
        name: one_text_each(codes[known], titles[name].filter(known), None, len(items))
        for name in (Columns.Title, Columns.Genres)
        if name in titles.columns
    }
    n_titled = len(items) - texts[Columns.Title].null_count()
    return texts, TitlesRead(len(items), n_titled, len(unknown))


def one_text_each(
    codes: NDArray[np.integer],
    texts: pl.Series,
    times: NDArray[np.int64] | None,
    n_items: int,
) -> pl.Series:
    """Return by code the most frequent text of each item.

    Of equally frequent ones the latest counts: by time, then by the order of the rows.

    Examples
    --------
    >>> texts = pl.Series(["Lamp", "lamp", "Lamp", "Vase", "Vase, blue"])
    >>> one_text_each(np.array([0, 0, 0, 2, 2]), texts, None, 3).to_list()
    ['Lamp', None, 'Vase, blue']
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
        .unique("code", keep="last")
    )
    by_code = pl.DataFrame({"code": np.arange(n_items)})
    return by_code.join(best, on="code", how="left", maintain_order="left")["text"]
