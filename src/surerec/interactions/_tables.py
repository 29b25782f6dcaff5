"""Cells as they were found, with the place of each row for messages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from surerec._inputs import damage_in_words
from surerec.errors import InputError
from surerec.interactions._names import find_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray


def _no_rows() -> NDArray[np.int64]:
    return np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class RawTable:
    """Columns named by role ("user", "item", "time", "rating"), nothing converted yet."""

    name: str
    """The file or kind of frame."""
    frame: pl.DataFrame
    place: Callable[[int], str]
    """Says where a row stands, such as "line 17"."""
    malformed: NDArray[np.int64] = field(default_factory=_no_rows)
    """Rows whose cells cannot be trusted, such as lines with too many fields."""
    blank: NDArray[np.int64] = field(default_factory=_no_rows)
    """Rows that are empty lines and mean nothing."""


def table_from_frame(
    frame: Any, wanted: Mapping[str, str | None], name: str | None = None
) -> RawTable:
    """Take a polars, pandas or Arrow frame, or anything that speaks Arrow's C stream."""
    name = name or f"the {type(frame).__module__.split('.')[0]} frame"
    if isinstance(frame, pl.LazyFrame):
        frame = frame.collect()
    if not isinstance(frame, pl.DataFrame):
        frame = _to_polars(frame, wanted, name)
    return _select(frame, wanted, name)


def table_from_parquet(
    path: Path, wanted: Mapping[str, str | None], n_rows: int | None
) -> RawTable:
    """Read the columns that are needed from a Parquet file, and no others."""
    with damage_in_words(path, "not a readable Parquet file"):
        names = pl.scan_parquet(path, glob=False).collect_schema().names()
        columns = find_columns(names, wanted, str(path))
        rows = pl.scan_parquet(path, n_rows=n_rows, glob=False)  # a name may have brackets
        frame = rows.select(set(columns.values())).collect()
    return _select(frame, wanted, str(path))


def _select(frame: pl.DataFrame, wanted: Mapping[str, str | None], name: str) -> RawTable:
    columns = find_columns(frame.columns, wanted, name)
    picked = frame.select(pl.col(column).alias(role) for role, column in columns.items())
    return RawTable(name, picked, lambda row: f"row {row + 1}")


def _to_polars(frame: Any, wanted: Mapping[str, str | None], name: str) -> pl.DataFrame:
    if not hasattr(frame, "columns") and not hasattr(frame, "__arrow_c_stream__"):
        raise InputError(
            f"Interactions are read from a file or a pandas, polars or Arrow frame, "
            f"not from {type(frame).__name__}."
        )
    if hasattr(frame, "columns") and hasattr(frame, "loc"):  # pandas: convert what is needed only
        columns = find_columns([str(c) for c in frame.columns], wanted, name)
        frame = frame[[c for c in frame.columns if str(c) in set(columns.values())]]
        frame = frame.rename(columns=str)
        for column in frame.columns:
            if column == columns.get("title"):  # a text, whatever its cells are
                frame = frame.assign(**{column: _as_text(frame[column])})
            else:
                _refuse_mixed(frame[column], column, name)
    with damage_in_words(name, "cannot be read as columns of one type each"):
        return pl.DataFrame(frame)


def _as_text(column: Any) -> Any:
    return column if column.dtype != object else column.astype(str).where(column.notna(), None)


def _refuse_mixed(column: Any, column_name: str, name: str) -> None:
    if column.dtype != object:
        return
    kinds = sorted({type(value).__name__ for value in column.dropna()})
    if len(kinds) > 1:
        raise InputError(
            f"{name}: column {column_name!r} mixes {' and '.join(kinds)}; make it one type, "
            f"for example with .astype(str)."
        )
