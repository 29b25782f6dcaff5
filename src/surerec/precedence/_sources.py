"""Rows for the kernels, each where a store holds it: nothing is copied to be read once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Source(NamedTuple):
    """Rows of one direction, each wherever it is held.

    Places count through the rows of `matrix`, those of `counted`, and then the compressed ones: row
    c of them has ``counts[offsets[c]:offsets[c + 1]]`` at ``items[offsets[c]:offsets[c + 1]]``.
    """

    matrix: NDArray[np.unsignedinteger]
    counted: NDArray[np.unsignedinteger]
    offsets: NDArray[np.int64]
    items: NDArray[np.uint32]
    counts: NDArray[np.unsignedinteger]
    places: NDArray[np.int64]


_NO_OFFSETS = np.zeros(1, dtype=np.int64)
_NO_ITEMS = np.empty(0, dtype=np.uint32)
for _array in (_NO_OFFSETS, _NO_ITEMS):
    _array.flags.writeable = False  # as the arrays of a store: kernels are compiled for one kind


def of_matrix(matrix: NDArray[np.unsignedinteger], places: NDArray[np.int64]) -> Source:
    """Give rows of a matrix, with nothing counted or compressed beside them."""
    if matrix.flags.writeable:
        matrix = matrix.view()
        matrix.flags.writeable = False
    return Source(matrix, matrix[:0], _NO_OFFSETS, _NO_ITEMS, matrix[:0].ravel(), places)


@njit(nogil=True, cache=True)
def load(source: Source, k: int, left: int, tile: NDArray[Any]) -> None:
    """Write the columns of row `k` from `left` on into `tile`."""
    place, width = source.places[k], np.uint64(len(tile))
    if place < len(source.matrix):
        row = source.matrix[place, left : left + len(tile)]
        for j in range(width):
            tile[j] = row[j]
        return
    place -= len(source.matrix)
    if place < len(source.counted):
        other = source.counted[place, left : left + len(tile)]
        for j in range(width):
            tile[j] = other[j]
        return
    _load_compressed(source, place - len(source.counted), left, tile)


@njit(nogil=True, cache=True)
def _load_compressed(source: Source, place: int, left: int, tile: NDArray[Any]) -> None:
    """Write the same of a compressed row."""
    low, end = source.offsets[place], source.offsets[place + 1]
    high, stop = end, left + len(tile)
    while low < high:
        middle = (low + high) >> 1
        if source.items[middle] < left:
            low = middle + 1
        else:
            high = middle
    last = low + len(tile) - 1
    if low <= last < end and source.items[low] == left and source.items[last] == stop - 1:
        # No column is missing, as of rows that are compressed because 16 bits do not hold them.
        for j in range(np.uint64(len(tile))):
            tile[j] = source.counts[np.uint64(low) + j]
        return
    tile[:] = 0
    while low < end and source.items[low] < stop:
        column = np.int64(source.items[low]) - left
        if column >= 0:  # always, if the items ascend, which those of a stranger may not
            tile[column] = source.counts[low]
        low += 1


@njit(nogil=True, cache=True)
def _pick_compressed(
    source: Source, place: int, columns: NDArray[np.int64], out: NDArray[Any]
) -> None:
    """Write some columns of a compressed row, each found by bisection."""
    begin, end = source.offsets[place], source.offsets[place + 1]
    for j in range(len(columns)):
        low, high = begin, end
        while low < high:
            middle = (low + high) >> 1
            if source.items[middle] < columns[j]:
                low = middle + 1
            else:
                high = middle
        there = low < end and source.items[low] == columns[j]
        out[j] = source.counts[low] if there else 0


@njit(nogil=True, inline="always")  # a call of it would take longer than a few columns
def pick(source: Source, k: int, columns: NDArray[np.int64], out: NDArray[Any]) -> None:
    """Write some columns of row `k`."""
    place, n_dense, n_counted = source.places[k], len(source.matrix), len(source.counted)
    if place < n_dense:
        for j in range(np.uint64(len(columns))):
            out[j] = source.matrix[place, np.uint64(columns[j])]
    elif place < n_dense + n_counted:
        for j in range(np.uint64(len(columns))):
            out[j] = source.counted[place - n_dense, np.uint64(columns[j])]
    else:
        _pick_compressed(source, place - n_dense - n_counted, columns, out)


@njit(nogil=True, cache=True)
def read_row(source: Source, k: int, row: NDArray[Any]) -> None:
    """Write the whole of row `k` into `row`."""
    load(source, k, 0, row)


@njit(nogil=True, cache=True)
def read_rows(source: Source, n_columns: int, matrix: NDArray[Any]) -> None:
    """Write every row into the row of a matrix, and zeros behind its columns."""
    for k in range(len(source.places)):
        load(source, k, 0, matrix[k, :n_columns])
        matrix[k, n_columns:] = 0
