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
    place: Callable[[int], str] = lambda row: f"row {row + 1}"
    """Returns where a row stands, such as "line 17"."""
    malformed: NDArray[np.int64] = field(default_factory=_no_rows)
    """Rows whose cells cannot be trusted, such as lines with too many fields."""
    blank: NDArray[np.int64] = field(default_factory=_no_rows)
    """Rows that are empty lines and mean nothing."""


def is_frame(source: Any) -> bool:
    """Return whether something is a pandas, polars or Arrow frame."""
    # Lazy frames come first, as they warn when `columns` is read. A series has no columns, but
    # exports an Arrow stream too (pandas 3, polars).
    if isinstance(source, pl.LazyFrame) or hasattr(source, "columns"):
        return True
    return hasattr(source, "__arrow_c_stream__") and not hasattr(source, "to_numpy")


def table_from_frame(
    frame: Any, wanted: Mapping[str, str | None], name: str | None = None
) -> RawTable:
    """Take a polars, pandas or Arrow frame, or anything that speaks Arrow's C stream."""
    name = name or f"the {type(frame).__module__.split('.')[0]} frame"
    if not is_frame(frame):
        raise InputError(
            f"Interactions are read from a file or a pandas, polars or Arrow frame, "
            f"not from {type(frame).__name__}."
        )
    if isinstance(frame, pl.LazyFrame):
        frame = frame.collect()
    elif hasattr(frame, "columns") and hasattr(frame, "loc"):
        frame = _of_pandas(frame, wanted, name)
    with damage_in_words(name, "cannot be read as columns of one type each"):
        frame = frame if isinstance(frame, pl.DataFrame) else pl.DataFrame(frame)
    columns = find_columns(frame.columns, wanted, name)
    return RawTable(name, frame.select(pl.col(c).alias(role) for role, c in columns.items()))


def table_from_parquet(
    path: Path, wanted: Mapping[str, str | None], n_rows: int | None
) -> RawTable:
    """Read the columns that are needed from a Parquet file, and no others."""
    with damage_in_words(path, "not a readable Parquet file"):
        rows = pl.scan_parquet(path, n_rows=n_rows, glob=False)  # a name may have brackets
        columns = find_columns(rows.collect_schema().names(), wanted, str(path))
        frame = rows.select(pl.col(c).alias(role) for role, c in columns.items()).collect()
    return RawTable(str(path), frame)


def _of_pandas(frame: Any, wanted: Mapping[str, str | None], name: str) -> Any:
    """Return the columns of a pandas frame that are needed, each of one type."""
    columns = find_columns([str(c) for c in frame.columns], wanted, name)
    frame = frame[[c for c in frame.columns if str(c) in columns.values()]].rename(columns=str)
    for column in frame.columns:
        cells = frame[column]
        if cells.dtype != object:
            continue
        if column == columns.get("title"):  # a text, whatever its cells are
            frame = frame.assign(**{column: cells.astype(str).where(cells.notna(), None)})
            continue
        kinds = sorted({type(value).__name__ for value in cells.dropna()})
        if len(kinds) > 1:
            raise InputError(
                f"{name}: column {column!r} mixes {' and '.join(kinds)}; make it one type, "
                f"for example with .astype(str)."
            )
    return frame
