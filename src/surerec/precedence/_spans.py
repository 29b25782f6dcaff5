"""For each item, the parts of the profiles that follow it, or precede it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from surerec._grouping import group_rows
from surerec._threads import equal_blocks, run_blocks
from surerec.precedence._kernels import count_rows, find_spans

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from surerec.interactions import Interactions

__all__ = ["Direction", "Spans", "Ties", "spans"]

Ties = Literal["order", "strict"]
Direction = Literal["followers", "predecessors"]


@dataclass(frozen=True)
class Spans:
    """Spans of the flat profiles, item after item, so that they are read in sequence.

    The spans of item ``i`` are ``items[starts[k]:stops[k]]`` for ``k`` in
    ``range(offsets[i], offsets[i + 1])``: one for each user who took it.
    """

    offsets: NDArray[np.int64]
    starts: NDArray[Any]
    stops: NDArray[Any]
    items: NDArray[np.uint32]

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.offsets) - 1

    def work(self) -> NDArray[np.int64]:
        """Give the number of ordered pairs to count for each item."""
        done = np.concatenate(([0], np.cumsum(self.stops - self.starts, dtype=np.int64)))
        return np.diff(done[self.offsets])

    def count_row(self, item: int) -> NDArray[np.uint32]:
        """Count one item's row."""
        row: NDArray[np.uint32] = self.count_rows((item, item + 1))[0]
        return row

    def count_rows(self, block: tuple[int, int]) -> NDArray[np.uint32]:
        """Count the rows of items ``block[0]`` … ``block[1] − 1``."""
        first, last = block
        rows = np.zeros((last - first, self.n_items), dtype=np.uint32)
        count_rows(first, last, self.offsets, self.starts, self.stops, self.items, rows)
        return rows

    def count_all(self, advance: Callable[[float], None]) -> NDArray[np.uint32]:
        """Count every item's row into one matrix, on all cores; `advance` hears of the pairs."""
        matrix = np.zeros((self.n_items, self.n_items), dtype=np.uint32)
        work = self.work()

        def count_block(block: tuple[int, int]) -> int:
            first, last = block
            rows = matrix[first:last]
            count_rows(first, last, self.offsets, self.starts, self.stops, self.items, rows)
            return int(work[first:last].sum())

        for pairs in run_blocks(count_block, equal_blocks(work)):
            advance(pairs)
        return matrix


def spans(interactions: Interactions, direction: Direction, ties: Ties) -> Spans:
    """Index the profiles by item, in one direction."""
    n_rows = interactions.n_rows
    index = np.uint32 if n_rows < 2**32 else np.uint64  # half the memory traffic where it fits
    starts = np.empty(n_rows, dtype=index)
    stops = np.empty(n_rows, dtype=index)
    strict, following = ties == "strict", direction == "followers"
    profiles = (interactions.offsets, interactions.times)
    list(
        run_blocks(
            lambda block: find_spans(*block, *profiles, strict, following, starts, stops),
            equal_blocks(np.diff(interactions.offsets)),
        )
    )
    offsets, places = group_rows(interactions.items_taken, interactions.n_items)
    return Spans(offsets, starts[places], stops[places], interactions.items_taken)
