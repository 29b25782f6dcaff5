"""Where numbers that ascend stand among others: a kernel that releases the GIL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray


@njit(nogil=True, cache=True)
def places_among(ordered: NDArray[np.float64], wanted: NDArray[np.float64]) -> NDArray[np.int64]:
    """Give how many of some ascending numbers are below each one that is wanted.

    What `numpy.searchsorted` gives; but where those wanted ascend too, as people's items do in the
    order of a ranking, each is looked for from where the one before it was, in growing steps, and
    not in all of the numbers, which are far from each other in memory.
    """
    places, place, n = np.empty(len(wanted), np.int64), 0, len(ordered)
    for k in range(len(wanted)):
        value = wanted[k]
        if k > 0 and value < wanted[k - 1]:
            place = 0
        low, high, step = place, place, 1
        while high < n and ordered[high] < value:
            low = high + 1
            high += step
            step += step
        high = min(high, n)
        while low < high:
            middle = (low + high) >> 1
            if ordered[middle] < value:
                low = middle + 1
            else:
                high = middle
        places[k] = place = low
    return places


@njit(nogil=True, cache=True)
def places_in_parts(
    ordered: NDArray[np.float64],
    offsets: NDArray[np.int64],
    parts: NDArray[np.int64],
    wanted: NDArray[np.float64],
) -> NDArray[np.int64]:
    """Give how many numbers of a part, which ascend, are below each one that is wanted.

    Part `p` is ``ordered[offsets[p] : offsets[p + 1]]``; of part −1 there are none.
    """
    places = np.zeros(len(wanted), np.int64)
    for k in range(len(wanted)):
        if parts[k] >= 0:
            begin, high = offsets[parts[k]], offsets[parts[k] + 1]
            low = begin
            while low < high:
                middle = (low + high) >> 1
                if ordered[middle] < wanted[k]:
                    low = middle + 1
                else:
                    high = middle
            places[k] = low - begin
    return places


@njit(nogil=True, cache=True)
def sums_from_places(
    values: NDArray[np.float64], offsets: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Give for each place of each part the sum of its values from there on, the last first.

    A part has a place more than values, behind the last of them: so it begins one further on than
    the part before.
    """
    sums = np.zeros(len(values) + len(offsets) - 1)
    for part in range(len(offsets) - 1):
        for place in range(offsets[part + 1] - 1, offsets[part] - 1, -1):
            sums[place + part] = sums[place + part + 1] + values[place]
    return sums
