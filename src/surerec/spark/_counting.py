"""Counting on executors: cells of a grid of users and items, packed, added up and written.

A cell counts the rows of a block of items over a block of users. Where there is one block of users
its rows are written at once; else they are shuffled, packed, and added up for each block of items.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from surerec._grouping import group_rows
from surerec._threads import equal_blocks
from surerec._words import in_words
from surerec.errors import InputError
from surerec.precedence.counting import RowForm, narrowest
from surerec.precedence.kernels import count_rows, find_spans
from surerec.spark._profiles import read_part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from surerec.precedence import Direction
    from surerec.spark._profiles import ProfilePart
    from surerec.spark._staging import Staging

    RowWriter = Callable[[Staging, str, NDArray[np.unsignedinteger]], None]
    """Writes the rows of one block as parts, the same each time."""


_ITEM = 4  # bytes of an item in a profile
_COLUMNS_AT_ONCE = 1024
_WIDTHS: tuple[np.dtype[np.unsignedinteger], ...] = (
    np.dtype(np.uint8),
    np.dtype(np.uint16),
    np.dtype(np.uint32),
)
_PLACE = np.dtype(np.uint32)
SIDES: dict[str, Direction] = {"following": "followers", "preceding": "predecessors"}


def write_spans(
    staging: Staging,
    parts: tuple[ProfilePart, ...],
    block: tuple[int, int],
    number: int,
    *,
    index_type: str,
    strict: bool,
) -> None:
    """Write the spans of a block of items over all users, and how much work each item is."""
    for name, direction in SIDES.items():
        owners, starts, stops = [], [], []
        for part in parts:
            found = part_spans(staging, part, block, direction, strict=strict)
            base = np.array(part.first_row, dtype=index_type)
            owners.append(found[0])
            starts.append(found[1] + base)
            stops.append(found[2] + base)
        offsets, order = group_rows(np.concatenate(owners), block[1] - block[0])
        begin, end = np.concatenate(starts)[order], np.concatenate(stops)[order]
        done = np.concatenate(([0], np.cumsum(end - begin, dtype=np.int64)))
        staging.write_array(f"{name}_starts-{number:06d}", begin)
        staging.write_array(f"{name}_stops-{number:06d}", end)
        staging.write_array(f"{name}_work-{number:06d}", np.diff(done[offsets]))


def write_both(staging: Staging, name: str, rows: NDArray[np.unsignedinteger]) -> None:
    """Write dense rows, and the same as columns, which are the other direction's.

    In the narrowest integers that hold them: most blocks need no more, though some other may.
    """
    counter = narrowest(int(rows.max(initial=0)))
    rows = rows.astype(counter, copy=False)
    staging.write_facts(f"{name}-counter", {"counter": counter.name})
    staging.write_array(name, rows)
    staging.write(f"{name}-transposed", _transposed(rows))


def _transposed(rows: NDArray[np.unsignedinteger]) -> Iterator[memoryview]:
    for first in range(0, rows.shape[1], _COLUMNS_AT_ONCE):
        columns = np.ascontiguousarray(rows[:, first : first + _COLUMNS_AT_ONCE].T)
        yield columns.reshape(-1).view(np.uint8).data


def write_largest(staging: Staging, name: str, rows: NDArray[np.unsignedinteger]) -> None:
    """Write the largest count alone."""
    staging.write_facts(f"{name}-largest", {"largest": int(rows.max(initial=0))})


def write_held(staging: Staging, name: str, rows: NDArray[np.unsignedinteger]) -> None:
    """Write each row dense or compressed, as a model within a memory budget holds it."""
    form = RowForm(rows.shape[1], rows.dtype)
    ends, is_dense, items, counts = form.compress(rows)
    staging.write_array(f"{name}-dense", rows[is_dense].astype(narrowest(0)))
    staging.write_array(f"{name}-items", items)
    staging.write_array(f"{name}-counts", counts)
    lengths = np.diff(ends, prepend=0)
    staging.write_array(f"{name}-lengths", np.where(is_dense, -1, lengths))


def pack(rows: NDArray[np.unsignedinteger]) -> bytes:
    """Write rows densely or as places and counts, whichever is smaller, in narrow integers.

    Examples
    --------
    >>> rows = np.zeros((2, 50), dtype=np.uint32)
    >>> rows[1, 7] = 300
    >>> len(pack(rows)), rows.nbytes
    (8, 400)
    >>> copy = np.zeros_like(rows)
    >>> add_packed(pack(rows), copy)
    >>> bool((copy == rows).all())
    True
    """
    flat = rows.reshape(-1)
    largest = int(flat.max(initial=0))
    width = next(k for k, kind in enumerate(_WIDTHS) if largest <= np.iinfo(kind).max)
    kind = _WIDTHS[width]
    places = np.flatnonzero(flat)
    if len(places) * (_PLACE.itemsize + kind.itemsize) < len(flat) * kind.itemsize:
        head = bytes([1, width])
        return head + places.astype(_PLACE).tobytes() + flat[places].astype(kind).tobytes()
    return bytes([0, width]) + flat.astype(kind).tobytes()


def add_packed(packed: bytes, rows: NDArray[np.unsignedinteger]) -> None:
    """Add packed rows to the first of these rows."""
    is_sparse, width = packed[0], packed[1]
    kind, body = _WIDTHS[width], memoryview(packed)[2:]
    flat = rows.reshape(-1)
    if not is_sparse:
        counts = np.frombuffer(body, dtype=kind)
        flat[: len(counts)] += counts
        return
    n_places = len(body) // (_PLACE.itemsize + kind.itemsize)
    end = n_places * _PLACE.itemsize
    # Each place comes once, so that a plain indexed sum loses nothing.
    flat[np.frombuffer(body[:end], dtype=_PLACE)] += np.frombuffer(body[end:], dtype=kind)


_CHUNK = 1 << 20  # bytes of dense counts in one record of the shuffle


def part_spans(
    staging: Staging,
    part: ProfilePart,
    block: tuple[int, int],
    direction: Direction,
    *,
    strict: bool,
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
    parts: Iterable[ProfilePart],
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
    plan: CountingGrid
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
        items, name = self.plan.block(block)
        rows = count_cell(
            self.staging,
            self.plan.user_blocks[users],
            items,
            self.plan.direction,
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
    plan: CountingGrid
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
                    first, last = self.plan.block(block)[0]
                    current = block
                    rows = np.zeros((last - first, self.plan.n_items), dtype=self.plan.counter)
                add_packed(counts, rows[start:])
        self._finish(current, rows)
        yield from ()

    def _finish(self, block: int, rows: NDArray[np.unsignedinteger]) -> None:
        if block < 0:
            return
        self.write(self.staging, self.plan.block(block)[1], rows)


def _record(block: int, users: int, chunk: int, counts: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "block": pa.array([block], pa.int64()),
            "users": pa.array([users], pa.int64()),
            "chunk": pa.array([chunk], pa.int64()),
            "counts": pa.array([counts], pa.binary()),
        }
    )


@dataclass(frozen=True)
class CountingGrid:
    """A grid of user blocks × item blocks, each cell one task for each direction."""

    user_blocks: tuple[tuple[ProfilePart, ...], ...]
    item_blocks: tuple[tuple[int, int], ...]
    n_items: int
    direction: Direction
    counter: str
    """The type of counts."""

    @property
    def n_blocks(self) -> int:
        """Number of blocks of rows."""
        return len(self.item_blocks)

    @property
    def n_cells(self) -> int:
        """Number of counting tasks."""
        return len(self.user_blocks) * self.n_blocks

    def block(self, number: int) -> tuple[tuple[int, int], str]:
        """Return a block's items, and the name of its part."""
        return self.item_blocks[number], self.names[number]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of parts, in the order of items."""
        return tuple(f"{self.direction}-{first:010d}" for first, _ in self.item_blocks)

    @property
    def bytes_read(self) -> int:
        """Bytes of profiles that all counting tasks read together."""
        rows = sum(part.n_rows for block in self.user_blocks for part in block)
        return _ITEM * rows * self.n_blocks

    @property
    def most_shuffled(self) -> int:
        """Bytes of counts that are shuffled at the most: none if no row is counted in pieces."""
        if len(self.user_blocks) == 1:
            return 0
        n_rows = sum(last - first for first, last in self.item_blocks)
        n_counts = len(self.user_blocks) * n_rows * self.n_items
        return np.dtype(self.counter).itemsize * n_counts


def plan_counting(
    parts: list[ProfilePart],
    support: NDArray[np.uint32],
    rows: tuple[int, int],
    direction: Direction = "followers",
    *,
    counter: str = "uint16",
    n_tasks: int,
    task_memory: int,
    blocks: tuple[int, int] | None = None,
) -> CountingGrid:
    """Choose the grid that moves the fewest bytes.

    More item blocks mean that profiles are read more often; more user blocks, that counts are
    shuffled. A long profile is spread over all item blocks, so that nobody's is one task's burden.

    Parameters
    ----------
    parts : list of ProfilePart
        The profiles, in the order of users.
    support : array of uint32
        Users of each item; work is about proportional to it.
    rows : tuple of int
        Count the rows of these items, from the first to before the second.
    direction : Direction
        Which rows to count.
    counter : str
        The type of counts.
    n_tasks : int
        Tasks wanted, for all cores to be busy.
    task_memory : int
        Bytes that one task may take for its rows.
    blocks : tuple of int, optional
        Numbers of user blocks and item blocks, instead of a choice.
    """
    n_items = len(support)
    row_bytes = np.dtype(counter).itemsize * n_items
    most_rows = task_memory // row_bytes
    if most_rows < 1:
        raise InputError(
            f"A row of counts of {n_items:,} items takes {in_words(row_bytes)}, and a task "
            f"may take {in_words(task_memory)}: give task_memory (--task-memory) more."
        )
    begin, end = rows
    fewest = max(1, -(-(end - begin) // most_rows))

    def grid(n_user_blocks: int, n_item_blocks: int) -> CountingGrid:
        cut = item_blocks(support[begin:end], n_item_blocks, most_rows)
        blocks = tuple((begin + first, begin + last) for first, last in cut)
        users = _user_blocks(parts, n_user_blocks)
        return CountingGrid(users, blocks, n_items, direction, counter)

    if blocks is not None:
        return grid(*blocks)
    choices = []
    for n_user_blocks in sorted({1, *(2**k for k in range(12) if 2**k <= len(parts))}):
        needed = max(fewest, -(-n_tasks // n_user_blocks))
        choices.append(grid(n_user_blocks, min(needed, max(end - begin, 1))))
    return min(choices, key=lambda plan: plan.bytes_read + plan.most_shuffled)


def item_blocks(
    support: NDArray[np.uint32], n_blocks: int, most_rows: int
) -> tuple[tuple[int, int], ...]:
    """Cut items into blocks of about equal work, none of more rows than a task may hold.

    Examples
    --------
    >>> item_blocks(np.array([9, 4, 3, 1, 1], dtype=np.uint32), 2, most_rows=3)
    ((0, 1), (1, 3), (3, 5))
    """
    cut: list[tuple[int, int]] = []
    for first, last in equal_blocks(support, n_blocks):
        n_pieces = -(-(last - first) // most_rows)
        edges = np.linspace(first, last, n_pieces + 1).astype(int).tolist()
        cut += pairwise(edges)
    return tuple(cut)


def _user_blocks(parts: list[ProfilePart], n_blocks: int) -> tuple[tuple[ProfilePart, ...], ...]:
    rows = np.array([part.n_rows for part in parts], dtype=np.int64)
    return tuple(tuple(parts[a:b]) for a, b in equal_blocks(rows, n_blocks))
