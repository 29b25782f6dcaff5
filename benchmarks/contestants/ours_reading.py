"""surerec: reading files, and a folder of the Netflix Prize."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import surerec as sr
from benchmarks.measuring import best, peak_memory
from surerec.interactions import _sources

if TYPE_CHECKING:
    from benchmarks.measuring import Figures


def read_file(folder: str, suffix: str, repeats: int) -> Figures:
    """Read a file as interactions."""
    path = Path(folder) / f"rows.{suffix}"
    seconds, data = best(lambda: sr.read_interactions(path), repeats)
    return {"seconds": seconds, "n_rows": data.n_rows}


def read_films(folder: str, repeats: int) -> Figures:
    """Read a folder of the Netflix Prize."""
    size = sum(path.stat().st_size for path in Path(folder).glob("mv_*.txt"))
    seconds, data = best(lambda: sr.read_interactions(folder), repeats)
    peak = peak_memory()

    first_users = [
        data.profile(user)["item_id"].sum() for user in data.users.ids.head(100).to_list()
    ]
    figures = {"seconds": seconds, "peak": peak, "megabytes_per_second": size / 1e6 / seconds}
    return figures | {"n_rows": data.n_rows, "first_users": first_users}


def read_films_by_cells(folder: str, repeats: int) -> Figures:
    """Read a folder cell by cell, as irregular files are read."""
    setattr(_sources, "table_from_films", lambda _: None)  # noqa: B010  # as mypy asks
    return read_films(folder, repeats)
