"""Rows within a memory budget: some held, the others counted when asked for and kept a while."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from surerec.precedence._rows import Block, check_fits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.precedence._held import HeldRows
    from surerec.precedence._spans import Direction, Spans

__all__ = ["BoundedRows"]


class BoundedRows:
    """Rows of both directions within a memory budget, which changes speed and never results.

    Parameters
    ----------
    following, preceding : Spans
        What rows are counted from.
    held : dict of Direction to HeldRows
        The rows that are held.
    cache_bytes : int
        Memory for rows that were counted when asked for; the least recently used leave first.
    """

    def __init__(
        self,
        following: Spans,
        preceding: Spans,
        held: dict[Direction, HeldRows],
        cache_bytes: int,
    ) -> None:
        self.spans: dict[Direction, Spans] = {"followers": following, "predecessors": preceding}
        self.held = held
        self.cache_bytes = cache_bytes
        self._rows_in_cache = cache_bytes // (
            following.counter.itemsize * max(following.n_items, 1)
        )
        self._cache: OrderedDict[tuple[Direction, int], NDArray[np.unsignedinteger]] = OrderedDict()
        self._lock = Lock()  # servers ask from many threads

    def followers(self, item: int) -> NDArray[np.unsignedinteger]:
        """Give ``PC(item, ·)``."""
        return self._row("followers", item)

    def predecessors(self, item: int) -> NDArray[np.unsignedinteger]:
        """Give ``PC(·, item)``."""
        return self._row("predecessors", item)

    def block(self, direction: Direction, items: NDArray[np.integer]) -> Block:
        """Give the rows of several items, copied or counted into one matrix."""
        n_items, counter = self.spans[direction].n_items, self.spans[direction].counter
        check_fits(len(items), n_items, counter)
        matrix = np.empty((len(items), n_items), dtype=counter)
        for place, item in enumerate(items.tolist()):
            if not self.held[direction].fill(item, matrix[place]):
                matrix[place] = self._counted(direction, item)
        return Block(matrix, np.arange(len(items)))

    def _row(self, direction: Direction, item: int) -> NDArray[np.unsignedinteger]:
        spans = self.spans[direction]
        row = np.empty(spans.n_items, dtype=spans.counter)
        if self.held[direction].fill(item, row):
            return row
        return self._counted(direction, item)

    def _counted(self, direction: Direction, item: int) -> NDArray[np.unsignedinteger]:
        key = (direction, item)
        with self._lock:
            if key in self._cache:
                self._cache.move_to_end(key)
                return self._cache[key]
        row = self.spans[direction].count_row(item)
        row.flags.writeable = False
        if self._rows_in_cache:
            with self._lock:
                self._cache[key] = row
                while len(self._cache) > self._rows_in_cache:
                    self._cache.popitem(last=False)
        return row
