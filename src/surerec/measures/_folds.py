"""Folds of users for cross-fitting: a model trained without a fold scores the users of that fold.

Users are assigned to folds by code, independent of their histories. A new user has no fold (−1),
and the model of any fold may score them. Calibration users are scored by all models, so new users
are as well: the first item of the history chooses the model, and stays the same as it grows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from surerec.errors import InputError, TooFewUsersError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_MOST: Final = int(np.iinfo(np.int8).max)
_FEWEST_USERS: Final = 20
_MIX: Final = 0x9E3779B9  # 2³² / golden ratio: consecutive codes get different folds


def assign_folds(n_users: int, n_folds: int, random_state: int) -> NDArray[np.int8]:
    """Return a random fold for each user; folds have equal sizes."""
    if n_folds > _MOST:
        raise InputError(f"n_folds is {n_folds}. Pass at most {_MOST}.")
    order = np.random.default_rng(random_state).permutation(n_users)
    fold_of = np.empty(n_users, dtype=np.int8)
    fold_of[order] = np.arange(n_users) % n_folds
    return fold_of


def fold_for(
    fold_of: NDArray[np.int8], users: Sequence[int], history: NDArray[np.integer], n_folds: int
) -> int:
    """Return the fold whose model may score the users left out.

    With several users, it is the fold of the first who has one; callers pass users of one fold. For
    a new user, the history chooses the fold.

    Examples
    --------
    >>> fold_for(np.array([2, 0], dtype=np.int8), (0,), np.array([7]), 3)
    2
    >>> [fold_for(np.array([2, 0], dtype=np.int8), (), np.array([item, 5]), 3) for item in range(6)]
    [0, 1, 0, 2, 1, 0]
    """
    found = folds_of(fold_of, np.array(users, dtype=np.int64))
    if (found >= 0).any():
        return int(found[found >= 0][0])
    return (int(history[0]) * _MIX % (1 << 32) * n_folds) >> 32 if len(history) else 0


def folds_of(fold_of: NDArray[np.int8], users: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the folds of users; −1 for new users, whom no model was trained on.

    Examples
    --------
    >>> folds_of(np.array([0, 1], dtype=np.int8), np.array([1, 0, 2])).tolist()
    [1, 0, -1]
    """
    known = (users >= 0) & (users < len(fold_of))
    return np.where(known, fold_of[np.where(known, users, 0)] if len(fold_of) else -1, -1)


def check_enough_users(n_left: int, shortest: int) -> None:
    """Raise if there are too few users to train on."""
    if n_left < _FEWEST_USERS:
        raise TooFewUsersError(
            f"Without one fold, {n_left} users with at least {shortest} items are left to train "
            f"on; {_FEWEST_USERS} are needed. Pass data of more users, or use more folds."
        )
