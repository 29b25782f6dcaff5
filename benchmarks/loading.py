"""Ten million rows from a file to profiles in time order, against polars reading the same file."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
from rich.table import Table

import surerec as sr
from measuring import best, show


def main() -> None:
    data = sr.datasets.synthetic(70_000, 20_000, 10_000_000, seed=1)
    shuffled = data.to_frame().sample(fraction=1.0, shuffle=True, seed=1)
    rows = shuffled.with_columns(pl.col("datetime").dt.epoch("s").alias("timestamp")).drop(
        "datetime"
    )
    del data, shuffled
    table = Table("10 M rows, in random order", "polars reads", "surerec loads", "ratio")
    with TemporaryDirectory() as folder:
        csv, parquet = Path(folder, "rows.csv"), Path(folder, "rows.parquet")
        rows.write_csv(csv)
        rows.write_parquet(parquet)
        del rows
        for path, read in ((csv, pl.read_csv), (parquet, pl.read_parquet)):
            theirs, _ = best(lambda path=path, read=read: read(path))  # type: ignore[misc]
            ours, loaded = best(lambda path=path: sr.read_interactions(path))  # type: ignore[misc]
            assert loaded.n_rows == 10_000_000
            table.add_row(path.suffix, f"{theirs:.2f} s", f"{ours:.2f} s", f"{ours / theirs:.1f}×")
    show(table)
    print("Beside reading, surerec encodes ids, sorts by user and time, and drops repeats.")


if __name__ == "__main__":
    main()
