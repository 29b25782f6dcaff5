"""Rows that were counted when asked for, kept for the next who asks."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from itertools import islice
from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np

from surerec.precedence._rows import check_fits

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from surerec.precedence._spans import Direction

    Count = Callable[[NDArray[np.int64], NDArray[np.int64], NDArray[Any]], None]


class RowCache:
    """A matrix whose rows are given out, and counted anew when they are needed for another item.

    Rows that somebody reads are not given to another: servers ask from many threads. Who finds no
    room counts into a matrix of their own.

    Parameters
    ----------
    n_items : int
        Counts in a row.
    counter : dtype
        Of the counts.
    n_bytes : int
        Memory that the matrix may take.
    """

    def __init__(self, n_items: int, counter: np.dtype[Any], n_bytes: int) -> None:
        fit = n_bytes // max(counter.itemsize * n_items, 1)
        n_rows = min(fit, 2 * n_items)  # there are no more, in both directions
        # Memory that is never written to is never taken.
        self._matrix = np.empty((n_rows, n_items), dtype=counter)
        self._readable = self._matrix.view()
        self._readable.flags.writeable = False
        self._slots: OrderedDict[tuple[Direction, int], int] = OrderedDict()
        self._is_kept = np.zeros(n_rows, dtype=bool)
        self._readers = np.zeros(n_rows, dtype=np.int64)
        self._free = list(range(n_rows - 1, -1, -1))
        self._lock = RLock()  # a reader may be collected while this thread holds it

    @property
    def n_kept(self) -> int:
        """Rows that are kept."""
        return len(self._slots)

    def rows(
        self, direction: Direction, items: NDArray[np.int64], count: Count, reader: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Give a matrix that has the rows of some items, and where.

        They stay there as long as `reader` lives. `count` counts the rows of items into slots of a
        matrix.
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
        """Find or free a slot for each item; none at all if there are too few."""
        with self._lock:
            slots = np.array([self._slots.get((direction, i), -1) for i in items.tolist()])
            is_new = slots < 0
            for item, slot in zip(items.tolist(), slots.tolist(), strict=True):
                if slot >= 0:
                    self._slots.move_to_end((direction, item))
                    self._readers[slot] += 1
            found = self._take(int(is_new.sum()))
            if found is None:
                self._unread(slots[~is_new])
                return None, is_new
            slots[is_new] = found
            self._readers[slots[is_new]] += 1
            return slots, is_new

    def _take(self, n_wanted: int) -> list[int] | None:
        """Take slots from what nobody reads, the longest unused first."""
        if n_wanted > len(self._free):
            n_more = n_wanted - len(self._free)
            unread = (key for key, slot in self._slots.items() if not self._readers[slot])
            keys = list(islice(unread, n_more))
            if len(keys) < n_more:
                return None
            leaving = [self._slots.pop(key) for key in keys]
            self._is_kept[leaving] = False
            self._free += leaving
        return [self._free.pop() for _ in range(n_wanted)]

    def _keep(
        self, direction: Direction, items: NDArray[np.int64], slots: NDArray[np.int64]
    ) -> None:
        """Let others find rows, now that they are counted, unless somebody was faster."""
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
