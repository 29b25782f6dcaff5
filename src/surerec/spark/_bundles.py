"""Rows on their way to their users: bundles of many, in columns.

They lie in the staging folder, so that Spark moves none of its own rows. A task that is tried again
may get its rows in another order, so its bundles have other names: those count that the task told
of that succeeded.
"""

from __future__ import annotations

import json
import secrets
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pyarrow as pa

from surerec._grouping import group_rows
from surerec._threads import equal_blocks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from surerec.spark._staging import Staging


COLUMNS = ("user", "item", "time", "sequence")
N_BUCKETS = 1024
"""Of users, by a hash: more than there are tasks, for how many rows come is not known yet."""

_ROWS_AT_ONCE = 1 << 20  # that a task holds, and then writes as one bundle
_BUNDLES = "bundles"


@dataclass(frozen=True)
class BundleRows:
    """Write rows (user, item, time, sequence, bucket, perhaps rating) as bundles, by bucket.

    Memory is that of some million rows. Tells of each bundle how many rows it has of each bucket,
    and what became of rows that cannot be used.
    """

    staging: Staging
    threshold: float | None

    schema = "name string, sizes binary, facts string"

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the task."""
        waiting, n_rows = list[pa.RecordBatch](), 0
        for batch in batches:
            waiting.append(batch)
            n_rows += len(batch)
            if n_rows >= _ROWS_AT_ONCE:
                yield self._bundle(pa.Table.from_batches(waiting))
                waiting, n_rows = [], 0
        if n_rows:
            yield self._bundle(pa.Table.from_batches(waiting))

    def _bundle(self, rows: pa.Table) -> pa.RecordBatch:
        facts = Counter[str]()
        rows = self._usable(rows, facts)
        name, sizes = f"bundle-{secrets.token_hex(8)}", np.zeros(N_BUCKETS, np.int64)
        if len(rows):
            buckets = rows["bucket"].to_numpy().astype(np.uint32)
            offsets, order = group_rows(buckets, N_BUCKETS)
            sizes = np.diff(offsets)
            self.staging.write(name, [_packed(rows, order)])
        told = {"name": name, "sizes": sizes.tobytes(), "facts": json.dumps(facts)}
        return pa.RecordBatch.from_pylist([told])

    def _usable(self, rows: pa.Table, facts: Counter[str]) -> pa.Table:
        """Return the rows that can be used, and count the others."""
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


@dataclass(frozen=True)
class Bundles:
    """All bundles, as the driver knows them."""

    names: tuple[str, ...]
    sizes: NDArray[np.int64]
    """Bundles × buckets: how many rows."""
    facts: Counter[str]
    """What became of rows."""

    @classmethod
    def told(cls, table: pa.Table) -> Bundles:
        """Gather what tasks told."""
        sizes = [np.frombuffer(each, np.int64) for each in table["sizes"].to_pylist()]
        facts = [Counter[str](json.loads(each)) for each in table["facts"].to_pylist()]
        return cls(
            tuple(table["name"].to_pylist()),
            np.array(sizes, np.int64).reshape(-1, N_BUCKETS),
            sum(facts, Counter()),
        )

    @property
    def n_rows(self) -> int:
        """Number of rows that can be used."""
        return int(self.sizes.sum())

    def deal(self, staging: Staging, n_shares: int) -> int:
        """Deal buckets out to tasks, in shares of about as many rows; give how many there are."""
        staging.write_facts(_BUNDLES, {"names": self.names})
        ends = np.cumsum(np.pad(self.sizes, ((0, 0), (1, 0))), axis=1)
        blocks = equal_blocks(self.sizes.sum(axis=0), n_shares)
        slices = [ends[:, [first, last]] for first, last in blocks]
        shares = [each for each in slices if np.diff(each).any()]
        for number, share in enumerate(shares):
            staging.write_array(_share_name(number), share)
        return len(shares)


def _share_name(number: int) -> str:
    return f"share-{number:06d}"


def _packed(rows: pa.Table, order: NDArray[np.int64]) -> pa.Buffer:
    """Write rows in an order, whole numbers in 32 bits where those hold them."""
    columns = []
    for name in COLUMNS:
        column = rows[name].combine_chunks()
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.int64())  # microseconds since 1970, as Spark has them
        if pa.types.is_integer(column.type):
            numbers = column.to_numpy()
            narrow = numbers.min() >= -(2**31) and numbers.max() < 2**31
            columns.append(pa.array(numbers.astype(np.int32 if narrow else np.int64)[order]))
        else:
            columns.append(column.take(pa.array(order)))
    batch, sink = pa.RecordBatch.from_arrays(columns, list(COLUMNS)), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return sink.getvalue()


def read_share(staging: Staging, number: int) -> pl.DataFrame:
    """Return the rows of a task's share, bundle after bundle."""
    slices = staging.array(_share_name(number), "int64").reshape(-1, 2)
    n_rows = int(np.diff(slices).sum())
    columns: dict[str, Any] = {}
    done = 0
    for bundle, (start, stop) in zip(staging.facts(_BUNDLES)["names"], slices, strict=True):
        if start == stop:
            continue
        # Mapped, as a task needs a few rows of each; closed at once, as there may be thousands.
        with pa.memory_map(str(staging.path(bundle))) as file:
            batch = pa.ipc.open_stream(file).read_next_batch().slice(start, stop - start)
            for name in COLUMNS:
                column = batch.column(name)
                if pa.types.is_integer(column.type):
                    into = columns.setdefault(name, np.empty(n_rows, np.int64))
                    into[done : done + len(column)] = column.to_numpy()
                else:
                    copied = column.take(pa.array(range(len(column))))
                    columns.setdefault(name, []).append(pl.Series(pl.from_arrow(copied)))
        done += stop - start
    return pl.DataFrame(
        {name: pl.concat(x) if isinstance(x, list) else x for name, x in columns.items()}
    )
