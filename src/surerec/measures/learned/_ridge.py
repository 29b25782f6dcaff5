"""Ridge regressions over items that leave users out exactly: EASE, and one from past to future."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numba import njit

from surerec._grouping import group_rows
from surerec._memory import available_memory
from surerec._threads import run_blocks
from surerec._words import in_words
from surerec.precedence import Spans

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from surerec.interactions import Interactions

    _Table = tuple[NDArray[np.int64], NDArray[np.float64]]


MOST_ITEMS: Final = 10_000
"""Items of the ridge at the most, the most popular: 800 MB; the others score 0."""
MOST_FORWARD_ITEMS: Final = 5_000
"""Items of the ridge from past to future, in two matrices of 200 MB."""
_ROWS_AT_ONCE: Final = 64
_TILE = 512  # columns: sums and four rows of them stay in the first-level cache


class RidgeQuery(NamedTuple):
    """A weighted history, and whom to leave out."""

    history: NDArray[np.int64]
    weights: NDArray[np.float64]
    """Several weightings of the history, a row each."""
    own: Sequence[NDArray[np.int64]]
    """The whole profile of each user to leave out, in time order; empty for nobody."""

    def of_own(self) -> RidgeQuery:
        """Return the same of those left out alone."""
        return RidgeQuery(self.history[:0], self.weights[:0, :0], self.own)


@dataclass(frozen=True)
class BaseRidge(ABC):
    """A ridge regression that leaves users out by a downdate of ``P = (XᵀX + λI)⁻¹``."""

    inverse: NDArray[np.float64]

    @property
    def n_items(self) -> int:
        """Number of items that it knows."""
        return len(self.inverse)

    def __repr__(self) -> str:
        n_bytes = sum(each.nbytes for each in vars(self).values())
        return f"{type(self).__name__}({self.n_items:,} items, {in_words(n_bytes)})"

    def score(
        self,
        queries: Sequence[RidgeQuery],
        n_items: int,
        columns: NDArray[np.int64] | None = None,
    ) -> list[NDArray[np.float64]]:
        """Score items for each query, a row for each weighting; rows are read for all together.

        Parameters
        ----------
        queries : sequence of RidgeQuery
            What to score by.
        n_items : int
            Number of items; those that it does not know score 0.
        columns : array of int, optional
            The items to score; by default all.
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
        """Score the items that it knows, or some of them if nobody is left out."""

    def _table(self, query: RidgeQuery) -> _Table:
        """Return the rows that a history and some users' items need, and their weights."""
        items = np.concatenate([query.history[:0], *query.own])
        owners = np.repeat(np.arange(len(query.own)), [len(each) for each in query.own])
        return _rows_and_weights(
            query.history, query.weights, items, owners, len(query.own), self.n_items
        )


class Ridge(BaseRidge):
    """Regresses every item on all the others, with the diagonal at zero.

    With ``P = (XᵀX + λI)⁻¹`` over users' profiles X, the weight of item i for item j is
    ``−P[i, j] / P[j, j]`` (EASE: Steck, 2019). A user x is left out by a rank-one downdate,
    ``P′ = P + P x xᵀ P / (1 − xᵀ P x)``, of which only sums of rows are needed; several at once by
    one of their rank, ``P′ = P + P Xᵀ (I − X P Xᵀ)⁻¹ X P``.
    """

    @classmethod
    def fit(
        cls, interactions: Interactions, strength: float = 1.5, most_items: int = MOST_ITEMS
    ) -> Ridge:
        """Fit over the most popular items.

        Parameters
        ----------
        interactions : Interactions
            The profiles.
        strength : float, default=1.5
            λ for each user: so much of a co-occurrence is forgotten however many users there are.
        most_items : int, default=10,000
            How many items at the most; fewer if memory is short.
        """
        room = int((available_memory() // 32) ** 0.5)  # the matrix, its factor, and air
        n_items = _whole_classes(interactions, min(most_items, room))
        penalty = strength * interactions.n_users
        items = interactions.item_codes
        return cls(_inverse(interactions.offsets, items, interactions.n_items, n_items, penalty))

    @cached_property
    def _diagonal(self) -> NDArray[np.float64]:
        """The diagonal side by side: in the matrix each is a miss of every cache."""
        return np.ascontiguousarray(self.inverse.diagonal())

    def _expected(
        self, queries: Sequence[RidgeQuery], columns: NDArray[np.int64] | None
    ) -> Iterator[NDArray[np.float64]]:
        tables = [self._table(query) for query in queries]
        diagonal = self._diagonal if columns is None else self._diagonal[columns]
        all_sums = _sum_tables(self.inverse, tables, columns)
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
    """Regresses second halves of profiles, Y, on first halves, X.

    With ``P = (XᵀX + λI)⁻¹`` the weights are ``B = P Xᵀ Y``. Without a user who took x, then y,
    they are ``B − P x (y − xᵀB) / (1 − xᵀ P x)``, exactly; several are left out at once by their
    residuals and a small system in the place of the quotient.
    """

    weights: NDArray[np.float64]

    @classmethod
    def fit(
        cls, interactions: Interactions, strength: float = 0.5, most_items: int = MOST_FORWARD_ITEMS
    ) -> ForwardRidge:
        """Fit over the most popular items.

        Parameters
        ----------
        interactions : Interactions
            The profiles.
        strength : float, default=0.5
            λ for each user.
        most_items : int, default=5,000
            How many items at the most; fewer if memory is short.
        """
        from scipy import sparse  # noqa: PLC0415  # slow to import, and not needed by other measures

        room = int((available_memory() // 48) ** 0.5)  # two matrices, a factor, and air
        n_items, n_users = _whole_classes(interactions, min(most_items, room)), interactions.n_users
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
        # What the inverse says of those left out: by rows of theirs, as it is symmetric.
        left_out = [self._table(query.of_own()) for query in firsts if query.own]
        of_own = _sum_tables(self.inverse, left_out, None)
        all_sums = _sum_tables(self.weights, tables, columns)
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
    n: int, table: _Table, own: NDArray[np.float64], residuals: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the residuals of users left out, solved, and what they move each of `n` sums by.

    `own` is, for each of these users, the sum of the inverse over their first half, or over all.
    """
    rows, weights = table
    added = weights @ own[:, rows].T
    # Of one user, in (0, 1]: what of them the others do not say.
    left = np.eye(len(own)) - added[n:]
    if len(own) == 1:
        moved = residuals / left
        return moved, added[:n] * moved
    moved = np.linalg.solve(left, residuals).astype(np.float64, copy=False)
    return moved, added[:n] @ moved


def _whole_classes(interactions: Interactions, most_items: int) -> int:
    """Return how many of the most popular items a ridge knows, at most so many.

    All items of one support or none: else a ridge that knows only some of them would tell an item
    that a user left out consumed from others that as many users did.
    """
    if interactions.n_items <= most_items:
        return interactions.n_items
    support = np.sort(np.bincount(interactions.item_codes, minlength=interactions.n_items))[::-1]
    return int(np.count_nonzero(support > support[most_items])) or most_items


def _inverse(
    starts: NDArray[np.int64],
    items: NDArray[np.uint32],
    n_items: int,
    n_wanted: int,
    penalty: float,
) -> NDArray[np.float64]:
    """Return ``(XᵀX + λI)⁻¹`` of the most popular items.

    Profile u of X is ``items[starts[u]:starts[u + 1]]``.
    """
    from scipy import linalg  # noqa: PLC0415  # slow to import, and not needed by other measures

    lengths = np.diff(starts)
    begins, ends = np.repeat(starts[:-1], lengths), np.repeat(starts[1:], lengths)
    offsets, places = group_rows(items, n_items)
    profiles = Spans(offsets, begins[places], ends[places], items)
    gram = np.empty((n_wanted, n_wanted))

    def fill(first: int) -> None:
        last = min(first + _ROWS_AT_ONCE, n_wanted)
        gram[first:last] = profiles.count_rows((first, last))[:, :n_wanted]

    list(run_blocks(fill, range(0, n_wanted, _ROWS_AT_ONCE)))
    gram.flat[:: n_wanted + 1] += penalty
    factor = linalg.cholesky(gram, lower=True, overwrite_a=True, check_finite=False)
    inverse, failed = linalg.lapack.dpotri(factor, lower=True, overwrite_c=True)
    assert not failed  # noqa: S101  # a positive definite matrix has an inverse
    inverse += np.tril(inverse, -1).T
    return np.ascontiguousarray(inverse)


def _sum_tables(
    matrix: NDArray[np.float64], tables: Sequence[_Table], columns: NDArray[np.int64] | None
) -> Iterator[NDArray[np.float64]]:
    """Sum rows of a matrix by each row of the tables' weights, at some columns or at all."""
    if columns is not None:
        for rows, weights in tables:
            picked = _pick(matrix, rows, columns)
            yield from _sum_tables(picked, [(np.arange(len(rows)), weights)], None)
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
    """Return the rows that a history and users' items need, ascending, and their weights.

    First by each weighting of the history, then 1 for each of the items of each owner. Items from
    `n_items` on have no row.
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
def _sum_rows(
    matrix: NDArray[np.float64],
    starts: NDArray[np.int64],
    rows: NDArray[np.int64],
    weights: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None:
    """Write ``out[q, w] = Σ weights[w, k] · matrix[rows[k]]`` for every column.

    The rows of query ``q`` are those from ``starts[q]`` to ``starts[q + 1]``. They are added in
    their order, but four of them are read for each time that a sum is. What several queries read of
    a tile of columns is still in a cache.
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
    matrix: NDArray[np.float64], rows: NDArray[np.int64], columns: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return some columns of some rows."""
    picked = np.empty((len(rows), len(columns)))
    for k in range(len(rows)):
        row, room = matrix[rows[k]], picked[k]
        for j in range(np.uint64(len(columns))):
            room[j] = row[columns[j]]
    return picked
