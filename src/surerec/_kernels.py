"""Counting-sort kernels: pure functions on arrays that release the GIL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numba import njit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["count_codes", "place_rows"]


@njit(nogil=True, cache=True)
def count_codes(codes: NDArray[np.uint32], counts: NDArray[np.int64]) -> None:
    """Add the number of occurrences of each code to `counts`."""
    for code in codes:
        counts[code] += 1


@njit(nogil=True, cache=True)
def place_rows(
    codes: NDArray[np.uint32],
    start: int,
    stop: int,
    cursors: NDArray[np.int64],
    order: NDArray[np.int64],
) -> None:
    """Write each row to the next free place of its group."""
    for row in range(start, stop):
        code = codes[row]
        order[cursors[code]] = row
        cursors[code] += 1
