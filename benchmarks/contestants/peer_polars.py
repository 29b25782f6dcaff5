"""polars: ordered pairs by a self-join, and reading files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from benchmarks.inputs import rows
from benchmarks.measuring import best, checksums, peak_memory

if TYPE_CHECKING:
    from benchmarks.measuring import Figures


def count_pairs(folder: str, repeats: int) -> Figures:
    """Count ordered pairs, lazily, on the streaming engine."""
    consumed = rows(folder).lazy()
    query = (
        consumed.join(consumed, on="user", suffix="_later")
        .filter(pl.col("place") < pl.col("place_later"))
        .group_by("item", "item_later")
        .agg(pl.len().alias("n"))
    )
    seconds, counts = best(lambda: query.collect(engine="streaming"), repeats)
    peak = peak_memory()
    parts = (tuple(part.get_columns()) for part in counts.iter_slices(10_000_000))
    triples = ((i.to_numpy(), h.to_numpy(), n.to_numpy()) for i, h, n in parts)
    return {"seconds": seconds, "peak": peak, **checksums(triples)}


def read_file(folder: str, suffix: str, repeats: int) -> Figures:
    """Read a file as a frame."""
    path = Path(folder) / f"rows.{suffix}"
    read = pl.read_csv if suffix == "csv" else pl.read_parquet
    seconds, frame = best(lambda: read(path), repeats)
    return {"seconds": seconds, "n_rows": len(frame)}


def read_and_sort(folder: str, suffix: str, repeats: int) -> Figures:
    """Read a file as a frame sorted by user and time."""
    path = Path(folder) / f"rows.{suffix}"
    read = pl.read_csv if suffix == "csv" else pl.read_parquet
    seconds, frame = best(lambda: read(path).sort("user_id", "timestamp"), repeats)
    return {"seconds": seconds, "n_rows": len(frame)}
