"""What is asked of an adapter: scores of its whole catalogue, for many people at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import polars as pl

from surerec._state import State
from surerec.errors import InputError
from surerec.interactions import IdMap, whole_floats
from surerec.measures import Contribution

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from surerec.adapters._forms import Form
    from surerec.interactions import Interactions

_STRONGEST: Final = 10


class Adapter(ABC):
    """Somebody's model, asked in its own numbers: columns for items, rows for users of its fit.

    Attributes
    ----------
    model : object
        The model itself.
    items : IdMap
        Its catalogue: the id of each column; see `catalogue`.
    users : IdMap or None
        The id of each row; None if it does not keep whom it was fitted on.
    assumes_ids : bool
        Whether `items` are column numbers because nobody gave ids: then ids of data may be others.
    knows_users : bool
        Whether it keeps something of each user of its fit, and scores them by it.
    folds_in : bool
        Whether it scores histories of people whom it has not seen.
    can_fit : bool
        Whether a fresh copy can be fitted on other interactions.
    knows_all : bool
        Whether it knows something of every item of its catalogue, even if nobody took it.
    is_partial : bool
        Whether it may leave items without a score, as NaN.
    has_value : bool
        Whether its scores compare between people, so that they can be cut by score.
    form : Form or None
        The fitted model as arrays, which then score and are saved; None if only Python code has
        its scores.
    people : str
        Whom it was fitted on, in words.
    lacking : str
        What an item is that it cannot rank, in words.
    given_name : str or None
        The name that ``wrap(name=)`` gave it.
    """

    model: Any
    items: IdMap | None = None
    users: IdMap | None = None
    assumes_ids: bool = False
    knows_users: bool = False
    folds_in: bool = True
    can_fit: bool = False
    knows_all: bool = False
    is_partial: bool = False
    has_value: bool = False
    form: Form | None = None
    people: str = "users of the fit"
    lacking: str = "unknown to the model"
    given_name: str | None = None

    @property
    def name(self) -> str:
        """What reports, guarantees and error messages call the model."""
        return self.given_name or self.own_name

    @property
    @abstractmethod
    def own_name(self) -> str:
        """The name of a model that was given none."""

    @property
    def short_name(self) -> str:
        """What names of recommenders have of it; by default its name."""
        return self.name

    @property
    def stored(self) -> str | None:
        """How a model folder names what `parts` are; None if it cannot hold the model."""
        return None if self.form is None else self.form.stored

    @property
    def catalogue(self) -> IdMap:
        """The id of each column, of a model that is fitted."""
        if self.items is None:
            self.check_fitted()
            raise InputError(f"{self.name} does not say which items it scores: give items=.")
        return self.items

    def score_users(self, rows: NDArray[np.int64]) -> NDArray[np.floating]:
        """Score the catalogue for users of its fit, by row; asked if it `knows_users`.

        Parameters
        ----------
        rows : array of int
            Which users.

        Returns
        -------
        array of float, n_users × n_items
        """
        return self._with_all_items(self.arrays().score_users(rows))

    def score_histories(self, histories: Sequence[NDArray[np.int64]]) -> NDArray[np.floating]:
        """Score the catalogue for people by what they took; asked if it `folds_in`.

        Parameters
        ----------
        histories : sequence of array of int
            Columns in time order, each once; for each person.

        Returns
        -------
        array of float, n_people × n_items
        """
        form = self.arrays()
        known = [history[history < form.n_items] for history in histories]
        return self._with_all_items(form.score_histories(known))

    def arrays(self) -> Form:
        """Return the arrays of a fitted model that is scored by them."""
        if self.form is None:
            self.check_fitted()
            raise NotImplementedError(f"{type(self).__name__} neither has arrays nor scores.")
        return self.form

    def _with_all_items(self, scores: NDArray[np.floating]) -> NDArray[np.floating]:
        """Return scores with NaN for items of the catalogue that the arrays have no column for."""
        n_never = len(self.catalogue) - scores.shape[1]
        return np.pad(scores, ((0, 0), (0, n_never)), constant_values=np.nan) if n_never else scores

    def fitted_on(self, known: Interactions) -> Self:
        """Fit a fresh copy of the model, and leave the model as it is; asked if it `can_fit`.

        Parameters
        ----------
        known : Interactions
            All that it may learn from.
        """
        raise NotImplementedError

    def knowing(self, past: Interactions) -> Self:
        """Return the same model on what is known; by default with the users of the past alone.

        Parameters
        ----------
        past : Interactions
            What is known of people, before anything of the future is looked at.
        """
        if self.form is None or self.form.n_users is None or self.users is None:
            return self
        kept = np.flatnonzero(past.users.codes(self.users.ids) >= 0)
        found = copy(self)
        found.form = self.form.of_users(kept)
        found.users = IdMap(self.users.ids.gather(kept), noun="user")
        return found

    def state(self) -> State:
        """Return the arrays that a model folder keeps; none if it cannot hold the model."""
        return State() if self.form is None else self.form.state()

    @abstractmethod
    def check_fitted(self) -> None:
        """Refuse a model that was not fitted."""

    def value(
        self, scores: NDArray[np.float64], history_length: int | NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Give scores in a unit that compares between people; asked if it `has_value`."""
        raise NotImplementedError

    def contributions(
        self, row: int | None, history: NDArray[np.int64], column: int
    ) -> tuple[Contribution, ...]:
        """Return what moved the score of one item, the strongest first, as far as it is known.

        Parameters
        ----------
        row : int or None
            Whose score, if it is scored as a user of the fit.
        history : array of int
            What is known of the person, by column.
        column : int
            The item.
        """
        del row
        if self.form is None or not self.folds_in or column >= self.form.n_items:
            return ()
        history = history[history < self.form.n_items]
        shares = self.form.shares(history, column)
        strongest = np.argsort(-np.abs(shares), kind="stable")[:_STRONGEST]
        return tuple(
            Contribution(f"took {self.catalogue[int(history[each])]}", value, value)
            for each in strongest
            if (value := float(shares[each]))
        )


class FormAdapter(Adapter):
    """A model that is arrays and nothing else: from a model folder, or given as such."""

    knows_all = True

    def __init__(
        self,
        form: Form,
        items: Iterable[Any] | None = None,
        users: Iterable[Any] | None = None,
        name: str | None = None,
    ) -> None:
        self.model = self.form = form
        self._name = name or type(form).__name__
        self.knows_users, self.folds_in = form.n_users is not None, form.folds_in
        self.is_partial = form.is_partial
        self.items = ids_of(items, form.n_items, "item", self.name)
        self.assumes_ids = items is None
        if users is not None or self.knows_users:
            self.users = ids_of(users, form.n_users, "user", self.name)

    @property
    def own_name(self) -> str:
        """The name that it was saved with, or that of its form."""
        return self._name

    def check_fitted(self) -> None:
        """Do nothing: the arrays are there."""


def ids_of(given: Iterable[Any] | None, n: int | None, noun: str, model: str) -> IdMap:
    """Give the ids of a model's columns or rows: as they were given, or their numbers.

    Parameters
    ----------
    given : iterable of ids or None
        What somebody says they are.
    n : int or None
        How many there must be; None if the model does not say.
    noun : str
        "item" or "user".
    model : str
        What the model is called.

    Examples
    --------
    >>> ids_of(["a", "b"], 3, "item", "ALS")
    Traceback (most recent call last):
    surerec.errors.InputError: ALS was fitted on 3 items, and items= names 2: give the id of each
    column, in their order.
    """
    lines = {"item": "column", "user": "row"}[noun]
    if given is None:
        return IdMap(pl.Series(np.arange(n or 0)), noun=noun)
    ids = given.ids if isinstance(given, IdMap) else _series(given, noun)
    if n is not None and len(ids) != n:
        raise InputError(
            f"{model} was fitted on {n:,} {noun}s, and {noun}s= names {len(ids):,}: give the id of "
            f"each {lines}, in their order."
        )
    if ids.n_unique() != len(ids):
        twice = ids.filter(ids.is_duplicated())[0]
        raise InputError(f"{noun}s= names {twice!r} twice: give each {lines} an id of its own.")
    return IdMap(ids, noun=noun)


def _series(given: Iterable[Any], noun: str) -> pl.Series:
    try:
        ids = whole_floats(given if isinstance(given, pl.Series) else pl.Series(list(given)))
    except (TypeError, ValueError, pl.exceptions.PolarsError):
        ids = pl.Series([None])
    if ids.null_count() or not (ids.dtype.is_integer() or ids.dtype == pl.String):
        raise InputError(f"{noun}s= must list ids, all of them integers or all of them text.")
    return ids.cast(pl.Int64) if ids.dtype.is_signed_integer() else ids
