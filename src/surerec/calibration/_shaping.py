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

_SHARE_AND_RANK: Final = ((1.0, 0.25), (1.0, 0.5), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0))
_KNOWN: Final = (0.0, 1.0, 0.5)
SCALES: Final = np.array([(*two, known) for two, known in product(_SHARE_AND_RANK, _KNOWN)])
"""The scales there are to choose from: weights of share, rank and known items."""

_AS_GOOD: Final = 1.003
"""A scale within this factor of the smallest loss is as good, and the first of these is taken.

Near ties would let single people tip the choice.
"""

_TOP: Final = 1000  # the items by which a scale is chosen
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
        By the scale of the smallest log loss, over the 1,000 best items of each person, or the
        first that is as good.
    array of bool
        Whose own future tipped the choice: without them it would have been another.
    """
    shares, n_known = outcomes.candidate_shares, outcomes.cases.n_known
    assert shares is not None  # noqa: S101  # they are asked for to choose by
    hits = np.zeros(shares.shape, dtype=bool)
    known = np.isfinite(outcomes.ranks)
    hits[outcomes.owners[known], outcomes.ranks[known].astype(np.int64) - 1] = True
    losses = np.stack([_losses(weights, shares, hits, n_known) for weights in SCALES])
    chosen = np.argmax(losses <= _AS_GOOD * losses.min(axis=0), axis=0)  # the first of them
    best, swayed = int(chosen[-1]), chosen[:-1] != chosen[-1]
    every = scale(SCALES[best], np.where(shares > 0, shares, 1.0), n_known[:, None])
    return Bins(SCALES[best], edges_of(every[shares > 0], len(shares))), swayed


def _losses(
    weights: NDArray[np.float64],
    shares: NDArray[np.float64],
    hits: NDArray[np.bool_],
    n_known: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Give the log loss by bin without each person, and at last with all."""
    top = shares[:, :_TOP]
    there = top > 0
    values = scale(weights, np.where(there, top, 1.0), n_known[:, None])
    edges = edges_of(values[there], len(top))[::_COARSE]
    bins = np.searchsorted(edges, values, side="right")
    flat = bins + np.arange(len(top))[:, None] * (len(edges) + 1)
    shape = len(top), len(edges) + 1
    size = shape[0] * shape[1]
    counts = np.bincount(flat[there], minlength=size).reshape(shape).astype(np.float64)
    taken = np.bincount(flat[there & hits[:, :_TOP]], minlength=size).reshape(shape)
    nobody = np.zeros((1, shape[1]))
    n = counts.sum(axis=0) - np.concatenate((counts, nobody))
    k = taken.sum(axis=0) - np.concatenate((taken, nobody))
    return np.asarray((_x_log_x(n) - _x_log_x(k) - _x_log_x(n - k)).sum(axis=1) / n.sum(axis=1))


def _x_log_x(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return x * np.log(np.maximum(x, 1.0))
