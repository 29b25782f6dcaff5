"""duckdb: ordered pairs by a self-join."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from benchmarks.inputs import rows
from benchmarks.measuring import best, checksums, n_threads, peak_memory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.measuring import Figures, Triples

_AT_ONCE = 10_000_000
_COUNT = """
    create or replace temp table counts as
    select a.item as i, b.item as h, count(*) as n
    from consumed a join consumed b on a."user" = b."user" and a.place < b.place
    group by a.item, b.item
"""


def _triples(database: duckdb.DuckDBPyConnection) -> Iterator[Triples]:
    (n_rows,) = database.execute("select count(*) from counts").fetchone() or (0,)
    for start in range(0, n_rows, _AT_ONCE):
        where = f"rowid >= {start} and rowid < {start + _AT_ONCE}"
        part = database.execute(f"select i, h, n from counts where {where}").fetchnumpy()  # noqa: S608
        yield part["i"], part["h"], part["n"]


def count_pairs(folder: str, repeats: int, memory: int) -> Figures:
    """Count ordered pairs; beyond its memory limit duckdb uses the disk."""
    database = duckdb.connect()
    database.execute(f"set threads to {n_threads()}")
    database.execute(f"set memory_limit = '{memory // 10**6} MB'")
    database.execute(f"set temp_directory = '{Path(folder) / 'duckdb'}'")
    frame = rows(folder)  # duckdb finds it by its name
    database.execute("create table consumed as select * from frame")
    del frame
    seconds, _ = best(lambda: database.execute(_COUNT), repeats)
    peak = peak_memory()
    return {"seconds": seconds, "peak": peak, **checksums(_triples(database))}
