"""Where rows of precedence counts come from: one protocol, several strategies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numba import njit

from surerec._memory import available_memory, in_words
from surerec._threads import run_blocks
from surerec.errors import InputError
from surerec.precedence._kernels import subtract_users, transpose_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.precedence._spans import Direction, Spans


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


@njit(nogil=True, inline="always")
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


_ROWS_AT_ONCE = 256
_SURELY_FITS = 1 << 26  # looking at the free memory costs more than so small a block
_BYTES_AN_INTERACTION = 1 << 10
_LEAST_BUDGET = 1 << 24  # bytes: so small a store may grow as it likes


class RowStore(Protocol):
    """Gives rows of precedence counts; all that the rest of surerec knows of their storage.

    Rows are unsigned integers, as wide as the counts need, one for each item, and not to be written
    to: make them wider before adding them up. A store answers the same
    whatever it holds and whatever it counts when asked.
    """

    kind: ClassVar[str | None] = None
    """The strategy by which a model folder calls it; None if it cannot be stored."""
    holds_all: ClassVar[bool] = False
    """Whether every row of both directions lies in one matrix, which `block` gives."""
    keeps_rows: ClassVar[bool] = False
    """Whether rows asked for a moment ago are still there, and the same: to ask again is cheap."""
    has_counts: ClassVar[bool] = True
    """Whether there are rows at all."""

    def followers(self, item: int) -> NDArray[np.unsignedinteger]:
        """Give ``PC(item, ·)``: how many users took each item after this one."""

    def predecessors(self, item: int) -> NDArray[np.unsignedinteger]:
        """Give ``PC(·, item)``: how many users took each item before this one."""

    def block(self, direction: Direction, items: NDArray[np.integer]) -> Block:
        """Give the rows of several items at once, with no copy where the store holds them."""

    def source(self, direction: Direction, items: NDArray[np.int64]) -> Source:
        """Give the rows of several items for a kernel; a store that would copy says where they are.

        By default they are those of `block`.
        """
        return of_matrix(*self.block(direction, items))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Give the arrays that make up the store, by their role in a model folder.

        The profiles are not among them; :func:`rows_from` puts the store together again.
        """


def source(rows: RowStore, direction: Direction, items: NDArray[np.int64]) -> Source:
    """Give the rows of several items, with no copy where the store can do without."""
    return rows.source(direction, items)


class Block(NamedTuple):
    """Rows of counts for a kernel: row ``k`` is ``matrix[picks[k]]``."""

    matrix: NDArray[np.unsignedinteger]
    picks: NDArray[np.int64]


def linear_budget(n_rows: int, n_fitted: int = 0) -> int:
    """Return the bytes for rows of a catalogue to which events add items.

    The rows of the fitted items have room for all counts among them. Beyond these, the budget grows
    with the number of interactions, not with the square of the number of items.

    Parameters
    ----------
    n_rows : int
        Number of interactions.
    n_fitted : int, default=0
        Number of items that no event added.

    Examples
    --------
    >>> linear_budget(20_000), linear_budget(40_000), linear_budget(40_000, n_fitted=1_000)
    (20480000, 40960000, 48960000)
    """
    fitted = DenseRows.bytes_needed(n_fitted, np.dtype(np.uint32))
    return max(_LEAST_BUDGET, _BYTES_AN_INTERACTION * n_rows) + fitted


def check_fits(n_rows: int, n_items: int, counter: np.dtype[Any]) -> None:
    """Refuse a profile whose rows would not fit in memory, before they are made."""
    needed = counter.itemsize * n_rows * n_items
    if needed < _SURELY_FITS:
        return
    free = available_memory()
    if needed > free:
        raise InputError(
            f"The rows of a profile of {n_rows:,} items need {in_words(needed)}, and "
            f"{in_words(free)} is free: give a shorter history."
        )


def stacked(rows: RowStore, direction: Direction, items: NDArray[np.integer]) -> Block:
    """Ask a store for rows one by one and stack them, within the free memory."""
    give = rows.followers if direction == "followers" else rows.predecessors
    first = give(int(items[0]))
    check_fits(len(items), len(first), first.dtype)
    matrix = np.empty((len(items), len(first)), dtype=first.dtype)
    matrix[0] = first
    for place in range(1, len(items)):
        matrix[place] = give(int(items[place]))
    return Block(matrix, np.arange(len(items)))


def _transposed(matrix: NDArray[Any]) -> NDArray[Any]:
    """Give the transpose of a square matrix, made on all cores."""
    transposed = np.empty_like(matrix, order="C")
    starts = range(0, len(matrix), _ROWS_AT_ONCE)
    list(run_blocks(lambda i: transpose_rows(matrix[i : i + _ROWS_AT_ONCE], i, transposed), starts))
    return transposed


class DenseRows(RowStore):
    """All rows of both directions in memory."""

    kind = "dense"
    holds_all = True

    def __init__(
        self,
        followers: NDArray[np.unsignedinteger],
        predecessors: NDArray[np.unsignedinteger] | None = None,
    ) -> None:
        self._followers = followers.view()
        self._predecessors = _transposed(followers) if predecessors is None else predecessors.view()
        self._followers.flags.writeable = False
        self._predecessors.flags.writeable = False

    @staticmethod
    def bytes_needed(n_items: int, counter: np.dtype[Any]) -> int:
        """Give the memory that both directions of `n_items` items take."""
        return 2 * n_items * n_items * counter.itemsize

    def followers(self, item: int) -> NDArray[np.unsignedinteger]:
        """Give ``PC(item, ·)``."""
        row: NDArray[np.unsignedinteger] = self._followers[item]
        return row

    def predecessors(self, item: int) -> NDArray[np.unsignedinteger]:
        """Give ``PC(·, item)``."""
        row: NDArray[np.unsignedinteger] = self._predecessors[item]
        return row

    def block(self, direction: Direction, items: NDArray[np.integer]) -> Block:
        """Give the whole matrix, and which of its rows are meant."""
        matrix = self._followers if direction == "followers" else self._predecessors
        return Block(matrix, np.asarray(items, dtype=np.int64))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Give the matrix of each direction."""
        return {"followers": self._followers, "predecessors": self._predecessors}


@dataclass(frozen=True)
class OnDemandRows(RowStore):
    """No row in memory: each is counted from the profiles when it is asked for."""

    kind = "on-demand"

    following: Spans
    preceding: Spans

    def followers(self, item: int) -> NDArray[np.unsignedinteger]:
        """Give ``PC(item, ·)``."""
        return self.following.count_row(item)

    def predecessors(self, item: int) -> NDArray[np.unsignedinteger]:
        """Give ``PC(·, item)``."""
        return self.preceding.count_row(item)

    def block(self, direction: Direction, items: NDArray[np.integer]) -> Block:
        """Count the rows of several items."""
        return stacked(self, direction, items)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Give the spans of each direction."""
        return self.following.arrays("following") | self.preceding.arrays("preceding")


@dataclass(frozen=True)
class LeftOutRows(RowStore):
    """Another store's rows without some users' contributions, subtracted as rows are asked for."""

    rows: RowStore
    offsets: NDArray[np.int64]
    """Where each of these users begins among the items, and the last one ends."""
    items: NDArray[np.uint32]
    """What these users took, one after the other."""
    instants: NDArray[np.int64]
    """When: an item precedes another of the same user if its instant is smaller."""

    def followers(self, item: int) -> NDArray[np.unsignedinteger]:
        """Give ``PC(item, ·)`` over the other users."""
        return self._row("followers", item, self.rows.followers(item))

    def predecessors(self, item: int) -> NDArray[np.unsignedinteger]:
        """Give ``PC(·, item)`` over the other users."""
        return self._row("predecessors", item, self.rows.predecessors(item))

    def block(self, direction: Direction, items: NDArray[np.integer]) -> Block:
        """Give the rows of several items over the other users."""
        matrix, picks = self.rows.block(direction, items)
        check_fits(len(picks), matrix.shape[1], matrix.dtype)
        rest = matrix[picks]
        self._subtract(direction, np.asarray(items, dtype=np.int64), rest)
        return Block(rest, np.arange(len(picks)))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Give none: only whole stores are stored."""
        return {}

    def _row(
        self, direction: Direction, item: int, row: NDArray[np.unsignedinteger]
    ) -> NDArray[np.unsignedinteger]:
        rest = row[None].copy()
        self._subtract(direction, np.array([item]), rest)
        found: NDArray[np.unsignedinteger] = rest[0]
        return found

    def _subtract(
        self, direction: Direction, items: NDArray[np.int64], matrix: NDArray[Any]
    ) -> None:
        following = direction == "followers"
        subtract_users(self.offsets, self.items, self.instants, items, following, matrix)
