"""What is known of each item by itself: who took it where in their profile, and when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from surerec._calendar import DAY

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.interactions import Interactions


_STEPS: Final = 1 << 20  # of a place between the first and the last of a profile
_SECOND: Final = 1_000_000
_REAL_TIME: Final = 1000 * _SECOND  # times below are no dates, but places or other small numbers
_DAY: Final = DAY / 1_000_000  # seconds


class ItemMeans(NamedTuple):
    """Means over the takers of each item, some users left out."""

    support: NDArray[np.int64]
    place: NDArray[np.float64]
    """Where in their profile users take it: 0 first, 1 last; ½ if nobody did."""
    time: NDArray[np.float64]
    """When, in days; 0 if nobody did."""

    def at(self, items: NDArray[np.int64]) -> ItemMeans:
        """Give those of some items."""
        return ItemMeans(self.support[items], self.place[items], self.time[items])

    def padded(self, n_items: int) -> ItemMeans:
        """Give those of as many items; nobody took the new ones."""
        more = n_items - len(self.support)
        return ItemMeans(
            np.concatenate((self.support, np.zeros(more, dtype=np.int64))),
            np.concatenate((self.place, np.full(more, 0.5))),
            np.concatenate((self.time, np.zeros(more))),
        )


class ItemFacts:
    """Sums over the takers of each item, in whole numbers, so that leaving one out is exact."""

    def __init__(self, interactions: Interactions) -> None:
        self._interactions = interactions
        self._unit = _SECOND if interactions.times.max(initial=0) >= _REAL_TIME else 1
        lengths = np.diff(interactions.offsets)
        starts = np.repeat(interactions.offsets[:-1], lengths)
        n = np.repeat(lengths, lengths)
        places = _places(np.arange(len(starts)) - starts, n)
        n_items = interactions.n_items
        self._support = np.bincount(interactions.items_taken, minlength=n_items)
        self._place = _sums(interactions.items_taken, places, n_items)
        times = interactions.times // self._unit
        self._time = _sums(interactions.items_taken, times, n_items)

    def without(self, users: tuple[int, ...]) -> ItemMeans:
        """Give the means over all users but some."""
        return self._means(*self._sums_without(users))

    def _sums_without(
        self, users: tuple[int, ...]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        if not users:
            return self._support, self._place, self._time
        support, place, time = self._support.copy(), self._place.copy(), self._time.copy()
        for user in users:
            where = slice(*self._interactions.offsets[user : user + 2])
            own = self._interactions.items_taken[where]
            support[own] -= 1
            place[own] -= _places(np.arange(len(own)), np.full(len(own), len(own)))
            time[own] -= self._interactions.times[where] // self._unit
        return support, place, time

    def _means(
        self, support: NDArray[np.int64], place: NDArray[np.int64], time: NDArray[np.int64]
    ) -> ItemMeans:
        takers = np.maximum(support, 1)
        mean_place = np.where(support > 0, place / (takers * float(_STEPS)), 0.5)
        mean_time = np.where(support > 0, time / takers, 0.0)
        return ItemMeans(support, mean_place, mean_time / (_DAY if self._unit == _SECOND else 1.0))


def _places(place: NDArray[np.int64], length: NDArray[np.int64]) -> NDArray[np.int64]:
    return _STEPS * place // np.maximum(length - 1, 1)


def _sums(items: NDArray[np.uint32], values: NDArray[np.int64], n_items: int) -> NDArray[np.int64]:
    sums = np.zeros(n_items, dtype=np.int64)
    np.add.at(sums, items, values)
    return sums
