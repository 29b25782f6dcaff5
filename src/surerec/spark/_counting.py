"""Counting on executors: one cell of the grid at a time, added up for each block of items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from surerec._grouping import group_rows
from surerec.precedence.kernels import count_rows, find_spans
from surerec.spark._packing import add_packed, pack
from surerec.spark._profiles import read_part

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from surerec.precedence import Direction
    from surerec.spark._plan import Plan
    from surerec.spark._profiles import Part
    from surerec.spark._staging import Staging
    from surerec.spark._writing import RowWriter


_CHUNK = 1 << 20  # bytes of dense counts in one record of the shuffle


def part_spans(
    staging: Staging, part: Part, block: tuple[int, int], direction: Direction, *, strict: bool
) -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint32]]:
    """Find the spans of the items of a block in a part.

    Gives the item of each span, counted from the block's first, where the span starts and stops
    in the part, and the part's items.
    """
    offsets, items, times = read_part(staging, part, with_times=strict)
    starts, stops = np.empty(len(items), np.uint32), np.empty(len(items), np.uint32)
    following = direction == "followers"
    find_spans(0, len(offsets) - 1, offsets, times, strict, following, starts, stops)
    first, last = block
    # Wrapped around below zero, an item before the block is large as well: one comparison.
    within = items - np.uint32(first)
    places = np.flatnonzero(within < np.uint32(last - first))
    return within[places], starts[places], stops[places], items


def count_cell(
    staging: Staging,
    parts: Iterable[Part],
    block: tuple[int, int],
    direction: Direction,
    n_items: int,
    *,
    counter: str,
    strict: bool,
) -> NDArray[np.unsignedinteger]:
    """Count the rows of a block of items over a block of users."""
    n_rows = block[1] - block[0]
    rows = np.zeros((n_rows, n_items), dtype=counter)
    for part in parts:
        owners, starts, stops, items = part_spans(staging, part, block, direction, strict=strict)
        offsets, order = group_rows(owners, n_rows)
        count_rows(0, n_rows, offsets, starts[order], stops[order], items, rows)
    return rows


@dataclass(frozen=True)
class CountCells:
    """Count cells of the grid; write their rows at once, or send them to be added up."""

    staging: Staging
    plan: Plan
    strict: bool
    write: RowWriter

    schema = "block bigint, users bigint, chunk bigint, counts binary"

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the task."""
        for batch in batches:
            for cell in batch.column(0).to_pylist():
                yield from self._count(cell)

    def _count(self, cell: int) -> Iterator[pa.RecordBatch]:
        users, block = cell % len(self.plan.user_blocks), cell // len(self.plan.user_blocks)
        direction, items, name = self.plan.block(block)
        rows = count_cell(
            self.staging,
            self.plan.user_blocks[users],
            items,
            direction,
            self.plan.n_items,
            counter=self.plan.counter,
            strict=self.strict,
        )
        if len(self.plan.user_blocks) == 1:
            self.write(self.staging, name, rows)
            return
        at_once = max(1, _CHUNK // (rows.itemsize * self.plan.n_items))
        for start in range(0, len(rows), at_once):
            packed = pack(rows[start : start + at_once])
            yield _record(block, users, start, packed)


@dataclass(frozen=True)
class CombineCells:
    """Add up what the blocks of users counted, and write the rows of each block of items.

    Records come sorted by block, so that one block's rows are in memory at a time.
    """

    staging: Staging
    plan: Plan
    write: RowWriter

    schema = "block bigint"

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the task."""
        current, rows = -1, np.empty((0, 0), dtype=self.plan.counter)
        for batch in batches:
            columns = (batch.column(name).to_pylist() for name in ("block", "chunk", "counts"))
            for block, start, counts in zip(*columns, strict=True):
                if block != current:
                    self._finish(current, rows)
                    first, last = self.plan.block(block)[1]
                    current = block
                    rows = np.zeros((last - first, self.plan.n_items), dtype=self.plan.counter)
                add_packed(counts, rows[start:])
        self._finish(current, rows)
        yield from ()

    def _finish(self, block: int, rows: NDArray[np.unsignedinteger]) -> None:
        if block < 0:
            return
        self.write(self.staging, self.plan.block(block)[2], rows)


def _record(block: int, users: int, chunk: int, counts: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "block": pa.array([block], pa.int64()),
            "users": pa.array([users], pa.int64()),
            "chunk": pa.array([chunk], pa.int64()),
            "counts": pa.array([counts], pa.binary()),
        }
    )
