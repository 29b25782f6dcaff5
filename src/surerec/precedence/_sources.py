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
    place -= len(source.counted)
    tile[:] = 0
    low, end = source.offsets[place], source.offsets[place + 1]
    high, stop = end, left + len(tile)
    while low < high:
        middle = (low + high) >> 1
        if source.items[middle] < left:
            low = middle + 1
        else:
            high = middle
    while low < end and source.items[low] < stop:
        column = np.int64(source.items[low]) - left
        if column >= 0:  # always, if the items ascend, which those of a stranger may not
            tile[column] = source.counts[low]
        low += 1


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
