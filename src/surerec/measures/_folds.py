"""Folds of users: what is trained without a fold may score its users.

Users are dealt into folds by their codes, whatever they took. A user who was not there when the
folds were dealt is in none of them (−1), and any fold's model may score them. Calibration users are
scored by all of the models, so new users are too: each by one, chosen by the first item of the
history, which stays the same as the history grows.
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
_MIX: Final = 0x9E3779B9  # 2³² / golden ratio: neighbouring codes get different folds


def deal(n_users: int, n_folds: int, random_state: int) -> NDArray[np.int8]:
    """Return a fold for each user, at random and as many to each."""
    if n_folds > _MOST:
        raise InputError(f"n_folds is {n_folds}; it must be {_MOST} at the most.")
    order = np.random.default_rng(random_state).permutation(n_users)
    fold_of = np.empty(n_users, dtype=np.int8)
    fold_of[order] = np.arange(n_users) % n_folds
    return fold_of


def fold_for(
    fold_of: NDArray[np.int8], users: Sequence[int], history: NDArray[np.integer], n_folds: int
) -> int:
    """Return the fold whose model may score users who are left out.

    With several users, that of the first who is in one: it saw none of them if they share it. For a
    new user it is chosen by the history.

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
    """Return the folds of users; −1 for those who came later, whom no fold's model has seen.

    Examples
    --------
    >>> folds_of(np.array([0, 1], dtype=np.int8), np.array([1, 0, 2])).tolist()
    [1, 0, -1]
    """
    known = (users >= 0) & (users < len(fold_of))
    return np.where(known, fold_of[np.where(known, users, 0)] if len(fold_of) else -1, -1)


def check_enough(n_left: int, shortest: int) -> None:
    """Refuse to learn from too few users."""
    if n_left < _FEWEST_USERS:
        raise TooFewUsersError(
            f"{n_left} users with {shortest} items or more are left to learn from once a "
            f"fold is set aside, and {_FEWEST_USERS} are needed: give more users, or more folds."
        )
