"""Models of RecTools: EASE, popularity, its wrappers of implicit, PureSVD and LightFM."""

from __future__ import annotations

from copy import copy, deepcopy
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import pandas as pd
from rectools import Columns
from rectools.dataset import Dataset

from surerec.adapters._adapter import Adapter, ids_of
from surerec.adapters._forms import Factors, ItemItem
from surerec.adapters._implicit import ImplicitAdapter, _cleared
from surerec.errors import InputError, NotFittedError
from surerec.interactions import IdMap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from surerec.adapters._forms import Form
    from surerec.interactions import Interactions


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
            self.look_again()
            self.items, self.assumes_ids = self._item_ids(items), items is None
            if self.knows_users or users is not None:
                n_users = self.arrays().n_users
                self.users = ids_of(_of_map(users, n_users), n_users, "user", self.name)
        elif items is not None:  # the catalogue of a copy that is to be fitted
            self.items = ids_of(_of_map(items, None), None, "item", self.name)

    def look_again(self) -> None:
        """Take the arrays of a fitted model; ALS with features folds nobody in."""
        self.form = self._to_form(self.model)
        self.folds_in = self.form.folds_in

    def _item_ids(self, items: Iterable[Any] | None) -> IdMap:
        n_items = self.arrays().n_items
        if items is not None and self._to_form is _popular:
            named = ids_of(_of_map(items, None), None, "item", self.name)
            if len(named) > n_items:
                return named  # the last of them are not in its list
        return ids_of(_of_map(items, n_items), n_items, "item", self.name)

    @property
    def own_name(self) -> str:
        """The name of its class."""
        return type(self.model).__name__

    def check_fitted(self) -> None:
        """Ask it."""
        if not self.model.is_fitted:
            raise NotFittedError(
                f"This {self.name} is not fitted: fit it, or let wrap(model).fit(interactions) fit "
                "a copy."
            )

    def fitted_on(self, known: Interactions) -> Self:
        """Fit a copy on a Dataset with these rows, each of weight one and without features."""
        fresh = copy(self)
        fresh.model = deepcopy(self.model)
        inner = vars(fresh.model)
        if "_model" in inner:  # what is fitted: implicit's factorisation goes on from what it finds
            inner["_model"] = _cleared(inner["_model"])
        owners = np.repeat(np.arange(known.n_users), np.diff(known.offsets))
        rows = {
            Columns.User: owners,
            Columns.Item: known.items_taken.astype(np.int64),
            Columns.Weight: np.ones(len(owners)),
            Columns.Datetime: known.times.astype("datetime64[us]"),
        }
        dataset = Dataset.construct(pd.DataFrame(rows))
        fresh.model.fit(dataset)
        fresh.look_again()
        columns = dataset.item_id_map.external_ids
        # What nobody took has no column in the model: it comes last, without a score.
        never = np.setdiff1d(np.arange(known.n_items), columns)
        fresh.items = IdMap(known.items.ids.gather(np.append(columns, never)), noun="item")
        fresh.assumes_ids = False
        in_fit = dataset.user_id_map.external_ids
        fresh.users = IdMap(known.users.ids.gather(in_fit), noun="user")
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


def adapter(
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
