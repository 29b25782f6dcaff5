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
