"""The encoded input, written once and read as surerec interactions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

import surerec as sr
from benchmarks.inputs import ARRAYS, arrays

if TYPE_CHECKING:
    from benchmarks.measuring import Figures


def write_input(folder: str, spec: dict[str, Any], files: list[str]) -> Figures:
    """Generate or load data; write histories as arrays, and shuffled rows as files.

    Parameters
    ----------
    folder : str
        Where to.
    spec : dict
        ``{"dataset": name}``, or the arguments of `surerec.datasets.synthetic`.
    files : list of str
        Of "csv" and "parquet", which to write as well.
    """
    where = Path(folder)
    where.mkdir(parents=True, exist_ok=True)
    data = sr.load_dataset(spec["dataset"]) if "dataset" in spec else sr.datasets.synthetic(**spec)
    for name in ARRAYS:
        np.save(where / f"{name}.npy", getattr(data, name))
    if files:
        rows = data.to_frame().sample(fraction=1.0, shuffle=True, seed=1)
        seconds = pl.col("datetime").dt.epoch("s").alias("timestamp")
        rows = rows.with_columns(seconds).drop("datetime")
        if "csv" in files:
            rows.write_csv(where / "rows.csv")
        if "parquet" in files:
            rows.write_parquet(where / "rows.parquet")
    lengths = np.diff(data.offsets)
    return {
        "n_users": data.n_users,
        "n_items": data.n_items,
        "n_rows": data.n_rows,
        "n_pairs": int((lengths * (lengths - 1) // 2).sum()),
        "longest_profile": int(lengths.max()),
    }


def profiles(folder: str) -> sr.Interactions:
    """Read the input as interactions; user and item ids are their codes."""
    read = arrays(folder)
    return sr.Interactions.from_profiles(read["offsets"], read["item_codes"], read["times"])
