"""The inputs, written once: encoded, as files, and a folder in the Netflix Prize format."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

import surerec as sr
from benchmarks.inputs import ARRAYS, arrays

if TYPE_CHECKING:
    from benchmarks.measuring import Figures

_USERS, _HIGHEST_ID = 480_000, 2_649_429
_FIRST_DAY, _DAYS = 10_541, 2_243  # from 1998-11-11 to 2005-12-31
_PART = 5_000_000
_SHARES = (0.0, 0.045, 0.1, 0.29, 0.34, 0.225)  # of one to five stars


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


def write_films(folder: str, n_files: int, n_rows: int) -> Figures:
    """Write ratings in the Netflix Prize format; a few films have most of them.

    A film has a user once; users have ids with gaps, some rate far more than others, and a film's
    ratings stand in no order.
    """
    where, rng = Path(folder), np.random.default_rng(1)
    where.mkdir(parents=True, exist_ok=True)
    n_users = min(_USERS, n_rows)
    ids = np.sort(rng.choice(_HIGHEST_ID, n_users, replace=False)) + 1
    rng.shuffle(ids)
    weight = rng.permutation((1 + np.arange(n_files)) ** -0.9)
    # Draws more than needed, as duplicates count once.
    drawn = np.maximum(1, 1.35 * n_rows * weight / weight.sum()).astype(int)
    written = n_bytes = 0
    for film, n in enumerate(np.minimum(drawn, n_users).tolist(), start=1):
        users = np.unique((n_users * rng.random(n) ** 1.7).astype(np.int64))
        rng.shuffle(users)
        rows = pl.DataFrame(
            {
                "user": ids[users],
                "rating": rng.choice(6, len(users), p=_SHARES),
                "date": pl.Series(rng.integers(0, _DAYS, len(users)) + _FIRST_DAY)
                .cast(pl.Int32)
                .cast(pl.Date),
            }
        )
        text = f"{film}:\n{rows.write_csv(include_header=False)}"
        n_bytes += (where / f"mv_{film:07}.txt").write_bytes(text.encode())
        written += len(rows)
    return {"n_users": n_users, "n_items": n_files, "n_rows": written, "n_bytes": n_bytes}


def write_rows(folder: str, n_users: int, n_items: int, n_rows: int) -> Figures:
    """Write a Parquet file of rows in random order, in parts to limit memory."""
    where, rng = Path(folder), np.random.default_rng(1)
    where.mkdir(parents=True, exist_ok=True)
    parts = [
        pl.DataFrame(
            {
                "user_id": (n_users * rng.random(n) ** 1.7).astype(np.int32),
                "item_id": (n_items * rng.random(n) ** 2.5).astype(np.int32),
                "timestamp": rng.integers(1_000_000_000, 1_700_000_000, n),
            }
        )
        for n in np.diff(np.linspace(0, n_rows, 1 + -(-n_rows // _PART)).astype(int)).tolist()
    ]
    pl.concat(parts, rechunk=False).write_parquet(where / "rows.parquet")
    return {"n_users": n_users, "n_items": n_items, "n_rows": n_rows}


def profiles(folder: str) -> sr.Interactions:
    """Read the input as interactions; user and item ids are their codes."""
    read = arrays(folder)
    return sr.Interactions.from_profiles(read["offsets"], read["item_codes"], read["times"])
