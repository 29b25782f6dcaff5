"""What is known of each item by itself: who took it where in their profile, and when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.interactions import Interactions

__all__ = ["ItemFacts", "ItemMeans"]

_STEPS: Final = 1 << 20  # of a place between the first and the last of a profile
_SECOND: Final = 1_000_000
_REAL_TIME: Final = 1000 * _SECOND  # times below are no dates, but places or other small numbers
_DAY: Final = 86_400.0


class ItemMeans(NamedTuple):
    """Means over the takers of each item, one user left out."""

    support: NDArray[np.int64]
    place: NDArray[np.float64]
    """Where in their profile users take it: 0 first, 1 last; ½ if nobody did."""
    time: NDArray[np.float64]
    """When, in days."""


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

    def without(self, user: int | None) -> ItemMeans:
        """Give the means over all users but one."""
        support, place, time = self._support, self._place, self._time
        if user is not None:
            where = slice(*self._interactions.offsets[user : user + 2])
            own = self._interactions.items_taken[where]
            support, place, time = support.copy(), place.copy(), time.copy()
            support[own] -= 1
            place[own] -= _places(np.arange(len(own)), np.full(len(own), len(own)))
            time[own] -= self._interactions.times[where] // self._unit
        takers = np.maximum(support, 1)
        mean_place = np.where(support > 0, place / (takers * float(_STEPS)), 0.5)
        # Items that nobody else took are of no time: they get that of all items together.
        overall = time.sum(dtype=np.float64) / max(int(support.sum()), 1)
        mean_time = np.where(support > 0, time / takers, overall)
        return ItemMeans(support, mean_place, mean_time / (_DAY if self._unit == _SECOND else 1.0))


def _places(place: NDArray[np.int64], length: NDArray[np.int64]) -> NDArray[np.int64]:
    return _STEPS * place // np.maximum(length - 1, 1)


def _sums(items: NDArray[np.uint32], values: NDArray[np.int64], n_items: int) -> NDArray[np.int64]:
    sums = np.zeros(n_items, dtype=np.int64)
    np.add.at(sums, items, values)
    return sums
