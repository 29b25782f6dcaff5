"""Rows of arrays: the scores, seen and relevant items of users, one user at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from scipy.sparse import issparse

from surerec.calibration._ranking import Ranking
from surerec.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_DIMENSIONS: Final = 2


class Row(NamedTuple):
    """One user."""

    scores: NDArray[np.float64]
    """One per item; NaN or −∞ for items without a score."""
    relevant: NDArray[np.int64]
    """Columns of relevant items, ascending."""
    seen: NDArray[np.int64]

    def outside(self) -> NDArray[np.bool_]:
        """Return which items have a score and were not seen."""
        found: NDArray[np.bool_] = self.scores > -np.inf
        found[self.seen] = False
        return found

    def ranking(self) -> Ranking:
        """Return the scored items that the user has not seen, best first, ties by column."""
        codes = np.arange(len(self.scores))
        return Ranking.of(codes[self.outside()], self.scores, self.scores, codes)


def blocks_of(scores: Any, *others: Any) -> Iterator[tuple[Any, ...]]:
    """Yield blocks of scores with their other arrays, such as relevant and seen items.

    An iterator yields tuples of them, or scores alone. Missing arrays are None.
    """
    if not isinstance(scores, Iterator):
        yield scores, *others
        return
    names = ("scores", "relevant", "seen") if len(others) > 1 else ("scores", "seen")
    if any(each is not None for each in others):
        raise InputError(
            f"scores is an iterator of blocks, which contain {' and '.join(names[1:])}. Yield "
            f"tuples ({', '.join(names)}), and pass no other arrays."
        )
    for block in scores:
        parts = block if isinstance(block, tuple) else (block,)
        if len(parts) > len(names):
            raise InputError(f"A block has {len(parts)} parts. Yield ({', '.join(names)}).")
        yield *parts, *(None,) * (len(names) - len(parts))


def rows_of(scores: Any, relevant: Any = None, seen: Any = None, first: int = 0) -> Iterator[Row]:
    """Yield the users of a block; raise InputError with the row and the fix if one is invalid.

    `first` is the number of users before the block, for messages.
    """
    matrices = {"scores": scores, "relevant": relevant, "seen": seen}
    given = {name: _matrix(name, each) for name, each in matrices.items() if each is not None}
    n_users = {
        name: each.shape[0] if _is_matrix(each) else len(each) for name, each in given.items()
    }
    for name, n in n_users.items():
        if n != n_users["scores"]:
            raise InputError(
                f"{name} has {n:,} rows, and scores has {n_users['scores']:,}. Pass one row per "
                "user in each."
            )
    for place in range(n_users["scores"]):
        user = first + place
        row = _scores(given["scores"], place, user)
        wanted, known = (
            _columns(name, given.get(name), place, len(row), user) for name in ("relevant", "seen")
        )
        both = set(wanted.tolist()).intersection(known.tolist())
        if both:
            raise InputError(
                f"Item {min(both)} is both in relevant[{user}] and in seen[{user}]. A guarantee is "
                "about new items: remove it from one of them."
            )
        yield Row(row, wanted, known)


def _as_array(given: Any) -> NDArray[Any]:
    """Return an array; tensors are copied to the CPU, without their gradients."""
    if hasattr(given, "detach"):
        given = given.detach().cpu()
        if str(given.dtype).endswith("bfloat16"):  # unknown to numpy
            given = given.float()
    return np.asarray(given)


def _is_sparse(given: Any) -> bool:
    return bool(issparse(given))


def _is_matrix(given: Any) -> bool:
    return isinstance(given, np.ndarray) or _is_sparse(given)


def _matrix(name: str, given: Any) -> Any:
    """Return a matrix, a sparse matrix by rows, or a list of rows."""
    if _is_sparse(given):
        return given.tocsr()
    try:
        if isinstance(given, (list, tuple)):
            return [_as_array(each) for each in given]
        found = _as_array(given)
    except (TypeError, ValueError):
        found = np.empty(())
    if found.ndim != _DIMENSIONS:
        raise InputError(
            f"{name} has shape {found.shape}. Pass a matrix of users × items, or a list with one "
            "array per user."
        )
    return found


def _scores(matrix: Any, place: int, user: int) -> NDArray[np.float64]:
    if _is_sparse(matrix):
        found = np.full(matrix.shape[1], np.nan)
        here = slice(matrix.indptr[place], matrix.indptr[place + 1])
        found[matrix.indices[here]] = matrix.data[here]
    else:
        try:
            found = matrix[place].astype(np.float64)
        except (TypeError, ValueError):
            found = np.empty(())
    if found.ndim != 1 or np.isposinf(found).any():
        what = "+inf" if found.ndim == 1 else "no row of numbers"
        at = f" in column {int(np.argmax(found))}" if found.ndim == 1 else ""
        raise InputError(f"scores[{user}] has {what}{at}. Pass one finite score per item.")
    if not (found > -np.inf).any():
        raise InputError(
            f"scores[{user}] has only NaN or −inf, which mean that an item has no score. Leave the "
            "user out, or check the model."
        )
    return found


def _columns(name: str, matrix: Any, place: int, n_items: int, user: int) -> NDArray[np.int64]:
    """Return the columns of one user's items, ascending."""
    if matrix is None:
        return np.empty(0, dtype=np.int64)
    if _is_matrix(matrix) and matrix.shape[1] != n_items:
        raise InputError(
            f"{name} has {matrix.shape[1]:,} columns, and scores has {n_items:,}. Pass one column "
            "per item in each, or a list of column numbers per user."
        )
    if _is_sparse(matrix):
        here = slice(matrix.indptr[place], matrix.indptr[place + 1])
        return np.unique(matrix.indices[here][matrix.data[here] != 0]).astype(np.int64)
    row = matrix[place]
    if isinstance(matrix, np.ndarray) or (row.dtype == bool and row.shape == (n_items,)):
        return np.flatnonzero(row)
    whole = row.ndim == 1 and (not row.size or np.issubdtype(row.dtype, np.integer))
    wrong = row[(row < 0) | (row >= n_items)] if whole else row.ravel()[:1]
    if not whole or len(wrong):
        raise InputError(
            f"{name}[{user}] has {wrong[0] if len(wrong) else row}. Pass column numbers of the "
            f"{n_items:,} items, from 0."
        )
    rises = (row[1:] > row[:-1]).all()
    return (row if rises else np.unique(row)).astype(np.int64)
