"""An item–item ridge regression (EASE) that leaves users out exactly."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from surerec._grouping import group_rows
from surerec._memory import available_memory, in_words
from surerec._threads import run_blocks
from surerec.measures.learned._panel_kernels import PANEL, ManyRows, sum_many
from surerec.measures.learned._ridge_kernels import (
    regress,
    rows_and_weights,
    sum_history,
    sum_picked,
    sum_rows,
)
from surerec.precedence import Spans

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from surerec.interactions import Interactions


MOST_ITEMS: Final = 10_000
"""Items of the ridge at the most, the most popular: 800 MB; the others score 0."""
_ROWS_AT_ONCE: Final = 64
FEW: Final = 4
"""Less than a quarter of the columns is faster picked than summed whole."""


class Expected(NamedTuple):
    """Of whom a ridge is to say what it expects."""

    history: NDArray[np.int64]
    weights: NDArray[np.float64]
    """Four weightings of it."""
    own: Sequence[NDArray[Any]]
    """The whole profile of each user to leave out."""


@dataclass(frozen=True)
class Ridge:
    """What is learned by regressing every item on all the others, with the diagonal at zero.

    With ``P = (XᵀX + λI)⁻¹`` over users' profiles X, the weight of item i for item j is
    ``−P[i, j] / P[j, j]`` (Steck, 2019). A user x is left out by a rank-one downdate,
    ``P′ = P + P x xᵀ P / (1 − xᵀ P x)``, of which only sums of rows are needed; several at once by
    one of their rank, ``P′ = P + P Xᵀ (I − X P Xᵀ)⁻¹ X P``.
    """

    inverse: NDArray[np.float64]

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
        n_items = whole_classes(interactions, min(most_items, room))
        gram = co_occurrences(
            interactions.offsets, interactions.items_taken, interactions.n_items, n_items
        )
        gram.flat[:: n_items + 1] += strength * interactions.n_users
        return cls(inverse_of(gram))

    @property
    def n_items(self) -> int:
        """Number of items that it knows."""
        return len(self.inverse)

    def __repr__(self) -> str:
        return f"Ridge({self.n_items:,} items, {in_words(self.inverse.nbytes)})"

    @cached_property
    def _diagonal(self) -> NDArray[np.float64]:
        """The diagonal side by side: in the matrix each is a miss of every cache."""
        return np.ascontiguousarray(self.inverse.diagonal())

    def score_all(
        self,
        history: NDArray[np.int64],
        weights: NDArray[np.float64],
        own: Sequence[NDArray[np.int64]],
        n_items: int,
    ) -> NDArray[np.float64]:
        """Do the same as :meth:`score` for every item, to the last bit."""
        if len(own) > 1:
            return self.score(history, weights, own, np.arange(n_items))
        out, n = np.empty((len(weights), n_items)), self.n_items
        out[:, n:] = 0.0
        mine = own[0][own[0] < n] if own else history[:0]
        rows, table = rows_and_weights(history, weights, mine, n)
        sums = np.empty((len(table), n))
        sum_history(self.inverse, rows, table, len(mine), sums)
        regress(sums, sums[:, mine].sum(axis=1), self._diagonal, out)
        return out

    def score_many(self, people: Sequence[Expected], n_items: int) -> NDArray[np.float64]:
        """Do the same as :meth:`score_all` for several people, to the last bit; people first."""
        n = self.n_items
        if n < PANEL or any(len(person.own) > 1 for person in people):
            return np.stack([self.score_all(*person, n_items) for person in people])
        out = np.empty((len(people), len(people[0].weights), n_items))
        out[:, :, n:] = 0.0
        owns = [mine[mine < n] for mine in (_only(person.own) for person in people)]
        rows = ManyRows.of(
            [
                rows_and_weights(person.history, person.weights, mine, n)
                for person, mine in zip(people, owns, strict=True)
            ]
        )
        for sums, mine, found in zip(sum_many(self.inverse, rows), owns, out, strict=True):
            regress(sums, sums[:, mine].sum(axis=1), self._diagonal, found)
        return out

    def score(
        self,
        history: NDArray[np.int64],
        weights: NDArray[np.float64],
        own: Sequence[NDArray[np.int64]],
        columns: NDArray[np.int64],
    ) -> NDArray[np.float64]:
        """Score items for a weighted history, without the users who took `own`.

        Parameters
        ----------
        history : array of int
            Item codes.
        weights : array of float, (n_scores, n_history)
            Several weightings of it, scored in one pass over the rows.
        own : sequence of arrays of int
            The whole profile of each user to leave out; empty for nobody.
        columns : array of int
            The items to score; 0 for those that it does not know.
        """
        out = np.zeros((len(weights), len(columns)))
        inside, known = history < self.n_items, np.flatnonzero(columns < self.n_items)
        own, wanted = [taken[taken < self.n_items] for taken in own], columns[known]
        sums, overlaps = self._sums(history[inside], weights[:, inside], own, wanted)
        diagonal = self._diagonal[wanted]
        n = len(weights)
        # Of one user, in (0, 1]: what of them the others do not say.
        left = np.eye(len(own)) - overlaps[n:]
        moved = sums[n:] / left if len(own) == 1 else np.linalg.solve(left, sums[n:])
        out[:, known] = -(sums[:n] + overlaps[:n] @ moved) / (
            diagonal + (sums[n:] * moved).sum(axis=0)
        )
        return out

    def _sums(
        self,
        history: NDArray[np.int64],
        weights: NDArray[np.float64],
        own: Sequence[NDArray[np.int64]],
        wanted: NDArray[np.int64],
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Sum the rows of the history by each weighting, and those of each of `own`.

        At each of `wanted`, and added up over each of `own`.
        """
        all_own = np.concatenate([history[:0], *own])
        ends = np.cumsum([len(taken) for taken in own])
        rows, table = table_of_rows(history, weights, own)
        sums = sum_table(self.inverse, rows, table, np.concatenate((wanted, all_own)))
        here, there = sums[:, : len(wanted)], sums[:, len(wanted) :]
        each = [part.sum(axis=1) for part in np.split(there, ends[:-1], axis=1)[: len(own)]]
        return here, np.array(each).reshape(len(own), len(table)).T


def whole_classes(interactions: Interactions, most_items: int) -> int:
    """Return how many of the most popular items a ridge knows, at most so many.

    All items of one support or none: else a ridge that knows only some of them would tell an item
    that a user left out consumed from others that as many users did.
    """
    if interactions.n_items <= most_items:
        return interactions.n_items
    support = np.sort(np.bincount(interactions.items_taken, minlength=interactions.n_items))[::-1]
    return int(np.count_nonzero(support > support[most_items])) or most_items


def _only(own: Sequence[NDArray[np.integer]]) -> NDArray[np.int64]:
    """Give what the one user took, or nothing."""
    return own[0].astype(np.int64) if own else np.empty(0, np.int64)


def table_of_rows(
    history: NDArray[np.int64], weights: NDArray[np.float64], own: Sequence[NDArray[np.int64]]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Give the rows that a history and some users' items need, and what each weighs in each sum.

    First come the weightings of the history, then a sum for each of `own`.
    """
    if len(own) <= 1:
        mine = own[0] if own else history[:0]
        n_items = 1 + max(history.max(initial=-1), mine.max(initial=-1))
        rows, table = rows_and_weights(history, np.ascontiguousarray(weights), mine, n_items)
        return rows, table[: len(weights) + len(own)]
    ends = np.cumsum([len(taken) for taken in own])
    rows, places = np.unique(np.concatenate((history, *own)), return_inverse=True)
    table = np.zeros((len(weights) + len(own), len(rows)))
    table[: len(weights), places[: len(history)]] = weights
    for row, taken in enumerate(np.split(places[len(history) :], ends[:-1])[: len(own)]):
        table[len(weights) + row, taken] = 1.0
    return rows, table


def sum_table(
    matrix: NDArray[np.float64],
    rows: NDArray[np.int64],
    table: NDArray[np.float64],
    columns: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Sum rows of a matrix by each row of a table of weights, at some columns."""
    n_columns = matrix.shape[1]
    if len(columns) < n_columns // FEW:
        sums = np.empty((len(table), len(columns)))
        sum_picked(matrix, rows, table, columns, sums)
        return sums
    sums = np.empty((len(table), n_columns))
    sum_rows(matrix, rows, table, sums)
    return sums[:, columns]


def inverse_of(gram: NDArray[np.float64]) -> NDArray[np.float64]:
    """Invert a positive definite matrix, in its place."""
    from scipy import linalg  # noqa: PLC0415  # slow to import, and not needed by other measures

    factor = linalg.cholesky(gram, lower=True, overwrite_a=True, check_finite=False)
    inverse, failed = linalg.lapack.dpotri(factor, lower=True, overwrite_c=True)
    assert not failed  # noqa: S101  # a positive definite matrix has an inverse
    inverse += np.tril(inverse, -1).T
    return np.ascontiguousarray(inverse)


def co_occurrences(
    starts: NDArray[np.int64], items: NDArray[np.uint32], n_items: int, n_wanted: int
) -> NDArray[np.float64]:
    """Count how many of some profiles hold each two of the most popular items.

    Profile u is ``items[starts[u]:starts[u + 1]]``.
    """
    lengths = np.diff(starts)
    begins, ends = np.repeat(starts[:-1], lengths), np.repeat(starts[1:], lengths)
    offsets, places = group_rows(items, n_items)
    profiles = Spans(offsets, begins[places], ends[places], items)
    gram = np.empty((n_wanted, n_wanted))

    def fill(first: int) -> None:
        last = min(first + _ROWS_AT_ONCE, n_wanted)
        gram[first:last] = profiles.count_rows((first, last))[:, :n_wanted]

    list(run_blocks(fill, range(0, n_wanted, _ROWS_AT_ONCE)))
    return gram
