"""Learn then test: thresholds are tried one after the other by betting against a mean loss."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numba import njit

from surerec.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

_LEVELS: Final = np.arange(99, 0, -1) / 100
_BOLDEST: Final = 0.9
"""Of the largest bet that cannot lose everything: so much is staked at most."""


@njit(nogil=True, cache=True)
def _p_value(losses: NDArray[np.float64], level: float, delta: float) -> float:
    """Bet on each loss after the other; NaN is left out. See :func:`betting_p_value`."""
    there = losses[~np.isnan(losses)]
    most = _BOLDEST / (1.0 - level)
    stake_all = 2.0 * math.log(1.0 / delta) / max(len(there), 1)
    capital, best = 0.0, 0.0  # logarithms
    total, spread, seen = 0.5, 0.25, 1.0  # begin with a loss of 1/2 and a variance of 1/4
    for loss in there:
        bet = min(math.sqrt(stake_all * seen / spread), most)
        capital += math.log1p(bet * (level - loss))
        best = max(best, capital)
        seen += 1.0
        total += loss
        spread += (loss - total / seen) ** 2
    return math.exp(-best)


def betting_p_value(losses: ArrayLike, level: float, *, delta: float = 0.1) -> float:
    """Return the p-value of the hypothesis that the mean loss is `level` or more.

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
    return float(_p_value(np.asarray(losses, dtype=np.float64), level, delta))


def bets_needed(level: float, delta: float) -> int:
    """Return how many users it takes to be sure of a mean loss below `level`, if nobody loses.

    Examples
    --------
    >>> bets_needed(0.5, 0.1), bets_needed(0.1, 0.1)
    (4, 25)
    """
    n = 1
    while betting_p_value(np.zeros(n), level, delta=delta) > delta:
        n += 1
    return n


class Passed(NamedTuple):
    """The loosest threshold that passed."""

    threshold: int
    n_served: int
    """People who tested it and are shown something."""
    n_testing: int
    """People who could test it."""


@dataclass(frozen=True, eq=False)
class ServedPrecision:
    """What people would have been shown at each threshold, and what of it they took.

    A list at threshold t shows the items of bin t and of all bins above. Of what a person is shown
    the share that they do not take is their loss; who is shown nothing has none, and is not counted
    as somebody without a loss: that would keep a promise that misleads.

    Parameters
    ----------
    counts, hits : array of int, n_users × n_bins
        Of each user, how many items fell into each bin, and how many of them they took.
    chooses : array of bool
        Who chooses the threshold to begin with; all others test. In an order that knows nothing of
        what they took.

    Notes
    -----
    Those who choose fix a sequence: from where they leave least doubt to ever longer lists. The
    others test in that order until one fails, each time at the full level (Angelopoulos, Bates,
    Candès, Jordan and Lei, *Learn then Test*, 2021). If people are drawn independently, the mean
    loss of people who are shown anything is above α with probability δ at most.

    Examples
    --------
    Everybody takes the one item of the upper bin, and nobody any of the lower:

    >>> counts, hits = np.tile([5, 1], (40, 1)), np.tile([0, 1], (40, 1))
    >>> found = ServedPrecision(counts, hits, np.arange(40) % 4 == 0)
    >>> found.passed(0.5), found.best()
    (Passed(threshold=1, n_served=30, n_testing=30), 0.91)
    >>> found.passed(0.95) is None
    True
    """

    counts: NDArray[np.integer]
    hits: NDArray[np.integer]
    chooses: NDArray[np.bool_]

    def __post_init__(self) -> None:
        if self.counts.shape != self.hits.shape or self.chooses.shape != self.counts.shape[:1]:
            raise InputError("Counts, hits and who chooses are not of the same people.")

    @cached_property
    def losses(self) -> NDArray[np.float64]:
        """The loss of each user at each threshold, n_bins × n_users; NaN if nothing is shown."""
        shown, consumed = (
            np.cumsum(some[:, ::-1], axis=1)[:, ::-1].astype(np.float64)
            for some in (self.counts, self.hits)
        )
        shown[shown == 0] = np.nan
        return np.ascontiguousarray((1 - consumed / shown).T)

    def passed(
        self, precision: float, *, delta: float = 0.1, without: int | None = None
    ) -> Passed | None:
        """Return the loosest threshold that keeps the precision; None if the first fails already.

        Parameters
        ----------
        precision : float
            The share of what is shown that is to be taken, 1 − α.
        delta : float, default=0.1
            The probability with which the promise may fail, over the draw of these people.
        without : int, optional
            Somebody to leave out, so that nobody is served by their own future.
        """
        others = np.arange(len(self.chooses)) != (-1 if without is None else without)
        losses, tests = self.losses, ~self.chooses & others
        choosing, level = losses[:, self.chooses & others], 1 - precision
        doubts = [_p_value(row, level, delta) for row in choosing]
        found = None
        for threshold in range(int(np.argmin(doubts)), -1, -1):
            mine = losses[threshold, tests]
            if _p_value(mine, level, delta) > delta:
                break
            n_served = int((~np.isnan(mine)).sum())
            found = Passed(threshold, n_served, len(mine))
        return found

    def best(self, *, delta: float = 0.1) -> float | None:
        """Return the highest precision, in whole hundredths, that some threshold keeps."""
        return next((float(p) for p in _LEVELS if self.passed(float(p), delta=delta)), None)
