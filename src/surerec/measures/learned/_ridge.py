"""An item–item ridge regression (EASE) that leaves users out exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from surerec._grouping import group_rows
from surerec._memory import available_memory, in_words
from surerec._threads import run_blocks
from surerec.measures.learned._kernels import sum_picked, sum_rows
from surerec.precedence import Spans

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from surerec.interactions import Interactions


MOST_ITEMS: Final = 10_000
"""Items of the ridge at the most, the most popular: 800 MB; the others score 0."""
_ROWS_AT_ONCE: Final = 64
_FEW: Final = 4  # less than a quarter of the columns is faster picked than summed whole


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
        from scipy import linalg  # noqa: PLC0415  # slow to import, and not needed by other measures

        room = int((available_memory() // 32) ** 0.5)  # the matrix, its factor, and air
        n_items = min(interactions.n_items, most_items, room)
        gram = _co_occurrences(interactions, n_items)
        gram.flat[:: n_items + 1] += strength * interactions.n_users
        factor = linalg.cholesky(gram, lower=True, overwrite_a=True, check_finite=False)
        inverse, failed = linalg.lapack.dpotri(factor, lower=True, overwrite_c=True)
        assert not failed  # noqa: S101  # a positive definite matrix has an inverse
        inverse += np.tril(inverse, -1).T
        return cls(np.ascontiguousarray(inverse))

    @property
    def n_items(self) -> int:
        """Number of items that it knows."""
        return len(self.inverse)

    def __repr__(self) -> str:
        return f"Ridge({self.n_items:,} items, {in_words(self.inverse.nbytes)})"

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
        diagonal = self.inverse.diagonal()[wanted]
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
        rows, places = np.unique(np.concatenate((history, all_own)), return_inverse=True)
        table = np.zeros((len(weights) + len(own), len(rows)))
        table[: len(weights), places[: len(history)]] = weights
        for row, taken in enumerate(np.split(places[len(history) :], ends[:-1])[: len(own)]):
            table[len(weights) + row, taken] = 1.0
        if len(wanted) + len(all_own) < self.n_items // _FEW:
            picked = np.concatenate((wanted, all_own))
            sums = np.empty((len(table), len(picked)))
            sum_picked(self.inverse, rows, table, picked, sums)
            there, here = sums[:, len(wanted) :], sums[:, : len(wanted)]
        else:
            sums = np.empty((len(table), self.n_items))
            sum_rows(self.inverse, rows, table, sums)
            there, here = sums[:, all_own], sums[:, wanted]
        each = [part.sum(axis=1) for part in np.split(there, ends[:-1], axis=1)[: len(own)]]
        return here, np.array(each).reshape(len(own), len(table)).T


def _co_occurrences(interactions: Interactions, n_items: int) -> NDArray[np.float64]:
    """Count how many users took each two of the most popular items."""
    lengths = np.diff(interactions.offsets)
    begins = np.repeat(interactions.offsets[:-1], lengths)
    ends = np.repeat(interactions.offsets[1:], lengths)
    offsets, places = group_rows(interactions.items_taken, interactions.n_items)
    profiles = Spans(offsets, begins[places], ends[places], interactions.items_taken)
    gram = np.empty((n_items, n_items))

    def fill(first: int) -> None:
        last = min(first + _ROWS_AT_ONCE, n_items)
        gram[first:last] = profiles.count_rows((first, last))[:, :n_items]

    list(run_blocks(fill, range(0, n_items, _ROWS_AT_ONCE)))
    return gram
