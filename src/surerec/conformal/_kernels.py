"""Sorted search for p-values: pure functions on arrays that release the GIL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["count_at_most", "judge", "smooth"]

_FEW = 128
_BUCKETS_PER_SCORE = 4
_TILE = 512


@njit(nogil=True, cache=True)
def _buckets(ordered: NDArray[np.float64]) -> tuple[NDArray[np.uint32], float, float]:
    """Cut the range of sorted scores into equal buckets; give where each begins, and the scale.

    A value falls into bucket ``(value − lowest) · scale``, which never falls as the value rises: so
    however the scores are spread, all below its bucket are below it and all above are above. With
    one bucket where the range is no finite number, or nothing.
    """
    n = len(ordered)
    n_buckets = _BUCKETS_PER_SCORE * n
    lowest = ordered[0] if n else 0.0
    scale = (n_buckets - 1) / (ordered[n - 1] - lowest) if n and ordered[n - 1] > lowest else 0.0
    if not (np.isfinite(lowest) and np.isfinite(scale)):
        lowest, scale = 0.0, 0.0
    starts = np.zeros(n_buckets + 2, np.uint32)
    for k in range(n):
        starts[_bucket(ordered[k], lowest, scale, n_buckets) + 1] += np.uint32(1)
    for b in range(1, len(starts)):
        starts[b] += starts[b - 1]
    return starts, lowest, scale


@njit(nogil=True, cache=True)
def _bucket(value: float, lowest: float, scale: float, n_buckets: int) -> int:
    if scale == 0.0:
        return 0
    place = (value - lowest) * scale
    return int(min(max(place, 0.0), float(n_buckets)))


@njit(nogil=True, cache=True)
def _first_above(ordered: NDArray[np.float64], low: int, high: int, value: float) -> int:
    """Find the first above a value from `low` to `high`; halve, with no branch to mispredict."""
    base, size = np.uint64(low), np.uint64(high - low)
    while size > 1:
        half = size >> np.uint64(1)
        base += half if ordered[base + half - np.uint64(1)] <= value else np.uint64(0)
        size -= half
    return int(base + np.uint64(size == 1 and ordered[base] <= value))


@njit(nogil=True, cache=True)
def _first_not_below(ordered: NDArray[np.float64], low: int, high: int, value: float) -> int:
    base, size = np.uint64(low), np.uint64(high - low)
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
        starts, lowest, scale = _buckets(ordered)
        for k in range(len(values)):
            b = _bucket(values[k], lowest, scale, len(starts) - 2)
            counts[k] = _first_above(ordered, starts[b], starts[b + 1], values[k]) + 1
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
def judge(
    scores: NDArray[np.float64],
    calibration: NDArray[np.int64],
    candidates: NDArray[np.int64],
    new: NDArray[np.float64],
    counts: NDArray[np.int64],
) -> None:
    """Pick the candidates' scores and count for each the calibration scores that are not above."""
    for k in range(len(candidates)):
        new[k] = scores[candidates[k]]
    count_at_most(np.sort(scores[calibration]), new, counts)


@njit(nogil=True, cache=True)
def smooth(
    ordered: NDArray[np.float64],
    values: NDArray[np.float64],
    uniforms: NDArray[np.float64],
    p_values: NDArray[np.float64],
) -> None:
    """Count the members below each value, and a random share of its ties, itself among them."""
    starts, lowest, scale = _buckets(ordered)
    for k in range(len(values)):
        b = _bucket(values[k], lowest, scale, len(starts) - 2)
        low, high = starts[b], starts[b + 1]
        below = _first_not_below(ordered, low, high, values[k])
        ties = _first_above(ordered, below, high, values[k]) - below + 1
        p_values[k] = (below + uniforms[k] * ties) / (len(ordered) + 1)
