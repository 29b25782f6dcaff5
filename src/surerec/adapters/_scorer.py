"""A wrapped model on the first seam: queries by code in, scores by code out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from surerec.errors import InputError
from surerec.measures import Parts, Scorer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from surerec.adapters._adapter import Adapter
    from surerec.measures import Contribution, Query
    from surerec.precedence import PrecedenceStatistics

_MOST_AT_ONCE: Final = 256
_MOST_BYTES: Final = 1 << 25  # of one block of scores, of which a few are worked on at a time


class WrappedScorer(Scorer):
    """Scores by somebody's model, in blocks of people that fit in memory.

    Parameters
    ----------
    adapter : Adapter
        The model.
    columns : array of int
        Of each item, by code, its column in the model.
    rows : array of int
        Of each user, by code, the row in the model; −1 for those who were not in its fit.
    by_user : bool
        Whether users of the fit are scored by what the model keeps of them, not by their history.
    knows_all : bool
        Whether it knows every item, not only those that somebody took in what it was fitted on.
    """

    leaves_users_out = False
    takes_user_histories = False
    checked = True  # here, in the order of the model, where infinite is what has no score

    def __init__(
        self,
        adapter: Adapter,
        columns: NDArray[np.int64],
        rows: NDArray[np.int64],
        *,
        by_user: bool,
        knows_all: bool,
    ) -> None:
        self.adapter = adapter
        self.columns = columns
        self.rows = rows
        self.by_user = by_user
        self._knows_all = knows_all
        self.is_partial = adapter.is_partial
        self.takes_histories = adapter.folds_in
        self.at_once = int(np.clip(_MOST_BYTES // (8 * max(len(columns), 1)), 1, _MOST_AT_ONCE))
        self._in_order = np.array_equal(columns, np.arange(len(adapter.catalogue)))

    @property
    def name(self) -> str:
        """The name of the model."""
        return self.adapter.name

    def score_query(self, query: Query) -> NDArray[np.float64]:
        """Score every item."""
        scores: NDArray[np.float64] = self.score_many([query])[0]
        return scores

    def score_many(self, queries: Sequence[Query]) -> NDArray[np.float64]:
        """Score every item for several queries, by row where the model knows the user."""
        rows = np.array([self._row(query) for query in queries])
        known = rows >= 0
        if not known.all() and not self.adapter.folds_in:
            raise InputError(
                f"{self.name} scores the users of its fit only, and cannot score a history: ask "
                "for one of them by user=."
            )
        if known.all():
            return self._by_code(self.adapter.score_users(rows))
        histories = [
            self.columns[query.history]
            for query, is_known in zip(queries, known, strict=True)
            if not is_known
        ]
        if not known.any():
            return self._by_code(self.adapter.score_histories(histories))
        found = np.empty((len(queries), len(self.columns)))
        found[known] = self._by_code(self.adapter.score_users(rows[known]))
        found[~known] = self._by_code(self.adapter.score_histories(histories))
        return found

    def _row(self, query: Query) -> int:
        return int(self.rows[query.user]) if self.by_user and query.user is not None else -1

    def _by_code(self, given: NDArray[np.floating]) -> NDArray[np.float64]:
        """Check what a model says, and bring it into the order of the codes."""
        scores = np.asarray(given)
        if scores.ndim != 2 or scores.shape[1] != len(self.adapter.catalogue):  # noqa: PLR2004
            raise InputError(
                f"{self.name} gave scores of shape {scores.shape}; a row for each person with one "
                f"for each of the {len(self.adapter.catalogue):,} items is needed."
            )
        scores = scores if self._in_order else scores[:, self.columns]
        scores = scores.astype(np.float64, copy=False)
        missing = np.isnan(scores)
        if missing.any():
            if not self.is_partial:
                raise InputError(
                    f"{self.name} gave {int(missing.sum()):,} scores that are not numbers; nothing "
                    "can be calibrated on them."
                )
            scores = np.where(missing, -np.inf, scores)
        return scores

    def reaches(self, users: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell who was in the fit of a model that scores nobody else."""
        if self.takes_histories:
            return super().reaches(users)
        return (users >= 0) & (self.rows[users] >= 0)

    def candidates(
        self,
        statistics: PrecedenceStatistics,
        known: NDArray[np.integer],
        users: Sequence[int] = (),  # noqa: ARG002  # the model was fitted without what is asked for
    ) -> NDArray[np.int64]:
        """Return the items that the model knows: all, or those that users of its fit consumed."""
        if self._knows_all:
            return np.setdiff1d(np.arange(len(self.columns)), known)
        return statistics.items_outside(known)

    def unknown(
        self,
        statistics: PrecedenceStatistics,
        users: Sequence[int] = (),  # noqa: ARG002  # as of `candidates`
    ) -> NDArray[np.int64]:
        """Return the items that the model does not know."""
        return statistics.unknown_without(()) if not self._knows_all else np.empty(0, np.int64)

    def value(
        self,
        scores: NDArray[np.float64],
        history_length: int | NDArray[np.int64],
        n_users: int,  # noqa: ARG002
    ) -> NDArray[np.float64]:
        """Give the model's own unit, if it has one."""
        return self.adapter.value(scores, history_length) if self.adapter.has_value else scores

    def parts(self) -> Parts:
        """Return which lines of the model are which items and users, and the model's arrays."""
        mine = {f"wrapped_model_{name}": array for name, array in self.adapter.parts().items()}
        return Parts({**mine, "wrapped_columns": self.columns, "wrapped_rows": self.rows}, {})

    def contributions(self, query: Query, item: int) -> tuple[Contribution, ...]:
        """Ask the model, if it can tell."""
        row = self._row(query)
        return self.adapter.contributions(
            None if row < 0 else row, self.columns[query.history], int(self.columns[item])
        )
