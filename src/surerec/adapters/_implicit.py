"""Models of implicit (ALS, BPR, LMF, item-item), and of RecTools, which wraps them too."""

from __future__ import annotations

import warnings
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
from scipy.sparse import csr_matrix

from surerec.adapters._adapter import Adapter, Factors, ItemItem, ids_of
from surerec.errors import InputError
from surerec.interactions import IdMap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from surerec.adapters._adapter import Form
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

    def fitted_on(self, known: Interactions) -> Self:
        """Fit a copy of which everything learned is cleared, on a matrix of ones."""
        in_fit = np.flatnonzero(np.diff(known.offsets))
        offsets = np.append(known.offsets[in_fit], known.n_rows)  # nobody else has any rows
        ones = np.ones(known.n_rows, dtype=np.float32)
        columns = known.item_codes.astype(np.int64)
        consumed = csr_matrix((ones, columns, offsets), shape=(len(in_fit), known.n_items))
        consumed.sort_indices()
        model = _cleared(self.model)
        with warnings.catch_warnings():
            # Item-item models turn their own input into another kind of matrix, and warn of it.
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


class RecToolsAdapter(Adapter):
    """A model of RecTools, scored by what it learned.

    Not by its ``recommend``, which wants a Dataset of everybody, may list fewer than are asked for,
    and sorts what is sorted again here. The scores are the same; those of items that it never lists
    are missing.
    """

    can_fit = True
    is_partial = True

    def __init__(
        self,
        model: Any,
        to_form: Callable[[Any], Form],
        items: Iterable[Any] | None = None,
        users: Iterable[Any] | None = None,
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
            self.folds_in = self.form.folds_in  # ALS with features folds nobody in
            self.items, self.assumes_ids = self._item_ids(items), items is None
            if self.knows_users or users is not None:
                n_users = self.arrays().n_users
                self.users = ids_of(_of_map(users, n_users), n_users, "user", self.name)
        elif items is not None:  # the catalogue of a copy that is to be fitted
            self.items = ids_of(_of_map(items, None), None, "item", self.name)

    def _item_ids(self, items: Iterable[Any] | None) -> IdMap:
        n_items = self.arrays().n_items
        if items is not None and self._to_form is _popular:
            named = ids_of(_of_map(items, None), None, "item", self.name)
            if len(named) > n_items:
                return named  # the last of them are not in its list
        return ids_of(_of_map(items, n_items), n_items, "item", self.name)

    def fitted_on(self, known: Interactions) -> Self:
        """Fit a copy on a Dataset with these rows, each of weight one and without features."""
        import pandas as pd  # noqa: PLC0415  # of RecTools
        from rectools import Columns  # noqa: PLC0415
        from rectools.dataset import Dataset  # noqa: PLC0415

        model = deepcopy(self.model)
        inner = vars(model)
        if "_model" in inner:  # what is fitted: implicit's factorisation goes on from what it finds
            inner["_model"] = _cleared(inner["_model"])
        owners = np.repeat(np.arange(known.n_users), np.diff(known.offsets))
        rows = {
            Columns.User: owners,
            Columns.Item: known.item_codes.astype(np.int64),
            Columns.Weight: np.ones(len(owners)),
            Columns.Datetime: known.times.astype("datetime64[us]"),
        }
        dataset = Dataset.construct(pd.DataFrame(rows))
        model.fit(dataset)
        columns = dataset.item_id_map.external_ids
        # What nobody took has no column in the model: it comes last, without a score.
        never = np.setdiff1d(np.arange(known.n_items), columns)
        items = IdMap(known.items.ids.gather(np.append(columns, never)), noun="item")
        users = IdMap(known.users.ids.gather(dataset.user_id_map.external_ids), noun="user")
        fresh = self.around(model, self._to_form(model), items, users)
        fresh.folds_in = fresh.arrays().folds_in
        return fresh


def _ease(model: Any) -> Form:
    """Return the weights by the items of a history: RecTools adds up columns of its own."""
    return ItemItem(model.weight.T)


def _popular(model: Any) -> Form:
    """Return the popularity; without `add_cold` only items of the model's period have any."""
    columns, counts = model.popularity_list
    scores = np.full(int(columns.max(initial=-1)) + 1, np.nan)
    scores[columns] = -counts if model.inverse else counts
    return ItemItem.constant(scores)


def _vectors(model: Any) -> Form:
    """Return the vectors of PureSVD, or those of LightFM with its biases."""
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
    """Return the arrays of the model of implicit that is wrapped."""
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


def rectools_adapter(
    model: Any, items: Iterable[Any] | None = None, users: Iterable[Any] | None = None
) -> RecToolsAdapter:
    """Return the adapter of a model of RecTools, by its class.

    Parameters
    ----------
    model : rectools.models.base.ModelBase
        The model.
    items, users : rectools.dataset.IdMap or iterable of ids, optional
        Of a fitted one, the id maps of the Dataset that it was fitted on.
    """
    for each in type(model).__mro__:
        if each.__name__ in _KINDS and each.__module__.startswith("rectools."):
            return RecToolsAdapter(model, _KINDS[each.__name__], items, users)
    raise InputError(
        f"{type(model).__name__} of RecTools cannot be asked for the scores of all items: wrap "
        f"{', '.join(_KINDS)}, or the frame that model.recommend gives."
    )


def _of_map(given: Any, n: int | None) -> Any:
    """Return the ids of a RecTools IdMap: those that the model was fitted on come first."""
    return given.external_ids[:n].tolist() if hasattr(given, "external_ids") else given
