"""Sorted search for p-values: pure functions on arrays that release the GIL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["count_at_most", "smooth"]

_FEW = 128
_TILE = 512


@njit(nogil=True, cache=True)
def _first_above(ordered: NDArray[np.float64], value: float) -> int:
    """Halve what is left, with no branch that could be mispredicted."""
    base, size = np.uint64(0), np.uint64(len(ordered))
    while size > 1:
        half = size >> np.uint64(1)
        base += half if ordered[base + half - np.uint64(1)] <= value else np.uint64(0)
        size -= half
    return int(base + np.uint64(size == 1 and ordered[base] <= value))


@njit(nogil=True, cache=True)
def _first_not_below(ordered: NDArray[np.float64], value: float) -> int:
    base, size = np.uint64(0), np.uint64(len(ordered))
    while size > 1:
        half = size >> np.uint64(1)
        base += half if ordered[base + half - np.uint64(1)] < value else np.uint64(0)
        size -= half
    return int(base + np.uint64(size == 1 and ordered[base] < value))


@njit(nogil=True, cache=True)
def count_at_most(
    ordered: NDArray[np.float64], values: NDArray[np.float64], counts: NDArray[np.int64]
) -> None:
    """For each value, count the members of `ordered` that are not above it, and itself."""
    if len(ordered) > _FEW:
        for k in range(len(values)):
            counts[k] = _first_above(ordered, values[k]) + 1
        return
    # A short list is compared as a whole, in vector lanes: faster than to search in it.
    for left in range(0, len(values), _TILE):
        some = values[left : left + _TILE]
        found = counts[left : left + _TILE]
        found[:] = 1
        for score in ordered:
            for j in range(np.uint64(len(some))):
                found[j] += np.int64(score <= some[j])


@njit(nogil=True, cache=True)
def smooth(
    ordered: NDArray[np.float64],
    values: NDArray[np.float64],
    uniforms: NDArray[np.float64],
    p_values: NDArray[np.float64],
) -> None:
    """Count the members below each value, and a random share of its ties, itself among them."""
    for k in range(len(values)):
        below = _first_not_below(ordered, values[k])
        ties = _first_above(ordered, values[k]) - below + 1
        p_values[k] = (below + uniforms[k] * ties) / (len(ordered) + 1)
