"""The order of items by popularity, which breaks ties between equal scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MIX: Final = np.uint64(0x9E3779B97F4A7C15)  # 2⁶⁴ / golden ratio: codes in pseudo-random order


def places_by_support(support: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the place of each item in the order of popularity, 0 for the most consumed.

    Codes that are numbered by support keep their order. Otherwise items of equal support come in a
    pseudo-random order: codes of a larger data set would tell which of them became popular later.

    Examples
    --------
    >>> places_by_support(np.array([5, 3, 3])), places_by_support(np.array([1, 2, 5]))
    (array([0, 1, 2]), array([2, 1, 0]))
    """
    n_items = len(support)
    taken = support.astype(np.int64)
    if (taken[1:] <= taken[:-1]).all():
        return np.arange(n_items)
    places = np.empty(n_items, dtype=np.int64)
    places[np.lexsort((_mixed(np.arange(n_items)), -taken))] = np.arange(n_items)
    return places


def places_without(
    places: NDArray[np.int64], support: NDArray[np.integer], own: NDArray[np.integer]
) -> NDArray[np.int64]:
    """Return the places when the consumers of `own` are left out, each occurrence one consumer.

    An item goes to a pseudo-random place among those of its smaller support. Kept in front of them,
    its place would tell that it was consumed.

    Parameters
    ----------
    places : array of int
        The place of each item with all users.
    support : array of int
        How many users consumed each item, with all users.
    own : array of int
        The items of the users to leave out.

    Examples
    --------
    >>> support = np.array([4, 3, 3, 2, 2, 2])
    >>> places_without(np.arange(6), support, np.array([1]))
    array([0, 4, 1, 2, 3, 5])
    """
    items, times = np.unique(own.astype(np.int64), return_counts=True)
    taken = support.astype(np.int64)
    ordered = np.empty(len(places), dtype=np.int64)
    ordered[places] = -taken
    smaller = times - taken[items]
    begin = np.searchsorted(ordered, smaller, side="left")
    end = np.searchsorted(ordered, smaller, side="right")
    keys = places.astype(np.float64)
    keys[items] = begin - 0.5 + _mixed(places[items]) * 2.0**-64 * (end - begin)
    moved = np.empty(len(places), dtype=np.int64)
    moved[np.argsort(keys, kind="stable")] = np.arange(len(places))
    return moved


def _mixed(codes: NDArray[np.int64]) -> NDArray[np.uint64]:
    return codes.astype(np.uint64) * _MIX
