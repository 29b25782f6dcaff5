"""Products of the largest counts, and some columns of rows: pure functions on arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

from surerec.precedence.kernels import load, pick

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.precedence import Source


HUGE = 1e150  # products are scaled down beyond it, far from overflow whatever the next factor
_BISECTION = 16  # steps, about as many as are needed to find a column of a row
_TILE = 1024  # columns: their products stay in the first-level cache


@njit(nogil=True, cache=True)
def _select(values: NDArray[np.float64], n: int, rank: int) -> float:
    """Bring the value of that rank to its place, smaller ones before it (Hoare's quickselect)."""
    low, high = 0, n - 1
    while low < high:
        pivot = values[(low + high) >> 1]
        i, j = low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if rank <= j:
            high = j
        elif rank >= i:
            low = i
        else:
            break
    return float(values[rank])


@njit(nogil=True, cache=True)
def top_products(
    counts: NDArray[Any],
    picks: NDArray[np.int64],
    top: int,
    products: NDArray[np.float64],
    scaled: NDArray[np.float64],
) -> None:
    """Give for every column the product of its `top` largest counts, or of all of them.

    The product is ``products · HUGE ** scaled``: integers stay exact as long as their product does,
    so equal products tie, and however many factors there are, nothing overflows.
    """
    n_rows, n_columns = len(picks), counts.shape[1]
    if top >= n_rows:
        _whole_products(counts, picks, products, scaled)
        return
    column = np.empty(n_rows)
    for j in range(n_columns):
        for k in range(n_rows):
            column[k] = -float(counts[picks[k], j])
        _select(column, n_rows, top - 1)
        products[j] = 1.0
        scaled[j] = 0.0
        for value in np.sort(column[:top]):
            products[j] *= -value
            if products[j] > HUGE:
                products[j] /= HUGE
                scaled[j] += 1.0


@njit(nogil=True, cache=True)
def _whole_products(
    counts: NDArray[Any],
    picks: NDArray[np.int64],
    products: NDArray[np.float64],
    scaled: NDArray[np.float64],
) -> None:
    n_columns = counts.shape[1]
    for left in range(0, n_columns, _TILE):
        right = np.minimum(left + _TILE, n_columns)
        product, scale = products[left:right], scaled[left:right]
        product[:] = 1.0
        scale[:] = 0.0
        for chosen in picks:
            row = counts[chosen, left:right]
            for j in range(right - left):
                value = product[j] * row[j]
                large = value > HUGE
                product[j] = value / HUGE if large else value
                scale[j] += large


@njit(nogil=True, cache=True)
def gather_columns(
    source: Source,
    n_items: int,
    columns: NDArray[np.int64],
    row_instants: NDArray[np.int64],
    column_instants: NDArray[np.int64],
    following: bool,  # noqa: FBT001
    out: NDArray[Any],
) -> None:
    """Copy some columns without one user's contribution.

    That user took the item of column ``j`` at ``column_instants[j]`` and the item of row ``k`` at
    ``row_instants[k]``; an instant of −1 says that they did not.
    """
    n_plain = len(source.matrix) + len(source.counted)
    few = len(columns) * _BISECTION < n_items
    whole = np.empty(0 if few else n_items, out.dtype)
    for k in range(len(source.places)):
        to = out[k]
        if few or source.places[k] < n_plain:
            pick(source, k, columns, to)
        else:
            load(source, k, 0, whole)
            for j in range(len(columns)):
                to[j] = whole[columns[j]]
        at = row_instants[k]
        for j in range(len(columns)):
            earlier, later = at, column_instants[j]
            if not following:
                earlier, later = later, earlier
            to[j] -= np.uint32(0 <= earlier < later)
