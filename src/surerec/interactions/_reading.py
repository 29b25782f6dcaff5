"""Reading of interactions from files, frames and databases."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from surerec._arguments import (
    check_flag,
    check_list,
    check_number,
    check_optional_text,
    check_path,
    check_text,
    check_whole,
)
from surerec._inputs import as_input_error
from surerec._threads import run_blocks
from surerec._words import counted, shown
from surerec.errors import InputError
from surerec.interactions._cells import read_ids, read_ratings, read_times
from surerec.interactions._database import (
    is_address,
    read_query,
    refuse_unknown_address,
    without_password,
)
from surerec.interactions._ids import IdMap, encode
from surerec.interactions._interactions import Interactions, RowsRead
from surerec.interactions._profiles import build_profiles
from surerec.interactions._sources import concatenate, read_table
from surerec.interactions._tables import RawTable, is_frame, table_from_frame
from surerec.interactions._titles import TitlesRead, one_text_each, read_titles
from surerec.interactions._user_segments import as_text

if TYPE_CHECKING:
    from collections.abc import Sequence


_FIX = "Fix it, or pass skip_bad=True."
_FIX_FORMAT = "Pass time_format=, such as '%d.%m.%Y %H:%M'."


def read_interactions(
    source: Any,
    *,
    columns: Sequence[str] | None = None,
    user: str | None = None,
    item: str | None = None,
    time: str | None = None,
    rating: str | None = None,
    title: str | None = None,
    rating_above: float | None = 0.0,
    min_profile_length: int = 1,
    time_format: str | None = None,
    skip_bad: bool = False,
    n_rows: int | None = None,
    titles: Any = None,
    name: str | None = None,
    origin: str | None = None,
    query: str | None = None,
) -> Interactions:
    """Read interactions (user, item, time) from files, a frame or a database.

    Parameters
    ----------
    source : path, sequence of paths, or frame
        A CSV, TSV, ``::``-separated, RecBole ``.inter``, Netflix-Prize or Parquet file. The format
        is detected from the content; text may be UTF-8, UTF-16 or Latin-1, optionally gzipped.
        Or several files, which are concatenated; a folder of Netflix-Prize files; a pandas, polars
        or Arrow frame; or a database: ``postgresql://user@host/database``, ``sqlite:///shop.db``
        or ``duckdb:///shop.duckdb``.
    columns : sequence of str, optional
        Names of all columns, in order, of a text file without a header.
    user, item, time, rating : str, optional
        Column names, if they are not standard (``user_id``, ``userId``, ``movieId``, ``item``,
        ``timestamp``, ``date``, …). Ratings are optional. With ``time=""`` times are too: then the
        rows must be in time order.
    rating_above : float or None, default=0.0
        Only rows with a higher rating are used; None keeps all rows.
    min_profile_length : int, default=1
        Minimum number of items per user; other users are left out.
    time_format : str, optional
        Unit of numeric times ("s", "ms", "us", "ns") or ``strptime`` pattern of dates. By default
        the unit is detected from the size of the numbers, and dates are read year first.
    skip_bad : bool, default=False
        Drop rows with invalid cells instead of raising InputError.
    n_rows : int, optional
        Read only the first rows.
    title : str, optional
        Column of item titles, in `titles` if that is a file or frame, else in the source. An item
        with several titles gets the most frequent one; ties go to the latest.
    titles : path, frame, mapping or pandas Series, optional
        Titles from another source: a file or frame with a column of item ids, one of titles
        (``title``, ``name``, ``product_name``, ``description``, …) and optionally ``genres``; or
        a mapping or Series of titles by item id. Unknown ids are skipped.
    name, origin : str, optional
        Name and origin of the data, for display.
    query : str, optional
        SQL query, for database sources. Rows with equal times keep their order, so add ``ORDER BY``
        if that matters.

    Returns
    -------
    Interactions
        Profiles in time order. Rows with equal times keep the order of the source. For repeated
        rows of one user and item, only the first is used.

    Raises
    ------
    InputError
        If the source is invalid; the message has the file, the line, the value and a fix.

    Examples
    --------
    >>> import polars as pl
    >>> read_interactions(pl.DataFrame({"userId": [1, 1], "movieId": [5, 6], "date": [10, 20]}))
    Interactions(1 users, 2 items, 2 rows)
    """
    _check_settings(
        columns, rating_above, min_profile_length, n_rows, user=user, item=item, time=time,
        rating=rating, title=title, time_format=time_format, name=name, origin=origin, query=query,
    )  # fmt: skip
    check_flag("skip_bad", skip_bad)
    requested = {"user": user or None, "item": item or None, "time": time, "rating": rating}
    if titles is not None:
        titles = read_titles(titles, item=item, title=title)
    elif title:
        requested["title"] = title
    if is_address(source):
        frame, where = read_query(source, query), without_password(source)
        table = concatenate([table_from_frame(frame, requested, where)], n_rows)
        origin = origin or where
    elif query is not None:
        raise InputError("query= is for databases. Pass a database address, or leave out query=.")
    else:
        refuse_unknown_address(source)
        table = read_table(source, requested, columns, n_rows)
    cells = usable(table, time_format, fix=None if skip_bad else _FIX)
    kept = len(cells)
    source_name, n_found = table.name, len(table.frame)
    n_rows_found = n_found - len(table.blank)
    columns_read = {role: cells[role] for role in cells.columns}
    # Columns are freed as soon as they are encoded, so that a large source is in memory once.
    del table, cells
    n_below = _drop_below(columns_read, rating_above)
    if not len(columns_read["user"]):
        raise InputError(f"{source_name}: none of {n_found:,} rows is usable. Check rating_above=.")
    (user_ids, user_codes), (item_ids, item_codes) = run_blocks(
        encode, [columns_read.pop("user"), columns_read.pop("item")]
    )
    times = np.zeros(len(user_codes), dtype=np.int64)
    if "time" in columns_read:
        times = columns_read.pop("time").to_numpy()
    texts = columns_read.pop("title", None)
    profiles = build_profiles(
        user_codes, item_codes, times, len(user_ids), len(item_ids), min_length=min_profile_length
    )
    if not len(profiles.items):
        raise InputError(
            f"{source_name}: no user consumed {min_profile_length} items or more. Lower "
            "min_profile_length=."
        )
    found = Interactions(
        IdMap(user_ids.gather(profiles.users_kept), noun="user"),
        IdMap(item_ids.gather(profiles.items_kept), noun="item"),
        profiles.offsets,
        profiles.items,
        profiles.times,
        titles=titles,
        name=name,
        origin=origin,
        rows_read=RowsRead(
            rows=n_rows_found,
            bad=n_rows_found - kept,
            below_threshold=n_below,
            repeats=profiles.n_repeats,
            short_profiles=profiles.n_short,
        ),
    )
    if texts is not None:
        each = one_text_each(item_codes, texts, times, len(item_ids))[profiles.items_kept]
        found.titles = each
        found.titles_read = TitlesRead(len(each), len(each) - each.null_count())
    return found


def _drop_below(columns: dict[str, pl.Series], rating_above: float | None) -> int:
    """Drop the ratings and the rows with a rating not above the threshold; return their number."""
    ratings = columns.pop("rating", None)
    if rating_above is None or ratings is None:
        return 0
    above = ratings > rating_above
    n_below = len(above) - int(above.sum())
    if n_below:
        for role, column in columns.items():
            columns[role] = column.filter(above)
    return n_below


def as_interactions(who: str, data: Any) -> Interactions:
    """Return interactions unchanged, or read them from a frame or file.

    Parameters
    ----------
    who : str
        Name of the calling method, for messages.
    data : Interactions, frame or path
        A source of :func:`read_interactions` with standard column names.

    Examples
    --------
    >>> as_interactions("fit", pl.DataFrame({"user": [1, 1], "sku": ["a", "b"], "ts": [1, 2]}))
    Interactions(1 users, 2 items, 2 rows)
    """
    if isinstance(data, Interactions):
        return data
    if is_address(data):
        raise InputError(
            f"{without_password(data)}: a database needs a query. Use "
            "read_interactions(address, query=...)."
        )
    refuse_unknown_address(data)
    if isinstance(data, (str, os.PathLike)):
        path = check_path("data", data)
        if not path.exists():
            raise InputError(f"{path}: no such file. Use load_dataset to load a data set by name.")
        return read_interactions(path, name=path.name)
    if is_frame(data):
        return read_interactions(data)
    raise InputError(
        f"{who} got {shown(data)}. Pass Interactions (see read_interactions), a pandas, polars or "
        "Arrow frame, or a path."
    )


def usable(table: RawTable, time_format: str | None, *, fix: str | None) -> pl.DataFrame:
    """Convert the cells and drop blank rows; drop invalid rows, or raise InputError with a fix."""
    raw, name = table.frame, table.name

    def convert(role: str) -> pl.Series:
        return _converted(raw[role], role, time_format, f"{name}, the {role} column")

    cells = pl.DataFrame(dict(zip(raw.columns, run_blocks(convert, raw.columns), strict=True)))
    missing = {role: cells[role].is_null() for role in cells.columns if role != "title"}
    if not (
        len(table.blank) or len(table.malformed) or any(each.any() for each in missing.values())
    ):
        return cells
    bad, blank = np.zeros((2, len(cells)), dtype=bool)
    blank[table.blank] = bad[table.malformed] = True
    problems = {"malformed": bad.copy()}
    for role, each in missing.items():
        problems[role] = each.to_numpy() & ~blank & ~problems["malformed"]
        bad |= problems[role]
    if fix is not None and bad.any():
        found = []
        for role, wrong in problems.items():
            if wrong.any():
                first = int(np.argmax(wrong))
                # The stored number: polars panics on a time beyond Python's calendar.
                cell = None if role == "malformed" else raw[role].to_physical()[first]
                rows = counted(int(wrong.sum()), "rows")
                found.append(f"{table.place(first)}: {_problem(role, cell)} ({rows})")
        if "time" in missing and missing["time"].all():
            fix = _FIX_FORMAT
        raise InputError(f"{'; '.join(found)}. {fix}")
    return cells.filter(~(bad | blank))


def _converted(cells: pl.Series, role: str, time_format: str | None, where: str) -> pl.Series:
    with as_input_error(where, "cannot be converted", "Check the type of the column."):
        if role == "time":
            return read_times(cells, time_format, where)
        if role == "title":
            return as_text(cells)
        return (read_ids if role in ("user", "item") else read_ratings)(cells, where)


def _problem(role: str, cell: Any) -> str:
    text = str(cell).strip()
    if role == "malformed":
        return "too many fields"
    if cell is None or not text:
        return f"no {role}"
    if role == "time" and text.startswith("-"):
        return f"negative time {text[:40]!r}"
    return f"cannot parse {role} {str(cell)[:40]!r}"


def _check_settings(
    columns: object,
    rating_above: object,
    min_profile_length: object,
    n_rows: object,
    **texts: object,
) -> None:
    """Check the types of the options of reading."""
    if columns is not None:
        for column in check_list("columns", columns, "column names"):
            check_text("A column name", column)
    for name, text in texts.items():
        check_optional_text(name, text)
    if rating_above is not None:
        check_number("rating_above", rating_above, -math.inf, math.inf, "a number, or None")
    check_whole("min_profile_length", min_profile_length)
    if n_rows is not None:
        check_whole("n_rows", n_rows, lowest=0)
