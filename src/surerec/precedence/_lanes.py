"""Counting of all rows at once, in groups of sixteen items with vector instructions.

What follows an item in a profile also follows each item before it. So one pass over a profile
counts sixteen items: at each position it adds a vector of ones and zeros (lanes), with a one for
each of the items that came before.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from surerec._kernels import count_codes
from surerec._threads import SMALL_WORK, available_threads, equal_blocks, run_blocks
from surerec.precedence._kernels import prefetch_span
from surerec.precedence._spans import narrowest, too_popular

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from surerec.interactions import Interactions
    from surerec.precedence._spans import Ties

LANES = 16
"""Rows counted together: counters of 16 bits that fill a vector of 256 bits."""

LANE_BITS = 4
"""Number of lowest bits of a start that hold the item's lane."""

_AHEAD = 12  # spans to prefetch
_GROUPS = 4  # written together, so that columns fill whole cache lines
_ITEMS = _GROUPS * LANES
_MOST_IN_16_BITS = 2**16 - 1
_BLOCKS_PER_THREAD = 48  # small blocks balance the load
_INDEXED_PER_THREAD = 4  # blocks; each needs a cursor for every group
_STEPS_A_ROW = 2  # cost of writing a count, in steps of counting


@intrinsic
def _add_lanes(_context: Any, items: Any, begin: Any, end: Any, lanes: Any, counters: Any) -> Any:
    """Add one to the counters of ``items[begin:end]`` in the lanes whose bit is set.

    Explicit vectors, because the compiler does not vectorise this loop.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        types_given = signature.args
        views = [context.make_array(types_given[k])(context, builder, arguments[k]) for k in (0, 4)]
        first, last, bits = (
            context.cast(builder, arguments[k], types_given[k], types.uint64) for k in (1, 2, 3)
        )
        i64, vector = ir.IntType(64), ir.VectorType(ir.IntType(16), LANES)
        mask = builder.bitcast(
            builder.trunc(bits, ir.IntType(LANES)), ir.VectorType(ir.IntType(1), LANES)
        )
        ones = builder.zext(mask, vector)
        base = builder.bitcast(views[1].data, vector.as_pointer())
        one = ir.Constant(i64, 1)
        with cgutils.for_range_slice(builder, first, last, one, inc=True) as (place, _):
            item = builder.load(builder.gep(views[0].data, [place]))
            where = builder.gep(base, [item if item.type == i64 else builder.zext(item, i64)])
            counted = builder.add(builder.load(where, align=2), ones)
            builder.store(counted, where, align=2)
        return context.get_dummy_value()

    return types.void(items, begin, end, lanes, counters), generate


@njit(nogil=True, cache=True)
def place_spans(
    first: int,
    last: int,
    offsets: NDArray[np.int64],
    times: NDArray[np.int64],
    strict: bool,  # noqa: FBT001  # a kernel takes positional arguments only
    consumed: NDArray[np.uint32],
    cursors: NDArray[np.int64],
    starts: NDArray[Any],
    stops: NDArray[Any],
) -> None:
    """Append the span after each position of users `first` … `last` − 1 to the spans of its group.

    A group is sixteen items. The lowest bits of a start are the item's lane, its position in the
    group. With `strict`, items with the same time do not follow.
    """
    for user in range(first, last):
        begin, end = np.uint64(offsets[user]), np.uint64(offsets[user + 1])
        after = begin
        for place in range(begin, end):
            if after <= place:
                after = place + np.uint64(1)
                while strict and after < end and times[after] == times[place]:
                    after += np.uint64(1)
            item = np.uint64(consumed[place])
            group = item >> np.uint64(LANE_BITS)
            k = np.uint64(cursors[group])
            starts[k] = (after << np.uint64(LANE_BITS)) | (item & np.uint64(LANES - 1))
            stops[k] = end
            cursors[group] = np.int64(k + np.uint64(1))


@njit(nogil=True, cache=True)
def count_lanes(
    first: int,
    last: int,
    starts: NDArray[Any],
    stops: NDArray[Any],
    items: NDArray[Any],
    counters: NDArray[np.uint16],
) -> None:
    """Count the spans `first` … `last` − 1 of one group into its counters, item by lane.

    The spans of a profile are adjacent, in its order.
    """
    begin, end, all_spans = np.uint64(first), np.uint64(last), np.uint64(len(starts))
    lanes, before = np.uint64(0), np.uint64(0)
    for k in range(begin, end):
        ahead = k + np.uint64(_AHEAD)
        if ahead < all_spans:
            place = np.uint64(starts[ahead]) >> np.uint64(LANE_BITS)
            prefetch_span(items, place)
        start, stop = np.uint64(starts[k]), np.uint64(stops[k])
        lane = np.uint64(1) << (start & np.uint64(LANES - 1))
        lanes = lanes | lane if stop == before else lane
        before, until, after = stop, stop, k + np.uint64(1)
        if after < end:  # until the next span of the profile, which adds a lane
            following = np.uint64(starts[after]) >> np.uint64(LANE_BITS)
            until = following if np.uint64(stops[after]) == stop else stop
        _add_lanes(items, start >> np.uint64(LANE_BITS), until, lanes, counters)  # type: ignore[call-arg]


@njit(nogil=True, cache=True)
def empty_into(counters: NDArray[np.uint16], wide: NDArray[np.uint32]) -> None:
    """Add counters to wider ones, and reset them."""
    for item in range(len(counters)):
        for lane in range(LANES):
            wide[item, lane] += counters[item, lane]
            counters[item, lane] = 0


@njit(nogil=True, cache=True)
def write_counts(
    counters: NDArray[Any], first: int, matrix: NDArray[Any], transposed: NDArray[Any]
) -> None:
    """Write the counts of groups of items, from `first` on, as rows and as columns.

    The counters are reset.
    """
    n_items = matrix.shape[1]
    for left in range(0, n_items, LANES):
        right = min(left + LANES, n_items)
        for group in range(len(counters)):
            tile, top = counters[group], first + group * LANES
            n_rows = min(LANES, n_items - top)
            for item in range(left, right):
                column, counts = transposed[item, top : top + n_rows], tile[item]
                for lane in range(np.uint64(n_rows)):
                    column[lane] = counts[lane]
            for lane in range(n_rows):
                row = matrix[top + lane, left:right]
                for j in range(np.uint64(right - left)):
                    row[j] = tile[np.uint64(left) + j, lane]
    counters[:] = 0


class Popular(NamedTuple):
    """Counts of popular items, which determine the width of counts; kept to avoid a recount."""

    counter: np.dtype[Any]
    """The narrowest integers that hold every count."""
    counted: dict[int, NDArray[np.unsignedinteger]]
    """Counts by block of items."""


@dataclass(frozen=True)
class GroupedSpans:
    """Spans that follow the items of each group, sorted by group and then by profile.

    The spans of group ``g``, items ``16 g`` … ``16 g + 15``, are
    ``items[starts[k] >> 4 : stops[k]]`` for ``k`` in ``range(offsets[g], offsets[g + 1])``; the
    item has lane ``starts[k] & 15``.
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
        """Estimated work of each block of items, in positions visited."""
        n_groups = len(self.offsets) - 1
        n_spans = np.diff(self.offsets[np.r_[0:n_groups:_GROUPS, n_groups]])
        # On average a span is half a profile, and items of one group share it.
        length = int((self.stops - (self.starts >> LANE_BITS)).sum()) // max(len(self.stops), 1)
        return n_spans * length + _STEPS_A_ROW * _ITEMS * self.n_items

    def count_popular(self) -> Popular:
        """Find the narrowest integers for all counts, to halve the memory.

        Only items with more consumers than 16 bits hold are counted, most popular first, until one
        count exceeds 16 bits.
        """
        heads = too_popular(self.support)
        heads = heads[np.argsort(-self.support[heads], kind="stable")]
        blocks = list(dict.fromkeys((heads // _ITEMS).tolist()))
        beyond = list[int]()

        def count(block: int) -> NDArray[np.unsignedinteger] | None:
            if beyond:
                return None
            counted = self._count_wide(block)
            largest = int(counted.max())
            if largest > _MOST_IN_16_BITS:
                beyond.append(largest)
            return counted.astype(narrowest(largest), copy=False)

        results = zip(blocks, run_blocks(count, blocks), strict=True)
        counted = {block: counts for block, counts in results if counts is not None}
        return Popular(narrowest(max(beyond, default=0)), counted)

    def count_both(
        self, advance: Callable[[float], None], popular: Popular | None = None
    ) -> tuple[NDArray[np.unsignedinteger], NDArray[np.unsignedinteger]]:
        """Count all rows on all cores; return the matrix and its transpose."""
        popular = popular or self.count_popular()
        matrix = np.empty((self.n_items, self.n_items), dtype=popular.counter)
        transposed, work = np.empty_like(matrix), self.work
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
        return matrix, transposed

    def _groups(self, block: int) -> range:
        return range(block * _GROUPS, min((block + 1) * _GROUPS, len(self.offsets) - 1))

    def _counters(self, counter: np.dtype[Any]) -> NDArray[Any]:
        """Allocate counters of a block, aligned for vector instructions."""
        shape = (_GROUPS, self.n_items, LANES)
        buffer = np.zeros(int(np.prod(shape)) * counter.itemsize + 64, dtype=np.uint8)
        skip = -buffer.ctypes.data % 64
        return buffer[skip : len(buffer) - 64 + skip].view(counter).reshape(shape)

    def _count(self, block: int, counters: NDArray[np.uint16]) -> NDArray[np.uint16]:
        """Count a block of items with at most 2¹⁶ − 1 consumers each."""
        groups = self._groups(block)
        for place, group in enumerate(groups):
            first, last = self.offsets[group], self.offsets[group + 1]
            count_lanes(first, last, self.starts, self.stops, self.items, counters[place])
        return counters[: len(groups)]

    def _count_wide(self, block: int) -> NDArray[np.uint32]:
        """Count a block of any items; a profile adds at most one to each count."""
        groups = self._groups(block)
        counters = self._counters(np.dtype(np.uint16))[0]
        wide = self._counters(np.dtype(np.uint32))[: len(groups)]
        for place, group in enumerate(groups):
            first, end = int(self.offsets[group]), int(self.offsets[group + 1])
            while first < end:
                last = min(first + _MOST_IN_16_BITS, end)
                while last < end and self.stops[last] == self.stops[last - 1]:
                    last -= 1  # keep the spans of a profile together
                count_lanes(first, last, self.starts, self.stops, self.items, counters)
                empty_into(counters, wide[place])
                first = last
        return wide


def _worth(per_thread: int, work: int) -> int:
    """Return the number of blocks: none so small that a thread does not pay."""
    return min(per_thread * available_threads(), 1 + work // SMALL_WORK)


def lanes(interactions: Interactions, ties: Ties) -> GroupedSpans:
    """Return the spans of profiles that follow each group of sixteen items.

    Parameters
    ----------
    interactions : Interactions
        The profiles.
    ties : {"order", "strict"}
        Whether items with equal times follow each other in the order of the source, or not at all.

    Examples
    --------
    >>> from surerec import Interactions
    >>> index = lanes(Interactions.from_profiles([0, 2, 4], [0, 1, 1, 0]), "order")
    >>> index.count_both(lambda work: None)[0]
    array([[0, 1],
           [1, 0]], dtype=uint16)
    """
    n_items, n_rows, consumed = interactions.n_items, interactions.n_rows, interactions.item_codes
    n_groups = -(-n_items // LANES)
    n_blocks = _worth(_INDEXED_PER_THREAD, n_rows)
    blocks = list(enumerate(equal_blocks(np.diff(interactions.offsets), n_blocks)))
    counts = np.zeros((len(blocks), n_groups * LANES), dtype=np.int64)
    # Narrow codes halve the memory traffic.
    items = np.empty(n_rows, dtype=narrowest(max(n_items - 1, 0)))

    def count(block: tuple[int, tuple[int, int]]) -> None:
        number, (first, last) = block
        rows = slice(interactions.offsets[first], interactions.offsets[last])
        items[rows] = consumed[rows]
        count_codes(consumed[rows], counts[number])

    list(run_blocks(count, blocks))
    in_groups = counts.reshape(len(blocks), n_groups, LANES).sum(axis=2)
    offsets = np.concatenate(([0], np.cumsum(in_groups.sum(axis=0))))
    # Block b writes group g behind the spans of earlier blocks: stable, without locks.
    cursors = np.cumsum(in_groups, axis=0) - in_groups + offsets[:-1]
    index = np.uint32 if n_rows < 2 ** (32 - LANE_BITS) else np.uint64
    starts, stops = np.empty(n_rows, dtype=index), np.empty(n_rows, dtype=index)
    strict, profiles = ties == "strict", (interactions.offsets, interactions.times)

    def place(block: tuple[int, tuple[int, int]]) -> None:
        number, users = block
        place_spans(*users, *profiles, strict, consumed, cursors[number], starts, stops)

    list(run_blocks(place, blocks))
    return GroupedSpans(counts.sum(axis=0)[:n_items], offsets, starts, stops, items)
