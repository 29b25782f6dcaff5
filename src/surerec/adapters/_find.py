"""Find the adapter of a model by its library, without importing any other, or of a saved one."""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from surerec.adapters import _lists
from surerec.adapters._adapter import Adapter, FormAdapter
from surerec.adapters._forms import FORMS, Form
from surerec.adapters._own import OwnAdapter
from surerec.errors import InputError
from surerec.interactions import IdMap, ScoredLists

if TYPE_CHECKING:
    from collections.abc import Iterable

    from surerec._state import State


_LIBRARIES: Final = {
    "implicit": "surerec.adapters._implicit",
    "lenskit": "surerec.adapters._lenskit",
    "rectools": "surerec.adapters._rectools",
}
"""The module of each library's adapter, with an `adapter(model, items, users)` of its own."""


def adapt(
    model: Any, items: Iterable[Any] | None = None, users: Iterable[Any] | None = None
) -> Adapter:
    """Return the adapter of somebody's model.

    Parameters
    ----------
    model : object
        A model of implicit or RecTools, a pipeline of LensKit, :class:`Factors` or
        :class:`ItemItem`, something with ``score(history)``, a function from histories to scores,
        or a frame or file of ``user_id``, ``item_id`` and ``score``. An adapter is returned as it
        is.
    items, users : iterable of ids, optional
        Which ids its columns and rows are.

    Raises
    ------
    InputError
        If it is of no such kind, or does not fit the ids.

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
            raise InputError("Lists of scores have their ids in them: leave items= and users= out.")
        return _lists.adapter(model)
    if not isinstance(model, type):
        for each in type(model).__mro__:
            library = each.__module__.partition(".")[0]
            if library in _LIBRARIES:
                made: Adapter = import_module(_LIBRARIES[library]).adapter(model, items, users)
                return made
        if callable(getattr(model, "score", None)) or (
            callable(model) and not hasattr(model, "fit")
        ):
            return OwnAdapter(model, items, users)
    what = f"the class {model.__name__}" if isinstance(model, type) else type(model).__name__
    raise InputError(
        f"{what} cannot be wrapped: give a model of implicit (ALS, BPR, LMF, item-item) or of "
        "RecTools, a pipeline of LensKit, something with score(history), a function from histories "
        "to scores, or a frame or file of user_id, item_id and score."
    )


def restored(kind: str, name: object, state: State, items: IdMap, users: IdMap) -> Adapter:
    """Build the adapter of a saved model; KeyError or ValueError if its arrays do not fit.

    Parameters
    ----------
    kind : str
        How the folder names it: `Adapter.stored`.
    name : str
        What the model is called.
    state : State
        Its arrays.
    items, users : IdMap
        Its catalogue, and the users of its fit in the order of their rows.
    """
    if kind == "lists":
        return _lists.ListsAdapter.from_state(state, items, users)
    if kind not in FORMS or not isinstance(name, str):
        raise ValueError(f"{kind!r} is no kind of saved model")
    form = FORMS[kind].from_state(state)
    if form.n_items > len(items) or form.n_users not in (None, len(users)):
        raise ValueError("its arrays are of other items or users")
    found = FormAdapter(form, name=name)
    found.items, found.users, found.assumes_ids = items, users, False
    found.is_partial = form.is_partial or form.n_items < len(items)
    return found


def _is_frame(given: Any) -> bool:
    return isinstance(given, pl.LazyFrame) or (
        not isinstance(given, type)
        and (
            hasattr(given, "__arrow_c_stream__")
            or (hasattr(given, "columns") and hasattr(given, "loc"))
        )
    )
