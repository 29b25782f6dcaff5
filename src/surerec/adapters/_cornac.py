"""Adapter of models of Cornac: scores of users of the fit, and of histories by next-item models."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
from cornac.data import Dataset, SequentialDataset
from cornac.models import NextBasketRecommender, NextItemRecommender, Recommender

from surerec.adapters._adapter import Adapter, ItemItem, ids_of, of_copy, own_ids
from surerec.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from surerec.adapters._adapter import Form, Ids
    from surerec.interactions import Interactions

_USES_USER: Final = frozenset({"FPMC"})
"""Next-item models that use the user besides the history."""
_NOBODY: Final = -1  # index of a user whom a model does not know
_LOCK: Final = threading.Lock()  # scoring switches networks to inference, and may cache


class CornacAdapter(Adapter):
    """Adapter of a model of Cornac, by its method ``score``.

    It does not call ``rank``, which gives unknown items the lowest score, and sorts. EASE is used
    by its weights, which also score histories.
    """

    can_fit = True
    knows_all = True
    is_partial = True

    def __init__(self, model: Any, items: Ids = None, users: Ids = None) -> None:  # noqa: ARG002
        # The users are those of the model.
        if not isinstance(model, Recommender) or isinstance(model, NextBasketRecommender):
            raise InputError(
                f"{type(model).__name__} of Cornac cannot score items for a user or a history. "
                "Pass a fitted recommender that is not for baskets."
            )
        self.model = model
        is_next, is_ease = isinstance(model, NextItemRecommender), _is_ease(model)
        self.uses_both = is_next and type(model).__name__ in _USES_USER
        self.knows_users = self.uses_both or not (is_next or is_ease)
        self.folds_in = (is_next or is_ease) and not self.uses_both
        if model.is_fitted:
            self.form = _as_form(model)
            own = ids_of(_in_order(model.iid_map, model.num_items), None, "item", self.name)
            self.items = own_ids(own, items, self.name)
            in_fit = _in_order(model.uid_map, model.num_users)
            if len(in_fit) > 1:  # sessions may have no users
                self.users = ids_of(in_fit, None, "user", self.name)
        elif items is not None:  # the catalogue for the fit of a copy
            self.items = ids_of(items, None, "item", self.name)

    @property
    def own_name(self) -> str:
        """Name that the model was given in Cornac."""
        return str(self.model.name)

    @property
    def is_fitted(self) -> bool:
        """Whether the model is fitted."""
        return bool(self.model.is_fitted)

    def score_users(self, rows: NDArray[np.int64]) -> NDArray[np.floating]:
        """Return the scores of users of the fit."""
        return self._scores([(int(row),) for row in rows])

    def score_both(
        self, rows: NDArray[np.int64], histories: Sequence[NDArray[np.int64]]
    ) -> NDArray[np.floating]:
        """Return the scores of users of the fit with their histories."""
        known = map(self._known, histories)
        return self._scores(list(zip(rows.tolist(), known, strict=True)))

    def score_histories(self, histories: Sequence[NDArray[np.int64]]) -> NDArray[np.floating]:
        """Return the scores of the arrays of EASE, or of a next-item model for no user."""
        if self.form is not None:
            return super().score_histories(histories)
        return self._scores([(_NOBODY, self._known(history)) for history in histories])

    def _known(self, history: NDArray[np.int64]) -> list[int]:
        return [int(column) for column in history if column < self.model.num_items]

    def _scores(self, requests: Sequence[tuple[Any, ...]]) -> NDArray[np.floating]:
        n_items = self.model.num_items  # some models also score items outside the fit
        with _LOCK:
            found = [np.ravel(self.model.score(*each))[:n_items] for each in requests]
        return self._with_all_items(np.stack(found))

    def fitted_on(self, known: Interactions) -> Self:
        """Fit a clone on ratings of 1, or on one session for each user."""
        model = self.model.clone()
        owners = np.repeat(np.arange(known.n_users), np.diff(known.offsets))
        users = known.users.ids.gather(owners).to_list()
        items, times = known.items.ids.gather(known.item_codes).to_list(), known.times.tolist()
        if isinstance(model, NextItemRecommender):
            rows = list(zip(users, users, items, times, strict=True))
            model.fit(SequentialDataset.from_usit(rows))
        else:
            ones = [1.0] * len(users)
            model.fit(Dataset.from_uirt(list(zip(users, items, ones, times, strict=True))))
        # Items without consumers come last, without a score.
        catalogue = of_copy(_in_order(model.iid_map, model.num_items), known.items)
        in_fit = ids_of(_in_order(model.uid_map, model.num_users), None, "user", self.name)
        return self.around(model, _as_form(model), catalogue, in_fit)


def _as_form(model: Any) -> Form | None:
    """Return the weights of EASE; None for other models."""
    return ItemItem(np.asarray(model.B)) if _is_ease(model) else None


def _is_ease(model: Any) -> bool:
    return type(model).__name__ == "EASE" and type(model).__module__.startswith("cornac.")


def _in_order(indices: dict[Any, int], n: int) -> list[Any]:
    """Return the first `n` ids by index, which are those of the fit."""
    return sorted(indices, key=lambda each: indices[each])[:n]
