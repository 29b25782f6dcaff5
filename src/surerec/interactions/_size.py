"""Files that would not fit in memory are refused before they are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surerec._inputs import damage_in_words
from surerec._memory import available_memory, in_words
from surerec.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


_TIMES_TEXT = 4  # memory at the peak, as a multiple of a text file: measured 3.3 to 4.8
_TIMES_PLAIN = 3  # the same of plain text: measured 1.7 to 2.4
_PER_ROW = 100  # bytes of memory at the peak, a row of a Parquet file: measured 68 to 103


def check_fits(files: Iterable[tuple[Path, bool]], n_rows: int | None) -> None:
    """Refuse files, each a path and whether it is Parquet, that need more memory than is free.

    Reading only so many rows of text needs no more than those, whatever the file's size.
    """
    needed, named = 0, []
    for path, is_parquet in files:
        if is_parquet:
            needed += _PER_ROW * _rows_of(path, n_rows)
        elif n_rows is None:
            needed += _TIMES_TEXT * path.stat().st_size
        named.append(str(path))
    free = available_memory()
    if needed > free:
        more = f" and {len(named) - 1:,} more" if len(named) > 1 else ""
        raise InputError(
            f"{named[0]}{more}: reading it needs about {in_words(needed)} of memory, and "
            f"{in_words(free)} is free: use a larger machine, or read a part of it with n_rows."
        )


def plain_text_fits(size: int) -> bool:
    """Tell whether plain text of so many bytes can be read within the memory that is free."""
    return size * _TIMES_PLAIN <= available_memory()


def _rows_of(path: Path, n_rows: int | None) -> int:
    with damage_in_words(path, "not a readable Parquet file"):
        # No more than this is asked of Arrow: looking at columns of damaged files, it aborts.
        import pyarrow.parquet as pq  # noqa: PLC0415  # slow to import, and for these files alone

        rows = int(pq.read_metadata(path).num_rows)
    return rows if n_rows is None else min(rows, n_rows)
