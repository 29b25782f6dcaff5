"""A ridge regression from first halves of profiles to second that leaves users out exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from surerec._memory import available_memory, in_words
from surerec._threads import run_blocks
from surerec.measures.learned._panel_kernels import PANEL, ManyRows, sum_many
from surerec.measures.learned._ridge import (
    FEW,
    co_occurrences,
    inverse_of,
    sum_table,
    table_of_rows,
    whole_classes,
)
from surerec.measures.learned._ridge_kernels import (
    leave_out_foreseen,
    rows_and_weights,
    sum_history,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from surerec.interactions import Interactions
    from surerec.measures.learned._ridge import Expected

FORWARD: Final[dict[str, str]] = {
    "forward_ridge": "what a ridge regression of later items on earlier ones expects",
    "late_forward_ridge": "what it expects of later items, those just before counting more",
    "recent_forward_ridge": "what it expects of later items, the latest before them counting most",
    "last_forward_ridge": "what it expects of later items by the last few, hardly any other",
}
"""The features in order, each in words; their weightings are those of the other ridge."""
MOST_ITEMS: Final = 5_000
"""Items at the most, the most popular, in two matrices of 200 MB; the others score 0."""
_ROWS_AT_ONCE: Final = 128


def halves(profile: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Give the first half of a profile, at least one item, and the second.

    Examples
    --------
    >>> halves(np.array([5, 3, 1]))
    (array([5]), array([3, 1]))
    """
    items = profile.astype(np.int64)
    cut = max(len(items) // 2, 1)
    return items[:cut], items[cut:]


@dataclass(frozen=True)
class ForwardRidge:
    """What is learned by regressing second halves of profiles, Y, on first halves, X.

    With ``P = (XᵀX + λI)⁻¹`` the weights are ``B = P Xᵀ Y``. Without a user who took x, then y,
    they are ``B − P x (y − xᵀB) / (1 − xᵀ P x)``, exactly; several are left out at once by their
    residuals and a small system in the place of the quotient.
    """

    inverse: NDArray[np.float64]
    weights: NDArray[np.float64]

    @classmethod
    def fit(
        cls, interactions: Interactions, strength: float = 0.5, most_items: int = MOST_ITEMS
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
        n_items, n_users = whole_classes(interactions, min(most_items, room)), interactions.n_users
        lengths = np.diff(interactions.offsets)
        owners = np.repeat(np.arange(n_users), lengths)
        place = np.arange(len(owners)) - interactions.offsets[owners]
        first = place < np.maximum(lengths // 2, 1)[owners]
        known = interactions.items_taken < n_items

        def taken(rows: NDArray[np.bool_]) -> sparse.csr_array:
            pairs = owners[rows & known], interactions.items_taken[rows & known].astype(np.int64)
            return sparse.csr_array((np.ones(len(pairs[0])), pairs), shape=(n_users, n_items))

        starts = np.concatenate(([0], np.cumsum(np.bincount(owners[first], minlength=n_users))))
        gram = co_occurrences(
            starts, interactions.items_taken[first], interactions.n_items, n_items
        )
        gram.flat[:: n_items + 1] += strength * n_users
        inverse = inverse_of(gram)
        before, after = taken(first), taken(~first).T.tocsr()
        weights = np.empty_like(inverse)

        def fill(begin: int) -> None:
            rows = slice(begin, begin + _ROWS_AT_ONCE)
            weights[rows] = (after @ (before @ np.ascontiguousarray(inverse[:, rows]))).T

        list(run_blocks(fill, range(0, n_items, _ROWS_AT_ONCE)))
        return cls(inverse, weights)

    @property
    def n_items(self) -> int:
        """Number of items that it knows."""
        return len(self.weights)

    def __repr__(self) -> str:
        size = in_words(self.inverse.nbytes + self.weights.nbytes)
        return f"ForwardRidge({self.n_items:,} items, {size})"

    def score_all(
        self,
        history: NDArray[np.int64],
        weights: NDArray[np.float64],
        own: Sequence[NDArray[np.integer]],
        n_items: int,
    ) -> NDArray[np.float64]:
        """Do the same as :meth:`score` for every item, to the last bit."""
        if len(own) > 1:
            return self.score(history, weights, own, np.arange(n_items))
        out, n = np.empty((len(weights), n_items)), self.n_items
        out[:, n:] = 0.0
        first, second = halves(own[0]) if own else (history[:0], history[:0])
        first, second = np.sort(first[first < n]), second[second < n]
        rows, table = rows_and_weights(history, weights, first, n)
        sums = np.empty((len(table), n))
        sum_history(self.weights, rows, table, len(first), sums)
        if not own:
            out[:, :n] = sums[:-1]
            return out
        overlaps = sum_table(self.inverse, rows, table, first).sum(axis=1)
        leave_out_foreseen(sums, overlaps, second, out)
        return out

    def score_many(self, people: Sequence[Expected], n_items: int) -> NDArray[np.float64]:
        """Do the same as :meth:`score_all` for several people, to the last bit; people first."""
        n = self.n_items
        if n < PANEL or any(len(person.own) > 1 for person in people):
            return np.stack([self.score_all(*person, n_items) for person in people])
        out = np.empty((len(people), len(people[0].weights), n_items))
        out[:, :, n:] = 0.0
        firsts, seconds = [], []
        for person in people:
            first, second = halves(person.own[0]) if person.own else (person.history[:0],) * 2
            firsts.append(np.sort(first[first < n]))
            seconds.append(second[second < n])
        rows = ManyRows.of(
            [
                rows_and_weights(person.history, person.weights, first, n)
                for person, first in zip(people, firsts, strict=True)
            ]
        )
        expected, beside = sum_many(self.weights, rows), sum_many(self.inverse, rows, firsts)
        for place, person in enumerate(people):
            sums, found, first = expected[place], out[place], firsts[place]
            if not person.own:
                found[:, :n] = sums[:-1]
                continue
            picked = beside[place][:, first]
            # As `sum_table` has it: numpy adds up in another order where they lie otherwise.
            picked = np.ascontiguousarray(picked) if len(first) < n // FEW else picked
            leave_out_foreseen(sums, picked.sum(axis=1), seconds[place], found)
        return out

    def score(
        self,
        history: NDArray[np.int64],
        weights: NDArray[np.float64],
        own: Sequence[NDArray[np.integer]],
        columns: NDArray[np.int64],
    ) -> NDArray[np.float64]:
        """Score items as the other ridge does, without the users of some profiles in time order."""
        out, n = np.zeros((len(weights), len(columns))), len(weights)
        inside, known = history < self.n_items, np.flatnonzero(columns < self.n_items)
        wanted = columns[known]
        pairs = [halves(profile) for profile in own]
        firsts = [np.sort(first[first < self.n_items]) for first, _ in pairs]
        rows, table = table_of_rows(history[inside], weights[:, inside], firsts)
        sums = sum_table(self.weights, rows, table, wanted)
        if own:
            overlaps = np.stack(
                [sum_table(self.inverse, rows, table, first).sum(axis=1) for first in firsts],
                axis=1,
            )
            unforeseen = -sums[n:]
            for row, (_, second) in enumerate(pairs):
                taken = np.zeros(self.n_items)
                taken[second[second < self.n_items]] = 1.0
                unforeseen[row] += taken[wanted]
            # Of one user, in (0, 1]: what of their first half the others do not say.
            left = np.eye(len(own)) - overlaps[n:]
            moved = unforeseen / left if len(own) == 1 else np.linalg.solve(left, unforeseen)
            sums[:n] -= overlaps[:n] @ moved
        out[:, known] = sums[:n]
        return out
