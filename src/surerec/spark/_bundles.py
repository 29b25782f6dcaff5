"""Bundles of rows, sorted by buckets of users.

Bundles are files in the staging folder, so that Spark shuffles no rows. A retried task may get its
rows in another order, so it writes bundles with other names. Only bundles that a successful task
returned are read.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pyarrow as pa

from surerec._grouping import group_rows
from surerec._threads import equal_blocks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from surerec.spark._staging import Staging


N_BUCKETS = 1024
"""Buckets of users by hash: more than tasks, because the number of rows is not known yet."""
BUNDLE_SCHEMA = "name string, sizes binary"

_ROWS_AT_ONCE = 1 << 20  # rows that a task writes as one bundle


def write_bundles(staging: Staging, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write rows (user, item, time, sequence, bucket) as bundles, sorted by bucket.

    Yields the name of each bundle and its number of rows by bucket. Memory is bounded by some
    million rows.
    """
    waiting, n_rows = list[pa.RecordBatch](), 0
    for batch in batches:
        waiting.append(batch)
        n_rows += len(batch)
        if n_rows >= _ROWS_AT_ONCE:
            yield _write_bundle(staging, waiting)
            waiting, n_rows = [], 0
    if n_rows:
        yield _write_bundle(staging, waiting)


def _write_bundle(staging: Staging, batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    rows = pa.Table.from_batches(batches).combine_chunks()
    buckets = rows["bucket"].to_numpy().astype(np.uint32)
    offsets, order = group_rows(buckets, N_BUCKETS)
    rows = rows.drop_columns("bucket").take(pa.array(order))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    name = f"bundle-{secrets.token_hex(8)}"
    staging.write(name, [sink.getvalue()])
    return pa.RecordBatch.from_pylist([{"name": name, "sizes": np.diff(offsets).tobytes()}])


def deal(bundles: pa.Table, n_shares: int) -> list[NDArray[np.int64]]:
    """Divide buckets among tasks, with about equal numbers of rows.

    A share has the first and last row in each bundle.
    """
    sizes = np.array([np.frombuffer(each, np.int64) for each in bundles["sizes"].to_pylist()])
    ends = np.cumsum(np.pad(sizes.reshape(-1, N_BUCKETS), ((0, 0), (1, 0))), axis=1)
    blocks = equal_blocks(np.diff(ends.sum(axis=0)), n_shares)
    shares = [ends[:, [first, last]] for first, last in blocks]
    return [share for share in shares if np.diff(share).any()]


def read_share(staging: Staging, names: Sequence[str], share: NDArray[np.int64]) -> pl.DataFrame:
    """Return the rows of a share, bundle by bundle."""
    tables = []
    for name, (start, stop) in zip(names, share.tolist(), strict=True):
        if start < stop:
            # Mapped, because a task needs few rows of each bundle.
            with pa.memory_map(str(staging.path(name))) as file:
                rows = pa.ipc.open_stream(file).read_all()
                tables.append(rows.slice(start, stop - start))
    return pl.DataFrame(pl.from_arrow(pa.concat_tables(tables)))
