"""One history from a request: item ids, optional times and the moment of the request."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import polars as pl

from surerec._arguments import check_list
from surerec._words import shown
from surerec.errors import InputError
from surerec.interactions._cells import read_times
from surerec.interactions._tables import is_frame, table_from_frame

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_PAIR: Final = 2
_MUST: Final = "it must be a date such as 2024-05-01T09:30, or seconds since 1970"
_COLUMNS: Final = {"user": "", "item": None, "time": ""}


class History(NamedTuple):
    """The items of one user in time order.

    Examples
    --------
    >>> History.read([50, 172], ["2024-05-02", "2024-05-01"]).items
    [172, 50]
    """

    items: list[Any]
    times: NDArray[np.int64] | None = None
    """Time of each item in microseconds since 1970; None if no times were passed."""
    moment: int | None = None
    """Moment of the request in the same unit, if passed."""

    @classmethod
    def read(cls, history: Any, times: Any = None, at: Any = None) -> History:
        """Read a history, and sort it by its times.

        Parameters
        ----------
        history : list of ids, list of (id, time) pairs, or frame
            Consumed items; a frame has a column of items and optionally one of times.
        times : list, array or series, optional
            One time for each item: datetimes, dates, ISO text or Unix times, read as
            :func:`surerec.read_interactions` reads them. Items with equal times keep their order.
        at : datetime, date, text or number, optional
            Moment of the request. Without times, it is used as the time of every item.

        Examples
        --------
        >>> History.read([(50, 20), (172, 10)]).times.tolist()
        [10000000, 20000000]
        """
        items, found = _items(history)
        if found is not None and times is not None:
            raise InputError("history= has its own times. Leave out times=.")
        found = times if found is None else found
        moment = None if at is None else read_time("at", at)
        if found is None:
            then = None if moment is None else np.full(len(items), moment)
            return cls(items, then, moment)
        then = _read("times", found)
        if len(then) != len(items):
            raise InputError(
                f"times has {len(then):,} values and history has {len(items):,} items. Pass one "
                "time for each item."
            )
        if len(then):
            check_moment(int(then.max()), moment)
        order = np.argsort(then, kind="stable")
        return cls([items[place] for place in order], then[order], moment)


def read_time(name: str, value: Any) -> int:
    """Return one time in microseconds since 1970.

    Examples
    --------
    >>> read_time("at", "1970-01-02")
    86400000000
    """
    return int(_read(name, [value], is_one=True)[0])


def check_moment(latest: int, moment: int | None, whose: str = "the history") -> None:
    """Raise InputError if a moment is before the last time of a history."""
    if moment is not None and moment < latest:
        raise InputError(
            f"at is {_shown(moment)}, before the last time of {whose}, {_shown(latest)}. "
            "Remove later items, or pass a later moment."
        )


def _shown(time: int) -> str:
    return str(np.datetime64(time, "us").astype("datetime64[s]"))


def _items(history: Any) -> tuple[list[Any], Any]:
    """Return the item ids, and the times if the history includes them."""
    if is_frame(history):
        table = table_from_frame(history, _COLUMNS, "history")
        if "user" in table.frame.columns and table.frame["user"].n_unique() > 1:
            raise InputError(
                "history has rows of several users. Pass it to recommend_many as histories=."
            )
        times = table.frame["time"] if "time" in table.frame.columns else None
        return table.frame["item"].to_list(), times
    ids = check_list("history", history, "item ids")
    n_pairs = sum(isinstance(each, (tuple, list)) and len(each) == _PAIR for each in ids)
    if not n_pairs:
        return ids, None
    if n_pairs < len(ids):
        raise InputError(
            f"history has {n_pairs:,} (item, time) pairs among {len(ids):,} entries. Pass only "
            "pairs, or only items."
        )
    return [item for item, _ in ids], [time for _, time in ids]


def _read(name: str, values: Any, *, is_one: bool = False) -> NDArray[np.int64]:
    """Return times in microseconds since 1970, or raise InputError for the first invalid one."""
    try:
        column = _column(name, values)
        found = read_times(column, None, name)
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
        raise InputError(
            f"{name} is {shown(values[0] if is_one else values)}; "
            f"{_MUST if is_one else 'it must be a list of dates, or of Unix times'}."
        ) from None
    if found.null_count():
        first = int(np.argmax(found.is_null().to_numpy()))
        which = name if is_one else f"{name}[{first}]"
        raise InputError(f"{which} is {shown(list(values)[first])}; {_MUST}.")
    return found.to_numpy()


def _column(name: str, values: Any) -> pl.Series:
    if isinstance(values, pl.Series):
        return values
    if hasattr(values, "to_numpy"):  # pandas or Arrow
        values = values.to_numpy()
    if not isinstance(values, np.ndarray) or values.dtype.kind == "O":
        values = _plain(check_list(name, values, "times"))
    if isinstance(values, np.ndarray) and values.dtype.kind == "M":
        values = values.astype("datetime64[us]")
    return pl.Series(values, strict=True)


def _plain(values: list[Any]) -> Sequence[Any] | NDArray[Any]:
    """Return times of one type: datetimes in UTC without a time zone."""
    if any(isinstance(value, np.datetime64) for value in values):
        return np.array(values, dtype="datetime64[us]")
    return [
        value.astimezone(UTC).replace(tzinfo=None)
        if isinstance(value, datetime) and value.tzinfo is not None
        else value
        for value in values
    ]
