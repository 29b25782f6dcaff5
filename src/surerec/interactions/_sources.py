"""Tables as they are found: the columns that are wanted, from files or a frame."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from surerec._arguments import check_path
from surerec._inputs import check_file, damage_in_words
from surerec._memory import available_memory
from surerec._words import in_words
from surerec.errors import InputError
from surerec.interactions._tables import RawTable, is_frame, table_from_frame, table_from_parquet
from surerec.interactions._text import table_from_films, table_from_text

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path


_TIMES_TEXT = 4  # memory at the peak, as a multiple of a text file: measured 3.3 to 4.8
_PER_ROW = 100  # bytes of memory at the peak, a row of a Parquet file: measured 68 to 103
_PARQUET_MAGIC = b"PAR1"


def read_table(
    source: Any,
    wanted: Mapping[str, str | None],
    columns: Sequence[str] | None = None,
    n_rows: int | None = None,
) -> RawTable:
    """Take the columns that are wanted from files or a frame, nothing converted yet."""
    if isinstance(source, (str, os.PathLike)):
        paths = _files(check_path("source", source))
    elif isinstance(source, Sequence) and source and not is_frame(source):
        paths = [check_path("A file of the source", each) for each in source]
    else:
        return concatenate([table_from_frame(source, wanted)], n_rows)
    parquet = {path for path in paths if _is_parquet(path)}
    _check_fits(paths, parquet, n_rows)
    films = table_from_films(paths) if len(paths) > 1 and n_rows is None else None
    if films is not None:
        return films
    tables = [
        table_from_parquet(path, wanted, n_rows)
        if path in parquet
        else table_from_text(path, wanted, columns=columns, n_rows=n_rows)
        for path in paths
    ]
    return concatenate(tables, n_rows)


def _is_parquet(path: Path) -> bool:
    if not check_file(path):
        return False
    with damage_in_words(path, "cannot be read"), path.open("rb") as file:
        return file.read(len(_PARQUET_MAGIC)) == _PARQUET_MAGIC


def _check_fits(paths: Sequence[Path], parquet: Collection[Path], n_rows: int | None) -> None:
    """Refuse files that need more memory than is free.

    Reading only so many rows of text needs no more than those, whatever the file's size.
    """
    needed = 0
    for path in paths:
        if path in parquet:
            with damage_in_words(path, "not a readable Parquet file"):
                rows = pl.scan_parquet(path, n_rows=n_rows, glob=False)
                needed += _PER_ROW * int(rows.select(pl.len()).collect().item())
        elif n_rows is None:
            needed += _TIMES_TEXT * path.stat().st_size
    free = available_memory()
    if needed > free:
        more = f" and {len(paths) - 1:,} more" if len(paths) > 1 else ""
        raise InputError(
            f"{paths[0]}{more}: reading it needs about {in_words(needed)} of memory, and "
            f"{in_words(free)} is free: use a larger machine, or read a part of it with n_rows."
        )


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    for pattern in ("mv_*.txt", "combined_data_*.txt", "training_set/mv_*.txt"):
        if files := sorted(path.glob(pattern)):
            return files
    raise InputError(
        f"{path}: a folder without Netflix-Prize files (mv_*.txt or combined_data_*.txt); "
        "name the ratings file itself."
    )


def concatenate(tables: list[RawTable], n_rows: int | None = None) -> RawTable:
    """Return one table of several, whose rows follow each other."""
    if len(tables) == 1 and (n_rows is None or len(tables[0].frame) <= n_rows):
        return tables[0]
    starts = np.cumsum([0] + [len(t.frame) for t in tables])
    shared = set.intersection(*(set(t.frame.columns) for t in tables))
    frames = [t.frame.select(c for c in t.frame.columns if c in shared) for t in tables]
    try:
        frame = pl.concat(frames, how="vertical_relaxed").slice(0, n_rows)
    except pl.exceptions.PolarsError as error:
        names = " and ".join(t.name for t in tables)
        raise InputError(f"{names}: their columns are of different types.") from error

    def place(row: int) -> str:
        at = int(np.searchsorted(starts, row, side="right")) - 1
        where = tables[at].place(row - int(starts[at]))
        return where if len(tables) == 1 else f"{tables[at].name}, {where}"

    def shifted(field: str) -> Any:
        rows = [getattr(t, field) + start for t, start in zip(tables, starts, strict=False)]
        joined = np.concatenate(rows)
        return joined[joined < len(frame)]

    return RawTable(tables[0].name, frame, place, shifted("malformed"), shifted("blank"))
