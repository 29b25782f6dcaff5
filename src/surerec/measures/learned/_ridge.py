"""Ridge regressions over items with exact leave-out of users: EASE, and past to future."""

from __future__ import annotations

from abc import ABC, abstractmethod
from ctypes import CFUNCTYPE, byref, c_char_p, c_int64, c_void_p
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import numpy as np
from numba import njit
from numba.extending import get_cython_function_address

from surerec._grouping import group_rows
from surerec._memory import available_memory
from surerec._progress import progress
from surerec._threads import run_blocks
from surerec._words import in_bytes
from surerec.precedence import Spans

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from surerec.interactions import Interactions

    Table = tuple[NDArray[np.int64], NDArray[np.float64]]

Number = TypeVar("Number", np.float32, np.float64)

MOST_ITEMS: Final = 10_000
"""Maximum number of items, the most popular ones (800 MB); the others score 0."""
MOST_FORWARD_ITEMS: Final = 5_000
"""Maximum number of items of the forward ridge (two matrices of 200 MB)."""
_ROWS_AT_ONCE: Final = 64
_SIDE = 64  # of a tile of a matrix
_TILE = 512  # columns: sums and four rows of them stay in the first-level cache


class RidgeQuery(NamedTuple):
    """A weighted history, and the profiles of users to leave out."""

    history: NDArray[np.int64]
    weights: NDArray[np.float64]
    """Weightings of the history, one row each."""
    own: Sequence[NDArray[np.int64]]
    """Whole profile of each user to leave out, in time order."""

    def of_own(self) -> RidgeQuery:
        """Return the query of the users left out, without the history."""
        return RidgeQuery(self.history[:0], self.weights[:0, :0], self.own)


@dataclass(frozen=True)
class BaseRidge(ABC):
    """A ridge regression that leaves users out by a downdate of ``P = (XᵀX + λI)⁻¹``."""

    inverse: NDArray[np.floating]

    @property
    def n_items(self) -> int:
        """Number of items of the regression."""
        return len(self.inverse)

    def __repr__(self) -> str:
        arrays = (each for each in vars(self).values() if isinstance(each, np.ndarray))
        n_bytes = sum(each.nbytes for each in arrays)
        return f"{type(self).__name__}({self.n_items:,} items, {in_bytes(n_bytes)})"

    def score(
        self, queries: Sequence[RidgeQuery], n_items: int, columns: NDArray[np.int64] | None = None
    ) -> list[NDArray[np.float64]]:
        """Return the scores for each query, one row per weighting.

        Parameters
        ----------
        queries : sequence of RidgeQuery
            Histories and users to leave out.
        n_items : int
            Number of items; those outside the regression score 0.
        columns : array of int, optional
            Items to score; by default all.
        """
        if columns is not None and any(query.own for query in queries):
            return [scores[:, columns] for scores in self.score(queries, n_items)]
        here = slice(self.n_items) if columns is None else columns < self.n_items
        picked = None if columns is None else columns[here]
        found = []
        for scores in self._expected(queries, picked):
            out = np.zeros((len(scores), n_items if columns is None else len(columns)))
            out[:, here] = scores
            found.append(out)
        return found

    @abstractmethod
    def _expected(
        self, queries: Sequence[RidgeQuery], columns: NDArray[np.int64] | None
    ) -> Iterator[NDArray[np.float64]]:
        """Yield the scores of the regression's items; of `columns` only without leave-out."""

    def _table(self, query: RidgeQuery) -> Table:
        """Return the rows needed for a history and for users to leave out, and their weights."""
        items = np.concatenate([query.history[:0], *query.own])
        owners = np.repeat(np.arange(len(query.own)), [len(each) for each in query.own])
        return _rows_and_weights(
            query.history, query.weights, items, owners, len(query.own), self.n_items
        )


class Ridge(BaseRidge):
    """Regression of every item on all others, with a zero diagonal.

    With ``P = (XᵀX + λI)⁻¹`` over users' profiles X, the weight of item i for item j is
    ``−P[i, j] / P[j, j]`` (EASE: Steck, 2019). A user x is left out by a rank-one downdate,
    ``P′ = P + P x xᵀ P / (1 − xᵀ P x)``, which needs only sums of rows. Several users are left out
    by ``P′ = P + P Xᵀ (I − X P Xᵀ)⁻¹ X P``.
    """

    @classmethod
    @progress("Fitting a ridge regression", None)
    def fit(
        cls, interactions: Interactions, strength: float = 1.5, most_items: int = MOST_ITEMS
    ) -> Ridge:
        """Fit over the most popular items.

        Parameters
        ----------
        interactions : Interactions
            The profiles.
        strength : float, default=1.5
            λ per user, so that the shrinkage does not depend on the number of users.
        most_items : int, default=10,000
            Maximum number of items; fewer if memory is short.
        """
        most_fitting = int(
            (available_memory() // 32) ** 0.5
        )  # the matrix, its factor, and a reserve
        n_items = whole_classes(interactions, min(most_items, most_fitting))
        penalty = strength * interactions.n_users
        items = interactions.item_codes
        return cls(_inverse(interactions.offsets, items, interactions.n_items, n_items, penalty))

    @cached_property
    def _diagonal(self) -> NDArray[np.float64]:
        """Contiguous copy of the diagonal, to avoid cache misses."""
        return np.ascontiguousarray(self.inverse.diagonal())

    def _expected(
        self, queries: Sequence[RidgeQuery], columns: NDArray[np.int64] | None
    ) -> Iterator[NDArray[np.float64]]:
        tables = [self._table(query) for query in queries]
        diagonal = self._diagonal if columns is None else self._diagonal[columns]
        all_sums = sum_tables(self.inverse, tables, columns)
        for query, table, sums in zip(queries, tables, all_sums, strict=True):
            if not query.own:
                yield -sums / diagonal
                continue
            n = len(query.weights)
            own = sums[n:]
            moved, left_out = _leave_out(n, table, own, own)
            yield -(sums[:n] + left_out) / (diagonal + (own * moved).sum(axis=0))


@dataclass(frozen=True, repr=False)
class ForwardRidge(BaseRidge):
    """Regression of second halves of profiles, Y, on first halves, X.

    With ``P = (XᵀX + λI)⁻¹`` the weights are ``B = P Xᵀ Y``. Without a user who consumed x,
    then y, they are exactly ``B − P x (y − xᵀB) / (1 − xᵀ P x)``. For several users, a small linear
    system replaces the quotient.
    """

    weights: NDArray[np.float64]

    @classmethod
    @progress("Fitting a ridge regression from past to future", None)
    def fit(
        cls, interactions: Interactions, strength: float = 0.5, most_items: int = MOST_FORWARD_ITEMS
    ) -> ForwardRidge:
        """Fit over the most popular items.

        Parameters
        ----------
        interactions : Interactions
            The profiles.
        strength : float, default=0.5
            λ per user.
        most_items : int, default=5,000
            Maximum number of items; fewer if memory is short.
        """
        from scipy import sparse  # noqa: PLC0415  # slow to import, and not needed by other measures

        most_fitting = int(
            (available_memory() // 48) ** 0.5
        )  # two matrices, a factor, and a reserve
        n_items, n_users = (
            whole_classes(interactions, min(most_items, most_fitting)),
            interactions.n_users,
        )
        lengths, items = np.diff(interactions.offsets), interactions.item_codes
        owners = np.repeat(np.arange(n_users), lengths)
        place = np.arange(len(owners)) - interactions.offsets[owners]
        first = place < np.maximum(lengths // 2, 1)[owners]

        def consumed(rows: NDArray[np.bool_]) -> sparse.csr_array:
            some = rows & (items < n_items)
            pairs = owners[some], items[some].astype(np.int64)
            return sparse.csr_array((np.ones(len(pairs[0])), pairs), shape=(n_users, n_items))

        starts = np.concatenate(([0], np.cumsum(np.bincount(owners[first], minlength=n_users))))
        penalty = strength * n_users
        inverse = _inverse(starts, items[first], interactions.n_items, n_items, penalty)
        before, after = consumed(first), consumed(~first).T.tocsr()
        weights = np.empty_like(inverse)

        def fill(begin: int) -> None:
            rows = slice(begin, begin + _ROWS_AT_ONCE)
            weights[rows] = (after @ (before @ np.ascontiguousarray(inverse[:, rows]))).T

        list(run_blocks(fill, range(0, n_items, _ROWS_AT_ONCE)))
        return cls(inverse, weights)

    def _expected(
        self, queries: Sequence[RidgeQuery], columns: NDArray[np.int64] | None
    ) -> Iterator[NDArray[np.float64]]:
        firsts = [
            query._replace(own=[items[: max(len(items) // 2, 1)] for items in query.own])
            for query in queries
        ]
        tables = [self._table(query) for query in firsts]
        # Sums of the inverse over the items of users left out; by rows, as it is symmetric.
        left_out = [self._table(query.of_own()) for query in firsts if query.own]
        of_own = sum_tables(self.inverse, left_out, None)
        all_sums = sum_tables(self.weights, tables, columns)
        for query, table, sums in zip(queries, tables, all_sums, strict=True):
            if not query.own:
                yield sums
                continue
            n = len(query.weights)
            residuals = -sums[n:]
            for row, items in zip(residuals, query.own, strict=True):
                second = items[max(len(items) // 2, 1) :]
                row[second[second < self.n_items]] += 1.0
            yield sums[:n] - _leave_out(n, table, next(of_own), residuals)[1]


def _leave_out(
    n: int, table: Table, own: NDArray[np.float64], residuals: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the solved residuals of users left out, and the correction of each of `n` sums.

    `own` has, for each of these users, the sum of the inverse over the user's (first) items.
    """
    rows, weights = table
    added = weights @ own[:, rows].T
    # For one user in (0, 1]: one minus the leverage.
    left = np.eye(len(own)) - added[n:]
    if len(own) == 1:
        moved = residuals / left
        return moved, added[:n] * moved
    moved = np.linalg.solve(left, residuals).astype(np.float64, copy=False)
    return moved, added[:n] @ moved


def whole_classes(interactions: Interactions, most_items: int) -> int:
    """Return the number of most popular items to regress on, at most `most_items`.

    Items of equal support are all in or all out. Otherwise the regression would distinguish items
    that a left-out user consumed from others of the same support.
    """
    if interactions.n_items <= most_items:
        return interactions.n_items
    support = np.sort(np.bincount(interactions.item_codes, minlength=interactions.n_items))[::-1]
    return int(np.count_nonzero(support > support[most_items])) or most_items


def _inverse(
    starts: NDArray[np.int64], items: NDArray[np.uint32], n_items: int, n_kept: int, penalty: float
) -> NDArray[np.float64]:
    """Return ``(XᵀX + λI)⁻¹`` of the most popular items.

    Profile u of X is ``items[starts[u]:starts[u + 1]]``.
    """
    lengths = np.diff(starts)
    begins, ends = np.repeat(starts[:-1], lengths), np.repeat(starts[1:], lengths)
    offsets, places = group_rows(items, n_items)
    profiles = Spans(offsets, begins[places], ends[places], items)
    gram = np.empty((n_kept, n_kept))

    def fill(first: int) -> None:
        last = min(first + _ROWS_AT_ONCE, n_kept)
        gram[first:last] = profiles.count_rows((first, last))[:, :n_kept]

    list(run_blocks(fill, range(0, n_kept, _ROWS_AT_ONCE)))
    gram.flat[:: n_kept + 1] += penalty
    return invert(gram)


def invert(gram: NDArray[Number]) -> NDArray[Number]:
    """Invert a symmetric positive definite matrix in place, and return it.

    scipy's functions hold the GIL. For half a minute, no bar would move and no server would answer.
    """
    kind, n, failed = "ds"[gram.itemsize == 4], c_int64(len(gram)), c_int64()  # noqa: PLR2004
    for name in (f"{kind}potrf", f"{kind}potri"):
        address = get_cython_function_address("scipy.linalg.cython_lapack", name)
        call = CFUNCTYPE(None, c_char_p, *[c_void_p] * 4)(address)
        call(b"L", byref(n), gram.ctypes.data, byref(n), byref(failed))
        assert not failed.value  # noqa: S101  # a positive definite matrix has an inverse
    _mirror(gram)
    return gram


@njit(nogil=True, cache=True)
def _mirror(matrix: NDArray[np.floating]) -> None:
    """Copy the upper triangle to the lower one, by tiles: LAPACK's columns are our rows."""
    n = len(matrix)
    for top in range(0, n, _SIDE):
        for left in range(top, n, _SIDE):
            for i in range(top, min(top + _SIDE, n)):
                for j in range(max(left, i + 1), min(left + _SIDE, n)):
                    matrix[j, i] = matrix[i, j]


def sum_tables(
    matrix: NDArray[np.floating], tables: Sequence[Table], columns: NDArray[np.int64] | None
) -> Iterator[NDArray[np.float64]]:
    """Yield the weighted sums of rows for each table, at some columns or at all."""
    if columns is not None:
        for rows, weights in tables:
            picked = _pick(matrix, rows, columns)
            yield from sum_tables(picked, [(np.arange(len(rows)), weights)], None)
        return
    n_sums = [len(weights) for _, weights in tables]
    starts = np.cumsum([0, *(len(rows) for rows, _ in tables)])
    all_weights = np.zeros((max(n_sums, default=0), starts[-1]))
    for start, (_, weights) in zip(starts, tables, strict=False):
        all_weights[: len(weights), start : start + weights.shape[1]] = weights
    sums = np.empty((len(tables), len(all_weights), matrix.shape[1]))
    all_rows = np.concatenate([starts[:0], *(rows for rows, _ in tables)])
    _sum_rows(matrix, starts, all_rows, all_weights, sums)
    yield from (each[:n] for each, n in zip(sums, n_sums, strict=True))


@njit(nogil=True, cache=True)
def _rows_and_weights(
    history: NDArray[np.int64],
    weights: NDArray[np.float64],
    own: NDArray[np.int64],
    owners: NDArray[np.int64],
    n_own: int,
    n_items: int,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the rows needed for a history and for users' items, ascending, and their weights.

    The weightings of the history come first, then one row of ones per owner. Items from `n_items`
    on have no row.
    """
    slots = np.full(n_items, -1)
    for item in history:
        if item < n_items:
            slots[item] = 0
    for item in own:
        if item < n_items:
            slots[item] = 0
    rows = np.flatnonzero(slots == 0)
    for k in range(len(rows)):
        slots[rows[k]] = k
    n = len(weights)
    table = np.zeros((n + n_own, len(rows)))
    for k in range(len(history)):
        if history[k] < n_items:
            table[:n, slots[history[k]]] = weights[:, k]
    for k in range(len(own)):
        if own[k] < n_items:
            table[n + owners[k], slots[own[k]]] = 1.0
    return rows, table


@njit(nogil=True, cache=True)
def _add_four(
    weights: NDArray[np.float64],
    first: NDArray[np.floating],
    second: NDArray[np.floating],
    third: NDArray[np.floating],
    fourth: NDArray[np.floating],
    sums: NDArray[np.float64],
) -> None:
    one, two, three, four = weights[0], weights[1], weights[2], weights[3]
    for j in range(np.uint64(len(sums))):
        sums[j] = (
            ((sums[j] + one * first[j]) + two * second[j]) + three * third[j]
        ) + four * fourth[j]


@njit(nogil=True, cache=True)
def _sum_rows(
    matrix: NDArray[np.floating],
    starts: NDArray[np.int64],
    rows: NDArray[np.int64],
    weights: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None:
    """Write ``out[q, w] = Σ weights[w, k] · matrix[rows[k]]`` for every column.

    The rows of query ``q`` are those from ``starts[q]`` to ``starts[q + 1]``, added in their order.
    Four rows are read per access to a sum. Queries that share rows of a tile find them in a cache.
    """
    n_columns = matrix.shape[1]
    for left in range(0, n_columns, _TILE):
        right = min(left + _TILE, n_columns)
        for query in range(len(out)):
            begin, end = starts[query], starts[query + 1]
            whole = end - (end - begin) % 4
            out[query, :, left:right] = 0.0
            for k in range(begin, whole, 4):
                first, second = matrix[rows[k], left:right], matrix[rows[k + 1], left:right]
                third, fourth = matrix[rows[k + 2], left:right], matrix[rows[k + 3], left:right]
                for w in range(len(weights)):
                    some, sums = weights[w, k : k + 4], out[query, w, left:right]
                    _add_four(some, first, second, third, fourth, sums)
            for k in range(whole, end):
                row = matrix[rows[k], left:right]
                for w in range(len(weights)):
                    sums, weight = out[query, w, left:right], weights[w, k]
                    for j in range(np.uint64(right - left)):
                        sums[j] += weight * row[j]


@njit(nogil=True, cache=True)
def _pick(
    matrix: NDArray[np.floating], rows: NDArray[np.int64], columns: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return some columns of some rows."""
    picked = np.empty((len(rows), len(columns)))
    for k in range(len(rows)):
        row, to = matrix[rows[k]], picked[k]
        for j in range(np.uint64(len(columns))):
            to[j] = row[columns[j]]
    return picked
