"""What is asked of an adapter: scores of its whole catalogue, for many people at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import polars as pl

from surerec._state import State
from surerec.errors import InputError
from surerec.interactions import IdMap, whole_floats

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from surerec.interactions import Interactions
    from surerec.measures import Contribution


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
    stored : str or None
        How a model folder names it, if its `state` is all that it is; None if the folder cannot
        hold it.
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
    stored: str | None = None
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
        raise NotImplementedError

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
        raise NotImplementedError

    def fitted_on(self, known: Interactions) -> Self:
        """Fit a fresh copy of the model, and leave the model as it is; asked if it `can_fit`.

        Parameters
        ----------
        known : Interactions
            All that it may learn from.
        """
        raise NotImplementedError

    def knowing(self, past: Interactions) -> Self:  # noqa: ARG002
        """Give the same on a catalogue that holds all that is known; by default as it is.

        Parameters
        ----------
        past : Interactions
            What is known of people, before anything of the future is looked at.
        """
        return self

    def state(self) -> State:
        """Return the arrays that it is made of; nothing if a folder cannot hold it."""
        return State()

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
        """Say what moved the score of one item, the strongest first; by default nothing.

        Parameters
        ----------
        row : int or None
            Whose score, if it is scored as a user of the fit.
        history : array of int
            What is known of the person, by column.
        column : int
            The item.
        """
        del row, history, column
        return ()


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
