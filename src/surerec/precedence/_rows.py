"""Stores of rows of precedence counts: one interface, several strategies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numba import njit

from surerec._memory import available_memory
from surerec._words import in_bytes
from surerec.errors import InputError
from surerec.precedence._kernels import subtract_users

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.precedence._spans import Direction


class RowSource(NamedTuple):
    """Rows of one direction for kernels, without copies.

    `places` index the rows of `matrix`, then those of `counted`, then compressed rows. Compressed
    row c has ``counts[offsets[c]:offsets[c + 1]]`` at ``items[offsets[c]:offsets[c + 1]]``.
    """

    matrix: NDArray[np.unsignedinteger]
    counted: NDArray[np.unsignedinteger]
    offsets: NDArray[np.int64]
    items: NDArray[np.uint32]
    counts: NDArray[np.unsignedinteger]
    places: NDArray[np.int64]

    @property
    def n_columns(self) -> int:
        """Number of counts in a row."""
        return int(self.matrix.shape[1])

    @property
    def counter(self) -> np.dtype[Any]:
        """Type that holds all counts."""
        held = self.matrix, self.counted, self.counts
        return np.result_type(*(array.dtype for array in held))


_NO_OFFSETS = np.zeros(1, dtype=np.int64)
_NO_ITEMS = np.empty(0, dtype=np.uint32)
for _array in (_NO_OFFSETS, _NO_ITEMS):
    _array.flags.writeable = False  # like the arrays of a store, so that kernels compile once


def of_matrix(
    matrix: NDArray[np.unsignedinteger], places: NDArray[np.int64] | None = None
) -> RowSource:
    """Return rows of a matrix, by default all, as a row source."""
    places = np.arange(len(matrix)) if places is None else places
    if matrix.flags.writeable:
        matrix = matrix.view()
        matrix.flags.writeable = False
    return RowSource(matrix, matrix[:0], _NO_OFFSETS, _NO_ITEMS, matrix[:0].ravel(), places)


@njit(nogil=True, inline="always")  # a call would be slower than a short tile
def load(source: RowSource, k: int, left: int, tile: NDArray[Any]) -> None:
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
def _load_compressed(source: RowSource, place: int, left: int, tile: NDArray[Any]) -> None:
    """Write columns of a compressed row into `tile`."""
    begin, end = source.offsets[place], source.offsets[place + 1]
    low, stop = begin + np.searchsorted(source.items[begin:end], left), left + len(tile)
    last = low + len(tile) - 1
    if low <= last < end and source.items[low] == left and source.items[last] == stop - 1:
        # No zeros, as in rows that are compressed because of counts above 16 bits.
        for j in range(np.uint64(len(tile))):
            tile[j] = source.counts[np.uint64(low) + j]
        return
    tile[:] = 0
    while low < end and source.items[low] < stop:
        column = np.int64(source.items[low]) - left
        if column >= 0:  # false only if the items of a damaged file do not ascend
            tile[column] = source.counts[low]
        low += 1


@njit(nogil=True, cache=True)
def _pick_compressed(
    source: RowSource, place: int, columns: NDArray[np.int64], out: NDArray[Any]
) -> None:
    """Write some columns of a compressed row, each found by bisection."""
    row = slice(source.offsets[place], source.offsets[place + 1])
    items, counts = source.items[row], source.counts[row]
    for j in range(len(columns)):
        found = np.searchsorted(items, columns[j])
        there = found < len(items) and items[found] == columns[j]
        out[j] = counts[found] if there else 0


@njit(nogil=True, inline="always")  # a call would be slower than a few columns
def pick(source: RowSource, k: int, columns: NDArray[np.int64], out: NDArray[Any]) -> None:
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
def read_rows(source: RowSource, n_columns: int, matrix: NDArray[Any]) -> None:
    """Write all rows into a matrix, padded with zeros."""
    for k in range(len(source.places)):
        row = matrix[k, :n_columns]
        load(source, k, 0, row)
        matrix[k, n_columns:] = 0


_SURELY_FITS = 1 << 26  # bytes; below this, checking the free memory costs more than it helps
_BYTES_AN_INTERACTION = 1 << 10
_LEAST_BUDGET = 1 << 24  # bytes


class RowStore(ABC):
    """Base class of stores of precedence counts.

    A row has one count for each item, in read-only unsigned integers as narrow as possible: widen
    them before adding. Results do not depend on which rows are stored or counted on demand.
    """

    kind: ClassVar[str | None] = None
    """Name of the strategy in a model folder; None if it cannot be saved."""
    holds_all: ClassVar[bool] = False
    """Whether all rows are in memory as matrices."""
    has_counts: ClassVar[bool] = True
    """Whether there are counts."""

    @abstractmethod
    def source(self, direction: Direction, items: NDArray[np.int64]) -> RowSource:
        """Return the rows of several items for a kernel, without copies of stored rows."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of the store by their role in a model folder, without the profiles.

        :func:`rows_from` restores the store.
        """
        return {}

    def block(
        self, direction: Direction, items: NDArray[np.integer]
    ) -> NDArray[np.unsignedinteger]:
        """Return a copy of the rows of several items."""
        found = self.source(direction, np.asarray(items, dtype=np.int64))
        n_items, counter = found.n_columns, found.counter
        check_fits(len(items), n_items, counter)
        matrix = np.empty((len(items), n_items), dtype=counter)
        read_rows(found, n_items, matrix)
        return matrix

    def followers(self, item: int) -> NDArray[np.unsignedinteger]:
        """Return ``PC(item, ·)``: the number of users who consumed each item after this one."""
        return self._row("followers", item)

    def predecessors(self, item: int) -> NDArray[np.unsignedinteger]:
        """Return ``PC(·, item)``: the number of users who consumed each item before this one."""
        return self._row("predecessors", item)

    def _row(self, direction: Direction, item: int) -> NDArray[np.unsignedinteger]:
        row: NDArray[np.unsignedinteger] = self.block(direction, np.array([item]))[0]
        row.flags.writeable = False
        return row


def linear_budget(n_rows: int, n_fitted: int = 0) -> int:
    """Return the memory budget in bytes for rows of a catalogue that grows by events.

    It includes all counts of the fitted items. Beyond these, it grows with the number of
    interactions, not with the square of the number of items.

    Parameters
    ----------
    n_rows : int
        Number of interactions.
    n_fitted : int, default=0
        Number of items in the fit.

    Examples
    --------
    >>> linear_budget(20_000), linear_budget(40_000), linear_budget(40_000, n_fitted=1_000)
    (20480000, 40960000, 48960000)
    """
    fitted = DenseRows.bytes_needed(n_fitted, np.dtype(np.uint32))
    return max(_LEAST_BUDGET, _BYTES_AN_INTERACTION * n_rows) + fitted


def check_fits(n_rows: int, n_items: int, counter: np.dtype[Any]) -> None:
    """Raise InputError if the rows of a history would not fit in memory."""
    needed = counter.itemsize * n_rows * n_items
    if needed < _SURELY_FITS:
        return
    free = available_memory()
    if needed > free:
        raise InputError(
            f"A history of {n_rows:,} items needs {in_bytes(needed)}, and {in_bytes(free)} is "
            "free. Pass a shorter history."
        )


class DenseRows(RowStore):
    """All rows of both directions in memory."""

    kind = "dense"
    holds_all = True

    def __init__(
        self, followers: NDArray[np.unsignedinteger], predecessors: NDArray[np.unsignedinteger]
    ) -> None:
        self._followers, self._predecessors = followers.view(), predecessors.view()
        self._followers.flags.writeable = self._predecessors.flags.writeable = False

    @staticmethod
    def bytes_needed(n_items: int, counter: np.dtype[Any]) -> int:
        """Return the memory of both directions of `n_items` items."""
        return 2 * n_items * n_items * counter.itemsize

    def source(self, direction: Direction, items: NDArray[np.int64]) -> RowSource:
        """Return the matrix and the positions of the rows."""
        matrix = self._followers if direction == "followers" else self._predecessors
        return of_matrix(matrix, items)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the matrix of each direction."""
        return {"followers": self._followers, "predecessors": self._predecessors}


@dataclass(frozen=True)
class LeftOutRows(RowStore):
    """Rows of another store without some users, whose contribution is subtracted on demand."""

    rows: RowStore
    offsets: NDArray[np.int64]
    """Start of each user in `items`, and the end of the last one."""
    items: NDArray[np.uint32]
    """Item codes of the users, concatenated."""
    instants: NDArray[np.int64]
    """Position in time: an item precedes another of the same user if its instant is smaller."""

    def source(self, direction: Direction, items: NDArray[np.int64]) -> RowSource:
        """Return the rows of several items over the other users."""
        matrix = self.rows.block(direction, items)
        following = direction == "followers"
        subtract_users(self.offsets, self.items, self.instants, items, following, matrix)
        return of_matrix(matrix)


class NoRows(RowStore):
    """No precedence counts, for models that do not need them."""

    kind = "none"
    has_counts = False

    def source(self, direction: Direction, items: NDArray[np.int64]) -> RowSource:  # noqa: ARG002
        """Raise InputError."""
        raise InputError(
            "There are no precedence counts, because a wrapped model does not need them. Fit a "
            "precedence measure on the interactions, into another folder."
        )
