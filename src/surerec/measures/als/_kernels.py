"""A person folded in, and every item scored: kernels that release the GIL.

Each item is a column, and a column's score does not depend on which others are computed with it:
no sums are split over threads or blocks, so that equal factors are equal scores to the last bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TILE = 1024  # columns: their sums stay in the first-level cache


@njit(nogil=True, cache=True)
def factor(matrix: NDArray[np.float64]) -> bool:
    """Turn the lower triangle of a matrix into its Cholesky factor; False if it has none."""
    n = len(matrix)
    for i in range(n):
        for j in range(i + 1):
            found = matrix[i, j]
            for k in range(j):
                found -= matrix[i, k] * matrix[j, k]
            if i > j:
                matrix[i, j] = found / matrix[j, j]
            elif found > 0.0:  # False for what is not a number as well
                matrix[i, i] = np.sqrt(found)
            else:
                return False
    return True


@njit(nogil=True, cache=True)
def solve(lower: NDArray[np.float64], right: NDArray[np.float64]) -> None:
    """Solve ``L Lᵀ x = b`` in the place of b."""
    n = len(lower)
    for i in range(n):
        found = right[i]
        for k in range(i):
            found -= lower[i, k] * right[k]
        right[i] = found / lower[i, i]
    for i in range(n - 1, -1, -1):
        found = right[i]
        for k in range(i + 1, n):
            found -= lower[k, i] * right[k]
        right[i] = found / lower[i, i]


@njit(nogil=True, cache=True)
def factor_of_history(
    taken: NDArray[np.float32],
    gram: NDArray[np.float64],
    regularization: float,
    alpha: float,
    lower: NDArray[np.float64],
) -> bool:
    """Write the Cholesky factor of ``YᵀY + α Σ y yᵀ + λI`` over the items of a history.

    `taken` has a row for each item; False if there is no factor.
    """
    n = len(gram)
    for i in range(n):
        for j in range(i + 1):
            lower[i, j] = gram[i, j]
        lower[i, i] += regularization
    wide = np.empty(n)
    for k in range(len(taken)):
        for i in range(n):
            wide[i] = taken[k, i]
        for i in range(n):
            weight, row = alpha * wide[i], lower[i]
            for j in range(np.uint64(i + 1)):
                row[j] += weight * wide[j]
    return factor(lower)


@njit(nogil=True, cache=True)
def fold_in(
    taken: NDArray[np.float32],
    gram: NDArray[np.float64],
    regularization: float,
    alpha: float,
    person: NDArray[np.float64],
) -> bool:
    """Write the factors of a person who took a history; False if they cannot be solved for.

    They solve ``(YᵀY + Yᵀ(C − I)Y + λI) x = YᵀC p`` (Hu, Koren and Volinsky, 2008, Eq. 4).
    `taken` has the factors of each item of the history.
    """
    n = len(gram)
    lower = np.empty((n, n))
    person[:] = 0.0
    if not factor_of_history(taken, gram, regularization, alpha, lower):
        return False
    for k in range(len(taken)):
        for i in range(n):
            person[i] += (1.0 + alpha) * taken[k, i]
    solve(lower, person)
    return True


@njit(nogil=True, cache=True)
def score_items(
    items: NDArray[np.float32], person: NDArray[np.float64], scores: NDArray[np.float64]
) -> None:
    """Write every item's product with a person."""
    n_items = items.shape[1]
    scores[:] = 0.0
    for begin in range(0, n_items, _TILE):
        end = min(begin + _TILE, n_items)
        tile, n = scores[begin:end], len(items)
        # Four rows are read for each time that a sum is, and added in their order all the same.
        for i in range(0, n - n % 4, 4):
            first, second = items[i, begin:end], items[i + 1, begin:end]
            third, fourth = items[i + 2, begin:end], items[i + 3, begin:end]
            one, two, three, four = person[i], person[i + 1], person[i + 2], person[i + 3]
            for j in range(np.uint64(len(tile))):
                tile[j] = (
                    ((tile[j] + one * first[j]) + two * second[j]) + three * third[j]
                ) + four * fourth[j]
        for i in range(n - n % 4, n):
            row, weight = items[i, begin:end], person[i]
            for j in range(np.uint64(len(tile))):
                tile[j] += weight * row[j]
