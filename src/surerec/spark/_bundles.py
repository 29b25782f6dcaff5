"""Rows on their way to their users: bundles of many, in columns as narrow as they can be.

Spark then moves a few large records, and none of its own rows.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pyarrow as pa

from surerec._grouping import group_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray


COLUMNS = ("user", "item", "time", "sequence")
LOOKED = -1
"""In the place of a bucket: what the record holds are facts about rows."""

_ROWS_AT_ONCE = 1 << 20  # that a task holds, and then sends as one bundle for each bucket
_UNITS = (1, 1_000_000)  # times are in microseconds, and most are whole seconds


@dataclass(frozen=True)
class BundleRows:
    """Bundle rows (user, item, time, sequence, bucket, perhaps rating) by bucket.

    Memory is that of some million rows. The first user of a bundle goes with it: Spark sends it
    where that user belongs, and with it all users of the bucket. What became of rows that cannot
    be used goes last, in a record without a user: all of these come to one place.
    """

    n_buckets: int
    user_type: str
    threshold: float | None

    @property
    def schema(self) -> str:
        """What comes out, in Spark's words."""
        return f"user {self.user_type}, bucket bigint, rows binary"

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the task."""
        waiting, n_rows, facts = list[pa.RecordBatch](), 0, Counter[str]()
        for batch in batches:
            waiting.append(batch)
            n_rows += len(batch)
            if n_rows >= _ROWS_AT_ONCE:
                yield from self._bundles(self._usable(pa.Table.from_batches(waiting), facts))
                waiting, n_rows = [], 0
        if n_rows:
            yield from self._bundles(self._usable(pa.Table.from_batches(waiting), facts))
        yield self._record(None, LOOKED, json.dumps(facts).encode())

    def _usable(self, rows: pa.Table, facts: Counter[str]) -> pa.Table:
        """Give the rows that can be used, and count the others."""
        facts["all"] += len(rows)
        roles = [name for name in rows.column_names if name != "bucket"]
        for name in roles:
            facts[f"no_{name}"] += rows[name].null_count
        if "rating" in roles or any(rows[name].null_count for name in roles):
            frame = pl.DataFrame(pl.from_arrow(rows))
            known = pl.all_horizontal(pl.col(x).is_not_null() for x in roles if x != "sequence")
            facts["bad"] += int(frame.select((~known).sum()).item())
            if "rating" in roles and self.threshold is not None:
                known &= pl.col("rating") > self.threshold
            usable = frame.select(known & pl.col("sequence").is_not_null()).to_series()
            rows = rows.filter(usable.to_arrow())
        facts["usable"] += len(rows)
        return rows

    def _bundles(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        if not len(rows):
            return
        buckets = rows["bucket"].to_numpy().astype(np.uint32)
        offsets, order = group_rows(buckets, self.n_buckets)
        bundles = Narrowed.of(rows).taken(order)
        for bucket, (start, stop) in enumerate(pairwise(offsets.tolist())):
            if start < stop:
                user = rows["user"][int(order[start])].as_py()
                yield self._record(user, bucket, bundles.packed(start, stop))

    def _record(self, user: Any, bucket: int, rows: bytes) -> pa.RecordBatch:
        kind = pa.string() if self.user_type == "string" else pa.int64()
        return pa.RecordBatch.from_pydict(
            {
                "user": pa.array([user], kind),
                "bucket": pa.array([bucket], pa.int64()),
                "rows": pa.array([rows], pa.binary()),
            }
        )


@dataclass(frozen=True)
class Narrowed:
    """Columns of rows; whole numbers in 32 bits where those hold what is above the lowest."""

    columns: dict[str, Any]
    """By name, arrays of numpy or, if they are texts, of Arrow."""
    scales: dict[str, tuple[int, int]]
    """By name, the lowest number and the unit that the others are above it in."""

    @classmethod
    def of(cls, rows: pa.Table) -> Narrowed:
        """Narrow the columns of a table."""
        columns, scales = {}, {}
        for name in COLUMNS:
            column = rows[name].combine_chunks()
            if pa.types.is_timestamp(column.type):
                column = column.cast(pa.int64())  # microseconds since 1970, as Spark has them
            if pa.types.is_integer(column.type):
                columns[name], scales[name] = _narrow(column.to_numpy())
            else:
                columns[name], scales[name] = column, (0, 1)
        return cls(columns, scales)

    def taken(self, order: NDArray[np.int64]) -> Narrowed:
        """Give the rows in another order."""
        columns = {
            name: column[order] if isinstance(column, np.ndarray) else column.take(pa.array(order))
            for name, column in self.columns.items()
        }
        return Narrowed(columns, self.scales)

    def packed(self, start: int, stop: int) -> bytes:
        """Write some rows."""
        arrays = [pa.array(column[start:stop]) for column in self.columns.values()]
        said = {name: f"{lowest} {unit}" for name, (lowest, unit) in self.scales.items()}
        batch = pa.RecordBatch.from_arrays(arrays, list(self.columns))
        batch = batch.replace_schema_metadata(said)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        found: bytes = sink.getvalue().to_pybytes()
        return found


def _narrow(values: NDArray[np.int64]) -> tuple[NDArray[Any], tuple[int, int]]:
    lowest, highest = int(values.min()), int(values.max())
    for unit in _UNITS:
        if (highest - lowest) // unit >= 2**32:
            continue
        # Modulo 2⁶⁴: they may be farther apart than 63 bits hold.
        above = values.view(np.uint64) - np.uint64(lowest % 2**64)
        if unit == 1:
            return above.astype(np.uint32), (lowest, unit)
        quotients = above // np.uint64(unit)
        if (quotients * np.uint64(unit) == above).all():
            return quotients.astype(np.uint32), (lowest, unit)
    return values, (0, 1)


def unpack(bundles: Sequence[pa.Buffer]) -> pl.DataFrame:
    """Give the rows of bundles, one after the other."""
    batches = [pa.ipc.open_stream(bundle).read_next_batch() for bundle in bundles]
    return pl.DataFrame(
        {name: pl.concat([_wide(batch, name) for batch in batches]) for name in COLUMNS}
    )


def _wide(batch: pa.RecordBatch, name: str) -> pl.Series:
    column = batch.column(name)
    if not pa.types.is_integer(column.type):
        return pl.Series(name, pl.from_arrow(column))
    lowest, unit = map(int, batch.schema.metadata[name.encode()].split())
    numbers = column.to_numpy()
    if numbers.dtype == np.uint32:
        numbers = numbers.astype(np.int64)
        numbers *= unit
        numbers += lowest
    return pl.Series(name, numbers)
