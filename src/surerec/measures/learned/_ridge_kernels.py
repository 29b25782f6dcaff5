"""Weighted sums of rows of a matrix, and users left out of them: kernels that release the GIL.

Rows are added in their order, to the last bit as one by one, but four of them are read for each
time that a sum is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TILE = 512  # columns: a sum and four rows of them stay in the first-level cache


@njit(nogil=True, cache=True)
def _add_four(
    weights: NDArray[np.float64],
    first: NDArray[np.float64],
    second: NDArray[np.float64],
    third: NDArray[np.float64],
    fourth: NDArray[np.float64],
    sums: NDArray[np.float64],
) -> None:
    one, two, three, four = weights[0], weights[1], weights[2], weights[3]
    for j in range(np.uint64(len(sums))):
        sums[j] = (
            ((sums[j] + one * first[j]) + two * second[j]) + three * third[j]
        ) + four * fourth[j]


@njit(nogil=True, cache=True)
def _add_one(weight: float, row: NDArray[np.float64], sums: NDArray[np.float64]) -> None:
    for j in range(np.uint64(len(sums))):
        sums[j] += weight * row[j]


@njit(nogil=True, cache=True)
def sum_rows(
    matrix: NDArray[np.float64],
    rows: NDArray[np.int64],
    weights: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None:
    """Write ``out[w] = Σ weights[w, k] · matrix[rows[k]]`` for every column."""
    n_columns, n = matrix.shape[1], len(rows)
    whole = n - n % 4
    for left in range(0, n_columns, _TILE):
        right = min(left + _TILE, n_columns)
        for w in range(len(weights)):
            out[w, left:right] = 0.0
        for k in range(0, whole, 4):
            first, second = matrix[rows[k], left:right], matrix[rows[k + 1], left:right]
            third, fourth = matrix[rows[k + 2], left:right], matrix[rows[k + 3], left:right]
            for w in range(len(weights)):
                some = weights[w, k : k + 4]
                _add_four(some, first, second, third, fourth, out[w, left:right])
        for k in range(whole, n):
            for w in range(len(weights)):
                _add_one(weights[w, k], matrix[rows[k], left:right], out[w, left:right])


@njit(nogil=True, cache=True)
def sum_picked(
    matrix: NDArray[np.float64],
    rows: NDArray[np.int64],
    weights: NDArray[np.float64],
    columns: NDArray[np.int64],
    out: NDArray[np.float64],
) -> None:
    """Do the same for some columns alone."""
    n, picked = len(rows), np.empty((4, len(columns)))
    for w in range(len(weights)):
        out[w] = 0.0
    for begin in range(0, n, 4):
        n_here = min(4, n - begin)
        for k in range(n_here):
            row, room = matrix[rows[begin + k]], picked[k]
            for j in range(np.uint64(len(columns))):
                room[j] = row[columns[j]]
        for w in range(len(weights)):
            some = weights[w, begin : begin + n_here]
            if n_here == 4:  # noqa: PLR2004  # as many as are added together
                _add_four(some, picked[0], picked[1], picked[2], picked[3], out[w])
                continue
            for k in range(n_here):
                _add_one(some[k], picked[k], out[w])


@njit(nogil=True, cache=True)
def rows_and_weights(
    history: NDArray[np.int64],
    weights: NDArray[np.float64],
    own: NDArray[np.int64],
    n_items: int,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Give the rows that a history and a user's items need, ascending, and their weights.

    First by each weighting of the history, then 1 for each of `own`. Items from `n_items` on have
    no row.
    """
    slots = np.full(n_items, -1)
    for item in history:
        if item < n_items:
            slots[item] = 0
    for item in own:
        slots[item] = 0
    rows, n = np.empty(len(history) + len(own), np.int64), 0
    for item in range(n_items):
        if slots[item] == 0:
            slots[item] = n
            rows[n] = item
            n += 1
    table = np.zeros((len(weights) + 1, n))
    for k in range(len(history)):
        if history[k] < n_items:
            for w in range(len(weights)):
                table[w, slots[history[k]]] = weights[w, k]
    for item in own:
        table[-1, slots[item]] = 1.0
    return rows[:n], table


@njit(nogil=True, cache=True)
def sum_history(
    matrix: NDArray[np.float64],
    rows: NDArray[np.int64],
    table: NDArray[np.float64],
    n_own: int,
    out: NDArray[np.float64],
) -> None:
    """Sum rows by each weighting and, as the last of them, those of a user who took `n_own` items.

    Where the history is all that the user took, that is the first weighting, if it is of ones.
    """
    last = len(table) - 1
    same = True
    for k in range(len(rows)):
        same &= table[0, k] == table[last, k]
    if n_own > 0 and not same:
        sum_rows(matrix, rows, table, out)
        return
    sum_rows(matrix, rows, table[:last], out)
    for j in range(np.uint64(out.shape[1])):
        out[last, j] = out[0, j] if n_own > 0 else 0.0


@njit(nogil=True, cache=True, error_model="numpy")
def regress(
    sums: NDArray[np.float64],
    overlaps: NDArray[np.float64],
    diagonal: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None:
    """Write scores of a ridge over items by a user's own sum, the last, and what each overlaps."""
    last = len(sums) - 1
    left, mine = 1.0 - overlaps[last], sums[last]
    for w in range(last):
        overlap, among, scores = overlaps[w], sums[w], out[w]
        for j in range(np.uint64(len(diagonal))):
            moved = mine[j] / left
            scores[j] = -(among[j] + overlap * moved) / (diagonal[j] + mine[j] * moved)


@njit(nogil=True, cache=True, error_model="numpy")
def leave_out_foreseen(
    sums: NDArray[np.float64],
    overlaps: NDArray[np.float64],
    second: NDArray[np.int64],
    out: NDArray[np.float64],
) -> None:
    """Write scores of a ridge from past to future, without a user who then took `second`."""
    last, n_columns = len(sums) - 1, sums.shape[1]
    left, unforeseen = 1.0 - overlaps[last], np.empty(n_columns)
    for j in range(np.uint64(n_columns)):
        unforeseen[j] = -sums[last, j] + 0.0
    for item in second:
        unforeseen[item] = -sums[last, item] + 1.0
    for w in range(last):
        overlap, among, scores = overlaps[w], sums[w], out[w]
        for j in range(np.uint64(n_columns)):
            scores[j] = among[j] - overlap * (unforeseen[j] / left)
