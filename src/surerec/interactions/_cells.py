"""Conversion of cells to ids, microseconds and ratings; invalid cells become null."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from surerec.errors import InputError

# Year first, as in every known data set. 03/04/2005 is ambiguous, so it needs a time_format.
_DATE_FORMATS: Final = (
    "%Y-%m-%d %H:%M:%S%.f",
    "%Y-%m-%dT%H:%M:%S%.f",
    "%Y-%m-%d",
    "%Y-%m-%d %H:%M:%S%.f%#z",
    "%Y-%m-%dT%H:%M:%S%.f%#z",
    "%Y-%m-%dT%H:%M:%S%.fZ",
    "%Y-%m-%d %H:%M",
    "%Y-%m-%dT%H:%M",
    "%Y/%m/%d %H:%M:%S",
    "%Y/%m/%d",
)
_MICROSECONDS: Final = {"s": 1_000_000.0, "ms": 1_000.0, "us": 1.0, "ns": 0.001}
# Numeric times have the first unit whose bound exceeds their median: 1e11 seconds is the year
# 5138, and 1e11 milliseconds is spring 1973.
_UNIT_BOUNDS: Final = (("s", 1e11), ("ms", 1e14), ("us", 1e17), ("ns", np.inf))
_LATEST: Final = 2.0**63 - 1024
_EXACT: Final = 2.0**53
_TICKS: Final = {"ms": 1_000, "us": 1, "ns": 1}  # microseconds per unit of polars, at least 1


def _tidy(cells: pl.Series) -> pl.Series:
    """Strip blanks and make empty text null."""
    return cells.str.strip_chars().replace("", None)


def read_ids(cells: pl.Series, where: str) -> pl.Series:
    """Return ids as integers if all are written as integers, else as text.

    "0054890" is text, because an integer would lose the zeros. A column of integers that pandas
    wrote as "12346.0" becomes integers.

    Examples
    --------
    >>> read_ids(pl.Series(["7", "12"]), "ratings.csv").to_list()
    [7, 12]
    >>> read_ids(pl.Series(["7", "012"]), "ratings.csv").to_list()
    ['7', '012']
    >>> read_ids(pl.Series(["12346.0", None]), "orders.csv").to_list()
    [12346, None]
    """
    dtype = cells.dtype
    if dtype in (pl.Categorical, pl.Enum):
        return _tidy(cells.cast(pl.String))
    if dtype == pl.String:
        # The cast comes first: it is the cheapest proof that nothing needs cleaning.
        numbers = cells.cast(pl.Int64, strict=False)
        if numbers.null_count() > cells.null_count():
            cells = _tidy(cells)
            heads = cells.str.head(-2)
            whole = heads.cast(pl.Int64, strict=False).null_count() == cells.null_count()
            if whole and cells.str.ends_with(".0").all() and _is_plain(heads):
                cells = heads
            numbers = cells.cast(pl.Int64, strict=False)
        if numbers.null_count() > cells.null_count():
            numbers = cells.cast(pl.UInt64, strict=False)
        return numbers if numbers.null_count() == cells.null_count() and _is_plain(cells) else cells
    if dtype == pl.UInt64 and (cells.max() or 0) >= 2**63:  # type: ignore[operator]
        return cells
    if dtype.is_integer() or dtype == pl.Null:  # 32 bits stay: half the memory while encoding
        return cells if dtype == pl.Int32 else cells.cast(pl.Int64)
    if dtype.is_float():
        return _whole(cells.fill_nan(None), where)
    raise InputError(f"{where}: ids must be integers or text, not {dtype}. Convert the column.")


def whole_floats(ids: pl.Series) -> pl.Series:
    """Return ids that pandas converted to floats as integers, and other ids unchanged.

    Examples
    --------
    >>> whole_floats(pl.Series([12346.0, 7.0])).to_list(), whole_floats(pl.Series([0.5])).to_list()
    ([12346, 7], [0.5])
    """
    is_whole = ids.dtype.is_float() and ((ids == ids.round()) & (ids.abs() <= _EXACT)).all()
    return ids.cast(pl.Int64) if is_whole else ids


def _whole(cells: pl.Series, where: str) -> pl.Series:
    """Return floats as integers: pandas converts integers to floats when some are missing."""
    if not (cells == cells.round()).all():
        raise InputError(f"{where}: ids must be integers or text, not fractions. Convert them.")
    if (cells.abs() > _EXACT).any():
        raise InputError(
            f"{where}: ids above 2**53 are not exact as floats. Store them as integers or text."
        )
    return cells.cast(pl.Int64)


def _is_plain(cells: pl.Series) -> bool:
    """Return whether integers are in canonical form: no leading zeros, no plus sign."""
    padded = cells.str.starts_with("0") & (cells.str.len_bytes() > 1)
    signed = cells.str.starts_with("+") | cells.str.starts_with("-0")
    return not (padded | signed).any()


def is_unit(time_format: str | None) -> bool:
    """Return whether a time format is a unit of numbers, not a date pattern."""
    return time_format in _MICROSECONDS


def read_times(cells: pl.Series, time_format: str | None, where: str) -> pl.Series:
    """Convert Unix times or dates to microseconds since 1970; invalid cells become null.

    Parameters
    ----------
    cells : polars.Series
        Numbers, text or dates.
    time_format : str or None
        Unit of numbers ("s", "ms", "us", "ns"), or ``strptime`` pattern of dates; None detects
        either.
    where : str
        File and column, for messages.

    Examples
    --------
    >>> read_times(pl.Series(["881250949", "x"]), None, "u.data").to_list()
    [881250949000000, None]
    """
    dtype = cells.dtype
    if dtype.is_temporal() and dtype not in (pl.Duration, pl.Time):
        if isinstance(dtype, pl.Datetime):  # a cast would overflow
            bound = (2**63 - 1) // _TICKS[dtype.time_unit]
            cells = cells.set(cells.to_physical().is_between(-bound, bound).not_(), None)
        return cells.cast(pl.Datetime("us")).to_physical()
    if dtype == pl.String:
        if time_format is not None and not is_unit(time_format):
            return _dates(_tidy(cells), (time_format,), where)
        whole = cells.cast(pl.Int64, strict=False)
        if whole.null_count() > cells.null_count():
            cells = _tidy(cells)
            numbers = cells.cast(pl.Float64, strict=False)
            if 2 * numbers.count() < cells.count():  # most are no numbers
                return _dates(cells, _DATE_FORMATS, where)
            whole = cells.cast(pl.Int64, strict=False)
            # Seconds and milliseconds are exact in a float64, nanoseconds need the integers.
            whole = whole if whole.null_count() == numbers.null_count() else numbers
        cells = whole
    elif dtype == pl.Null:
        return cells.cast(pl.Int64)
    elif not dtype.is_numeric():
        raise InputError(f"{where}: times must be Unix times or dates, not {dtype}. Convert them.")
    return _unix(cells, time_format, where)


def _dates(cells: pl.Series, formats: tuple[str, ...], where: str) -> pl.Series:
    times = pl.Series([None], dtype=pl.Int64).new_from_index(0, len(cells))
    for format_ in formats:
        missing = (times.is_null() & cells.is_not_null()).arg_true()
        if not len(missing):
            break
        aware = "z" in format_
        rest = cells if len(missing) == len(cells) else cells.gather(missing)
        try:
            parsed = rest.str.to_datetime(
                format_, time_unit="us", time_zone="UTC" if aware else None, strict=False
            )
        except pl.exceptions.PolarsError as error:
            raise InputError(
                f"{where}: {format_!r} is not a date pattern. Use one such as '%d.%m.%Y %H:%M'."
            ) from error
        found = parsed.to_physical()
        times = found if rest is cells else times.scatter(missing, found)
    return times


def _unix(cells: pl.Series, time_format: str | None, where: str) -> pl.Series:
    if time_format is not None and not is_unit(time_format):
        raise InputError(
            f"{where}: times are numbers, and time_format={time_format!r} is a date pattern. Use "
            "their unit: s, ms, us or ns."
        )
    if cells.dtype.is_decimal():
        cells = cells.cast(pl.Float64)
    if cells.dtype.is_float():
        cells = cells.set(~cells.is_finite(), None)
    elif cells.dtype == pl.UInt64:
        cells = cells.set(cells >= 2**63, None)
    middle = cells.gather_every(len(cells) // 100_000 + 1).abs().median()
    if not isinstance(middle, (int, float)):
        return cells.cast(pl.Int64)
    unit = time_format or next(unit for unit, bound in _UNIT_BOUNDS if middle < bound)
    scale = _MICROSECONDS[unit]
    cells = cells.set((cells < 0) | (cells.cast(pl.Float64) * scale >= _LATEST), None)
    if cells.dtype.is_integer():
        whole = cells.cast(pl.Int64)
        return whole * int(scale) if scale >= 1 else whole // 1000
    return (cells * scale).round().cast(pl.Int64)


def read_ratings(cells: pl.Series, where: str) -> pl.Series:
    """Convert ratings to float64; null where there is no finite number."""
    if cells.dtype == pl.String:
        numbers = cells.cast(pl.Float64, strict=False)
        if numbers.null_count() > cells.null_count():
            numbers = _tidy(cells).cast(pl.Float64, strict=False)
        cells = numbers
    elif not (cells.dtype.is_numeric() or cells.dtype in (pl.Null, pl.Boolean)):
        raise InputError(
            f"{where}: ratings must be numbers, not {cells.dtype}. Convert the column."
        )
    numbers = cells.cast(pl.Float64)
    finite = numbers.is_finite()
    return numbers if finite.all() else numbers.set(~finite, None)
