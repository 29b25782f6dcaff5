"""Adapters of models of implicit (ALS, BPR, LMF, item-item) and of RecTools."""

from __future__ import annotations

import warnings
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
from scipy.sparse import csr_matrix

from surerec.adapters._adapter import Adapter, Factors, ItemItem, ids_of, of_copy
from surerec.errors import InputError
from surerec.interactions import IdMap

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from surerec.adapters._adapter import Form, Ids
    from surerec.interactions import Interactions

_LEARNED: Final = (
    *("user_factors", "item_factors", "_user_norms", "_item_norms", "_YtY", "_XtX"),
    *("similarity", "scorer"),
)
"""Fitted attributes; matrix factorisation would start from them in another fit."""


class ImplicitAdapter(Adapter):
    """Adapter of a model of implicit, by its factors or similarities.

    It does not call ``recommend``, which marks filtered items with the lowest float, pads short
    lists of neighbours with item −1, and sorts.
    """

    can_fit = True

    def __init__(self, model: Any, items: Ids = None, users: Ids = None) -> None:
        self.model = model
        self.knows_users = hasattr(model, "user_factors")
        if not self.knows_users and not hasattr(model, "similarity"):
            raise InputError(
                f"{self.name} of implicit has neither factors nor similarities. Pass ALS, BPR, LMF "
                "or an item-item model, or a function from histories to scores."
            )
        self.folds_in = not self.knows_users or _folds_in(model)
        self.form = as_form(model)
        if self.form is not None:
            self.items = ids_of(items, self.form.n_items, "item", self.name)
            self.assumes_ids = items is None
            if self.knows_users or users is not None:
                self.users = ids_of(users, self.form.n_users, "user", self.name)

    def fitted_on(self, known: Interactions) -> Self:
        """Fit a copy without fitted attributes on a binary matrix."""
        in_fit = np.flatnonzero(np.diff(known.offsets))
        offsets = np.append(known.offsets[in_fit], known.n_rows)  # other users have no rows
        ones = np.ones(known.n_rows, dtype=np.float32)
        columns = known.item_codes.astype(np.int64)
        consumed = csr_matrix((ones, columns, offsets), shape=(len(in_fit), known.n_items))
        consumed.sort_indices()
        model = _cleared(self.model)
        with warnings.catch_warnings():
            # Item-item models convert their own input to another matrix type, and warn about it.
            warnings.simplefilter("ignore")
            model.fit(consumed, show_progress=False)
        users = IdMap(known.users.ids.gather(in_fit), noun="user")
        return self.around(model, as_form(model), known.items, users)


def as_form(model: Any) -> Form | None:
    """Return a fitted model of implicit as arrays; None if it is not fitted."""
    if hasattr(model, "user_factors"):
        if model.item_factors is None:
            return None
        users, items = _in_memory(model.user_factors), _in_memory(model.item_factors)
        # RecTools puts features among the factors, which a folded-in user does not have.
        folds_in = _folds_in(model) and items.shape[1] == model.factors
        return Factors(users, items, (model.regularization, model.alpha) if folds_in else None)
    return None if model.similarity is None else ItemItem(model.similarity)


def _folds_in(model: Any) -> bool:
    """Return whether the model folds in new users as implicit's ALS does."""
    own = next(each for each in type(model).__mro__ if "recalculate_user" in vars(each))
    return own.__name__ == "AlternatingLeastSquares" and model.alpha > 0


def _cleared(model: Any) -> Any:
    fresh = deepcopy(model)
    for name in _LEARNED:
        if hasattr(fresh, name):
            setattr(fresh, name, None)
    return fresh


def _in_memory(factors: Any) -> NDArray[np.floating]:
    """Return factors as a NumPy array, also from a GPU."""
    return np.asarray(factors.to_numpy() if hasattr(factors, "to_numpy") else factors)


class RecToolsAdapter(Adapter):
    """Adapter of a model of RecTools, by its fitted arrays.

    It does not call ``recommend``, which needs a Dataset of all users, may return fewer items than
    requested, and sorts. The scores are the same; items that RecTools never lists have none.
    """

    can_fit = True
    is_partial = True

    def __init__(
        self, model: Any, to_form: Callable[[Any], Form], items: Ids = None, users: Ids = None
    ) -> None:
        self.model = model
        self._to_form = to_form
        self.knows_users = to_form in (_vectors, _of_implicit)
        self.folds_in = to_form is not _vectors
        if to_form is _of_implicit:
            inner = ImplicitAdapter(_cleared(vars(model)["_model"]))
            self.knows_users, self.folds_in = inner.knows_users, inner.folds_in
        if model.is_fitted:
            self.form = to_form(model)
            self.folds_in = self.form.folds_in  # ALS with features cannot fold in
            self.items, self.assumes_ids = self._item_ids(items), items is None
            if self.knows_users or users is not None:
                n_users = self.arrays().n_users
                self.users = ids_of(_of_map(users, n_users), n_users, "user", self.name)
        elif items is not None:  # the catalogue for the fit of a copy
            self.items = ids_of(_of_map(items, None), None, "item", self.name)

    def _item_ids(self, items: Ids) -> IdMap:
        n_items = self.arrays().n_items
        if items is not None and self._to_form is _popular:
            named = ids_of(_of_map(items, None), None, "item", self.name)
            if len(named) > n_items:
                return named  # the last ones are not in its list
        return ids_of(_of_map(items, n_items), n_items, "item", self.name)

    def fitted_on(self, known: Interactions) -> Self:
        """Fit a copy on a Dataset of these rows, with weight 1 and without features."""
        model = deepcopy(self.model)
        inner = vars(model)
        if "_model" in inner:  # implicit would start from fitted factors
            inner["_model"] = _cleared(inner["_model"])
        dataset = as_dataset(known)
        model.fit(dataset)
        # Items without consumers have no column in the model; they come last, without a score.
        items = of_copy(dataset.item_id_map.external_ids.tolist(), known.items)
        users = ids_of(dataset.user_id_map.external_ids.tolist(), None, "user", self.name)
        fresh = self.around(model, self._to_form(model), items, users)
        fresh.folds_in = fresh.arrays().folds_in
        return fresh


def as_dataset(known: Interactions) -> Any:
    """Return interactions as a Dataset of RecTools, with weight 1."""
    from rectools.dataset import Dataset  # noqa: PLC0415

    # RecTools names the columns of ids and times as we do.
    return Dataset.construct(known.to_frame().to_pandas().assign(weight=1.0))


def _ease(model: Any) -> Form:
    """Return the item-item weights; transposed, as RecTools sums columns."""
    return ItemItem(model.weight.T)


def _popular(model: Any) -> Form:
    """Return the popularity; without `add_cold`, only items of the model's period have one."""
    columns, counts = model.popularity_list
    scores = np.full(int(columns.max(initial=-1)) + 1, np.nan)
    scores[columns] = -counts if model.inverse else counts
    return ItemItem.constant(scores)


def _vectors(model: Any) -> Form:
    """Return the factors of PureSVD, or those of LightFM with its biases."""
    if hasattr(model, "user_factors"):
        return Factors(model.user_factors, model.item_factors)
    of_users, users = model.model.get_user_representations()
    of_items, items = model.model.get_item_representations()
    ones, item_ones = np.ones((len(users), 1)), np.ones((len(items), 1))
    return Factors(
        np.hstack((of_users[:, None], ones, users)),
        np.hstack((item_ones, of_items[:, None], items)),
    )


def _of_implicit(model: Any) -> Form:
    """Return the arrays of the wrapped model of implicit."""
    return ImplicitAdapter(model.model).arrays()


_KINDS: Final[dict[str, Callable[[Any], Form]]] = {
    "EASEModel": _ease,
    "PopularModel": _popular,
    "PureSVDModel": _vectors,
    "LightFMWrapperModel": _vectors,
    "ImplicitALSWrapperModel": _of_implicit,
    "ImplicitBPRWrapperModel": _of_implicit,
    "ImplicitItemKNNWrapperModel": _of_implicit,
}


def rectools_adapter(model: Any, items: Ids = None, users: Ids = None) -> RecToolsAdapter:
    """Return the adapter for the class of a RecTools model.

    Parameters
    ----------
    model : rectools.models.base.ModelBase
        The model.
    items, users : rectools.dataset.IdMap or iterable of ids, optional
        For a fitted model, the id maps of its Dataset.
    """
    for each in type(model).__mro__:
        if each.__name__ in _KINDS and each.__module__.startswith("rectools."):
            return RecToolsAdapter(model, _KINDS[each.__name__], items, users)
    raise InputError(
        f"{type(model).__name__} of RecTools cannot score all items. Pass one of "
        f"{', '.join(_KINDS)}, SASRecModel, BERT4RecModel, or the frame that model.recommend "
        "returns."
    )


def _of_map(given: Any, n: int | None) -> Any:
    """Return the first `n` ids of a RecTools IdMap, which are those of the fit."""
    return given.external_ids[:n].tolist() if hasattr(given, "external_ids") else given
