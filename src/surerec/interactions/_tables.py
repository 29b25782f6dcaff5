"""Raw tables: unconverted cells, with the location of each row for messages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from surerec._inputs import as_input_error
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
    """Unconverted columns, named by role ("user", "item", "time", "rating")."""

    name: str
    """File, or kind of frame."""
    frame: pl.DataFrame
    where: Callable[[int], str] | None = None
    """Returns the location of a row, such as "orders.csv:17"; None for row numbers."""
    malformed: NDArray[np.int64] = field(default_factory=_no_rows)
    """Rows with too many fields, whose cells are not reliable."""
    blank: NDArray[np.int64] = field(default_factory=_no_rows)
    """Rows that are empty lines."""

    def place(self, row: int) -> str:
        """Return the location of a row, such as "orders.csv:17" or "the polars frame, row 3"."""
        return f"{self.name}, row {row + 1}" if self.where is None else self.where(row)


def is_frame(source: Any) -> bool:
    """Return whether something is a pandas, polars or Arrow frame."""
    # Lazy frames come first, as they warn when `columns` is read. A series has no columns, but
    # exports an Arrow stream too (pandas 3, polars).
    if isinstance(source, pl.LazyFrame) or hasattr(source, "columns"):
        return True
    return hasattr(source, "__arrow_c_stream__") and not hasattr(source, "to_numpy")


def table_from_frame(
    frame: Any, requested: Mapping[str, str | None], name: str | None = None
) -> RawTable:
    """Return the requested columns of a polars, pandas or Arrow frame, or of any Arrow stream."""
    name = name or f"the {type(frame).__module__.split('.')[0]} frame"
    if not is_frame(frame):
        raise InputError(
            f"Interactions cannot be read from {type(frame).__name__}. Pass a path, or a pandas, "
            "polars or Arrow frame."
        )
    if isinstance(frame, pl.LazyFrame):
        frame = frame.collect()
    elif hasattr(frame, "columns") and hasattr(frame, "loc"):
        frame = _from_pandas(frame, requested, name)
    with as_input_error(name, "cannot be read as columns of one type each"):
        frame = frame if isinstance(frame, pl.DataFrame) else pl.DataFrame(frame)
    columns = find_columns(frame.columns, requested, name)
    return RawTable(name, frame.select(pl.col(c).alias(role) for role, c in columns.items()))


def table_from_parquet(
    path: Path, requested: Mapping[str, str | None], n_rows: int | None
) -> RawTable:
    """Read only the requested columns of a Parquet file."""
    with as_input_error(path, "not a readable Parquet file"):
        rows = pl.scan_parquet(path, n_rows=n_rows, glob=False)  # a name may have brackets
        columns = find_columns(rows.collect_schema().names(), requested, str(path))
        frame = rows.select(pl.col(c).alias(role) for role, c in columns.items()).collect()
    return RawTable(str(path), frame)


def _from_pandas(frame: Any, requested: Mapping[str, str | None], name: str) -> Any:
    """Return the requested columns of a pandas frame, each of one type."""
    columns = find_columns([str(c) for c in frame.columns], requested, name)
    frame = frame[[c for c in frame.columns if str(c) in columns.values()]].rename(columns=str)
    for column in frame.columns:
        cells = frame[column]
        if cells.dtype != object:
            continue
        if column == columns.get("title"):  # always text
            frame = frame.assign(**{column: cells.astype(str).where(cells.notna(), None)})
            continue
        kinds = sorted({type(value).__name__ for value in cells.dropna()})
        if len(kinds) > 1:
            raise InputError(
                f"{name}: column {column!r} mixes {' and '.join(kinds)}. Convert it to one type, "
                "for example with .astype(str)."
            )
    return frame
