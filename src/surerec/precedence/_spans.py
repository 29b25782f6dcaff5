"""Spans: for each item, the parts of profiles that follow or precede it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from surerec._arguments import check_offsets
from surerec._grouping import group_pairs
from surerec._threads import available_threads, equal_blocks, run_blocks, run_together
from surerec.precedence._kernels import count_listed, count_rows, find_spans

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from surerec.interactions import Interactions


Ties = Literal["order", "strict"]
Direction = Literal["followers", "predecessors"]

WIDE: np.dtype[Any] = np.dtype(np.uint32)
"""Type that holds all counts: no item has more consumers."""

_MOST_IN_16_BITS = 2**16 - 1

_STORED = ("offsets", "starts", "stops")  # the profiles are stored elsewhere
_WORTH_A_THREAD = 200_000  # pairs


def narrowest(largest: int) -> np.dtype[Any]:
    """Return the narrowest integer type for counts up to `largest`."""
    return np.dtype(np.uint16) if largest <= _MOST_IN_16_BITS else WIDE


def narrow_codes(consumed: NDArray[np.uint32], n_items: int) -> NDArray[Any]:
    """Return item codes in the narrowest type, which halves the memory traffic of counting."""
    return consumed.astype(narrowest(max(n_items - 1, 0)), copy=False)


def too_popular(support: NDArray[np.integer]) -> NDArray[np.intp]:
    """Return the codes of items whose counts may exceed 16 bits.

    No count exceeds the support of either item, so a single popular item is harmless.

    Examples
    --------
    >>> too_popular(np.array([70_000, 66_000, 9])), too_popular(np.array([70_000, 9]))
    (array([0, 1]), array([], dtype=int64))
    """
    found = np.flatnonzero(support > _MOST_IN_16_BITS)
    return found if len(found) > 1 else found[:0]


@dataclass(frozen=True)
class Spans:
    """Spans of the concatenated profiles, sorted by item, so that they are read in sequence.

    The spans of item ``i`` are ``items[starts[k]:stops[k]]`` for ``k`` in
    ``range(offsets[i], offsets[i + 1])``: one for each consumer.
    """

    offsets: NDArray[np.int64]
    starts: NDArray[Any]
    stops: NDArray[Any]
    items: NDArray[np.unsignedinteger]

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.offsets) - 1

    @classmethod
    def from_arrays(
        cls, side: str, arrays: Mapping[str, NDArray[Any]], items: NDArray[np.unsignedinteger]
    ) -> Spans:
        """Build spans from their arrays by role and the concatenated profiles."""
        return cls(**{part: arrays[f"{side}_{part}"] for part in _STORED}, items=items)

    def arrays(self, side: str) -> dict[str, NDArray[Any]]:
        """Return the arrays by role for the side ``"following"`` or ``"preceding"``."""
        return {f"{side}_{part}": getattr(self, part) for part in _STORED}

    def check(self, longest: int) -> None:
        """Raise ValueError if a span is out of range or longer than the `longest` profile."""
        check_offsets(self.offsets, len(self.starts))
        outside = int(self.stops.max(initial=0)) > len(self.items)
        if outside or (self.starts > self.stops).any():
            raise ValueError("a span is out of range")
        if int((self.stops - self.starts).max(initial=0)) > longest:
            raise ValueError("a span is longer than any profile")

    @cached_property
    def work(self) -> NDArray[np.int64]:
        """Number of ordered pairs to count for each item."""
        lengths = self.stops.astype(np.int64) - self.starts.astype(np.int64)
        ends = np.concatenate(([0], np.cumsum(lengths)))
        return np.diff(ends[self.offsets])

    @cached_property
    def counter(self) -> np.dtype[Any]:
        """Narrowest integer type for all counts, which halves the memory.

        Only rows of items with more consumers than 16 bits hold are counted to find it, most
        popular first, until one count exceeds 16 bits.
        """
        support = np.diff(self.offsets)
        heads = too_popular(support)
        heads = heads[np.argsort(-support[heads], kind="stable")]

        def largest(item: int) -> int:
            return int(self._count((item, item + 1), WIDE).max())

        beyond = (count > _MOST_IN_16_BITS for count in run_blocks(largest, heads.tolist()))
        return WIDE if any(beyond) else narrowest(0)

    def count_rows(self, block: tuple[int, int]) -> NDArray[np.unsignedinteger]:
        """Count the rows of items ``block[0]`` … ``block[1] − 1``."""
        return self._count(block, self.counter)

    def _count(self, block: tuple[int, int], counter: np.dtype[Any]) -> NDArray[Any]:
        first, last = block
        rows = np.zeros((last - first, self.n_items), dtype=counter)
        count_rows(first, last, self.offsets, self.starts, self.stops, self.items, rows)
        return rows

    def count_listed(
        self, items: NDArray[np.int64], slots: NDArray[np.int64], rows: NDArray[Any]
    ) -> None:
        """Count the rows of items into slots of `rows`, in parallel if that pays."""
        parts = (self.offsets, self.starts, self.stops, self.items, rows)

        def count_some(block: tuple[int, int]) -> None:
            some = slice(*block)
            count_listed(items[some], slots[some], *parts)

        work = self.work[items] + self.n_items // 4  # a row is zeroed first
        n_blocks = min(available_threads(), 1 + int(work.sum()) // _WORTH_A_THREAD)
        run_together(count_some, equal_blocks(work, n_blocks))


def spans(interactions: Interactions, direction: Direction, ties: Ties) -> Spans:
    """Return, for each item, the parts of profiles that follow or precede it.

    Parameters
    ----------
    interactions : Interactions
        The profiles.
    direction : {"followers", "predecessors"}
        Parts after or before the item.
    ties : {"order", "strict"}
        Whether items with equal times follow each other in the order of the source, or not at all.

    Examples
    --------
    >>> from surerec import Interactions
    >>> index = spans(Interactions.from_profiles([0, 2, 4], [0, 1, 1, 0]), "followers", "order")
    >>> index.count_rows((0, 1))
    array([[0, 1]], dtype=uint16)
    """
    n_rows = interactions.n_rows
    index = np.uint32 if n_rows < 2**32 else np.uint64  # halves the memory traffic
    starts = np.empty(n_rows, dtype=index)
    stops = np.empty(n_rows, dtype=index)
    strict, following = ties == "strict", direction == "followers"
    profiles = (interactions.offsets, interactions.times)
    list(
        run_blocks(
            lambda block: find_spans(*block, *profiles, strict, following, starts, stops),
            equal_blocks(np.diff(interactions.offsets)),
        )
    )
    consumed = interactions.item_codes
    return Spans(*group_pairs(consumed, interactions.n_items, starts, stops), consumed)
