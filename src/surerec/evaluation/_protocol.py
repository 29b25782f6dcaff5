"""The paper's protocol: choice of users, split of a history, and errors of sets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, get_args

import numpy as np

from surerec._arguments import (
    check_choice,
    check_kind,
    check_mask,
    check_number,
    check_random_state,
    check_whole,
    check_wholes,
)
from surerec.conformal import left_out_up_to
from surerec.errors import InputError
from surerec.interactions import Interactions

if TYPE_CHECKING:
    from numpy.typing import NDArray


SplitOrder = Literal["time", "random"]

EPSILONS: Final = tuple(round(0.05 * step, 2) for step in range(1, 20))
"""The significance levels of the paper's figures, 0.05 to 0.95."""

_MOST_LEVELS: Final = 100_000_000


@dataclass(frozen=True)
class Shares:
    """Shares of training and calibration items; the rest is the test (paper: 30%, 30%, 40%).

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
                "history. Pass shares that sum to less than 1."
            )

    def sizes(self, n_items: int) -> tuple[int, int]:
        """Return the numbers of training and calibration items, ⌊share · n + ½⌋ (paper.md 8)."""
        return int(self.training * n_items + 0.5), int(self.calibration * n_items + 0.5)


@dataclass(frozen=True)
class Split:
    """A split history; items by code."""

    user: int
    training: NDArray[np.int64]
    calibration: NDArray[np.int64]
    test: NDArray[np.int64]

    @property
    def known(self) -> NDArray[np.int64]:
        """The known history: training items, then calibration items."""
        return np.concatenate((self.training, self.calibration))


def choose_users(
    interactions: Interactions, n_users: int = 500, *, min_length: int = 10, random_state: int = 0
) -> NDArray[np.int64]:
    """Return random users with a long enough history, by code.

    Parameters
    ----------
    interactions : Interactions
        Histories of users.
    n_users : int, default=500
        Number of users; all of them if there are fewer.
    min_length : int, default=10
        Users with fewer items are left out.
    random_state : int, default=0
        Seed of the choice.

    Examples
    --------
    >>> import surerec as sr
    >>> films = sr.datasets.synthetic(n_users=100, n_items=50, n_rows=1500, random_state=1)
    >>> len(choose_users(films, 20))
    20
    """
    check_kind("interactions", interactions, Interactions, "Interactions")
    check_whole("n_users", n_users)
    check_whole("min_length", min_length, lowest=0)
    enough = np.flatnonzero(np.diff(interactions.offsets) >= min_length)
    if not enough.size:
        raise InputError(
            f"{interactions.name or 'The data'}: no user has {min_length} items or more. Pass a "
            "smaller min_length."
        )
    chosen = np.random.default_rng(check_random_state(random_state)).permutation(enough)[:n_users]
    return np.sort(chosen)


def split_user(
    interactions: Interactions,
    user: int,
    *,
    shares: Shares | None = None,
    order: SplitOrder = "time",
    random_state: int = 0,
) -> Split:
    """Split a user's history into training, calibration and test items.

    Parameters
    ----------
    interactions : Interactions
        Histories of users.
    user : int
        The user's code.
    shares : Shares, optional
        By default the paper's.
    order : {"time", "random"}, default="time"
        In time order, or with calibration and test items drawn at random from those after the
        training items, which makes them exchangeable.
    random_state : int, default=0
        Seed of the random order, together with the user.
    """
    check_kind("interactions", interactions, Interactions, "Interactions")
    parts = Shares() if shares is None else check_kind("shares", shares, Shares, "Shares(…)")
    check_choice("order", order, get_args(SplitOrder))
    check_random_state(random_state)
    items = interactions.consumed(user).astype(np.int64)
    n_training, n_calibration = parts.sizes(len(items))
    rest = items[n_training:]
    if order == "random":
        rest = np.random.default_rng((random_state, user)).permutation(rest)
    return Split(user, items[:n_training], rest[:n_calibration], rest[n_calibration:])


class Validity(NamedTuple):
    """Errors and size of one user's sets, for each significance level."""

    missed: NDArray[np.float64]
    """Share of test items outside the set: the validity error."""
    let_in: NDArray[np.float64]
    """Share of other candidates in the set: the efficiency error."""
    size: NDArray[np.int64]
    """Number of items in the set."""


def validity(
    counts: NDArray[np.int64],
    levels: int,
    relevant: NDArray[np.bool_],
    epsilons: tuple[float, ...] = EPSILONS,
) -> Validity:
    """Return errors and sizes of the sets at several significance levels.

    Parameters
    ----------
    counts : array of int
        p-values of the candidates as counts: ``p = counts / levels``.
    levels : int
        Number of levels.
    relevant : array of bool
        Which candidates are test items.
    epsilons : tuple of float, optional
        The significance levels.

    Examples
    --------
    >>> found = validity(np.array([1, 3, 4]), 4, np.array([True, False, True]), (0.25, 0.75))
    >>> found.missed.tolist(), found.let_in.tolist(), found.size.tolist()
    ([0.5, 0.5], [1.0, 0.0], [2, 1])
    """
    check_whole("levels", levels, highest=_MOST_LEVELS)
    counts = check_wholes("counts", counts, 0, levels)
    relevant = check_mask("relevant", relevant, len(counts))
    # One count per level serves all significance levels.
    threshold = left_out_up_to(epsilons, levels)
    size, hits = (
        len(some) - np.cumsum(np.bincount(some, minlength=levels + 1))[threshold]
        for some in (counts, counts[relevant])
    )
    n_relevant, n_other = int(relevant.sum()), int((~relevant).sum())
    return Validity(
        missed=1 - hits / max(n_relevant, 1),
        let_in=(size - hits) / max(n_other, 1),
        size=size,
    )
