"""Adapters of your own functions and classes and of score lists, and the choice of an adapter."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from copy import copy, deepcopy
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import polars as pl

from surerec._arguments import check_choice, check_offsets
from surerec._state import ArraySchema, State, check_arrays
from surerec._words import declared_name, public_name
from surerec.adapters._adapter import FORMS, Adapter, Form, FormAdapter, ids_of
from surerec.errors import InputError
from surerec.interactions import IdMap, ScoredLists, read_lists
from surerec.measures import Contribution, Query, as_measure, measure_names
from surerec.precedence import count_precedence

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from surerec.adapters._adapter import Ids
    from surerec.interactions import Interactions
    from surerec.precedence import PrecedenceStatistics

POPULARITY: Final = "popularity"
_SCHEMAS: Final = {
    "offsets": ArraySchema("int64", ("n_users+1",)),
    "listed": ArraySchema("uint32", ("n_listed",), below="n_items"),
    "scores": ArraySchema("float64", ("n_listed",), holds="finite"),
}


class OwnAdapter(Adapter):
    """Adapter of your own function or object, with scores in the order of ``items=``.

    A function maps a list of histories to one row of scores each, or one history to its scores; the
    first call finds out which. The method ``score`` maps one history. A history is a list of item
    ids in time order. Calls are serialised by a lock.
    """

    accepts_one: bool | None = None
    """Whether a function accepts one history; None until the first call."""

    def __init__(self, model: Any, items: Ids = None, users: Ids = None) -> None:
        self.model = model
        self.is_function = not hasattr(model, "score")
        self.can_fit = not self.is_function and callable(getattr(model, "fit", None))
        self.has_value = not self.is_function and callable(getattr(model, "value", None))
        self.knows_all = items is not None
        if items is not None:
            self.items = ids_of(items, None, "item", self.name)
        self.users = None if users is None else ids_of(users, None, "user", self.name)
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.Lock())

    @property
    def own_name(self) -> str:
        """Declared name, or the name of a public class or function."""
        return declared_name(self.model) or public_name(self.model) or "the wrapped model"

    def check_fitted(self) -> None:
        """Raise if there is no catalogue."""
        if self.items is None:
            raise InputError(
                f"The items that {self.name} scores are unknown. Pass items=, the item ids in the "
                "order of its scores."
            )

    def score_histories(self, histories: Sequence[NDArray[np.int64]]) -> NDArray[np.floating]:
        """Return the scores of histories of ids."""
        known = [self.catalogue.ids.gather(history).to_list() for history in histories]
        with self._lock:
            if not self.is_function:
                return np.stack([self._checked(self.model.score(each)) for each in known])
            if self.accepts_one is None and known:
                self.accepts_one = self._probe(known[0])
            if self.accepts_one:
                return np.stack([self._checked(self.model(each)) for each in known])
            return self._checked(self.model(known), len(known))

    def _probe(self, history: list[Any]) -> bool:
        """Return whether the function accepts one history rather than a list of them."""
        # The number of copies differs from the length of the history: indexing by a square list of
        # lists would give a function of one history the shape of a batch.
        n_copies = 3 if len(history) == 2 else 2  # noqa: PLR2004
        try:
            self._checked(self.model([history] * n_copies), n_copies)
        except Exception:
            with suppress(Exception):
                self._checked(self.model(history))
                return True
            raise  # it accepts neither
        return False

    def _checked(self, given: Any, n_histories: int | None = None) -> NDArray[np.floating]:
        shape = (
            (len(self.catalogue),) if n_histories is None else (n_histories, len(self.catalogue))
        )
        try:
            scores = np.asarray(given, dtype=np.float64)
        except (TypeError, ValueError):
            scores = np.empty(())
        if scores.shape != shape:
            fix = f"Return one score for each of the {shape[-1]:,} items"
            if n_histories is not None:
                fix += f", in one row for each of the {n_histories:,} histories"
            raise InputError(f"{self.name} returned scores of shape {scores.shape}. {fix}.")
        return scores

    def fitted_on(self, known: Interactions) -> Self:
        """Return the adapter of a copy after ``fit(interactions)``."""
        model = deepcopy(self.model)
        model.fit(known)
        items = self.catalogue if self.knows_all else known.items
        return self.around(model, None, items, known.users)

    def value(
        self, scores: NDArray[np.float64], history_length: int | NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Return the values of the object's own method."""
        return np.asarray(self.model.value(scores, history_length), dtype=np.float64)

    def contributions(
        self, row: int | None, history: NDArray[np.int64], column: int
    ) -> tuple[Contribution, ...]:
        """Return the contributions of the object's own method, if any."""
        del row
        if not hasattr(self.model, "contributions"):
            return ()
        known = self.catalogue.ids.gather(history).to_list()
        found = self.model.contributions(known, self.catalogue[column])
        return tuple(Contribution(*each) for each in found)


class ListsAdapter(Adapter):
    """Adapter of score lists: only users with a list can be scored.

    Parameters
    ----------
    lists : ScoredLists
        The score lists.
    """

    knows_users = True
    folds_in = False
    knows_all = True
    is_partial = True
    stored = short_name = "lists"
    covered_users = "users who have a list"

    def __init__(self, lists: ScoredLists) -> None:
        self.model = lists
        self.items = lists.items
        self.users = lists.users
        self.lacking = f"not in the user's list ({lists.lengths()})"
        self.complete: Callable[[int], NDArray[np.float64]] | None = None

    @property
    def own_name(self) -> str:
        """Name of the model within sentences."""
        return "the model of these lists"

    def check_fitted(self) -> None:
        """Accept, as lists need no fit."""

    def knowing(self, past: Interactions) -> Self:
        """Return the lists of users of the past, on a catalogue with all items of the past."""
        assert self.users is not None  # noqa: S101  # lists have users
        kept = np.flatnonzero(past.users.codes(self.users.ids) >= 0)
        if not len(kept):
            raise InputError(
                f"{self.model.name}: none of the {len(self.users):,} users with a list is in the "
                "past. Use the same user ids, of the same type, in both."
            )
        ids = [self.catalogue.ids, past.items.ids]
        if ids[0].dtype != ids[1].dtype:
            ids = [each.cast(pl.String) for each in ids]
        new = self.catalogue.codes(past.items.ids) < 0
        found = copy(self)
        found.items = IdMap(pl.concat([ids[0], ids[1].filter(pl.Series(new))]), noun="item")
        found.model = _of_users(self.model, kept)
        found.users = found.model.users
        return found

    def completed(
        self,
        fallback: str,
        statistics: PrecedenceStatistics,
        columns: NDArray[np.int64],
        rows: NDArray[np.int64],
    ) -> Self:
        """Return the lists with all other items of the past appended.

        Parameters
        ----------
        fallback : str
            Order of the other items: "popularity", or one of the 17 measures.
        statistics : PrecedenceStatistics
            The past on the catalogue.
        columns, rows : array of int
            Column of each item and row of each user, by code.
        """
        profiles, held = statistics.interactions, statistics.support > 0
        scorer = None
        if fallback != POPULARITY:
            scorer = as_measure(fallback).fit(
                count_precedence(profiles, strategy="bounded", memory=0)
            )
        codes = np.full(len(self.model.users), -1)
        codes[rows[rows >= 0]] = np.flatnonzero(rows >= 0)

        def complete(row: int) -> NDArray[np.float64]:
            found, scores = np.full(len(columns), np.nan), statistics.support.astype(np.float64)
            if scorer is not None:
                scores = scorer.score_query(Query.of_user(profiles, int(codes[row])))
            found[columns[held]] = scores[held]
            return found

        found = copy(self)
        found.complete = complete
        found.lacking = "not in the past that completes the lists"
        return found

    def score_users(self, rows: NDArray[np.int64]) -> NDArray[np.floating]:
        """Return the scores of users' lists; NaN for other items."""
        found = np.full((len(rows), len(self.catalogue)), np.nan)
        for place, row in enumerate(rows):
            here = slice(self.model.offsets[row], self.model.offsets[row + 1])
            listed, scores = self.model.listed[here], self.model.scores[here]
            if self.complete is not None:
                found[place] = _behind(listed, scores, self.complete(int(row)))
            else:
                found[place, listed] = scores
        return found

    def state(self) -> State:
        """Return the arrays of the lists."""
        return State({name: getattr(self.model, name) for name in _SCHEMAS})

    @classmethod
    def from_state(cls, state: State, items: IdMap, users: IdMap) -> ListsAdapter:
        """Load saved lists; KeyError or ValueError if the state is invalid."""
        sizes = {"n_users": len(users), "n_items": len(items)}
        check_arrays("lists", _SCHEMAS, state.arrays, **sizes)
        check_offsets(state.arrays["offsets"], len(state.arrays["listed"]))
        return cls(ScoredLists(users, items, **state.arrays, name="these lists"))


def check_fallback(fallback: object) -> None:
    """Raise if `fallback` cannot complete a list."""
    measures = (name for name in measure_names() if not as_measure(name).learns)
    check_choice("fallback", fallback, [POPULARITY, *measures])


def _of_users(lists: ScoredLists, kept: NDArray[np.intp]) -> ScoredLists:
    """Return the lists of some users."""
    lengths = np.diff(lists.offsets)
    rows = np.repeat(np.isin(np.arange(len(lengths)), kept), lengths)
    return replace(
        lists,
        users=IdMap(lists.users.ids.gather(kept), noun="user"),
        offsets=np.concatenate(([0], np.cumsum(lengths[kept]))),
        listed=lists.listed[rows],
        scores=lists.scores[rows],
    )


def _behind(
    listed: NDArray[np.uint32], scores: NDArray[np.float64], others: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the negative rank of each item, with ties: the list first, then the others.

    Scores of a list and of its completion are in different units, so that only ranks compare.

    Examples
    --------
    >>> _behind(np.array([2], dtype=np.uint32), np.array([0.1]), np.array([7.0, 9, 8, np.nan]))
    array([-3., -2., -1., nan])
    """
    distinct, places = np.unique(-scores, return_inverse=True)
    found = np.full(len(others), np.nan)
    rest = ~np.isnan(others)
    rest[listed] = False
    found[rest] = -(np.unique(-others[rest], return_inverse=True)[1] + len(distinct) + 1.0)
    found[listed] = -(places + 1.0)
    return found


_LIBRARIES: Final = {
    "cornac": ("surerec.adapters._cornac", "CornacAdapter"),
    "implicit": ("surerec.adapters._implicit", "ImplicitAdapter"),
    "lenskit": ("surerec.adapters._lenskit", "LensKitAdapter"),
    "recbole": ("surerec.adapters._recbole", "RecBoleAdapter"),
    "rectools.models.nn.transformers": ("surerec.adapters._transformers", "TransformerAdapter"),
    "rectools": ("surerec.adapters._implicit", "rectools_adapter"),
}
"""Module and factory of each library's adapter, by the module of a model's class.

The factory is called with a model, items and users.
"""


def adapt(model: Any, items: Ids = None, users: Ids = None) -> Adapter:
    """Return the adapter of a model.

    Parameters
    ----------
    model : object
        A model of implicit, RecTools or Cornac, a LensKit pipeline, ``(model, dataset)`` of
        RecBole, :class:`Factors`, :class:`ItemItem`, an
        object with ``score(history)``, a function from histories to scores, or a frame or file of
        ``user_id``, ``item_id`` and ``score``. An adapter is returned unchanged.
    items, users : iterable of ids, optional
        Ids of its columns and rows.

    Raises
    ------
    InputError
        If the model is of another kind, or does not match the ids.

    Examples
    --------
    >>> adapt(lambda histories: [[0.0, 1.0] for _ in histories], items=["a", "b"]).folds_in
    True
    """
    if isinstance(model, Adapter):
        return model
    if isinstance(model, Form):
        return FormAdapter(model, items, users)
    if isinstance(model, (str, os.PathLike, ScoredLists)) or _is_frame(model):
        if items is not None or users is not None:
            raise InputError(
                "items= or users= was passed with score lists, which have ids. Leave items= and "
                "users= out."
            )
        return ListsAdapter(model if isinstance(model, ScoredLists) else read_lists(model))
    if not isinstance(model, type):
        first = model[0] if isinstance(model, tuple) and model else model  # of RecBole: a pair
        for each in type(first).__mro__:
            for library, (module, name) in _LIBRARIES.items():
                if f"{each.__module__}.".startswith(f"{library}."):
                    made: Adapter = getattr(import_module(module), name)(model, items, users)
                    return made
        if callable(getattr(model, "score", None)) or (
            callable(model) and not hasattr(model, "fit")
        ):
            return OwnAdapter(model, items, users)
    what = f"the class {model.__name__}" if isinstance(model, type) else type(model).__name__
    raise InputError(
        f"{what} cannot be wrapped. Pass a model of implicit (ALS, BPR, LMF, item-item), RecTools "
        "or Cornac, a LensKit pipeline, (model, dataset) of RecBole, an object with "
        "score(history), a function from histories to scores, or a frame or file of user_id, "
        "item_id and score."
    )


def restored(kind: str, name: object, state: State, items: IdMap, users: IdMap) -> Adapter:
    """Build the adapter of a saved model; KeyError or ValueError if its arrays do not fit.

    Parameters
    ----------
    kind : str
        Kind of the state: `Adapter.stored`.
    name : str
        Name of the model.
    state : State
        Saved arrays.
    items, users : IdMap
        Catalogue, and users of the fit in the order of their rows.
    """
    if kind == "lists":
        return ListsAdapter.from_state(state, items, users)
    if kind not in FORMS or not isinstance(name, str):
        raise ValueError(f"{kind!r} is no kind of saved model")
    form = FORMS[kind].from_state(state)
    if form.n_items > len(items) or form.n_users not in (None, len(users)):
        raise ValueError("its arrays do not match its items or users")
    found = FormAdapter(form)
    found.items, found.users, found.assumes_ids, found.given_name = items, users, False, name
    found.is_partial = form.is_partial or form.n_items < len(items)
    return found


def _is_frame(given: Any) -> bool:
    if isinstance(given, (pl.LazyFrame, type)):
        return not isinstance(given, type)
    return hasattr(given, "__arrow_c_stream__") or hasattr(given, "loc")
