"""What the kernels for counts and those for other values share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.precedence import Source


COUNT, SHARE, RATIO, ABSENT = 0, 1, 2, 3
LOW, MIDDLE, TOTAL, HIGH = 1, 2, 4, 8

NARROW = 2  # bytes
TILE = 1024  # columns: their accumulators stay in the first-level cache
SORTED_TILE = 256  # columns whose middles are found, all of whose rows stay in the second-level one


class Aggregates(NamedTuple):
    """Aggregates over a profile, for every item."""

    low: NDArray[np.float64]
    middle: NDArray[np.float64]
    """The sum of the two middle values: twice the median, exactly."""
    total: NDArray[np.float64]
    high: NDArray[np.float64]


@njit(nogil=True, cache=True)
def room_for(n_items: int) -> Aggregates:
    """Give room for the aggregates of so many items: one array each, as malloc keeps those."""
    return Aggregates(np.empty(n_items), np.empty(n_items), np.empty(n_items), np.empty(n_items))


@njit(nogil=True, cache=True)
def fold(
    wanted: int,
    values: NDArray[Any],
    low: NDArray[Any],
    total: NDArray[Any],
    high: NDArray[Any],
    width: int,
) -> None:
    """Take one more row of values into the aggregates that are wanted."""
    end = np.uint64(width)
    if wanted & TOTAL:
        for j in range(end):
            total[j] += values[j]
    if wanted & LOW:
        for j in range(end):
            low[j] = np.minimum(low[j], values[j])
    if wanted & HIGH:
        for j in range(end):
            high[j] = np.maximum(high[j], values[j])


@njit(nogil=True, cache=True)
def in_matrix(source: Source) -> bool:
    """Tell whether all rows are rows of the matrix, of 16 bits."""
    inside = len(source.places) == 0 or source.places.max() < len(source.matrix)
    return inside and source.matrix.itemsize == NARROW
