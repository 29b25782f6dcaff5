"""Betting against a mean: how surely bounded losses are below a level, however they are spread."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

_BOLDEST: Final = 0.9
"""Of the largest bet that cannot lose everything: so much is staked at most."""


@njit(nogil=True, cache=True)
def _p_value(losses: NDArray[np.float64], level: float, delta: float) -> float:
    """Bet on each loss after the other; NaN is nobody. See :func:`betting_p_value`."""
    n = 0
    for loss in losses:
        if not np.isnan(loss):
            n += 1
    if n == 0:
        return 1.0
    most = _BOLDEST / (1.0 - level)
    stake_all = 2.0 * math.log(1.0 / delta) / n
    capital, best = 0.0, 0.0  # logarithms
    total, spread, seen = 0.5, 0.25, 1.0  # a made-up loss of 1/2 with a variance of 1/4 comes first
    for loss in losses:
        if np.isnan(loss):
            continue
        bet = min(math.sqrt(stake_all * seen / spread), most)
        capital += math.log1p(bet * (level - loss))
        best = max(best, capital)
        seen += 1.0
        total += loss
        spread += (loss - total / seen) ** 2
    return math.exp(-best)


@njit(nogil=True, cache=True)
def _p_values(
    losses: NDArray[np.float64], level: float, delta: float, found: NDArray[np.float64]
) -> None:
    for at in range(len(losses)):
        found[at] = _p_value(losses[at], level, delta)


def betting_p_value(losses: ArrayLike, level: float, *, delta: float = 0.1) -> float:
    """Give the p-value of the hypothesis that the mean loss is `level` or more.

    Somebody starts with 1 and stakes a part of what they have on each loss being below the level,
    how much by what they have seen so far. If the hypothesis is true they can only expect to lose,
    so that they ever hold 1/p with probability p at most (Ville).

    Parameters
    ----------
    losses : array-like of float
        Independent draws from [0, 1], in an order that knows nothing of them; NaN is left out.
    level : float
        In (0, 1).
    delta : float, default=0.1
        At which level it will be tested: bets are sized for it, and it is valid at any other.

    Notes
    -----
    The one-sided capital process with predictable plug-in bets of Waudby-Smith and Ramdas
    (*Estimating means of bounded random variables by betting*, JRSS B, 2024).

    Examples
    --------
    >>> betting_p_value(np.full(50, 0.1), 0.5) < 0.001, betting_p_value([0.9, 0.8], 0.5)
    (True, 1.0)
    """
    given = np.asarray(losses, dtype=np.float64)
    return float(min(_p_value(given, level, delta), 1.0))


def betting_p_values(
    losses: NDArray[np.float64], level: float, *, delta: float = 0.1
) -> NDArray[np.float64]:
    """Give the p-value of each row of losses; see :func:`betting_p_value`."""
    found = np.empty(len(losses))
    _p_values(np.ascontiguousarray(losses), level, delta, found)
    return np.minimum(found, 1.0)


def bets_needed(level: float, delta: float) -> int:
    """Give how many people it takes to be sure of a mean loss below `level`, if nobody loses.

    Examples
    --------
    >>> bets_needed(0.5, 0.1), bets_needed(0.1, 0.1)
    (4, 25)
    """
    n = 1
    while betting_p_value(np.zeros(n), level, delta=delta) > delta:
        n += 1
    return n
