"""Rows held in memory, each dense or compressed, whichever is smaller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from surerec._threads import run_blocks
from surerec.precedence._kernels import compress_rows
from surerec.precedence._spans import narrowest

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


class _Counted(NamedTuple):
    """Rows of a block of items, as they were counted and compressed."""

    rows: NDArray[np.unsignedinteger]
    ends: NDArray[np.int64]
    is_dense: NDArray[np.bool_]
    items: NDArray[np.uint32]
    counts: NDArray[np.unsignedinteger]


class _Held:
    """Rows as they come, within a budget; room that is never written to takes no memory."""

    def __init__(self, spans: Spans, budget: int) -> None:
        self._spans, self._left = spans, budget
        self._dense_row = narrowest(0).itemsize * spans.n_items
        self._each = _ITEM + spans.counter.itemsize
        n_dense = min(budget // max(self._dense_row, 1), spans.n_items)
        self._dense = np.empty((n_dense, spans.n_items), dtype=narrowest(0))
        n_counts = min(budget // self._each, int(spans.work().sum()))
        self._items = np.empty(n_counts, dtype=np.uint32)
        self._counts = np.empty(n_counts, dtype=spans.counter)
        self._offsets, self._is_dense, self._n_dense = [0], list[bool](), 0

    def count(self, block: tuple[int, int]) -> _Counted:
        """Count the rows of a block, and compress those that take less memory so.

        So are the few rows that 16 bits do not hold, so that all others may be narrow.
        """
        rows = self._spans.count_rows(block)
        return _Counted(rows, *compress_rows(rows, (self._dense_row - 1) // self._each))

    def take(self, counted: _Counted) -> bool:
        """Hold the rows of one more block; tell whether there was room for all."""
        first = 0
        ends, is_dense = counted.ends.tolist(), counted.is_dense.tolist()
        for row, end, dense in zip(counted.rows, ends, is_dense, strict=True):
            part = slice(first, end)
            if not self._take(row, counted.items[part], counted.counts[part], is_dense=dense):
                return False
            first = end
        return True

    def _take(
        self,
        row: NDArray[np.unsignedinteger],
        items: NDArray[np.uint32],
        counts: NDArray[np.unsignedinteger],
        *,
        is_dense: bool,
    ) -> bool:
        needed = self._dense_row if is_dense else self._each * len(items)
        if needed > self._left:
            return False
        self._left -= needed
        if is_dense:
            self._dense[self._n_dense] = row
            self._n_dense += 1
        else:
            where = slice(self._offsets[-1], self._offsets[-1] + len(items))
            self._items[where], self._counts[where] = items, counts
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
    # The blocks behind the last that fits are not counted, so there are more of them.
    for (first, last), counted in zip(blocks, run_blocks(held.count, blocks), strict=False):
        if not held.take(counted):
            break
        advance(float(spans.work()[first:last].sum()))
    return held.rows(n_items)
