"""Models of implicit: matrix factorisation (ALS, BPR, LMF) and item-item neighbours."""

from __future__ import annotations

import warnings
from copy import copy, deepcopy
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
from implicit.cpu.matrix_factorization_base import MatrixFactorizationBase
from scipy.sparse import csr_matrix

from surerec.adapters._adapter import Adapter, ids_of
from surerec.errors import InputError, NotFittedError
from surerec.interactions import IdMap
from surerec.measures import Contribution

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from surerec.interactions import Interactions

_LEARNED: Final = (
    *("user_factors", "item_factors", "_user_norms", "_item_norms", "_YtY", "_XtX"),
    *("similarity", "scorer"),
)
"""What fitting leaves in a model; matrix factorisation would begin with it when fitted again."""
_STRONGEST: Final = 10


class ImplicitAdapter(Adapter):
    """A model of implicit, asked for its factors or its similarities.

    Not by its ``recommend``, which marks what it filters by the lowest float, pads the short lists
    of neighbours with item −1, and sorts what is sorted again here.
    """

    can_fit = True

    def __init__(
        self, model: Any, items: Iterable[Any] | None = None, users: Iterable[Any] | None = None
    ) -> None:
        self.model = model
        self.knows_users = hasattr(model, "user_factors")
        if not self.knows_users and not hasattr(model, "similarity"):
            raise InputError(
                f"{self.name} of implicit has neither factors nor similarities: wrap ALS, BPR, LMF "
                "or an item-item model, or a function from histories to scores."
            )
        # Others inherit a method that refuses.
        self.folds_in = not self.knows_users or (
            type(model).recalculate_user is not MatrixFactorizationBase.recalculate_user
        )
        self._given = items, users
        if self._is_fitted():
            self._name_lines(items, users)

    def _is_fitted(self) -> bool:
        return self._item_side() is not None

    def _item_side(self) -> Any:
        return getattr(self.model, "item_factors" if self.knows_users else "similarity")

    def _name_lines(self, items: Iterable[Any] | None, users: Iterable[Any] | None) -> None:
        self.items = ids_of(items, self._item_side().shape[0], "item", self.name)
        self.assumes_ids = items is None
        n_users = self.model.user_factors.shape[0] if self.knows_users else None
        self.users = (
            ids_of(users, n_users, "user", self.name)
            if self.knows_users or users is not None
            else None
        )

    @property
    def own_name(self) -> str:
        """The name of its class."""
        return type(self.model).__name__

    def check_fitted(self) -> None:
        """Refuse a model without factors or similarities."""
        if not self._is_fitted():
            raise NotFittedError(
                f"This {self.name} is not fitted: fit it, or let wrap(model).fit(interactions) fit "
                "a copy."
            )

    def score_users(self, rows: NDArray[np.int64]) -> NDArray[np.floating]:
        """Multiply their factors with the items'; biases are among the factors."""
        return self._score(_in_memory(self.model.user_factors)[rows])

    def score_histories(self, histories: Sequence[NDArray[np.int64]]) -> NDArray[np.floating]:
        """Fold people in, or add up the similarities of what they took."""
        taken = _matrix(histories, len(self.catalogue))
        if not self.knows_users:
            scores: NDArray[np.floating] = (taken @ self.model.similarity).toarray()
            return scores
        factors = self.model.recalculate_user(np.arange(len(histories)), taken)
        return self._score(_in_memory(factors))

    def _score(self, factors: NDArray[np.floating]) -> NDArray[np.floating]:
        """Multiply in double and round: the same for one person as among many."""
        of_items = _in_memory(self.model.item_factors).astype(np.float64)
        return (factors.astype(np.float64) @ of_items.T).astype(np.float32)

    def fitted_on(self, known: Interactions) -> Self:
        """Fit a copy of which everything learned is cleared, on a matrix of ones."""
        in_fit = np.flatnonzero(np.diff(known.offsets))
        offsets = np.append(known.offsets[in_fit], known.n_rows)  # nobody else has any rows
        taken = _of_profiles(known.items_taken.astype(np.int64), offsets, known.n_items)
        fresh = copy(self)
        fresh.model = _cleared(self.model)
        with warnings.catch_warnings():
            # Item-item models turn their own input into another kind of matrix, and warn of it.
            warnings.simplefilter("ignore")
            fresh.model.fit(taken, show_progress=False)
        fresh.items, fresh.assumes_ids = known.items, False
        fresh.users = IdMap(known.users.ids.gather(in_fit), noun="user")
        return fresh

    def contributions(
        self, row: int | None, history: NDArray[np.int64], column: int
    ) -> tuple[Contribution, ...]:
        """Give the parts of a score: similarities, or what ALS says of somebody folded in."""
        del row
        if not self.folds_in:
            return ()
        if self.knows_users:
            taken = _matrix([history], len(self.catalogue))
            found = dict(self.model.explain(0, taken, column, N=len(history))[1])
        else:
            near = self.model.similarity[history][:, [column]].toarray().ravel()
            found = dict(zip(history.tolist(), near, strict=True))
        best = sorted(found, key=lambda each: -abs(found[each]))[:_STRONGEST]
        return tuple(
            Contribution(f"took {self.catalogue[each]}", float(found[each]), float(found[each]))
            for each in best
            if found[each]
        )


def _matrix(rows: Sequence[NDArray[np.int64]], n_items: int) -> csr_matrix:
    offsets = np.concatenate(([0], np.cumsum([len(row) for row in rows])))
    return _of_profiles(np.concatenate(rows), offsets, n_items)


def _of_profiles(
    columns: NDArray[np.int64], offsets: NDArray[np.int64], n_items: int
) -> csr_matrix:
    ones = np.ones(len(columns), dtype=np.float32)
    found = csr_matrix((ones, columns, offsets), shape=(len(offsets) - 1, n_items))
    found.sort_indices()
    return found


def _cleared(model: Any) -> Any:
    fresh = deepcopy(model)
    for name in _LEARNED:
        if hasattr(fresh, name):
            setattr(fresh, name, None)
    return fresh


def _in_memory(factors: Any) -> NDArray[np.floating]:
    """Give factors as an array, from a graphics card too."""
    return np.asarray(factors.to_numpy() if hasattr(factors, "to_numpy") else factors)


adapter = ImplicitAdapter
