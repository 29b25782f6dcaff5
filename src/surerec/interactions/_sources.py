"""Raw tables from files or a frame: the requested columns, not converted."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from surerec._arguments import check_path
from surerec._inputs import as_input_error, check_file
from surerec._memory import available_memory
from surerec._words import in_bytes
from surerec.errors import InputError
from surerec.interactions._tables import RawTable, is_frame, table_from_frame, table_from_parquet
from surerec.interactions._text import table_from_films, table_from_text

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path


_TIMES_TEXT = 4  # peak memory as a multiple of the size of a text file: measured 3.3 to 4.8
_PER_ROW = 100  # bytes of peak memory per row of a Parquet file: measured 68 to 103
_PARQUET_MAGIC = b"PAR1"


def read_table(
    source: Any,
    requested: Mapping[str, str | None],
    columns: Sequence[str] | None = None,
    n_rows: int | None = None,
) -> RawTable:
    """Read the requested columns from files or a frame, without conversion."""
    if isinstance(source, (str, os.PathLike)):
        paths = _files(check_path("source", source))
    elif isinstance(source, Sequence) and source and not is_frame(source):
        paths = [check_path("A file of the source", each) for each in source]
    else:
        return concatenate([table_from_frame(source, requested)], n_rows)
    parquet = {path for path in paths if _is_parquet(path)}
    _check_fits(paths, parquet, n_rows)
    films = table_from_films(paths) if len(paths) > 1 and n_rows is None else None
    if films is not None:
        return films
    tables = [
        table_from_parquet(path, requested, n_rows)
        if path in parquet
        else table_from_text(path, requested, columns=columns, n_rows=n_rows)
        for path in paths
    ]
    return concatenate(tables, n_rows)


def _is_parquet(path: Path) -> bool:
    if not check_file(path):
        return False
    with as_input_error(path, "cannot be read"), path.open("rb") as file:
        return file.read(len(_PARQUET_MAGIC)) == _PARQUET_MAGIC


def _check_fits(paths: Sequence[Path], parquet: Collection[Path], n_rows: int | None) -> None:
    """Raise InputError for files that need more than the free memory.

    With `n_rows` the size of a text file does not matter.
    """
    needed = 0
    for path in paths:
        if path in parquet:
            with as_input_error(path, "not a readable Parquet file"):
                rows = pl.scan_parquet(path, n_rows=n_rows, glob=False)
                needed += _PER_ROW * int(rows.select(pl.len()).collect().item())
        elif n_rows is None:
            needed += _TIMES_TEXT * path.stat().st_size
    free = available_memory()
    if needed > free:
        more = f" and {len(paths) - 1:,} more" if len(paths) > 1 else ""
        raise InputError(
            f"{paths[0]}{more}: reading needs about {in_bytes(needed)} of memory, and "
            f"{in_bytes(free)} is free. Use a larger machine, or read fewer rows."
        )


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    for pattern in ("mv_*.txt", "combined_data_*.txt", "training_set/mv_*.txt"):
        if files := sorted(path.glob(pattern)):
            return files
    raise InputError(
        f"{path}: a folder without Netflix-Prize files (mv_*.txt or combined_data_*.txt). "
        "Pass the path of a file."
    )


def concatenate(tables: list[RawTable], n_rows: int | None = None) -> RawTable:
    """Concatenate tables."""
    if len(tables) == 1 and (n_rows is None or len(tables[0].frame) <= n_rows):
        return tables[0]
    starts = np.cumsum([0] + [len(t.frame) for t in tables])
    shared = set.intersection(*(set(t.frame.columns) for t in tables))
    frames = [t.frame.select(c for c in t.frame.columns if c in shared) for t in tables]
    try:
        frame = pl.concat(frames, how="vertical_relaxed").slice(0, n_rows)
    except pl.exceptions.PolarsError as error:
        names = " and ".join(t.name for t in tables)
        raise InputError(f"{names}: columns have different types. Convert them.") from error

    def place(row: int) -> str:
        at = int(np.searchsorted(starts, row, side="right")) - 1
        return tables[at].place(row - int(starts[at]))

    def shifted(field: str) -> Any:
        rows = [getattr(t, field) + start for t, start in zip(tables, starts, strict=False)]
        joined = np.concatenate(rows)
        return joined[joined < len(frame)]

    return RawTable(
        tables[0].name, frame, where=place, malformed=shifted("malformed"), blank=shifted("blank")
    )
