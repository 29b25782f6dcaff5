"""Rows held in memory, each dense or compressed, whichever is smaller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from surerec._threads import run_blocks
from surerec.precedence._spans import MOST_IN_16_BITS, narrowest

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from surerec.precedence._spans import Spans

__all__ = ["HeldRows", "hold_rows"]

_ITEM = 4  # bytes
_ROWS_AT_ONCE = 32


@dataclass(frozen=True)
class HeldRows:
    """The rows of the most popular items: of ``slots[i]``, or none where that is negative.

    Rows ``0 … len(dense) − 1`` are dense; row ``s`` after them is compressed and has
    ``counts[offsets[c]:offsets[c + 1]]`` at ``items[offsets[c]:offsets[c + 1]]`` for
    ``c = s − len(dense)``.
    """

    slots: NDArray[np.int64]
    dense: NDArray[np.unsignedinteger]
    offsets: NDArray[np.int64]
    items: NDArray[np.uint32]
    counts: NDArray[np.unsignedinteger]

    @property
    def nbytes(self) -> int:
        """Memory taken by the rows."""
        return self.dense.nbytes + self.items.nbytes + self.counts.nbytes


class _Held:
    """Rows as they come, within a budget; room that is never written to takes no memory."""

    def __init__(self, spans: Spans, budget: int) -> None:
        self._left = budget
        self._dense_row = narrowest(0).itemsize * spans.n_items
        self._each = _ITEM + spans.counter.itemsize
        n_dense = min(budget // max(self._dense_row, 1), spans.n_items)
        self._dense = np.empty((n_dense, spans.n_items), dtype=narrowest(0))
        n_counts = min(budget // self._each, int(spans.work().sum()))
        self._items = np.empty(n_counts, dtype=np.uint32)
        self._counts = np.empty(n_counts, dtype=spans.counter)
        self._offsets, self._is_dense, self._n_dense = [0], list[bool](), 0

    def take(self, row: NDArray[np.unsignedinteger]) -> bool:
        """Hold one more row, if there is room."""
        places = np.flatnonzero(row)
        compressed = self._each * len(places)
        # The few rows that 16 bits do not hold are compressed, so that all others may be narrow.
        narrow = row.dtype == self._dense.dtype or int(row.max(initial=0)) <= MOST_IN_16_BITS
        is_dense = narrow and self._dense_row <= compressed
        needed = self._dense_row if is_dense else compressed
        if needed > self._left:
            return False
        self._left -= needed
        if is_dense:
            self._dense[self._n_dense] = row
            self._n_dense += 1
        else:
            where = slice(self._offsets[-1], self._offsets[-1] + len(places))
            self._items[where], self._counts[where] = places, row[places]
            self._offsets.append(where.stop)
        self._is_dense.append(is_dense)
        return True

    def rows(self, n_items: int) -> HeldRows:
        """Give what is held."""
        is_dense = np.array(self._is_dense, dtype=bool)
        n_dense, end = self._n_dense, self._offsets[-1]
        slots = np.full(n_items, -1, dtype=np.int64)
        compressed = n_dense + np.cumsum(~is_dense) - 1
        slots[: len(is_dense)] = np.where(is_dense, np.cumsum(is_dense) - 1, compressed)
        arrays = (slots, self._dense[:n_dense], np.array(self._offsets, dtype=np.int64),
                  self._items[:end], self._counts[:end])  # fmt: skip
        for array in arrays:
            array.flags.writeable = False
        return HeldRows(*arrays)


def hold_rows(spans: Spans, budget: int, advance: Callable[[float], None]) -> HeldRows:
    """Count and keep the rows of the most popular items, as many as the budget takes.

    Popular items' rows are dear to count and asked for most; what is left out is cheap to count
    when asked for. `advance` hears of the pairs that were counted.
    """
    held, n_items = _Held(spans, budget), spans.n_items
    starts = range(0, n_items, _ROWS_AT_ONCE) if budget else ()
    blocks = [(first, min(first + _ROWS_AT_ONCE, n_items)) for first in starts]
    counted = run_blocks(spans.count_rows, blocks)
    for (first, last), rows in zip(blocks, counted, strict=False):
        if not all(held.take(row) for row in rows):
            break
        advance(float(spans.work()[first:last].sum()))
    return held.rows(n_items)
