"""Rows held in memory, each dense or compressed, whichever is smaller."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from surerec._checks import check_offsets
from surerec._threads import run_blocks
from surerec.precedence._kernels import compress_rows
from surerec.precedence._spans import narrowest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from surerec.precedence._spans import Direction, Spans


_ITEM = 4  # bytes
_ROWS_AT_ONCE = 32


@dataclass(frozen=True)
class HeldRows:
    """Rows of some items, the most popular: that of ``slots[i]``, or none where it is negative.

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

    @classmethod
    def from_arrays(cls, direction: Direction, arrays: Mapping[str, NDArray[Any]]) -> HeldRows:
        """Put held rows together from their arrays by role."""
        return cls(*(arrays[role] for role in cls._roles(direction)))

    def arrays(self, direction: Direction) -> dict[str, NDArray[Any]]:
        """Give the arrays by role, as those of one direction."""
        return {role: getattr(self, part) for role, part in self._roles(direction).items()}

    def check(self) -> None:
        """Raise ValueError if a row is not there.

        Its items are looked at as they are read: there may be gigabytes of them.
        """
        check_offsets(self.offsets, len(self.items))
        n_held = len(self.dense) + len(self.offsets) - 1
        if len(self.counts) != len(self.items) or int(self.slots.max(initial=-1)) >= n_held:
            raise ValueError("a held row is not there")

    @classmethod
    def _roles(cls, direction: Direction) -> dict[str, str]:
        return {f"{direction}_held_{each.name}": each.name for each in fields(cls)}


class RowForm(NamedTuple):
    """How a row is held: dense in 16 bits, or compressed if that takes less.

    So are the few rows that 16 bits do not hold, so that all others may be narrow.
    """

    n_items: int
    counter: np.dtype[Any]
    """Of the counts of compressed rows."""

    @property
    def dense_bytes(self) -> int:
        """Bytes of a dense row."""
        return narrowest(0).itemsize * self.n_items

    @property
    def bytes_a_count(self) -> int:
        """Bytes of one count in a compressed row, with its item."""
        return _ITEM + self.counter.itemsize

    def compress(
        self, rows: NDArray[np.unsignedinteger]
    ) -> tuple[
        NDArray[np.int64], NDArray[np.bool_], NDArray[np.uint32], NDArray[np.unsignedinteger]
    ]:
        """Give where each row's counts end, which rows stay dense, items, counts."""
        return compress_rows(rows, (self.dense_bytes - 1) // self.bytes_a_count)

    def bytes_of(
        self, is_dense: NDArray[np.bool_], lengths: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Give the bytes of rows that have so many counts if they are compressed."""
        return np.where(is_dense, self.dense_bytes, self.bytes_a_count * lengths)


def slots_of(is_dense: NDArray[np.bool_], n_items: int) -> NDArray[np.int64]:
    """Give the slots of the rows of the first items by code, dense ones before the compressed.

    Examples
    --------
    >>> slots_of(np.array([True, False, True]), n_items=5)
    array([ 0,  2,  1, -1, -1])
    """
    slots = np.full(n_items, -1, dtype=np.int64)
    compressed = np.count_nonzero(is_dense) + np.cumsum(~is_dense) - 1
    slots[: len(is_dense)] = np.where(is_dense, np.cumsum(is_dense) - 1, compressed)
    return slots


def divide_budget(budget: int) -> tuple[int, int]:
    """Divide memory: for the held rows of each direction, and for rows counted when asked for.

    Examples
    --------
    >>> divide_budget(1_000)
    (375, 250)
    """
    for_others = budget // 4
    return (budget - for_others) // 2, for_others


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
        self._form = RowForm(spans.n_items, spans.counter)
        n_dense = min(budget // max(self._form.dense_bytes, 1), spans.n_items)
        self._dense = np.empty((n_dense, spans.n_items), dtype=narrowest(0))
        n_counts = min(budget // self._form.bytes_a_count, int(spans.work().sum()))
        self._items = np.empty(n_counts, dtype=np.uint32)
        self._counts = np.empty(n_counts, dtype=spans.counter)
        self._offsets, self._is_dense, self._n_dense = [0], list[bool](), 0

    def count(self, block: tuple[int, int]) -> _Counted:
        """Count the rows of a block, and compress those that take less memory so."""
        rows = self._spans.count_rows(block)
        return _Counted(rows, *self._form.compress(rows))

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
        form = self._form
        needed = form.dense_bytes if is_dense else form.bytes_a_count * len(items)
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
        arrays = (slots_of(is_dense, n_items), self._dense[:n_dense],
                  np.array(self._offsets, dtype=np.int64), self._items[:end],
                  self._counts[:end])  # fmt: skip
        for array in arrays:
            array.flags.writeable = False
        return HeldRows(*arrays)


def hold_rows(spans: Spans, budget: int, advance: Callable[[float], None]) -> HeldRows:
    """Count and keep the rows of the most popular items, as many as the budget takes.

    Popular items' rows are expensive to count and asked for most; what is left out is cheap to
    count when asked for. Codes are taken for ranks of popularity here: under other codes other rows
    would be held, which changes speed and never results. `advance` hears of the pairs that were
    counted.
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
