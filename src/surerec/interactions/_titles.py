"""Item titles: from a column of the interactions, another file, a frame or a mapping."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from surerec._arguments import check_path
from surerec._columns import Columns
from surerec._inputs import as_input_error
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
    """Number of items with a title, and of titles that were skipped.

    Examples
    --------
    >>> print(TitlesRead(items=100, titled=90, unknown=7))
    90 of 100 items have a title; 7 titles have no interactions and were skipped
    """

    items: int
    """Items with interactions."""
    titled: int
    """Items with interactions and a title."""
    unknown: int = 0
    """Ids with a title but without interactions."""

    def __str__(self) -> str:
        verb = "has" if self.titled == 1 else "have"
        found = [f"{self.titled:,} of {counted(self.items, 'items')} {verb} a title"]
        if self.unknown:
            verbs = "has no interactions and was" if self.unknown == 1 else (
                "have no interactions and were"
            )  # fmt: skip
            found.append(f"{counted(self.unknown, 'titles')} {verbs} skipped")
        return "; ".join(found)


def read_titles(source: Any, *, item: str | None = None, title: str | None = None) -> pl.DataFrame:
    """Read titles by item id.

    Parameters
    ----------
    source : path, frame, mapping or pandas Series
        A CSV or Parquet file, or a pandas, polars or Arrow frame, with a column of item ids, one of
        titles and optionally ``genres``; or a mapping or Series of titles by item id.
    item, title : str, optional
        Column names, if they are not standard. If the table has no column `item`, standard names
        are used, because the interactions may have another name for it.

    Returns
    -------
    polars.DataFrame
        ``item_id`` unchanged, ``title`` and optionally ``genres`` as text.

    Examples
    --------
    >>> read_titles(pl.DataFrame({"sku": [7], "product_name": ["Lamp"]})).to_dicts()
    [{'item_id': 7, 'title': 'Lamp'}]
    """
    given = by_id(source)
    if given is not None:
        if title is not None:
            raise InputError(
                f"title={title!r} names a column, but titles= is a mapping. Leave out title=."
            )
        return given.rename({"id": Columns.Item, "label": Columns.Title})
    if is_address(source):
        raise InputError(
            f"{without_password(source)}: titles cannot be read from a database separately. Select "
            'them in the query of the interactions, and pass title="NAME".'
        )
    if isinstance(source, (str, os.PathLike)):
        source = check_path("titles", source)
        if not source.is_file():
            raise InputError(
                f"{source}: no such file. For titles in a column of the interactions, pass "
                'title="NAME".'
            )
    elif not is_frame(source):
        raise InputError(
            f"titles is {shown(source)}; it must be a mapping of item ids to titles, a pandas "
            "Series, a frame of item_id and title, or a path."
        )
    requested = {"title": title, "genres": ""}
    try:
        table = read_table(source, {"item": item, **requested})
    except InputError as error:
        if not item or f"no column {item!r}" not in str(error):
            raise
        table = read_table(source, {"item": None, **requested})
    texts = {"item": Columns.Item, "title": Columns.Title, "genres": Columns.Genres}
    found = table.frame.rename(texts, strict=False)
    with as_input_error(table.name, "titles and genres must be text or numbers"):
        return found.with_columns(as_text(c) for c in found if c.name != Columns.Item)


def titles_by_code(titles: pl.DataFrame, items: IdMap) -> tuple[dict[str, pl.Series], TitlesRead]:
    """Return the texts of each item by code, null where unknown, and their numbers.

    Parameters
    ----------
    titles : polars.DataFrame
        Result of :func:`read_titles`.
    items : IdMap
        Items with interactions, which also match "12346.0" to 12346.
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
    codes: NDArray[np.integer], texts: pl.Series, times: NDArray[np.int64] | None, n_items: int
) -> pl.Series:
    """Return the most frequent text of each item by code.

    Ties go to the latest text by time, then by row.

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
