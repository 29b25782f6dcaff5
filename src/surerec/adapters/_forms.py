"""Models as arrays: factors or item-item weights, which score without their library."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

import numpy as np
from scipy.sparse import csr_matrix, issparse

from surerec._state import State
from surerec.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

_FLOATS: Final = (np.float32, np.float64)
_MATRIX: Final = 2  # dimensions


class Form(ABC):
    """A model whose scores are a function of its arrays; rows are users, columns are items.

    Attributes
    ----------
    stored : str
        How a model folder names it.
    n_items : int
        Number of columns.
    n_users : int or None
        Number of rows; None if it keeps nothing of its users.
    folds_in : bool
        Whether it scores histories.
    is_partial : bool
        Whether it leaves items without a score, as NaN.
    """

    stored: ClassVar[str]
    n_items: int
    n_users: int | None = None
    folds_in: bool = True
    is_partial: bool = False

    def score_users(self, rows: NDArray[np.int64]) -> NDArray[np.floating]:
        """Score all items for users by row; called if it keeps users."""
        raise NotImplementedError

    @abstractmethod
    def score_histories(self, histories: Sequence[NDArray[np.int64]]) -> NDArray[np.floating]:
        """Score all items for histories of columns; called if it `folds_in`."""

    @abstractmethod
    def shares(self, history: NDArray[np.int64], column: int) -> NDArray[np.floating]:
        """Return what each item of a history adds to the score of one item."""

    def of_users(self, rows: NDArray[np.intp]) -> Self:
        """Return the same model for some of its users only; called if it keeps users."""
        raise NotImplementedError

    @abstractmethod
    def state(self) -> State:
        """Return the arrays that a model folder keeps."""

    @classmethod
    @abstractmethod
    def from_state(cls, state: State) -> Self:
        """Read it back; KeyError or ValueError if this is not its state."""


class Factors(Form):
    """Products of user and item factors; a bias is a factor whose other side is 1.

    Parameters
    ----------
    users : array of float, n_users × n_factors
        The factors of each user; no rows if all are scored by their history.
    items : array of float, n_items × n_factors
        The factors of each item.
    folding : (regularization, confidence), optional
        How ALS solves for a user who has no factors (Hu, Koren and Volinsky, 2008), where each item
        of the history has this confidence. Without it, a history cannot be scored.

    Examples
    --------
    >>> tastes = Factors([[1.0, 0.0]], [[2.0, 0.0], [0.0, 2.0]], folding=(0.1, 2.0))
    >>> tastes.score_users(np.array([0])).tolist()
    [[2.0, 0.0]]
    >>> tastes.score_histories([np.array([1])]).round(2)
    array([[0.  , 0.99]], dtype=float32)
    """

    stored = "factors"

    def __init__(
        self, users: ArrayLike, items: ArrayLike, folding: tuple[float, float] | None = None
    ) -> None:
        self.users, self.items = _matrix("users", users), _matrix("items", items)
        if self.users.shape[1] != self.items.shape[1]:
            raise InputError(
                f"users have {self.users.shape[1]} factors and items {self.items.shape[1]}; they "
                "must have as many."
            )
        if folding is not None and not (
            np.isfinite(folding).all() and folding[0] >= 0 and folding[1] > 0
        ):
            raise InputError(
                f"folding is {folding}; give a regularization of 0 or more and a positive "
                "confidence."
            )
        self.folding = folding
        self.folds_in = folding is not None
        self.n_users, self.n_items = len(self.users) or None, len(self.items)

    def score_users(self, rows: NDArray[np.int64]) -> NDArray[np.floating]:
        """Multiply their factors with the items'."""
        return self._products(self.users[rows])

    def score_histories(self, histories: Sequence[NDArray[np.int64]]) -> NDArray[np.floating]:
        """Solve for the factors of each history, and multiply them with the items'."""
        solved = [self._solved(each, self._wide(each).sum(axis=0)) for each in histories]
        return self._products(self._folding[1] * np.stack(solved))

    def shares(self, history: NDArray[np.int64], column: int) -> NDArray[np.floating]:
        """Return the summands of a folded-in user's score, as section 5 of the paper does."""
        of_item = self._solved(history, self.items[column].astype(np.float64))
        return np.asarray(self._folding[1] * (self._wide(history) @ of_item))

    def _products(self, factors: NDArray[np.floating]) -> NDArray[np.floating]:
        # In double and rounded: the same for one user as among many.
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
                "These factors cannot score a history: they depend on each other. Fit the model "
                "with a regularization above 0."
            ) from None

    @property
    def _folding(self) -> tuple[float, float]:
        if self.folding is None:
            raise InputError("These factors come without folding=, so they score no history.")
        return self.folding

    @cached_property
    def _gram(self) -> NDArray[np.float64]:
        wide = self.items.astype(np.float64)
        return wide.T @ wide + self._folding[0] * np.eye(wide.shape[1])

    def of_users(self, rows: NDArray[np.intp]) -> Self:
        """Return the same item factors with those of some users."""
        if len(rows) == len(self.users):
            return self
        return type(self)(self.users[rows], self.items, self.folding)

    def state(self) -> State:
        """Return the factors and how users are folded in."""
        folding = np.array(self.folding or (), dtype=np.float64)
        return State({"users": self.users, "items": self.items, "folding": folding})

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Read them back; KeyError or ValueError if this is not their state."""
        arrays = _named(state, {"users", "items", "folding"})
        folding = arrays["folding"]
        if folding.dtype != np.float64 or folding.shape not in ((0,), (2,)):
            raise ValueError("folding is not that of factors")
        pair = (folding[0], folding[1]) if len(folding) else None
        return cls(arrays["users"], arrays["items"], pair)


class ItemItem(Form):
    """Weights between items: each item of a history adds its row to the scores.

    Parameters
    ----------
    weights : sparse matrix or array of float, n_items × n_items
        What each item (row) of a history adds to the score of each item (column).
    base : array of float, optional
        What items score for everybody, such as their popularity; NaN for an item without a score.

    Examples
    --------
    >>> ItemItem([[0.0, 0.5], [0.2, 0.0]], base=[1.0, 2.0]).score_histories([np.array([0])])
    array([[1. , 2.5]])
    """

    stored = "item-item"

    def __init__(self, weights: Any, base: ArrayLike | None = None) -> None:
        self.weights = _sparse(weights) if issparse(weights) else _matrix("weights", weights)
        self.n_items = self.weights.shape[0]
        self.base = np.zeros(self.n_items) if base is None else np.asarray(base, dtype=np.float64)
        if self.weights.shape[1] != self.n_items or self.base.shape != (self.n_items,):
            raise InputError(
                f"weights have the shape {self.weights.shape} and base {self.base.shape}; both "
                "must have one line for each item."
            )
        if np.isinf(self.base).any():
            raise InputError("base has infinite scores; give NaN for an item without one.")
        self.is_partial = bool(np.isnan(self.base).any())

    @classmethod
    def constant(cls, base: ArrayLike) -> Self:
        """Build a model that scores items alike for everybody, such as popularity."""
        n_items = len(np.asarray(base))
        return cls(csr_matrix((n_items, n_items)), base)

    def score_histories(self, histories: Sequence[NDArray[np.int64]]) -> NDArray[np.floating]:
        """Add up the rows of what was consumed."""
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
        """Return the weights, by row if they are sparse."""
        if not issparse(self.weights):
            return State({"weights": self.weights, "base": self.base})
        rows = {"offsets": self.weights.indptr, "columns": self.weights.indices}
        return State({"weights": self.weights.data, "base": self.base, **rows})

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Read them back; KeyError or ValueError if this is not their state."""
        is_dense = state.arrays["weights"].ndim == _MATRIX
        names = {"weights", "base"} | (set() if is_dense else {"offsets", "columns"})
        arrays = _named(state, names)
        weights, base = arrays["weights"], arrays["base"]
        if base.dtype != np.float64 or base.ndim != 1:
            raise ValueError("base is not that of item-item weights")
        if weights.ndim == _MATRIX:
            return cls(weights, base)
        offsets, columns = arrays["offsets"], arrays["columns"]
        if offsets.dtype.kind != "i" or columns.dtype.kind != "i":
            raise ValueError("offsets and columns are not those of item-item weights")
        n_items = len(base)
        return cls(csr_matrix((weights, columns, offsets), shape=(n_items, n_items)), base)


def _named(state: State, names: set[str]) -> Mapping[str, NDArray[Any]]:
    if state.texts or state.arrays.keys() != names:
        raise ValueError("its arrays are not those of such a model")
    return state.arrays


FORMS: Final[dict[str, type[Form]]] = {each.stored: each for each in (Factors, ItemItem)}


def _matrix(name: str, given: ArrayLike) -> NDArray[np.floating]:
    found = np.asarray(given)
    if found.dtype not in _FLOATS or found.ndim != _MATRIX or not np.isfinite(found).all():
        raise InputError(f"{name} must be a matrix of finite numbers, of float32 or float64.")
    return found


def _sparse(given: Any) -> csr_matrix:
    found = csr_matrix(given)
    found.check_format(full_check=True)  # indices from a file must not lead out of the matrix
    if found.data.dtype not in _FLOATS or not np.isfinite(found.data).all():
        raise InputError("weights must be finite numbers, of float32 or float64.")
    return found
