"""Who counts what: users and items cut into blocks, with the shuffle known before it happens."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from surerec._memory import in_words
from surerec._threads import equal_blocks
from surerec.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.precedence import Direction
    from surerec.spark._profiles import Part


_ITEM = 4  # bytes of an item in a profile


@dataclass(frozen=True)
class Plan:
    """A grid of user blocks × item blocks, each cell one task for each direction."""

    user_blocks: tuple[tuple[Part, ...], ...]
    item_blocks: tuple[tuple[int, int], ...]
    n_items: int
    directions: tuple[Direction, ...]
    counter: str
    """The type of counts."""

    @property
    def n_blocks(self) -> int:
        """Number of blocks of rows, of all directions."""
        return len(self.directions) * len(self.item_blocks)

    @property
    def n_cells(self) -> int:
        """Number of counting tasks."""
        return len(self.user_blocks) * self.n_blocks

    def block(self, number: int) -> tuple[Direction, tuple[int, int], str]:
        """Give a block's direction, its items, and the name of its part."""
        side, place = divmod(number, len(self.item_blocks))
        direction, block = self.directions[side], self.item_blocks[place]
        return direction, block, _part_name(direction, block)

    def names(self, direction: Direction) -> tuple[str, ...]:
        """Give the names of a direction's parts, in the order of items."""
        return tuple(_part_name(direction, block) for block in self.item_blocks)

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
        n_counts = len(self.directions) * len(self.user_blocks) * n_rows * self.n_items
        return np.dtype(self.counter).itemsize * n_counts


def _part_name(direction: Direction, block: tuple[int, int]) -> str:
    return f"{direction}-{block[0]:010d}"


def plan_counting(
    parts: list[Part],
    support: NDArray[np.uint32],
    rows: tuple[int, int],
    directions: tuple[Direction, ...] = ("followers",),
    *,
    counter: str = "uint16",
    n_tasks: int,
    task_memory: int,
    blocks: tuple[int, int] | None = None,
) -> Plan:
    """Choose the grid that moves the fewest bytes.

    More item blocks mean that profiles are read more often; more user blocks, that counts are
    shuffled. A long profile is spread over all item blocks, so that nobody's is one task's burden.

    Parameters
    ----------
    parts : list of Part
        The profiles, in the order of users.
    support : array of uint32
        Users of each item; work is about proportional to it.
    rows : tuple of int
        Count the rows of these items, from the first to before the second.
    directions : tuple of Direction
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

    def grid(n_user_blocks: int, n_item_blocks: int) -> Plan:
        cut = item_blocks(support[begin:end], n_item_blocks, most_rows)
        blocks = tuple((begin + first, begin + last) for first, last in cut)
        return Plan(_user_blocks(parts, n_user_blocks), blocks, n_items, directions, counter)

    if blocks is not None:
        return grid(*blocks)
    wanted = max(1, -(-n_tasks // len(directions)))
    choices = []
    for n_user_blocks in sorted({1, *(2**k for k in range(12) if 2**k <= len(parts))}):
        needed = max(fewest, -(-wanted // n_user_blocks))
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


def _user_blocks(parts: list[Part], n_blocks: int) -> tuple[tuple[Part, ...], ...]:
    rows = np.array([part.n_rows for part in parts], dtype=np.int64)
    return tuple(tuple(parts[a:b]) for a, b in equal_blocks(rows, n_blocks))
