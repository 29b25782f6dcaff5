"""The kernel of p-values: a sorted search."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["counts_among"]

_TILE = 512


@njit(nogil=True, cache=True)
def counts_among(ordered: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Count, for each value, the sorted calibration scores that are not above it, and itself.

    Uses a branch-free binary search, so that the processor works on many values at once.
    """
    n_steps = 0
    while (1 << n_steps) <= len(ordered):
        n_steps += 1
    padded = np.full(1 << n_steps, np.nan)  # no value reaches NaN
    padded[: len(ordered)] = ordered
    counts = np.ones(len(values), np.int64)
    for left in range(0, len(values), _TILE):
        some, found = values[left : left + _TILE], counts[left : left + _TILE]
        for step in range(n_steps - 1, -1, -1):
            before = (1 << step) - 2  # offset from a count to the compared place
            for j in range(np.uint64(len(some))):
                reached = padded[np.uint64(found[j] + before)] <= some[j]
                found[j] += np.int64(reached) << step
    return counts
