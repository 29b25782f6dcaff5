"""Rows within a memory budget: some held, the others counted when asked for and kept a while."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from surerec.precedence._cache import RowCache
from surerec.precedence._rows import Block, RowStore, Source, check_fits, read_row
from surerec.precedence._spans import narrowest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.precedence._held import HeldRows
    from surerec.precedence._spans import Direction, Spans


class BoundedRows(RowStore):
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

    kind = "bounded"
    keeps_rows = True

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
        self._cache = RowCache(following.n_items, self._counter_of_others(), cache_bytes)

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
        rows = self.source(direction, np.asarray(items, dtype=np.int64))
        for place in range(len(items)):
            read_row(rows, place, matrix[place])
        return Block(matrix, np.arange(len(items)))

    def source(self, direction: Direction, items: NDArray[np.int64]) -> Source:
        """Give the rows of several items where they are; those that are not held are counted.

        They stay where they are as long as anybody holds on to the places that are given.
        """
        held, spans = self.held[direction], self.spans[direction]
        places = held.slots[items]
        n_dense = len(held.dense)
        missing = np.flatnonzero(places < 0)
        counted, slots = self._cache.rows(direction, items[missing], spans.count_listed, places)
        places[places >= n_dense] += len(counted)  # compressed rows come behind those counted
        places[missing] = n_dense + slots
        return Source(held.dense, counted, held.offsets, held.items, held.counts, places)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Give the spans of each direction, and the rows that are held."""
        following = self.spans["followers"].arrays("following")
        preceding = self.spans["predecessors"].arrays("preceding")
        arrays = following | preceding
        for direction, rows in self.held.items():
            arrays |= rows.arrays(direction)
        return arrays

    def _counter_of_others(self) -> np.dtype[Any]:
        """Give the narrowest integers for rows that are not held: mostly those of rare items.

        No count of a row is above the support of its item.
        """
        support = np.diff(self.spans["followers"].offsets)
        largest = [support[rows.slots < 0].max(initial=0) for rows in self.held.values()]
        return narrowest(int(max(largest)))

    def _row(self, direction: Direction, item: int) -> NDArray[np.unsignedinteger]:
        spans = self.spans[direction]
        row = np.empty(spans.n_items, dtype=spans.counter)
        read_row(self.source(direction, np.array([item])), 0, row)
        row.flags.writeable = False
        return row
