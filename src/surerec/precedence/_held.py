"""Rows held in memory, each dense or compressed, whichever is smaller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from surerec._threads import run_blocks

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from surerec.precedence._spans import Spans

__all__ = ["HeldRows", "hold_rows", "rows_within"]

_DENSE, _COMPRESSED = 4, 8  # bytes a count takes in a dense and in a compressed row
_ROWS_AT_ONCE = 32


@dataclass(frozen=True)
class HeldRows:
    """The rows of the most popular items: of ``slots[i]``, or none where that is negative.

    Rows ``0 … len(dense) − 1`` are dense; row ``s`` after them is compressed and has
    ``counts[offsets[c]:offsets[c + 1]]`` at ``items[offsets[c]:offsets[c + 1]]`` for
    ``c = s − len(dense)``.
    """

    slots: NDArray[np.int64]
    dense: NDArray[np.uint32]
    offsets: NDArray[np.int64]
    items: NDArray[np.uint32]
    counts: NDArray[np.uint32]

    @property
    def nbytes(self) -> int:
        """Memory taken by the rows."""
        return self.dense.nbytes + self.items.nbytes + self.counts.nbytes

    def fill(self, item: int, row: NDArray[np.uint32]) -> bool:
        """Write an item's row into `row`; tell whether it is held."""
        slot = int(self.slots[item])
        if slot < 0:
            return False
        if slot < len(self.dense):
            row[:] = self.dense[slot]
            return True
        place = slot - len(self.dense)
        where = slice(self.offsets[place], self.offsets[place + 1])
        row[:] = 0
        row[self.items[where]] = self.counts[where]
        return True


def hold_rows(spans: Spans, budget: int, advance: Callable[[float], None]) -> HeldRows:
    """Count and keep the rows of the most popular items, as many as the budget surely takes.

    Popular items' rows are dear to count and asked for most; what is left out is cheap to count
    when asked for. `advance` hears of the pairs that were counted.
    """
    n_items, work = spans.n_items, spans.work()
    n_held = rows_within(work, budget)
    may_be_dense = int(np.count_nonzero(2 * np.minimum(work[:n_held], n_items) >= n_items))
    most = int(np.minimum(work[:n_held], n_items // 2).sum())
    # Room for the worst case: pages that are never written to take no memory.
    dense = np.empty((may_be_dense, n_items), dtype=np.uint32)
    items, counts = np.empty(most, dtype=np.uint32), np.empty(most, dtype=np.uint32)
    offsets, is_dense, n_dense = [0], np.zeros(n_held, dtype=bool), 0
    blocks = [(a, min(a + _ROWS_AT_ONCE, n_held)) for a in range(0, n_held, _ROWS_AT_ONCE)]
    for (first, last), rows in zip(blocks, run_blocks(spans.count_rows, blocks), strict=True):
        for item, row in zip(range(first, last), rows, strict=True):
            places = np.flatnonzero(row)
            if 2 * len(places) >= n_items:
                dense[n_dense] = row
                is_dense[item] = True
                n_dense += 1
                continue
            where = slice(offsets[-1], offsets[-1] + len(places))
            items[where], counts[where] = places, row[places]
            offsets.append(where.stop)
        advance(float(work[first:last].sum()))
    slots = np.full(n_items, -1, dtype=np.int64)
    compressed = n_dense + np.cumsum(~is_dense) - 1
    slots[:n_held] = np.where(is_dense, np.cumsum(is_dense) - 1, compressed)
    end = offsets[-1]
    return HeldRows(slots, dense[:n_dense], np.array(offsets), items[:end], counts[:end])


def rows_within(work: NDArray[np.int64], budget: int) -> int:
    """Say the rows of how many items, the most popular first, surely fit into so many bytes.

    Examples
    --------
    >>> rows_within(np.array([9, 4, 1]), budget=25)
    2
    """
    largest = np.minimum(_DENSE * len(work), _COMPRESSED * work)
    return int(np.searchsorted(np.cumsum(largest), budget, side="right"))
