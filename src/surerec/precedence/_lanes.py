"""All rows at once: profiles indexed by groups of sixteen items, each counted in one walk."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from surerec._kernels import count_codes
from surerec._threads import SMALL_WORK, available_threads, equal_blocks, run_blocks
from surerec.precedence._lane_kernels import (
    LANE_BITS,
    LANES,
    count_lanes,
    count_steps,
    empty_into,
    place_spans,
    write_counts,
)
from surerec.precedence._spans import narrowest, too_popular

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from surerec.interactions import Interactions
    from surerec.precedence._spans import Ties


_GROUPS = 4  # written together, so that a column is written in whole lines of the cache
_ITEMS = _GROUPS * LANES
_MOST_IN_16_BITS = 2**16 - 1
_BLOCKS_PER_THREAD = 48  # small ones at the end, when the other thread may be done
_INDEXED_PER_THREAD = 4  # blocks; each has a cursor for every group
_STEPS_A_ROW = 2  # that writing a count takes as long as


class Popular(NamedTuple):
    """What was counted to find out how wide counts are, so that it is counted once."""

    counter: np.dtype[Any]
    """The narrowest integers that hold every count."""
    counted: dict[int, NDArray[np.unsignedinteger]]
    """Counters by block of items."""


@dataclass(frozen=True)
class Lanes:
    """Spans that follow the items of a group, group after group, those of a profile together.

    The spans of group ``g``, which are items ``16 g`` … ``16 g + 15``, are
    ``items[starts[k] >> 4 : stops[k]]`` for ``k`` in ``range(offsets[g], offsets[g + 1])``; the
    item is that of lane ``starts[k] & 15``.
    """

    support: NDArray[np.int64]
    offsets: NDArray[np.int64]
    starts: NDArray[Any]
    stops: NDArray[Any]
    items: NDArray[Any]

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.support)

    @cached_property
    def work(self) -> NDArray[np.int64]:
        """About how long each block of items takes, in places that are walked."""
        n_groups = len(self.offsets) - 1
        steps = np.zeros(-(-n_groups // _GROUPS) * _GROUPS, dtype=np.int64)
        parts = (self.offsets, self.starts, self.stops, steps)
        blocks = equal_blocks(np.diff(self.offsets))
        list(run_blocks(lambda block: count_steps(*block, *parts), blocks))
        walked: NDArray[np.int64] = steps.reshape(-1, _GROUPS).sum(axis=1)
        return walked + _STEPS_A_ROW * _ITEMS * self.n_items

    def count_popular(self) -> Popular:
        """Find the narrowest integers that hold every count: half the memory, and its traffic.

        Only rows of items with more takers than 16 bits can count need a look. They are counted
        from the most popular on: the first that 16 bits do not hold is enough.
        """
        heads = too_popular(self.support)
        heads = heads[np.argsort(-self.support[heads], kind="stable")]
        blocks = list(dict.fromkeys((heads // _ITEMS).tolist()))
        beyond = list[int]()

        def look(block: int) -> NDArray[np.unsignedinteger] | None:
            if beyond:
                return None
            counted = self._count_wide(block)
            largest = int(counted.max())
            if largest > _MOST_IN_16_BITS:
                beyond.append(largest)
            return counted.astype(narrowest(largest), copy=False)

        looked = zip(blocks, run_blocks(look, blocks), strict=True)
        counted = {block: counts for block, counts in looked if counts is not None}
        return Popular(narrowest(max(beyond, default=0)), counted)

    def count_all(self, advance: Callable[[float], None]) -> NDArray[np.unsignedinteger]:
        """Count every item's row into one matrix, on all cores; `advance` hears of the work."""
        popular = self.count_popular()
        matrix = np.empty((self.n_items, self.n_items), dtype=popular.counter)
        self._count_into(popular, matrix, matrix[:0], advance)
        return matrix

    def count_both(
        self, popular: Popular, advance: Callable[[float], None]
    ) -> tuple[NDArray[np.unsignedinteger], NDArray[np.unsignedinteger]]:
        """Count every item's row, and give the other direction too, which is the transpose."""
        matrix = np.empty((self.n_items, self.n_items), dtype=popular.counter)
        transposed = np.empty_like(matrix)
        self._count_into(popular, matrix, transposed, advance)
        return matrix, transposed

    def _count_into(
        self,
        popular: Popular,
        matrix: NDArray[Any],
        transposed: NDArray[Any],
        advance: Callable[[float], None],
    ) -> None:
        work = self.work
        unused: deque[NDArray[np.uint16]] = deque()
        wide = set((too_popular(self.support) // _ITEMS).tolist())

        def count_blocks(blocks: tuple[int, int]) -> int:
            counters = unused.pop() if unused else self._counters(np.dtype(np.uint16))
            for block in range(*blocks):
                counted = popular.counted.pop(block, None)
                if counted is None and block in wide:
                    counted = self._count_wide(block)
                if counted is None:
                    counted = self._count(block, counters)
                write_counts(counted, block * _ITEMS, matrix, transposed)
            unused.append(counters)
            return int(work[slice(*blocks)].sum())

        n_blocks = _worth(_BLOCKS_PER_THREAD, int(work.sum()))
        for done in run_blocks(count_blocks, equal_blocks(work, n_blocks)):
            advance(done)

    def _groups(self, block: int) -> range:
        return range(block * _GROUPS, min((block + 1) * _GROUPS, len(self.offsets) - 1))

    def _counters(self, counter: np.dtype[Any]) -> NDArray[Any]:
        """Make counters of a block, each group's at an address that vectors like."""
        shape = (_GROUPS, self.n_items, LANES)
        room = np.zeros(int(np.prod(shape)) * counter.itemsize + 64, dtype=np.uint8)
        skip = -room.ctypes.data % 64
        return room[skip : len(room) - 64 + skip].view(counter).reshape(shape)

    def _count(self, block: int, counters: NDArray[np.uint16]) -> NDArray[np.uint16]:
        """Count a block of items none of which has more takers than 16 bits count."""
        groups = self._groups(block)
        for place, group in enumerate(groups):
            first, last = self.offsets[group], self.offsets[group + 1]
            count_lanes(first, last, self.starts, self.stops, self.items, counters[place])
        return counters[: len(groups)]

    def _count_wide(self, block: int) -> NDArray[np.uint32]:
        """Count a block of any items: profile by profile each count grows by one at the most."""
        groups = self._groups(block)
        counters = self._counters(np.dtype(np.uint16))[0]
        wide = self._counters(np.dtype(np.uint32))[: len(groups)]
        for place, group in enumerate(groups):
            first, end = int(self.offsets[group]), int(self.offsets[group + 1])
            while first < end:
                last = min(first + _MOST_IN_16_BITS, end)
                while last < end and self.stops[last] == self.stops[last - 1]:
                    last -= 1  # the spans of a profile are counted together
                count_lanes(first, last, self.starts, self.stops, self.items, counters)
                empty_into(counters, wide[place])
                first = last
        return wide


def _worth(per_thread: int, work: int) -> int:
    """Give how many blocks to cut work into: none so small that a thread does not pay."""
    return min(per_thread * available_threads(), 1 + work // SMALL_WORK)


def lanes(interactions: Interactions, ties: Ties) -> Lanes:
    """Give, for each group of sixteen items, the parts of the profiles that follow them.

    Parameters
    ----------
    interactions : Interactions
        The profiles.
    ties : {"order", "strict"}
        Whether items of one instant follow each other in the order of the source, or not at all.

    Examples
    --------
    >>> from surerec import Interactions
    >>> index = lanes(Interactions.from_profiles([0, 2, 4], [0, 1, 1, 0]), "order")
    >>> index.count_all(lambda work: None)
    array([[0, 1],
           [1, 0]], dtype=uint16)
    """
    n_items, n_rows, taken = interactions.n_items, interactions.n_rows, interactions.items_taken
    n_groups = -(-n_items // LANES)
    n_blocks = _worth(_INDEXED_PER_THREAD, n_rows)
    blocks = list(enumerate(equal_blocks(np.diff(interactions.offsets), n_blocks)))
    counts = np.zeros((len(blocks), n_groups * LANES), dtype=np.int64)
    # Half as wide codes are half as much to read, and what is read twice stays in the cache.
    items = np.empty(n_rows, dtype=narrowest(max(n_items - 1, 0)))

    def count(block: tuple[int, tuple[int, int]]) -> None:
        number, (first, last) = block
        rows = slice(interactions.offsets[first], interactions.offsets[last])
        items[rows] = taken[rows]
        count_codes(taken[rows], counts[number])

    list(run_blocks(count, blocks))
    in_groups = counts.reshape(len(blocks), n_groups, LANES).sum(axis=2)
    offsets = np.concatenate(([0], np.cumsum(in_groups.sum(axis=0))))
    # Block b writes group g behind what the blocks before it hold of g: stable, with no locks.
    cursors = np.cumsum(in_groups, axis=0) - in_groups + offsets[:-1]
    index = np.uint32 if n_rows < 2 ** (32 - LANE_BITS) else np.uint64
    starts, stops = np.empty(n_rows, dtype=index), np.empty(n_rows, dtype=index)
    strict, profiles = ties == "strict", (interactions.offsets, interactions.times)

    def place(block: tuple[int, tuple[int, int]]) -> None:
        number, users = block
        place_spans(*users, *profiles, strict, taken, cursors[number], starts, stops)

    list(run_blocks(place, blocks))
    return Lanes(counts.sum(axis=0)[:n_items], offsets, starts, stops, items)
