"""Counting on executors, on a grid of users and items.

A cell counts the rows of a block of items over a block of users. With one block of users, its rows
are final; otherwise the cells of each block of items are added up.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from surerec._grouping import group_rows
from surerec._threads import equal_blocks
from surerec._words import in_bytes
from surerec.errors import InputError
from surerec.precedence.counting import RowForm, narrowest
from surerec.precedence.kernels import count_rows, find_spans

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.precedence import Direction
    from surerec.spark._profiles import ProfilePart
    from surerec.spark._staging import Staging


_ITEM = 4  # bytes of an item in a profile
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
    """Write the spans of a block of items over all users."""
    for name, direction in SIDES.items():
        owners, starts, stops = [], [], []
        for part in parts:
            found = part_spans(staging, part, block, direction, strict=strict)
            base = np.array(part.first_row, dtype=index_type)
            owners.append(found[0])
            starts.append(found[1] + base)
            stops.append(found[2] + base)
        _, order = group_rows(np.concatenate(owners), block[1] - block[0])
        staging.write_array(f"{name}_starts-{number:06d}", np.concatenate(starts)[order])
        staging.write_array(f"{name}_stops-{number:06d}", np.concatenate(stops)[order])


def write_held(staging: Staging, name: str, rows: NDArray[np.unsignedinteger]) -> None:
    """Write each row dense or compressed, as a model with a memory budget stores it."""
    form = RowForm(rows.shape[1], rows.dtype)
    ends, is_dense, items, counts = form.compress(rows)
    staging.write_array(f"{name}-dense", rows[is_dense].astype(narrowest(0)))
    staging.write_array(f"{name}-items", items)
    staging.write_array(f"{name}-counts", counts)
    lengths = np.diff(ends, prepend=0)
    staging.write_array(f"{name}-lengths", np.where(is_dense, -1, lengths))


def part_spans(
    staging: Staging,
    part: ProfilePart,
    block: tuple[int, int],
    direction: Direction,
    *,
    strict: bool,
) -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint32]]:
    """Find the spans of the items of a block in a part.

    Returns the item of each span, relative to the first item of the block, the start and stop of
    the span in the part, and the items of the part.
    """
    offsets = np.concatenate(([0], np.cumsum(staging.array(part.name("lengths"), "int64"))))
    items = staging.array(part.name("item_codes"), "uint32")
    times = staging.array(part.name("times"), "int64") if strict else np.empty(0, np.int64)
    starts, stops = np.empty(len(items), np.uint32), np.empty(len(items), np.uint32)
    following = direction == "followers"
    find_spans(0, len(offsets) - 1, offsets, times, strict, following, starts, stops)
    first, last = block
    # Items before the block wrap around to large numbers, so that one comparison is enough.
    within = items - np.uint32(first)
    places = np.flatnonzero(within < np.uint32(last - first))
    return within[places], starts[places], stops[places], items


@dataclass(frozen=True)
class CountingGrid:
    """A grid of user blocks × item blocks, each cell one task."""

    user_blocks: tuple[tuple[ProfilePart, ...], ...]
    item_blocks: tuple[tuple[int, int], ...]
    n_items: int
    direction: Direction
    counter: str
    """Integer type of counts."""
    strict: bool

    @property
    def n_cells(self) -> int:
        """Number of counting tasks."""
        return len(self.user_blocks) * len(self.item_blocks)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parts, in the order of items."""
        return tuple(f"{self.direction}-{first:010d}" for first, _ in self.item_blocks)

    @property
    def bytes_moved(self) -> int:
        """Upper bound of the bytes of profiles that tasks read and of counts that are added up."""
        rows = sum(part.n_rows for block in self.user_blocks for part in block)
        read = _ITEM * rows * len(self.item_blocks)
        if len(self.user_blocks) == 1:
            return read
        n_rows = sum(last - first for first, last in self.item_blocks)
        return (
            read + np.dtype(self.counter).itemsize * len(self.user_blocks) * n_rows * self.n_items
        )

    def count(self, staging: Staging, cell: int) -> NDArray[np.unsignedinteger]:
        """Count the rows of a block of items over a block of users."""
        block, users = divmod(cell, len(self.user_blocks))
        first, last = self.item_blocks[block]
        rows = np.zeros((last - first, self.n_items), dtype=self.counter)
        for part in self.user_blocks[users]:
            owners, starts, stops, items = part_spans(
                staging, part, (first, last), self.direction, strict=self.strict
            )
            offsets, order = group_rows(owners, len(rows))
            count_rows(0, len(rows), offsets, starts[order], stops[order], items, rows)
        return rows

    def write_cell(self, staging: Staging, cell: int) -> str:
        """Count a cell and write it with the narrowest integer type; return that type."""
        rows = self.count(staging, cell)
        kind = narrowest(int(rows.max(initial=0)))
        staging.write_array(f"cell-{cell:06d}", rows.astype(kind))
        return kind.name

    def add_cells(
        self, staging: Staging, block: int, kinds: list[str]
    ) -> NDArray[np.unsignedinteger]:
        """Add up the cells of a block of items, given the integer type of each cell."""
        first, last = self.item_blocks[block]
        rows = np.zeros((last - first) * self.n_items, dtype=self.counter)
        n_users = len(self.user_blocks)
        for cell in range(block * n_users, (block + 1) * n_users):
            rows += staging.array(f"cell-{cell:06d}", kinds[cell])
        return rows.reshape(-1, self.n_items)


def plan_counting(
    parts: tuple[ProfilePart, ...],
    support: NDArray[np.uint32],
    rows: tuple[int, int],
    direction: Direction = "followers",
    *,
    counter: str = "uint16",
    strict: bool = False,
    n_tasks: int,
    task_memory: int,
    blocks: tuple[int, int] | None = None,
) -> CountingGrid:
    """Choose the grid that moves the fewest bytes.

    With more item blocks, profiles are read more often; with more user blocks, counts are added up.
    Long profiles are spread over all item blocks.

    Parameters
    ----------
    parts : tuple of ProfilePart
        The profiles, in the order of users.
    support : array of uint32
        Users of each item; work is about proportional to it.
    rows : tuple of int
        First item to count, and the end of the range (exclusive).
    direction : Direction
        Which rows to count.
    counter : str
        Integer type of counts.
    strict : bool
        Whether items with the same time do not precede each other.
    n_tasks : int
        Number of tasks that keeps all cores busy.
    task_memory : int
        Bytes that one task may use for its rows.
    blocks : tuple of int, optional
        Numbers of user blocks and item blocks; by default, the cheapest.
    """
    n_items = len(support)
    row_bytes = np.dtype(counter).itemsize * n_items
    most_rows = task_memory // row_bytes
    if most_rows < 1:
        raise InputError(
            f"A row of counts of {n_items:,} items needs {in_bytes(row_bytes)}, but task_memory is "
            f"{in_bytes(task_memory)}; raise task_memory= (--task-memory)."
        )
    begin, end = rows
    lengths = np.array([part.n_rows for part in parts], dtype=np.int64)

    def grid(n_user_blocks: int, n_item_blocks: int) -> CountingGrid:
        ranges = item_blocks(support[begin:end], n_item_blocks, most_rows)
        items = tuple((begin + first, begin + last) for first, last in ranges)
        users = tuple(parts[a:b] for a, b in equal_blocks(lengths, n_user_blocks))
        return CountingGrid(users, items, n_items, direction, counter, strict)

    if blocks is not None:
        return grid(*blocks)
    choices = [2**k for k in range(12) if 2**k <= len(parts)]
    grids = (grid(n, min(-(-n_tasks // n), max(end - begin, 1))) for n in choices)
    return min(grids, key=lambda each: each.bytes_moved)


def item_blocks(
    support: NDArray[np.uint32], n_blocks: int, most_rows: int
) -> tuple[tuple[int, int], ...]:
    """Split items into blocks of about equal work, with at most `most_rows` rows each.

    Examples
    --------
    >>> item_blocks(np.array([9, 4, 3, 1, 1], dtype=np.uint32), 2, most_rows=3)
    ((0, 1), (1, 3), (3, 5))
    """
    found: list[tuple[int, int]] = []
    for first, last in equal_blocks(support, n_blocks):
        n_pieces = -(-(last - first) // most_rows)
        edges = np.linspace(first, last, n_pieces + 1).astype(int).tolist()
        found += pairwise(edges)
    return tuple(found)
