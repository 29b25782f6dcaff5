"""Models of RecTools: EASE, popularity, its wrappers of implicit, PureSVD and LightFM."""

from __future__ import annotations

from abc import abstractmethod
from copy import copy, deepcopy
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import pandas as pd
from rectools import Columns
from rectools.dataset import Dataset

from surerec.adapters._adapter import Adapter, ids_of
from surerec.adapters._implicit import ImplicitAdapter, _cleared
from surerec.errors import InputError, NotFittedError
from surerec.interactions import IdMap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from surerec.interactions import Interactions


class RecToolsAdapter(Adapter):
    """A model of RecTools, asked for what it learned.

    Not by its ``recommend``, which wants a Dataset of everybody, may list fewer than are asked for,
    and sorts what is sorted again here. The scores are the same; those of items that it never lists
    are missing.
    """

    can_fit = True
    is_partial = True

    def __init__(
        self, model: Any, items: Iterable[Any] | None = None, users: Iterable[Any] | None = None
    ) -> None:
        self.model = model
        if model.is_fitted:
            self.look_again()
            self.items, self.assumes_ids = self._item_ids(items), items is None
            self.users = self._user_ids(users)
        elif items is not None:  # the catalogue of a copy that is to be fitted
            self.items = ids_of(_of_map(items, None), None, "item", self.name)

    def _item_ids(self, items: Iterable[Any] | None) -> IdMap:
        return ids_of(_of_map(items, self.n_items), self.n_items, "item", self.name)

    def _user_ids(self, users: Iterable[Any] | None) -> IdMap | None:
        if not self.knows_users and users is None:
            return None
        n_users = self.n_users if self.knows_users else None
        return ids_of(_of_map(users, n_users), n_users, "user", self.name)

    def look_again(self) -> None:
        """See what can only be seen of a fitted model."""

    @property
    @abstractmethod
    def n_items(self) -> int:
        """The number of items that it was fitted on."""

    @property
    def n_users(self) -> int:
        """The number of users that it was fitted on; asked if it `knows_users`."""
        raise NotImplementedError

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

    def score_users(self, rows: NDArray[np.int64]) -> NDArray[np.floating]:
        """Score those whom it was fitted on by what it keeps of them."""
        return self._with_all_items(self._of_users(rows))

    def score_histories(self, histories: Sequence[NDArray[np.int64]]) -> NDArray[np.floating]:
        """Score people by what they took, each of weight one."""
        known = [history[history < self.n_items] for history in histories]
        return self._with_all_items(self._of_histories(known))

    def _of_users(self, rows: NDArray[np.int64]) -> NDArray[np.floating]:
        raise NotImplementedError

    def _of_histories(self, histories: Sequence[NDArray[np.int64]]) -> NDArray[np.floating]:
        raise NotImplementedError

    def _with_all_items(self, scores: NDArray[np.floating]) -> NDArray[np.floating]:
        n_never = len(self.catalogue) - scores.shape[1]
        return np.pad(scores, ((0, 0), (0, n_never)), constant_values=np.nan) if n_never else scores


class _Ease(RecToolsAdapter):
    """EASE: a history adds up the weights of its items, as ``recommend`` does (by the row)."""

    @property
    def n_items(self) -> int:
        return len(self.model.weight)

    def _of_histories(self, histories: Sequence[NDArray[np.int64]]) -> NDArray[np.floating]:
        weight = self.model.weight
        return np.stack([weight[:, each].sum(axis=1, dtype=np.float64) for each in histories])


class _Popular(RecToolsAdapter):
    """Popularity: the same for everybody; without `add_cold` only of items of its period."""

    def _item_ids(self, items: Iterable[Any] | None) -> IdMap:
        if items is not None:
            named = ids_of(_of_map(items, None), None, "item", self.name)
            if len(named) > self.n_items:
                return named  # the last of them are not in its list
        return super()._item_ids(items)

    @property
    def n_items(self) -> int:
        return int(self.model.popularity_list[0].max(initial=-1)) + 1

    def _of_histories(self, histories: Sequence[NDArray[np.int64]]) -> NDArray[np.floating]:
        columns, counts = self.model.popularity_list
        scores = np.full(self.n_items, np.nan)
        scores[columns] = -counts if self.model.inverse else counts
        return np.tile(scores, (len(histories), 1))


class _Vectors(RecToolsAdapter):
    """PureSVD and LightFM: vectors of the users of the fit, and of nobody else."""

    knows_users = True
    folds_in = False

    @property
    def n_items(self) -> int:
        return len(self._vectors()[1])

    @property
    def n_users(self) -> int:
        return len(self._vectors()[0])

    def _vectors(self) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        if hasattr(self.model, "user_factors"):
            return self.model.user_factors, self.model.item_factors
        of_users, users = self.model.model.get_user_representations()
        of_items, items = self.model.model.get_item_representations()
        ones, item_ones = np.ones((len(users), 1)), np.ones((len(items), 1))
        return (
            np.hstack((of_users[:, None], ones, users)),
            np.hstack((item_ones, of_items[:, None], items)),
        )

    def _of_users(self, rows: NDArray[np.int64]) -> NDArray[np.floating]:
        users, items = self._vectors()
        # In double and rounded: the same for one person as among many.
        return (users[rows].astype(np.float64) @ items.T.astype(np.float64)).astype(np.float32)


class _OfImplicit(RecToolsAdapter):
    """Wrappers of implicit: what they wrap is asked.

    ALS with features keeps them among its factors, and then cannot fold anybody in.
    """

    _inner: ImplicitAdapter

    def __init__(
        self, model: Any, items: Iterable[Any] | None = None, users: Iterable[Any] | None = None
    ) -> None:
        unfitted = ImplicitAdapter(_cleared(vars(model)["_model"]))
        self.knows_users, self.folds_in = unfitted.knows_users, unfitted.folds_in
        super().__init__(model, items, users)

    def look_again(self) -> None:
        inner = self.model.model
        self._inner = ImplicitAdapter(inner)
        if self.knows_users and self.folds_in:
            self.folds_in = inner.item_factors.shape[1] == inner.factors

    @property
    def n_items(self) -> int:
        return len(self._inner.catalogue)

    @property
    def n_users(self) -> int:
        return int(self.model.model.user_factors.shape[0])

    def _of_users(self, rows: NDArray[np.int64]) -> NDArray[np.floating]:
        return self._inner.score_users(rows)

    def _of_histories(self, histories: Sequence[NDArray[np.int64]]) -> NDArray[np.floating]:
        return self._inner.score_histories(histories)


_KINDS: Final = {
    "EASEModel": _Ease,
    "PopularModel": _Popular,
    "PureSVDModel": _Vectors,
    "LightFMWrapperModel": _Vectors,
    "ImplicitALSWrapperModel": _OfImplicit,
    "ImplicitBPRWrapperModel": _OfImplicit,
    "ImplicitItemKNNWrapperModel": _OfImplicit,
}


def adapter(
    model: Any, items: Iterable[Any] | None = None, users: Iterable[Any] | None = None
) -> RecToolsAdapter:
    """Give the adapter of a model of RecTools, by its class.

    Parameters
    ----------
    model : rectools.models.base.ModelBase
        The model.
    items, users : rectools.dataset.IdMap or iterable of ids, optional
        Of a fitted one, the id maps of the Dataset that it was fitted on.
    """
    for each in type(model).__mro__:
        if each.__name__ in _KINDS and each.__module__.startswith("rectools."):
            kind: Callable[..., RecToolsAdapter] = _KINDS[each.__name__]
            return kind(model, items, users)
    raise InputError(
        f"{type(model).__name__} of RecTools cannot be asked for the scores of all items: wrap "
        f"{', '.join(_KINDS)}, or the frame that model.recommend gives."
    )


def _of_map(given: Any, n: int | None) -> Any:
    """Give the ids of a RecTools IdMap: those that the model was fitted on come first."""
    return given.external_ids[:n].tolist() if hasattr(given, "external_ids") else given
