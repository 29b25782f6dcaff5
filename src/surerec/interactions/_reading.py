"""From a file or frame to interactions."""

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
from surerec._inputs import damage_in_words
from surerec._threads import run_blocks
from surerec._words import shown
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


_OWN_FORMAT = (
    "say how times are written with --time-format, such as '%d.%m.%Y %H:%M' (time_format= in "
    "Python)"
)
_ADVICE = (
    "fix them, or drop such rows with skip_bad=True in Python or --skip-bad on the command line."
)


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
    """Read interactions (who took what when) from a file, a frame or a database.

    Parameters
    ----------
    source : path, sequence of paths, or frame
        A CSV, TSV, ``::``-separated, RecBole ``.inter``, Netflix-Prize or Parquet file, told apart
        by content (text in UTF-8, UTF-16 or Latin-1, perhaps gzipped); several such files, whose
        rows follow each other; a folder of Netflix-Prize files; a pandas, polars or Arrow frame; or
        the address of a database: ``postgresql://user@host/database``, ``sqlite:///shop.db``,
        ``duckdb:///shop.duckdb``.
    columns : sequence of str, optional
        Names of all columns, in order, of a text file that has no header.
    user, item, time, rating : str, optional
        The columns, where they do not have one of the usual names (``user_id``, ``userId``,
        ``movieId``, ``item``, ``timestamp``, ``date``, …). Ratings may be absent; times too, if
        ``time=""``: then the order of the rows counts.
    rating_above : float or None, default=0.0
        A row whose rating is above it is a consumption, others are left out; None keeps all.
    min_profile_length : int, default=1
        Users with fewer items are left out.
    time_format : str, optional
        The unit of numeric times ("s", "ms", "us", "ns") or the ``strptime`` pattern of dates,
        where it cannot be seen: a number's unit is told by its size, dates are read year first.
    skip_bad : bool, default=False
        Drop rows with cells that cannot be used instead of refusing the source.
    n_rows : int, optional
        Read only so many rows from the start.
    title : str, optional
        The column of item titles, in the source or, if `titles` is a file or frame, in that. An
        item with several titles has the most frequent, and of equally frequent ones the latest.
    titles : path, frame, mapping or pandas Series, optional
        Titles that are not in the source: a file or frame with a column of item ids and one of
        titles (``title``, ``name``, ``product_name``, ``description``, …), and perhaps one of
        ``genres``; or titles by item id, the index of a Series. Unknown ids are skipped.
    name, origin : str, optional
        What the data are, and where they came from, in words.
    query : str, optional
        For a database: what to read of it, in its own SQL. Rows of one instant keep their order, so
        let it say ``ORDER BY`` where that matters.

    Returns
    -------
    Interactions
        Profiles in time order. Rows of one instant keep the order of the source; of several rows
        of one user and item the first counts.

    Raises
    ------
    InputError
        One sentence that names the file, line and column, and what to do.

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
    wanted = {"user": user or None, "item": item or None, "time": time, "rating": rating}
    if titles is not None:
        titles = read_titles(titles, item=item, title=title)
    elif title:
        wanted["title"] = title
    if is_address(source):
        frame, where = read_query(source, query), without_password(source)
        table = concatenate([table_from_frame(frame, wanted, where)], n_rows)
        origin = origin or where
    elif query is not None:
        raise InputError("query is for databases: give the address of one, or leave query away.")
    else:
        refuse_unknown_address(source)
        table = read_table(source, wanted, columns, n_rows)
    cells = usable(table, time_format, advice=None if skip_bad else _ADVICE)
    kept = len(cells)
    source_name, n_found = table.name, len(table.frame)
    n_rows_found = n_found - len(table.blank)
    columns_read = {role: cells[role] for role in cells.columns}
    # Each column goes as soon as it is coded: a large source is held once, not twice.
    del table, cells
    n_below = _drop_below(columns_read, rating_above)
    if not len(columns_read["user"]):
        raise InputError(f"{source_name}: no row is left to use, of {n_found:,} read.")
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
        raise InputError(f"{source_name}: no user took {min_profile_length} items or more.")
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
    """Remove the ratings, and the rows whose rating is not above the threshold; count the rows."""
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
    """Return interactions as they are, and read those of a frame or file.

    Parameters
    ----------
    who : str
        Who asks, for the message.
    data : Interactions, frame or path
        As :func:`read_interactions` takes it, with columns of the usual names.

    Examples
    --------
    >>> as_interactions("fit", pl.DataFrame({"user": [1, 1], "sku": ["a", "b"], "ts": [1, 2]}))
    Interactions(1 users, 2 items, 2 rows)
    """
    if isinstance(data, Interactions):
        return data
    if is_address(data):
        raise InputError(
            f"{without_password(data)}: a database needs a query. Read it first with "
            "read_interactions(address, query=...)."
        )
    refuse_unknown_address(data)
    if isinstance(data, (str, os.PathLike)):
        path = check_path("data", data)
        if not path.exists():
            raise InputError(
                f"{path}: no such file to read Interactions from; a data set is fetched by its "
                "name with load_dataset."
            )
        return read_interactions(path, name=path.name)
    if is_frame(data):
        return read_interactions(data)
    raise InputError(
        f"{who} takes Interactions (see read_interactions), a pandas, polars or Arrow frame, or "
        f"the path of a file, not {shown(data)}."
    )


def usable(table: RawTable, time_format: str | None, *, advice: str | None) -> pl.DataFrame:
    """Convert the cells, and drop blank rows and bad ones; with an advice, refuse bad ones."""
    raw, name = table.frame, table.name

    def convert(role: str) -> pl.Series:
        return _converted(raw[role], role, time_format, f"{name}, the {role} column")

    cells = pl.DataFrame(dict(zip(raw.columns, run_blocks(convert, raw.columns), strict=True)))
    lacking = {role: cells[role].is_null() for role in cells.columns if role != "title"}
    if not (
        len(table.blank) or len(table.malformed) or any(each.any() for each in lacking.values())
    ):
        return cells
    bad, blank = np.zeros((2, len(cells)), dtype=bool)
    blank[table.blank] = bad[table.malformed] = True
    problems = {"malformed": bad.copy()}
    for role, each in lacking.items():
        problems[role] = each.to_numpy() & ~blank & ~problems["malformed"]
        bad |= problems[role]
    if advice is not None and bad.any():
        complaints = []
        for role, wrong in problems.items():
            if wrong.any():
                first = int(np.argmax(wrong))
                # As it is stored: a time beyond Python's calendar would be a panic of polars.
                cell = None if role == "malformed" else raw[role].to_physical()[first]
                complaints.append(_complaint(role, int(wrong.sum()), table.place(first), cell))
        if "time" in lacking and lacking["time"].all():
            advice = f"{_OWN_FORMAT}, {advice}"
        raise InputError(f"{name}: {'; '.join(complaints)}; {advice}")
    return cells.filter(~(bad | blank))


def _converted(cells: pl.Series, role: str, time_format: str | None, where: str) -> pl.Series:
    with damage_in_words(where, "cannot be converted"):
        if role == "time":
            return read_times(cells, time_format, where)
        if role == "title":
            return as_text(cells)
        return (read_ids if role in ("user", "item") else read_ratings)(cells, where)


def _complaint(role: str, n_wrong: int, place: str, cell: Any) -> str:
    rows = f"{n_wrong:,} row{'s' if n_wrong > 1 else ''}"
    if role == "malformed":
        return f"{rows} with too many fields (first: {place})"
    if cell is None or str(cell).strip() == "":
        return f"{rows} without {'an' if role == 'item' else 'a'} {role} (first: {place})"
    negative = " or a negative one" if role == "time" else ""
    return f"{rows} with an unreadable {role}{negative} (first: {place}, {str(cell)[:40]!r})"


def _check_settings(
    columns: object,
    rating_above: object,
    min_profile_length: object,
    n_rows: object,
    **texts: object,
) -> None:
    """Refuse settings of reading that are not what they must be."""
    if columns is not None:
        for column in check_list("columns", columns, "names of columns"):
            check_text("A name of columns", column)
    for name, text in texts.items():
        check_optional_text(name, text)
    if rating_above is not None:
        check_number("rating_above", rating_above, -math.inf, math.inf, "a number, or None")
    check_whole("min_profile_length", min_profile_length)
    if n_rows is not None:
        check_whole("n_rows", n_rows, lowest=0)
