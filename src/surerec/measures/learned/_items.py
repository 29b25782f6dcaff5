"""What is known of each item by itself: who took it where and when, and what was taken soon after.

Both are sums in whole numbers, so that leaving a user out is exact.
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


WINDOWS: Final = np.array([10, 50])
"""How soon is soon: among so many items that follow."""
_STEPS: Final = 1 << 20  # of a place between the first and the last of a profile
_SECOND: Final = 1_000_000
_REAL_TIME: Final = 1000 * _SECOND  # times below are no dates, but places or other small numbers
_DAY: Final = DAY / 1_000_000  # seconds
_MOST_BYTES: Final = 1 << 26  # of counts that are kept; those of few takers are counted each time
_NOBODY: Final = np.empty(0, np.int64)


class ItemMeans(NamedTuple):
    """Means over the takers of each item, some users left out."""

    support: NDArray[np.int64]
    place: NDArray[np.float64]
    """Where in their profile users take it: 0 first, 1 last; ½ if nobody did."""
    time: NDArray[np.float64]
    """When, in days; 0 if nobody did."""

    def at(self, items: NDArray[np.int64]) -> ItemMeans:
        """Return those of some items."""
        return ItemMeans(self.support[items], self.place[items], self.time[items])

    def padded(self, n_items: int) -> ItemMeans:
        """Return those of as many items; nobody took the new ones."""
        more = n_items - len(self.support)
        new = np.zeros(more, dtype=np.int64), np.full(more, 0.5), np.zeros(more)
        return ItemMeans(*map(np.concatenate, zip(self, new, strict=True)))


class ItemFacts:
    """Sums over the takers of each item."""

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
        """Return the means over all users but some."""
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


class Near:
    """Counts of what was taken soon after each item, made when first asked for.

    Parameters
    ----------
    following : Spans
        What follows each item, for each who took it.
    """

    def __init__(self, following: Spans) -> None:
        self._spans = following
        consumers = np.diff(following.offsets)
        # Reading a row of counts takes as long as counting the few that follow a rare item.
        often = np.flatnonzero(consumers * WINDOWS[-1] >= len(consumers))
        most = _MOST_BYTES // max(4 * len(WINDOWS) * len(consumers), 1)
        self._is_kept = np.zeros(len(consumers), dtype=bool)
        self._is_kept[often[np.argsort(-consumers[often], kind="stable")[:most]]] = True
        self._kept: dict[int, NDArray[np.float32]] = {}

    def shares(
        self,
        last: NDArray[np.int64],
        parts: NDArray[np.float32],
        own_ends: NDArray[np.int64],
        columns: NDArray[np.int64] | None,
        n_items: int,
    ) -> NDArray[np.float32]:
        """Sum ``parts[k]`` over the users who took a column's item soon after ``last[k]``.

        Parameters
        ----------
        last : array of int
            Items.
        parts : array of float32
            What a user weighs after each of them.
        own_ends : array of int
            Where the flat profiles of the users to leave out end.
        columns : array of int, optional
            By default all of `n_items`; what has come since all was counted has nothing.
        n_items : int
            How many items there are.

        Returns
        -------
        array of float32, windows × columns
        """
        n_then = len(self._is_kept)
        n_columns = n_items if columns is None else len(columns)
        out = np.zeros((len(WINDOWS), n_columns), np.float32)
        found = out[:, :n_then] if columns is None else out
        picks = slice(None) if columns is None else np.minimum(columns, n_then - 1)
        for item, part in zip(last.tolist(), parts, strict=True):
            counts = self._counts(item)
            if len(own_ends):
                counts = counts.copy()
                self._add(item, own_ends, -1, counts)
            found += part * counts[:, picks]
        if columns is not None:
            out[:, columns >= n_then] = 0.0
        return out

    def _counts(self, item: int) -> NDArray[np.float32]:
        """Return how many took each item soon after one, which is kept if that takes long."""
        counts = self._kept.get(item)  # whole numbers, exact in 32 bits
        if counts is None:
            counts = np.zeros((len(WINDOWS), len(self._is_kept)), np.float32)
            self._add(item, _NOBODY, 1, counts)
            if self._is_kept[item]:  # another thread may do so at once: both write the same
                self._kept[item] = counts
        return counts

    def _add(
        self, item: int, ends: NDArray[np.int64], by: int, counts: NDArray[np.float32]
    ) -> None:
        spans = self._spans
        _add_near(
            item, by, WINDOWS, ends, spans.offsets, spans.starts, spans.stops, spans.items, counts
        )


@njit(nogil=True, cache=True)
def _add_near(
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
    """Add `by` for each user who took an item soon after `last`, to ``counts[w]``.

    That is among the next ``windows[w]`` items, which ascend, but not among those of the window
    before. Spans are as in `surerec.precedence`; only the users whose profiles end at `ends`, or
    all if there are none.
    """
    for span in range(span_offsets[last], span_offsets[last + 1]):
        stop = np.int64(stops[span])
        is_asked = len(ends) == 0
        for end in ends:
            is_asked |= stop == end
        if not is_asked:
            continue
        begin = np.int64(starts[span])
        reached = begin
        for w in range(len(windows)):
            until = min(stop, begin + windows[w])
            for place in range(np.uint64(reached), np.uint64(until)):
                counts[w, items[place]] += by
            reached = until
