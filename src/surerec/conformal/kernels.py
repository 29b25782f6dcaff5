"""The kernels of p-values that other packages build on: a sorted search, on arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray


_BUCKETS_PER_SCORE = 4
_STEPS = 1024.0  # of the range of the scores, where half of them are as low as the lowest
_TILE = 512


class Levels(NamedTuple):
    """Distinct calibration scores, and where to look for a new one among them.

    A value falls into a bucket by the bits of ``value − lowest + unit``, which never fall as the
    value rises: so however the scores are spread, all below its bucket are below it and all above
    are above. The unit is the median's distance from the lowest, so that buckets are even below the
    median and grow with the value above it, as scores of popular and rare items do.
    """

    scores: NDArray[np.float64]
    """Ascending, each once; then NaNs, which no value reaches, as far as a search may look."""
    up_to: NDArray[np.int64]
    """How many calibration scores are below each of them, and at last how many there are."""
    starts: NDArray[np.uint32]
    """The first score of each bucket."""
    n_steps: int
    """Halvings that find a place among the scores of the fullest bucket."""
    lowest: float
    unit: float
    first: int
    """The bits of the lowest."""
    shift: int


@njit(nogil=True, cache=True)
def _range(ordered: NDArray[np.float64]) -> tuple[float, float, float]:
    """Return the lowest score, the unit and the range; buckets stay in order whatever they are."""
    low, high = 0, len(ordered) - 1
    while low < high and ordered[low] == -np.inf:
        low += 1
    while low < high and ordered[high] == np.inf:
        high -= 1
    lowest, span = ordered[low], ordered[high] - ordered[low]
    if not (np.isfinite(lowest) and 0.0 < span < np.inf):
        return 0.0, 1.0, 1.0
    unit = ordered[(low + high) >> 1] - lowest
    return lowest, max(unit, span / _STEPS), span


@njit(nogil=True, cache=True)
def levels_of(ordered: NDArray[np.float64]) -> Levels:
    """Tabulate sorted calibration scores, for a search that takes hardly longer the more they are.

    Of 100 as of 10,000 scores, a value then looks at two or three.
    """
    n = len(ordered)
    up_to, scores = np.zeros(n + 1, np.int64), np.full(3 * n + 1, np.nan)
    lowest, unit, span = _range(ordered) if n else (0.0, 1.0, 1.0)
    key = np.empty(2)
    bits = key.view(np.int64)
    key[0], key[1] = unit, span + unit
    first, shift = bits[0], 0
    while (bits[1] - first) >> shift >= max(_BUCKETS_PER_SCORE * n, 1):
        shift += 1
    starts = np.zeros(((bits[1] - first) >> shift) + 3, np.uint32)
    n_distinct = 0
    for k in range(n):
        if k == 0 or ordered[k] > ordered[k - 1]:
            scores[n_distinct], up_to[n_distinct] = ordered[k], k
            n_distinct += 1
            key[0] = np.maximum(ordered[k] - lowest, 0.0) + unit
            starts[min((bits[0] - first) >> shift, len(starts) - 2) + 1] += np.uint32(1)
    up_to[n_distinct] = n
    n_steps = 0
    while (1 << n_steps) <= starts.max():
        n_steps += 1
    for bucket in range(1, len(starts)):
        starts[bucket] += starts[bucket - 1]
    return Levels(scores, up_to, starts, n_steps, lowest, unit, first, shift)


@njit(nogil=True, cache=True)
def _place(
    levels: Levels, values: NDArray[np.float64], keys: NDArray[np.float64], places: NDArray[Any]
) -> None:
    """Count for each value of a tile the distinct scores that are not above it.

    First its bucket, then as many halvings as the widest bucket takes: all in loops without a
    branch, of which the processor has many values under way at once.
    """
    width, bits = np.uint64(len(values)), keys.view(np.int64)
    starts, scores, first, shift = levels.starts, levels.scores, levels.first, levels.shift
    last = len(starts) - 2
    for j in range(width):
        keys[j] = np.maximum(values[j] - levels.lowest, 0.0) + levels.unit
    for j in range(width):
        places[j] = starts[np.minimum((bits[j] - first) >> shift, last)]
    # A shift, where a product or a choice would be compiled to a branch that is mispredicted.
    for step in range(levels.n_steps - 1, -1, -1):
        half = np.uint32((1 << step) - 1)
        for j in range(width):
            reached = scores[np.uint64(places[j] + half)] <= values[j]
            places[j] += np.uint32(reached) << np.uint32(step)


@njit(nogil=True, cache=True)
def count_at_most(levels: Levels, values: NDArray[np.float64], counts: NDArray[np.int64]) -> None:
    """For each value, count the calibration scores that are not above it, and itself."""
    keys, places = np.empty(_TILE), np.empty(_TILE, np.uint32)
    for left in range(0, len(values), _TILE):
        some, found = values[left : left + _TILE], counts[left : left + _TILE]
        _place(levels, some, keys, places)
        for j in range(np.uint64(len(some))):
            found[j] = levels.up_to[places[j]] + 1


@njit(nogil=True, cache=True)
def counts_among(ordered: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the counts of `count_at_most`, for sorted calibration scores."""
    counts = np.empty(len(values), np.int64)
    count_at_most(levels_of(ordered), values, counts)
    return counts
