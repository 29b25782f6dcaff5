"""Which scale tells likely items from unlikely ones best, chosen by a few of the calibration users.

A scale is chosen from a few, not fitted: so it can be said of each of those who choose whether it
would have been chosen without them, and their own future has no part in what they are told.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Final

import numpy as np

from surerec.futures import Bins, edges_of, scale

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.futures import Outcomes

_SHARE_AND_RANK: Final = (
    (1.0, 0.1),
    (1.0, 0.25),
    (1.0, 0.0),
    (1.0, 0.5),
    (1.0, 1.0),
    (0.0, 1.0),
)
_KNOWN: Final = (0.0, 1.0, 0.5)
SCALES: Final = np.array([(*two, known) for two, known in product(_SHARE_AND_RANK, _KNOWN)])
"""The scales there are to choose from: weights of share, rank and known items."""

_AS_GOOD: Final = 1.001
"""A scale within this factor of the smallest loss is as good, and the first of these is taken.

Near ties would let single people tip the choice.
"""

_TOP: Final = 1000  # the items by which a scale is chosen
_SHOWN: Final = 10  # those that most people ever see: they count as much as all of them
_LEAST: Final = 1e-4  # a rate of 0 that a person without whom it is taken contradicts
_COARSE: Final = 2  # bins for choosing are so many times wider, as few choose


def choose_bins(outcomes: Outcomes) -> tuple[Bins, NDArray[np.bool_]]:
    """Give the bins under which what these people took is told best from what they did not.

    Parameters
    ----------
    outcomes : Outcomes
        With all candidates' shares.

    Returns
    -------
    Bins
        By the scale of the smallest log loss, over the 1,000 best items of each person and over
        the 10 best alike, or the first that is as good.
    array of bool
        Whose own future tipped the choice: without them it would have been another.
    """
    shares, n_known = outcomes.candidate_shares, outcomes.n_known
    assert shares is not None  # noqa: S101  # they are asked for to choose by
    hits = np.zeros(shares.shape, dtype=bool)
    known = np.isfinite(outcomes.ranks)
    hits[outcomes.owners[known], outcomes.ranks[known].astype(np.int64) - 1] = True
    every, shown = np.stack([_losses(weights, shares, hits, n_known) for weights in SCALES], axis=1)
    losses = every / every.min(axis=0) + shown / shown.min(axis=0)
    chosen = np.argmax(losses <= _AS_GOOD * losses.min(axis=0), axis=0)  # the first of them
    best, swayed = int(chosen[-1]), chosen[:-1] != chosen[-1]
    values = scale(SCALES[best], np.where(shares > 0, shares, 1.0), n_known[:, None])
    return Bins(SCALES[best], edges_of(values[shares > 0], len(shares))), swayed


def _losses(
    weights: NDArray[np.float64],
    shares: NDArray[np.float64],
    hits: NDArray[np.bool_],
    n_known: NDArray[np.int64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Give the log loss by bin without each person, and at last with all; and of the 10 best."""
    top = shares[:, :_TOP]
    there = top > 0
    values = scale(weights, np.where(there, top, 1.0), n_known[:, None])
    edges = edges_of(values[there], len(top))[::_COARSE]
    bins = np.searchsorted(edges, values, side="right")
    taken = there & hits[:, :_TOP]
    first = np.arange(top.shape[1]) < _SHOWN
    n, k, n_first, k_first = (
        _of_others(bins, some, len(edges) + 1)
        for some in (there, taken, there & first, taken & first)
    )
    rate = np.clip(k / np.maximum(n, 1), _LEAST, 1 - _LEAST)
    yes, no = np.log(rate), np.log1p(-rate)
    every = -(k * yes + (n - k) * no).sum(axis=1) / n.sum(axis=1)
    shown = -(k_first * yes + (n_first - k_first) * no).sum(axis=1) / n_first.sum(axis=1)
    return every, shown


def _of_others(
    bins: NDArray[np.int64], chosen: NDArray[np.bool_], n_bins: int
) -> NDArray[np.float64]:
    """Count the chosen by bin, without each person, and at last with all."""
    shape = len(bins), n_bins
    flat = bins + np.arange(len(bins))[:, None] * n_bins
    own = np.bincount(flat[chosen], minlength=shape[0] * n_bins).reshape(shape)
    others = own.sum(axis=0) - np.concatenate((own, np.zeros((1, n_bins))))
    return np.asarray(others, dtype=np.float64)
