"""Rows within a memory budget: some are stored, the others are counted on demand and cached."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from dataclasses import dataclass, fields
from itertools import islice
from threading import RLock
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from surerec._arguments import check_offsets
from surerec._memory import available_memory
from surerec._threads import run_blocks
from surerec.precedence._kernels import compress_rows
from surerec.precedence._rows import (
    DenseRows,
    NoRows,
    RowSource,
    RowStore,
    check_fits,
    linear_budget,
)
from surerec.precedence._spans import Spans, narrow_codes, narrowest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from surerec.interactions import Interactions
    from surerec.precedence._spans import Direction

    Count = Callable[[NDArray[np.int64], NDArray[np.int64], NDArray[Any]], None]

_DIRECTIONS: tuple[Direction, ...] = ("followers", "predecessors")
_MOST_CACHE = 1 << 30  # bytes of rows counted on demand
_ITEM = 4  # bytes
_ROWS_AT_ONCE = 32


@dataclass(frozen=True)
class HeldRows:
    """Stored rows of the most popular items; the row of item i is ``slots[i]``, −1 if not stored.

    Rows ``0 … len(dense) − 1`` are dense. Each later row ``s`` is compressed: it has
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
        """Memory of the rows in bytes."""
        return self.dense.nbytes + self.items.nbytes + self.counts.nbytes

    @classmethod
    def from_arrays(cls, direction: Direction, arrays: Mapping[str, NDArray[Any]]) -> HeldRows:
        """Build stored rows from their arrays by role."""
        return cls(*(arrays[role] for role in cls._roles(direction)))

    def arrays(self, direction: Direction) -> dict[str, NDArray[Any]]:
        """Return the arrays by role for one direction."""
        return {role: getattr(self, part) for role, part in self._roles(direction).items()}

    def check(self) -> None:
        """Raise ValueError if a row is missing.

        Item codes are checked while they are read, because there may be gigabytes.
        """
        check_offsets(self.offsets, len(self.items))
        n_held = len(self.dense) + len(self.offsets) - 1
        if len(self.counts) != len(self.items) or int(self.slots.max(initial=-1)) >= n_held:
            raise ValueError("a stored row is missing")

    @classmethod
    def _roles(cls, direction: Direction) -> dict[str, str]:
        return {f"{direction}_held_{each.name}": each.name for each in fields(cls)}


class RowForm(NamedTuple):
    """Storage form of rows: dense in 16 bits, or compressed if that is smaller.

    Rows with counts above 16 bits are compressed, so that all dense rows are narrow.
    """

    n_items: int
    counter: np.dtype[Any]
    """Type of the counts of compressed rows."""

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
        """Return the end of each row's counts, a mask of dense rows, items and counts."""
        return compress_rows(rows, (self.dense_bytes - 1) // self.bytes_a_count)

    def bytes_of(
        self, is_dense: NDArray[np.bool_], lengths: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the bytes of rows; compressed ones have `lengths` counts."""
        return np.where(is_dense, self.dense_bytes, self.bytes_a_count * lengths)


def slots_of(is_dense: NDArray[np.bool_], n_items: int) -> NDArray[np.int64]:
    """Return the slots of the rows of the first items by code, dense rows first.

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
    """Divide memory: for stored rows of each direction, and for rows counted on demand.

    Examples
    --------
    >>> divide_budget(1_000)
    (375, 250)
    """
    for_others = budget // 4
    return (budget - for_others) // 2, for_others


def hold_rows(spans: Spans, budget: int, advance: Callable[[float], None]) -> HeldRows:
    """Count and store the rows of the most popular items within the budget.

    Rows of popular items are the most expensive to count and the most used. Item codes are assumed
    to be popularity ranks; otherwise other rows are stored, which affects only the speed. `advance`
    is called with the number of counted pairs.
    """
    form, n_items, left = RowForm(spans.n_items, spans.counter), spans.n_items, budget
    # Pages that are never written use no memory.
    n_dense, end = min(budget // max(form.dense_bytes, 1), n_items), 0
    dense = np.empty((n_dense, n_items), dtype=narrowest(0))
    n_counts = min(budget // form.bytes_a_count, int(spans.work.sum()))
    items, counts = np.empty(n_counts, np.uint32), np.empty(n_counts, spans.counter)
    offsets, is_dense = [0], list[bool]()

    def count(block: tuple[int, int]) -> tuple[NDArray[Any], ...]:
        rows = spans.count_rows(block)
        return rows, *form.compress(rows)

    starts = range(0, n_items, _ROWS_AT_ONCE) if budget else ()
    blocks = [(first, min(first + _ROWS_AT_ONCE, n_items)) for first in starts]
    # Not strict: blocks after the last that fits are not counted.
    for block, (rows, ends, stay, some, them) in zip(
        blocks, run_blocks(count, blocks), strict=False
    ):
        lengths = np.diff(ends, prepend=0)
        needed = np.cumsum(form.bytes_of(stay, lengths))
        n = int(np.searchsorted(needed, left, side="right"))  # number of rows that fit
        first, n_dense = sum(is_dense), int(stay[:n].sum())
        dense[first : first + n_dense] = rows[:n][stay[:n]]
        until = int(ends[n - 1]) if n else 0
        items[end : end + until], counts[end : end + until] = some[:until], them[:until]
        offsets += (end + ends[:n][~stay[:n]]).tolist()
        end, is_dense = end + until, is_dense + stay[:n].tolist()
        if n < len(rows):
            break
        left -= int(needed[-1])
        advance(float(spans.work[slice(*block)].sum()))
    slots = slots_of(np.array(is_dense, dtype=bool), n_items)
    arrays = (slots, dense[: sum(is_dense)], np.array(offsets), items[:end], counts[:end])
    for array in arrays:
        array.flags.writeable = False
    return HeldRows(*arrays)


class RowCache:
    """Cache of rows in one matrix; the least recently used row is replaced first.

    Rows in use are never replaced, because servers read from many threads. If no row is free, a
    request gets its own matrix.

    Parameters
    ----------
    n_items : int
        Number of counts in a row.
    counter : dtype
        Type of the counts.
    n_bytes : int
        Maximum memory of the matrix.
    """

    def __init__(self, n_items: int, counter: np.dtype[Any], n_bytes: int) -> None:
        fit = n_bytes // max(counter.itemsize * n_items, 1)
        n_rows = min(fit, 2 * n_items)  # all rows of both directions
        # Pages that are never written use no memory.
        self._matrix = np.empty((n_rows, n_items), dtype=counter)
        self._readable = self._matrix.view()
        self._readable.flags.writeable = False
        self._slots: OrderedDict[tuple[Direction, int], int] = OrderedDict()
        self._is_kept = np.zeros(n_rows, dtype=bool)
        self._readers = np.zeros(n_rows, dtype=np.int64)
        self._free = list(range(n_rows - 1, -1, -1))
        self._lock = RLock()  # garbage collection may release a reader in this thread

    @property
    def n_kept(self) -> int:
        """Number of cached rows."""
        return len(self._slots)

    def rows(
        self, direction: Direction, items: NDArray[np.int64], count: Count, reader: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Return a matrix with the rows of items, and their positions.

        The rows stay while `reader` is alive. `count` counts rows of items into slots of a matrix.
        """
        if not len(items):
            return self._readable, items
        slots, is_new = self._reserve(direction, items)
        if slots is None:
            n_items, counter = self._matrix.shape[1], self._matrix.dtype
            check_fits(len(items), n_items, counter)
            own = np.empty((len(items), n_items), dtype=counter)
            slots = np.arange(len(items))
            count(items, slots, own)
            own.flags.writeable = False
            return own, slots
        weakref.finalize(reader, self._release, slots)
        if is_new.any():
            count(items[is_new], slots[is_new], self._matrix)
            self._keep(direction, items[is_new], slots[is_new])
        return self._readable, slots

    def _reserve(
        self, direction: Direction, items: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64] | None, NDArray[np.bool_]]:
        """Find or free a slot for each item; return None if there are too few."""
        with self._lock:
            slots = np.array([self._slots.get((direction, i), -1) for i in items.tolist()])
            is_new = slots < 0
            for item, slot in zip(items.tolist(), slots.tolist(), strict=True):
                if slot >= 0:
                    self._slots.move_to_end((direction, item))
                    self._readers[slot] += 1
            found = self._free_slots(int(is_new.sum()))
            if found is None:
                self._unread(slots[~is_new])
                return None, is_new
            slots[is_new] = found
            self._readers[slots[is_new]] += 1
            return slots, is_new

    def _free_slots(self, n_needed: int) -> list[int] | None:
        """Return slots without readers, the least recently used first."""
        if n_needed > len(self._free):
            n_more = n_needed - len(self._free)
            unread = (key for key, slot in self._slots.items() if not self._readers[slot])
            keys = list(islice(unread, n_more))
            if len(keys) < n_more:
                return None
            leaving = [self._slots.pop(key) for key in keys]
            self._is_kept[leaving] = False
            self._free += leaving
        return [self._free.pop() for _ in range(n_needed)]

    def _keep(
        self, direction: Direction, items: NDArray[np.int64], slots: NDArray[np.int64]
    ) -> None:
        """Publish counted rows, unless another thread did so first."""
        with self._lock:
            for item, slot in zip(items.tolist(), slots.tolist(), strict=True):
                self._is_kept[slot] = self._slots.setdefault((direction, item), slot) == slot

    def _release(self, slots: NDArray[np.int64]) -> None:
        with self._lock:
            self._unread(slots)

    def _unread(self, slots: NDArray[np.int64]) -> None:
        self._readers[slots] -= 1
        done = (self._readers[slots] == 0) & ~self._is_kept[slots]
        self._free += slots[done].tolist()


class BoundedRows(RowStore):
    """Rows of both directions within a memory budget, which affects only the speed.

    Parameters
    ----------
    following, preceding : Spans
        Index from which rows are counted.
    held : dict of Direction to HeldRows
        Stored rows.
    cache_bytes : int
        Memory for rows counted on demand; the least recently used are replaced first.
    """

    kind = "bounded"

    def __init__(
        self, following: Spans, preceding: Spans, held: dict[Direction, HeldRows], cache_bytes: int
    ) -> None:
        self.spans: dict[Direction, Spans] = {"followers": following, "predecessors": preceding}
        self.held = held
        self.cache_bytes = cache_bytes
        self._cache = RowCache(following.n_items, self._counter_of_others(), cache_bytes)

    def source(self, direction: Direction, items: NDArray[np.int64]) -> RowSource:
        """Return the rows of several items without copies; rows that are not stored are counted.

        They stay valid while the returned `places` are alive.
        """
        held, spans = self.held[direction], self.spans[direction]
        places = held.slots[items]
        n_dense = len(held.dense)
        missing = np.flatnonzero(places < 0)
        counted, slots = self._cache.rows(direction, items[missing], spans.count_listed, places)
        places[places >= n_dense] += len(counted)  # compressed rows follow the counted ones
        places[missing] = n_dense + slots
        return RowSource(held.dense, counted, held.offsets, held.items, held.counts, places)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the spans of each direction and the stored rows."""
        following = self.spans["followers"].arrays("following")
        preceding = self.spans["predecessors"].arrays("preceding")
        arrays = following | preceding
        for direction, rows in self.held.items():
            arrays |= rows.arrays(direction)
        return arrays

    def _counter_of_others(self) -> np.dtype[Any]:
        """Return the narrowest integers for rows that are not stored, mostly of rare items.

        No count of a row exceeds the support of its item.
        """
        support = np.diff(self.spans["followers"].offsets)
        largest = [support[rows.slots < 0].max(initial=0) for rows in self.held.values()]
        return narrowest(int(max(largest)))


def rows_from(
    kind: str, arrays: Mapping[str, NDArray[Any]], interactions: Interactions
) -> RowStore:
    """Restore a row store from its kind and its arrays.

    Parameters
    ----------
    kind : {"dense", "bounded", "none"}
        Kind of the store.
    arrays : mapping of str to array
        Result of its method `arrays`.
    interactions : Interactions
        Profiles of the store; only dense rows work without users.

    Raises
    ------
    ValueError
        If the kind is unknown, or an index is out of range.

    Examples
    --------
    >>> from surerec import Interactions, count_precedence
    >>> films = Interactions.from_profiles([0, 2, 4, 6], [0, 1, 0, 1, 1, 0])
    >>> rows = count_precedence(films, strategy="bounded").rows
    >>> again = rows_from(rows.kind, rows.arrays(), films)
    >>> again.followers(0)
    array([0, 2], dtype=uint16)
    """
    if kind == DenseRows.kind:
        return DenseRows(arrays["followers"], arrays["predecessors"])
    if kind == NoRows.kind:
        return NoRows()
    if kind != BoundedRows.kind:
        raise ValueError(f"unknown kind of rows: {kind}")
    codes = narrow_codes(interactions.item_codes, interactions.n_items)
    longest = int(np.diff(interactions.offsets).max(initial=0))
    following, preceding = (
        Spans.from_arrays(side, arrays, codes) for side in ("following", "preceding")
    )
    # Before anything is counted: kernels check no bounds.
    for spans in (following, preceding):
        spans.check(longest)
    held = {direction: HeldRows.from_arrays(direction, arrays) for direction in _DIRECTIONS}
    for rows in held.values():
        rows.check()
    cache_bytes = min(available_memory() // 4, _MOST_CACHE, linear_budget(interactions.n_rows))
    return BoundedRows(following, preceding, held, cache_bytes)
