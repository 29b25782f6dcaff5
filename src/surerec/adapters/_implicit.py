"""Models of implicit: matrix factorisation (ALS, BPR, LMF) and item-item neighbours."""

from __future__ import annotations

import warnings
from copy import copy, deepcopy
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
from scipy.sparse import csr_matrix

from surerec.adapters._adapter import Adapter, ids_of
from surerec.adapters._forms import Factors, ItemItem
from surerec.errors import InputError, NotFittedError
from surerec.interactions import IdMap

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from surerec.adapters._forms import Form
    from surerec.interactions import Interactions

_LEARNED: Final = (
    *("user_factors", "item_factors", "_user_norms", "_item_norms", "_YtY", "_XtX"),
    *("similarity", "scorer"),
)
"""What fitting leaves in a model; matrix factorisation would begin with it when fitted again."""


class ImplicitAdapter(Adapter):
    """A model of implicit, scored by its factors or its similarities.

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
        self.folds_in = not self.knows_users or _folds_in(model)
        self.form = as_form(model)
        if self.form is not None:
            self.items = ids_of(items, self.form.n_items, "item", self.name)
            self.assumes_ids = items is None
            if self.knows_users or users is not None:
                self.users = ids_of(users, self.form.n_users, "user", self.name)

    @property
    def own_name(self) -> str:
        """The name of its class."""
        return type(self.model).__name__

    def check_fitted(self) -> None:
        """Refuse a model without factors or similarities."""
        if self.form is None:
            raise NotFittedError(
                f"This {self.name} is not fitted: fit it, or let wrap(model).fit(interactions) fit "
                "a copy."
            )

    def fitted_on(self, known: Interactions) -> Self:
        """Fit a copy of which everything learned is cleared, on a matrix of ones."""
        in_fit = np.flatnonzero(np.diff(known.offsets))
        offsets = np.append(known.offsets[in_fit], known.n_rows)  # nobody else has any rows
        ones = np.ones(known.n_rows, dtype=np.float32)
        columns = known.items_taken.astype(np.int64)
        taken = csr_matrix((ones, columns, offsets), shape=(len(in_fit), known.n_items))
        taken.sort_indices()
        fresh = copy(self)
        fresh.model = _cleared(self.model)
        with warnings.catch_warnings():
            # Item-item models turn their own input into another kind of matrix, and warn of it.
            warnings.simplefilter("ignore")
            fresh.model.fit(taken, show_progress=False)
        fresh.form = as_form(fresh.model)
        fresh.items, fresh.assumes_ids = known.items, False
        fresh.users = IdMap(known.users.ids.gather(in_fit), noun="user")
        return fresh


def as_form(model: Any) -> Form | None:
    """Return a fitted model of implicit as arrays; None if it is not fitted."""
    if hasattr(model, "user_factors"):
        if model.item_factors is None:
            return None
        users, items = _in_memory(model.user_factors), _in_memory(model.item_factors)
        # Features that RecTools puts among the factors are of nobody who is folded in.
        folds_in = _folds_in(model) and items.shape[1] == model.factors
        return Factors(users, items, (model.regularization, model.alpha) if folds_in else None)
    return None if model.similarity is None else ItemItem(model.similarity)


def _folds_in(model: Any) -> bool:
    """Return whether new users are solved for as ALS of implicit does; others inherit a refusal."""
    own = next(each for each in type(model).__mro__ if "recalculate_user" in vars(each))
    return own.__name__ == "AlternatingLeastSquares" and model.alpha > 0


def _cleared(model: Any) -> Any:
    fresh = deepcopy(model)
    for name in _LEARNED:
        if hasattr(fresh, name):
            setattr(fresh, name, None)
    return fresh


def _in_memory(factors: Any) -> NDArray[np.floating]:
    """Return factors as an array, from a graphics card too."""
    return np.asarray(factors.to_numpy() if hasattr(factors, "to_numpy") else factors)


adapter = ImplicitAdapter
