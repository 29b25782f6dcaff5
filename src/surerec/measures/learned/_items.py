"""Item statistics: mean position and time of consumption, and counts of items consumed soon after.

Both are integer sums, so that leaving a user out is exact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numba import njit

from surerec._words import DAY

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.interactions import Interactions
    from surerec.precedence import Spans


WINDOWS: Final = np.array([1, 3, 10, 50])
"""Window sizes: numbers of items that follow. Each window is counted without those before it."""
_STEPS: Final = 1 << 20  # of a position between the first and the last item
_SECOND: Final = 1_000_000
_REAL_TIME: Final = 1000 * _SECOND  # smaller times are positions or other small numbers, not dates
_DAY: Final = DAY / 1_000_000  # seconds
_MOST_BYTES: Final = 1 << 27  # of cached counts; those of rare items are counted each time
_NO_USERS: Final = np.empty(0, np.int64)


class ItemMeans(NamedTuple):
    """Means over the consumers of each item, without some users."""

    support: NDArray[np.int64]
    place: NDArray[np.float64]
    """Mean position in profiles: 0 first, 1 last; ½ without consumers."""
    time: NDArray[np.float64]
    """Mean time in days; 0 without consumers."""

    def at(self, items: NDArray[np.int64]) -> ItemMeans:
        """Return the means of some items."""
        return ItemMeans(self.support[items], self.place[items], self.time[items])

    def padded(self, n_items: int) -> ItemMeans:
        """Return the means of `n_items` items; the new ones have no consumers."""
        more = n_items - len(self.support)
        new = np.zeros(more, dtype=np.int64), np.full(more, 0.5), np.zeros(more)
        return ItemMeans(*map(np.concatenate, zip(self, new, strict=True)))


class ItemSums:
    """Sums over the consumers of each item."""

    def __init__(self, interactions: Interactions) -> None:
        self._interactions = interactions
        self._unit = _SECOND if interactions.times.max(initial=0) >= _REAL_TIME else 1
        lengths = np.diff(interactions.offsets)
        starts = np.repeat(interactions.offsets[:-1], lengths)
        places = _places(np.arange(len(starts)) - starts, np.repeat(lengths, lengths))
        values = np.ones_like(places), places, interactions.times // self._unit
        self._sums = np.zeros((len(values), interactions.n_items), dtype=np.int64)
        for sums, value in zip(self._sums, values, strict=True):
            np.add.at(sums, interactions.item_codes, value)

    def without(self, users: tuple[int, ...]) -> ItemMeans:
        """Return the means over all other users."""
        sums = self._sums.copy() if users else self._sums
        for user in users:
            where = slice(*self._interactions.offsets[user : user + 2])
            own = self._interactions.item_codes[where]
            sums[0, own] -= 1
            sums[1, own] -= _places(np.arange(len(own)), np.full(len(own), len(own)))
            sums[2, own] -= self._interactions.times[where] // self._unit
        support, place, time = sums
        consumers = np.maximum(support, 1)
        mean_place = np.where(support > 0, place / (consumers * float(_STEPS)), 0.5)
        mean_time = np.where(support > 0, time / consumers, 0.0)
        return ItemMeans(support, mean_place, mean_time / (_DAY if self._unit == _SECOND else 1.0))


def _places(place: NDArray[np.int64], length: NDArray[np.int64]) -> NDArray[np.int64]:
    return _STEPS * place // np.maximum(length - 1, 1)


class WindowCounts:
    """Counts of items consumed soon after each item, computed on demand.

    Parameters
    ----------
    following : Spans
        What follows each item, for each of its consumers.
    """

    def __init__(self, following: Spans) -> None:
        self._spans = following
        consumers = np.diff(following.offsets)
        # For a rare item, counting the few followers is as fast as reading a row of counts.
        frequent = np.flatnonzero(consumers * WINDOWS[-1] >= len(consumers))
        most = _MOST_BYTES // max(4 * len(WINDOWS) * len(consumers), 1)
        self._is_cached = np.zeros(len(consumers), dtype=bool)
        self._is_cached[frequent[np.argsort(-consumers[frequent], kind="stable")[:most]]] = True
        self._cache: dict[int, NDArray[np.float32]] = {}

    def after(
        self,
        last: NDArray[np.int64],
        own_ends: NDArray[np.int64],
        columns: NDArray[np.int64] | None,
        n_items: int,
    ) -> NDArray[np.float32]:
        """Return how many users consumed each column's item within each window after ``last[k]``.

        Parameters
        ----------
        last : array of int
            Item codes.
        own_ends : array of int
            End of the flat profile of each user to leave out.
        columns : array of int, optional
            Item codes; by default all. Items newer than the full count have 0.
        n_items : int
            Number of items.

        Returns
        -------
        array of float32, last × windows × columns
        """
        n_then = len(self._is_cached)
        n_columns = n_items if columns is None else len(columns)
        out = np.zeros((len(last), len(WINDOWS), n_columns), np.float32)
        there = slice(n_then) if columns is None else columns < n_then
        picks = slice(None) if columns is None else columns[there]
        for item, found in zip(last.tolist(), out, strict=True):
            if item >= n_then:
                continue
            counts = self._counts(item)
            if len(own_ends):
                counts = counts.copy()
                self._add(item, own_ends, -1, counts)
            found[:, there] = counts[:, picks]
        return out

    def _counts(self, item: int) -> NDArray[np.float32]:
        """Return how many users consumed each item soon after one; cached if that is slow."""
        counts = self._cache.get(item)  # whole numbers, exact in 32 bits
        if counts is None:
            counts = np.zeros((len(WINDOWS), len(self._is_cached)), np.float32)
            self._add(item, _NO_USERS, 1, counts)
            if self._is_cached[item]:  # a concurrent thread writes the same
                self._cache[item] = counts
        return counts

    def _add(
        self, item: int, ends: NDArray[np.int64], by: int, counts: NDArray[np.float32]
    ) -> None:
        spans = self._spans
        _add_window_counts(
            item, by, WINDOWS, ends, spans.offsets, spans.starts, spans.stops, spans.items, counts
        )


@njit(nogil=True, cache=True)
def _add_window_counts(
    last: int,
    by: int,
    windows: NDArray[np.int64],
    ends: NDArray[np.int64],
    span_offsets: NDArray[np.int64],
    starts: NDArray[Any],
    stops: NDArray[Any],
    items: NDArray[np.uint32],
    counts: NDArray[np.float32],
) -> None:
    """Add `by` to ``counts[w]`` for each user who consumed an item soon after `last`.

    Soon means among the next ``windows[w]`` items, but outside the window before; windows ascend.
    Spans are as in `surerec.precedence`. Only users whose profiles end at `ends` count, or all
    users if `ends` is empty.
    """
    for span in range(span_offsets[last], span_offsets[last + 1]):
        stop = np.int64(stops[span])
        is_included = len(ends) == 0
        for end in ends:
            is_included |= stop == end
        if not is_included:
            continue
        begin = np.int64(starts[span])
        reached = begin
        for w in range(len(windows)):
            until = min(stop, begin + windows[w])
            for place in range(np.uint64(reached), np.uint64(until)):
                counts[w, items[place]] += by
            reached = until
