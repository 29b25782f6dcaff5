"""Sums of ratios of some items: pure functions on arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from surerec.precedence.kernels import pick

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.measures._tiles import LeftOutUser
    from surerec.precedence import RowSource


@njit(nogil=True, cache=True, error_model="numpy")
def _add_ratios_of(
    at: int,
    support: int,
    instants: NDArray[np.int64],
    counts: NDArray[np.int32],
    back: NDArray[np.int32],
    totals: NDArray[np.float64],
) -> None:
    """Add the ratios of some columns of a row, the user's own part left out on the way."""
    consumed = np.int32(support)
    for j in range(np.uint64(len(totals))):
        instant = instants[j]
        count = counts[j] - np.int32((at >= 0) & (at < instant))
        free = consumed - back[j] + np.int32((instant >= 0) & (instant < at))
        totals[j] += np.float64(count) / np.maximum(np.float64(free), 1.0)


@njit(nogil=True, cache=True, error_model="numpy")
def total_ratios_of(
    source: RowSource,
    reverse: RowSource,
    out: LeftOutUser,
    items: NDArray[np.int64],
    instants: NDArray[np.int64],
    totals: NDArray[np.float64],
) -> None:
    """Add up the ratios of some items, which the user to leave out took at `instants` (−1: never).

    In the order of the rows, as for all items at once: equal to the last bit.
    """
    totals[:] = 0.0
    n = len(items)
    counts, free = np.empty(n, np.int32), np.empty(n, np.int32)
    for k in range(len(source.places)):
        if out.support[k]:
            pick(source, k, items, counts)
            pick(reverse, k, items, free)
            _add_ratios_of(out.of_rows[k], out.support[k], instants, counts, free, totals)
