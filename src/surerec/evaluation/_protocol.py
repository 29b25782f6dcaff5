"""The paper's protocol: who is evaluated, and how a profile is split."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from surerec._arguments import check_choice, check_kind, check_number, check_seed
from surerec._checks import check_whole
from surerec.errors import InputError
from surerec.interactions import Interactions

if TYPE_CHECKING:
    from numpy.typing import NDArray


SplitOrder = Literal["time", "random"]


@dataclass(frozen=True)
class Shares:
    """Which shares of a profile train and calibrate; the rest is tested (paper: 30 %, 30 %, 40 %).

    Examples
    --------
    >>> Shares().sizes(25)
    (8, 8)
    """

    training: float = 0.3
    calibration: float = 0.3

    def __post_init__(self) -> None:
        for name in ("training", "calibration"):
            share = getattr(self, name)
            check_number(name, share, 0, 1, "between 0 and 1", ends=(name == "calibration", False))
        if self.training + self.calibration >= 1:
            raise InputError(
                f"training and calibration are {self.training:g} and {self.calibration:g} of a "
                "profile; something must be left to be tested."
            )

    def sizes(self, n_items: int) -> tuple[int, int]:
        """Give the numbers of training and calibration items, ⌊share · n + ½⌋ each (paper.md 8)."""
        return int(self.training * n_items + 0.5), int(self.calibration * n_items + 0.5)


@dataclass(frozen=True)
class Split:
    """A profile, split; items by code."""

    user: int
    training: NDArray[np.int64]
    calibration: NDArray[np.int64]
    test: NDArray[np.int64]

    @property
    def known(self) -> NDArray[np.int64]:
        """What is known of the user: training, then calibration items."""
        return np.concatenate((self.training, self.calibration))


def choose_users(
    interactions: Interactions, n_users: int = 500, *, min_length: int = 10, seed: int = 0
) -> NDArray[np.int64]:
    """Choose users at random among those whose profile is long enough.

    Parameters
    ----------
    interactions : Interactions
        The profiles.
    n_users : int, default=500
        How many; all of them if there are no more.
    min_length : int, default=10
        Shorter profiles are left out.
    seed : int, default=0
        The same seed chooses the same users.

    Examples
    --------
    >>> import surerec as sr
    >>> films = sr.datasets.synthetic(n_users=100, n_items=50, n_rows=1500, seed=1)
    >>> len(choose_users(films, 20))
    20
    """
    check_kind("interactions", interactions, Interactions, "Interactions")
    check_whole("n_users", n_users)
    check_whole("min_length", min_length, lowest=0)
    enough = np.flatnonzero(np.diff(interactions.offsets) >= min_length)
    if not enough.size:
        raise InputError(
            f"{interactions.name or 'The data'}: no user took {min_length} items or more, "
            "so nobody can be evaluated."
        )
    chosen = np.random.default_rng(check_seed(seed)).permutation(enough)[:n_users]
    return np.sort(chosen)


def split_user(
    interactions: Interactions,
    user: int,
    *,
    shares: Shares | None = None,
    order: SplitOrder = "time",
    seed: int = 0,
) -> Split:
    """Split a user's profile into training, calibration and test items.

    Parameters
    ----------
    interactions : Interactions
        The profiles.
    user : int
        The user's code.
    shares : Shares, optional
        By default the paper's.
    order : {"time", "random"}, default="time"
        In time order, or with calibration and test drawn at random from what follows the training
        items, which makes them exchangeable.
    seed : int, default=0
        Of that draw, together with the user.
    """
    check_kind("interactions", interactions, Interactions, "Interactions")
    parts = Shares() if shares is None else check_kind("shares", shares, Shares, "Shares(…)")
    check_choice("order", order, get_args(SplitOrder))
    check_seed(seed)
    items = interactions.taken(user).astype(np.int64)
    n_training, n_calibration = parts.sizes(len(items))
    rest = items[n_training:]
    if order == "random":
        rest = np.random.default_rng((seed, user)).permutation(rest)
    return Split(user, items[:n_training], rest[:n_calibration], rest[n_calibration:])
