"""The interface of adapters, and models as arrays that score the catalogue for many users."""

from __future__ import annotations

from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias, cast

import numpy as np
import polars as pl
from scipy.sparse import csr_matrix, issparse

from surerec._arguments import check_number
from surerec._state import ArraySchema, State, check_arrays
from surerec.errors import InputError, NotFittedError
from surerec.interactions import IdMap, whole_floats
from surerec.measures import Contribution

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import ArrayLike, NDArray

    from surerec.interactions import Interactions

_FLOATS: Final = ("float32", "float64")
_INDICES: Final = ("int32", "int64")
_MATRIX: Final = 2  # dimensions
_STRONGEST: Final = 10
_OF_FACTORS: Final = {
    "users": ArraySchema(_FLOATS, ("n_users", "n_factors")),
    "items": ArraySchema(_FLOATS, ("n_items", "n_factors")),
    "folding": ArraySchema("float64", (None,)),
}
_OF_WEIGHTS: Final = {
    "weights": ArraySchema(_FLOATS, None),
    "base": ArraySchema("float64", (None,)),
}
_OF_ROWS: Final = {name: ArraySchema(_INDICES, (None,)) for name in ("offsets", "columns")}


class Factors:
    """Products of user and item factors; a bias is a factor whose other side is 1.

    Parameters
    ----------
    users : array of float, n_users × n_factors
        Factors of each user; no rows if all users are scored by their history.
    items : array of float, n_items × n_factors
        Factors of each item.
    folding : (regularization, confidence), optional
        Parameters for folding in users by ALS (Hu, Koren and Volinsky, 2008); each item of the
        history has this confidence. Without it, a history cannot be scored.

    Examples
    --------
    >>> tastes = Factors([[1.0, 0.0]], [[2.0, 0.0], [0.0, 2.0]], folding=(0.1, 2.0))
    >>> tastes.score_users(np.array([0])).tolist()
    [[2.0, 0.0]]
    >>> tastes.score_histories([np.array([1])]).round(2)
    array([[0.  , 0.99]], dtype=float32)
    """

    stored = "factors"
    is_partial = False

    def __init__(
        self, users: ArrayLike, items: ArrayLike, folding: tuple[float, float] | None = None
    ) -> None:
        self.users, self.items = _matrix("users", users), _matrix("items", items)
        if self.users.shape[1] != self.items.shape[1]:
            raise InputError(
                f"users= has {self.users.shape[1]} factors and items= has {self.items.shape[1]}. "
                "Pass matrices with the same number of columns."
            )
        if folding is not None:
            check_number("folding[0]", folding[0], 0, np.inf, "0 or more", ends=(True, False))
            check_number("folding[1]", folding[1], 0, np.inf, "above 0")
        self.folding = folding
        self.folds_in = folding is not None
        self.n_users, self.n_items = len(self.users) or None, len(self.items)

    def score_users(self, rows: NDArray[np.int64]) -> NDArray[np.floating]:
        """Return the products of users' factors with the items' factors."""
        return self._products(self.users[rows])

    def score_histories(self, histories: Sequence[NDArray[np.int64]]) -> NDArray[np.floating]:
        """Fold in each history, and return the products with the items' factors."""
        solved = [self._solved(each, self._wide(each).sum(axis=0)) for each in histories]
        return self._products(self._folding[1] * np.stack(solved))

    def shares(self, history: NDArray[np.int64], column: int) -> NDArray[np.floating]:
        """Return what each item of a history adds to the score (section 5 of the paper of ALS)."""
        of_item = self._solved(history, self.items[column].astype(np.float64))
        return np.asarray(self._folding[1] * (self._wide(history) @ of_item))

    def _products(self, factors: NDArray[np.floating]) -> NDArray[np.floating]:
        # In 64 bits, then rounded: the same result for one user and in a batch.
        found = factors.astype(np.float64) @ self.items.astype(np.float64).T
        return found.astype(np.float32)

    def _wide(self, history: NDArray[np.int64]) -> NDArray[np.float64]:
        return self.items[history].astype(np.float64)

    def _solved(
        self, history: NDArray[np.int64], right: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Solve ``(YᵀY + (c − 1) Σ y yᵀ + λI) x = b`` over the items of a history."""
        consumed = self._wide(history)
        left = self._gram + (self._folding[1] - 1) * (consumed.T @ consumed)
        try:
            return np.asarray(np.linalg.solve(left, right), dtype=np.float64)
        except np.linalg.LinAlgError:
            raise InputError(
                "The factors cannot score a history, as they are linearly dependent. Fit the model "
                "with a regularization above 0."
            ) from None

    @property
    def _folding(self) -> tuple[float, float]:
        if self.folding is None:
            raise InputError(
                "The factors cannot score a history. Pass folding= to Factors, or pass user=."
            )
        return self.folding

    @cached_property
    def _gram(self) -> NDArray[np.float64]:
        wide = self.items.astype(np.float64)
        return wide.T @ wide + self._folding[0] * np.eye(wide.shape[1])

    def state(self) -> State:
        """Return the factors and the parameters for folding in."""
        folding = np.array(self.folding or (), dtype=np.float64)
        return State({"users": self.users, "items": self.items, "folding": folding})

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Load a saved model; KeyError or ValueError if the state is invalid."""
        check_arrays("factors", _OF_FACTORS, state.arrays)
        pairs = [(first, second) for first, second in state.arrays["folding"].reshape(-1, 2)]
        return cls(state.arrays["users"], state.arrays["items"], pairs[0] if pairs else None)


class ItemItem:
    """Weights between items: each item of a history adds its row to the scores.

    Parameters
    ----------
    weights : sparse matrix or array of float, n_items × n_items
        What each item (row) of a history adds to the score of each item (column).
    base : array of float, optional
        Scores of items for all users, such as popularity; NaN for an item without a score.

    Examples
    --------
    >>> ItemItem([[0.0, 0.5], [0.2, 0.0]], base=[1.0, 2.0]).score_histories([np.array([0])])
    array([[1. , 2.5]])
    """

    stored = "item-item"
    n_users = None
    folds_in = True

    def __init__(self, weights: Any, base: ArrayLike | None = None) -> None:
        self.weights = _sparse(weights) if issparse(weights) else _matrix("weights", weights)
        self.n_items = self.weights.shape[0]
        self.base = np.zeros(self.n_items) if base is None else np.asarray(base, dtype=np.float64)
        if self.weights.shape[1] != self.n_items or self.base.shape != (self.n_items,):
            raise InputError(
                f"weights= has the shape {self.weights.shape} and base= {self.base.shape}. Pass "
                "(n_items, n_items) and (n_items,)."
            )
        if np.isinf(self.base).any():
            raise InputError("base= has infinite scores. Pass NaN for an item without a score.")
        self.is_partial = bool(np.isnan(self.base).any())

    @classmethod
    def constant(cls, base: ArrayLike) -> Self:
        """Build a model with the same scores for all users, such as popularity."""
        n_items = len(np.asarray(base))
        return cls(csr_matrix((n_items, n_items)), base)

    def score_histories(self, histories: Sequence[NDArray[np.int64]]) -> NDArray[np.floating]:
        """Return the sums of the rows of each history."""
        if not issparse(self.weights):
            rows = [self.weights[each].sum(axis=0, dtype=np.float64) for each in histories]
            return np.stack(rows) + self.base
        offsets = np.concatenate(([0], np.cumsum([len(each) for each in histories])))
        columns = np.concatenate(histories)
        ones = np.ones(len(columns), dtype=np.float32)
        consumed = csr_matrix((ones, columns, offsets), shape=(len(histories), self.n_items))
        consumed.sort_indices()
        return np.asarray((consumed @ self.weights).toarray() + self.base)

    def shares(self, history: NDArray[np.int64], column: int) -> NDArray[np.floating]:
        """Return the weights of one item in the rows of a history."""
        rows = self.weights[history]
        return np.asarray(
            rows[:, [column]].toarray() if issparse(rows) else rows[:, column]
        ).ravel()

    def state(self) -> State:
        """Return the weights, in CSR format if they are sparse."""
        if not issparse(self.weights):
            return State({"weights": self.weights, "base": self.base})
        rows = {"offsets": self.weights.indptr, "columns": self.weights.indices}
        return State({"weights": self.weights.data, "base": self.base, **rows})

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Load a saved model; KeyError or ValueError if the state is invalid."""
        arrays = state.arrays
        is_dense = arrays["weights"].ndim == _MATRIX
        check_arrays("item-item weights", _OF_WEIGHTS | ({} if is_dense else _OF_ROWS), arrays)
        if is_dense:
            return cls(arrays["weights"], arrays["base"])
        n_items = len(arrays["base"])
        rows = (arrays["weights"], arrays["columns"], arrays["offsets"])
        return cls(csr_matrix(rows, shape=(n_items, n_items)), arrays["base"])


Ids: TypeAlias = "Iterable[Any] | None"
"""The ids of a model's columns or rows, in order, if they are given."""
Form: TypeAlias = Factors | ItemItem
"""A model whose scores are a function of its arrays; rows are users, columns are items."""
FORMS: Final[dict[str, type[Form]]] = {each.stored: each for each in (Factors, ItemItem)}


def _matrix(name: str, given: ArrayLike) -> NDArray[np.floating]:
    found = np.asarray(given)
    if found.dtype.name not in _FLOATS or found.ndim != _MATRIX or not np.isfinite(found).all():
        raise InputError(
            f"{name}= has NaN, infinite or non-float values, or is no matrix. Pass a matrix of "
            "finite float32 or float64 numbers."
        )
    return found


def _sparse(given: Any) -> csr_matrix:
    found = csr_matrix(given)
    found.check_format(full_check=True)  # indices from a file must be within the matrix
    if found.data.dtype.name not in _FLOATS or not np.isfinite(found.data).all():
        raise InputError(
            "weights= has NaN, infinite or non-float values. Pass finite float32 or float64 "
            "numbers."
        )
    return found


class Adapter:
    """A wrapped model in its own indices: columns are items, rows are users of its fit.

    Attributes
    ----------
    model : object
        The model itself.
    items : IdMap
        Catalogue: the id of each column; see `catalogue`.
    users : IdMap or None
        Id of each row; None if the model does not keep the users of its fit.
    assumes_ids : bool
        Whether `items` are column numbers because no ids were given, so that they may be wrong.
    knows_users : bool
        Whether the model scores users of its fit by what it keeps of each.
    uses_both : bool
        Whether the model scores users of its fit by what it keeps of each and their history.
    folds_in : bool
        Whether the model scores histories of new users.
    can_fit : bool
        Whether a copy can be fitted on other interactions.
    knows_all : bool
        Whether the model can rank every item of its catalogue, even without consumers.
    is_partial : bool
        Whether items may have no score (NaN).
    has_value : bool
        Whether scores are comparable between users, so that a threshold on scores makes sense.
    form : Form or None
        The fitted model as arrays, which score and are saved; None if only Python code can score.
    covered_users : str
        Description of the users of the fit.
    lacking : str
        Description of an item that cannot be ranked.
    given_name : str or None
        Name from ``wrap(name=)`` or from a model folder.
    """

    model: Any
    items: IdMap | None = None
    users: IdMap | None = None
    assumes_ids: bool = False
    knows_users: bool = False
    uses_both: bool = False
    folds_in: bool = True
    can_fit: bool = False
    knows_all: bool = False
    is_partial: bool = False
    has_value: bool = False
    form: Form | None = None
    covered_users: str = "users of the fit"
    lacking: str = "unknown to the model"
    given_name: str | None = None

    @property
    def name(self) -> str:
        """Name of the model in reports, guarantees and messages."""
        return self.given_name or self.own_name

    @property
    def own_name(self) -> str:
        """Name of the model without a given name; by default that of its class."""
        return type(self.model).__name__

    @property
    def short_name(self) -> str:
        """Name within names of recommenders; by default `name`."""
        return self.name

    @property
    def stored(self) -> str | None:
        """Kind of the state in a model folder; None if the model cannot be saved."""
        return None if self.form is None else self.form.stored

    @property
    def catalogue(self) -> IdMap:
        """Id of each column of a fitted model."""
        if self.items is None:
            self.check_fitted()
            raise InputError(
                f"{self.name} does not list its items. Pass items=, the id of each column."
            )
        return self.items

    def score_users(self, rows: NDArray[np.int64]) -> NDArray[np.floating]:
        """Score the catalogue for users of the fit, by row; called if `knows_users`.

        Parameters
        ----------
        rows : array of int
            Rows of the users.

        Returns
        -------
        array of float, n_users × n_items
        """
        return self._with_all_items(cast("Factors", self.arrays()).score_users(rows))

    def score_both(
        self, rows: NDArray[np.int64], histories: Sequence[NDArray[np.int64]]
    ) -> NDArray[np.floating]:
        """Score the catalogue for users of the fit, by row and history; called if `uses_both`."""
        raise NotImplementedError

    def score_histories(self, histories: Sequence[NDArray[np.int64]]) -> NDArray[np.floating]:
        """Score the catalogue for new users by their histories; called if `folds_in`.

        Parameters
        ----------
        histories : sequence of array of int
            Columns of each history in time order, each once.

        Returns
        -------
        array of float, n_histories × n_items
        """
        form = self.arrays()
        known = [history[history < form.n_items] for history in histories]
        return self._with_all_items(form.score_histories(known))

    def arrays(self) -> Form:
        """Return the arrays of a fitted model."""
        if self.form is None:
            self.check_fitted()
            raise NotImplementedError
        return self.form

    def _with_all_items(self, scores: NDArray[np.floating]) -> NDArray[np.floating]:
        """Return scores with NaN for items of the catalogue without a column in the arrays."""
        n_never = len(self.catalogue) - scores.shape[1]
        return np.pad(scores, ((0, 0), (0, n_never)), constant_values=np.nan) if n_never else scores

    def fitted_on(self, known: Interactions) -> Self:
        """Fit a copy of the model, which itself stays unchanged; called if `can_fit`.

        Parameters
        ----------
        known : Interactions
            The interactions to fit on.
        """
        raise NotImplementedError

    def around(self, model: Any, form: Form | None, items: IdMap, users: IdMap) -> Self:
        """Return the adapter of a copy of the model, fitted on these items and users."""
        fresh = copy(self)
        fresh.model, fresh.form, fresh.assumes_ids = model, form, False
        fresh.items, fresh.users = items, users
        return fresh

    def knowing(self, past: Interactions) -> Self:
        """Return the model restricted to known data; by default to the users of the past.

        Parameters
        ----------
        past : Interactions
            Known interactions, without held-out ones.
        """
        if not isinstance(self.form, Factors) or self.form.n_users is None or self.users is None:
            return self
        kept = np.flatnonzero(past.users.codes(self.users.ids) >= 0)
        found = copy(self)
        found.form = Factors(self.form.users[kept], self.form.items, self.form.folding)
        found.users = IdMap(self.users.ids.gather(kept), noun="user")
        return found

    def state(self) -> State:
        """Return the saved arrays; none if the model cannot be saved."""
        return State() if self.form is None else self.form.state()

    @property
    def is_fitted(self) -> bool:
        """Whether the model is fitted; by default, whether it has arrays."""
        return self.form is not None

    def check_fitted(self) -> None:
        """Raise if the model is not fitted."""
        if not self.is_fitted:
            raise NotFittedError(
                f"{self.name} is not fitted. Fit it, or use wrap(model).fit(interactions), which "
                "fits a copy."
            )

    def value(
        self, scores: NDArray[np.float64], history_length: int | NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Return scores in a unit that is comparable between users; called if `has_value`."""
        raise NotImplementedError

    def contributions(
        self, row: int | None, history: NDArray[np.int64], column: int
    ) -> tuple[Contribution, ...]:
        """Return the contributions to the score of one item, strongest first, if known.

        Parameters
        ----------
        row : int or None
            Row of the user, if scored as a user of the fit.
        history : array of int
            Columns of the history.
        column : int
            Column of the item.
        """
        del row
        if self.form is None or not self.folds_in or column >= self.form.n_items:
            return ()
        history = history[history < self.form.n_items]
        shares = self.form.shares(history, column)
        strongest = np.argsort(-np.abs(shares), kind="stable")[:_STRONGEST]
        return tuple(
            Contribution(f"consumed {self.catalogue[int(history[each])]}", value, value)
            for each in strongest
            if (value := float(shares[each]))
        )


class FormAdapter(Adapter):
    """Adapter of a model given as arrays or loaded from a model folder."""

    knows_all = True

    def __init__(self, form: Form, items: Ids = None, users: Ids = None) -> None:
        self.model = self.form = form
        self.knows_users, self.folds_in = form.n_users is not None, form.folds_in
        self.is_partial = form.is_partial
        self.items = ids_of(items, form.n_items, "item", self.name)
        self.assumes_ids = items is None
        if users is not None or self.knows_users:
            self.users = ids_of(users, form.n_users, "user", self.name)


def ids_of(given: Ids, n: int | None, noun: str, model: str) -> IdMap:
    """Return the given ids of a model's columns or rows, or their numbers by default.

    Parameters
    ----------
    given : iterable of ids or None
        The given ids.
    n : int or None
        Required number of ids; None if unknown.
    noun : str
        "item" or "user".
    model : str
        Name of the model.

    Examples
    --------
    >>> ids_of(["a", "b"], 3, "item", "ALS")
    Traceback (most recent call last):
    surerec.errors.InputError: ALS was fitted on 3 items and items= has 2 ids. Pass the id of each
    column, in order.
    """
    lines = {"item": "column", "user": "row"}[noun]
    if given is None:
        return IdMap(pl.Series(np.arange(n or 0)), noun=noun)
    ids = given.ids if isinstance(given, IdMap) else _series(given, noun)
    if n is not None and len(ids) != n:
        raise InputError(
            f"{model} was fitted on {n:,} {noun}s and {noun}s= has {len(ids):,} ids. Pass the id "
            f"of each {lines}, in order."
        )
    if ids.n_unique() != len(ids):
        twice = ids.filter(ids.is_duplicated())[0]
        raise InputError(f"{noun}s= has {twice!r} twice. Pass a unique id for each {lines}.")
    return IdMap(ids, noun=noun)


def own_ids(own: IdMap, given: Ids, model: str) -> IdMap:
    """Return the ids that a model keeps itself, then further given ids, which it cannot score.

    Examples
    --------
    >>> own = IdMap(pl.Series([7, 12]), noun="item")
    >>> own_ids(own, [12, 30, 7], "BPR").ids.to_list()
    [7, 12, 30]
    >>> own_ids(own, [12, 30], "BPR")
    Traceback (most recent call last):
    surerec.errors.InputError: items= lacks items that BPR was trained on. Leave items= out, as the
    model has its own ids.
    """
    if given is None:
        return own
    listed = ids_of(list(getattr(given, "external_ids", given)), None, own.noun, model)
    if (listed.codes(own.ids) < 0).any():
        raise InputError(
            f"{own.noun}s= lacks {own.noun}s that {model} was trained on. Leave {own.noun}s= out, "
            "as the model has its own ids."
        )
    more = listed.ids.filter(pl.Series(own.codes(listed.ids) < 0))
    return ids_of([*own.ids, *more], None, own.noun, model)


def of_copy(own: Iterable[Any], known: IdMap) -> IdMap:
    """Return the ids that a copy was fitted on, then the known ids that it does not have."""
    codes = known.codes(own)
    never = np.setdiff1d(np.arange(len(known)), codes)
    return IdMap(known.ids.gather(np.append(codes, never)), noun=known.noun)


def _series(given: Iterable[Any], noun: str) -> pl.Series:
    try:
        ids = whole_floats(given if isinstance(given, pl.Series) else pl.Series(list(given)))
    except (TypeError, ValueError, pl.exceptions.PolarsError):
        ids = pl.Series([None])
    if ids.null_count() or not (ids.dtype.is_integer() or ids.dtype == pl.String):
        raise InputError(
            f"{noun}s= is not a list of ids. Pass ids that are all integers or all text."
        )
    return ids.cast(pl.Int64) if ids.dtype.is_signed_integer() else ids
