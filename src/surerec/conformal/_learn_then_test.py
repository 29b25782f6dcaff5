"""Learn then Test: thresholds are tested in sequence by betting on the mean loss."""

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
"""Largest stake, as a share of the largest bet that cannot lose everything."""


@njit(nogil=True, cache=True)
def _p_value(losses: NDArray[np.float64], level: float, delta: float) -> float:
    """Bet on one loss after the other, skipping NaN; see :func:`betting_p_value`."""
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

    A gambler starts with a capital of 1 and bets on each loss being below the level. The stake
    depends on the losses so far. If the hypothesis is true, the capital is a supermartingale, and
    ever reaches 1/p with probability at most p (Ville's inequality).

    Parameters
    ----------
    losses : array-like of float
        Independent draws from [0, 1], in an order independent of them; NaN is skipped.
    level : float
        Mean loss to test, in (0, 1).
    delta : float, default=0.1
        Level of the test, which sizes the bets; the p-value is valid at any level.

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
    """Return the number of users needed to confirm a mean loss below `level`, if none has a loss.

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
    """Testing users who are shown an item."""
    n_testing: int
    """All testing users."""


@dataclass(frozen=True, eq=False)
class ServedPrecision:
    """Tests of the precision of lists at each threshold, over users who are shown an item.

    A list at threshold t shows the items of bin t and all higher bins. A user's loss is the share
    of shown items that they do not consume. A user who is shown nothing has no loss and is not
    counted, as a loss of 0 would make the guarantee misleading.

    Parameters
    ----------
    counts, hits : array of int, n_users × n_bins
        For each user, the number of items in each bin, and how many of them were consumed.
    chooses : array of bool
        Users who choose the first threshold; all others test. The order must not depend on what
        users consumed.

    Notes
    -----
    The choosing users fix a sequence, from the threshold with the smallest p-value to ever longer
    lists. The others test in that order until one fails, each time at the full level (Angelopoulos,
    Bates, Candès, Jordan and Lei, *Learn then Test*, 2021). If users are drawn independently, the
    mean loss of users who are shown an item exceeds α with probability at most δ.

    Examples
    --------
    All users consume the one item of the upper bin, and none of the lower:

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
            raise InputError(
                f"counts, hits and chooses must have the same users: their shapes are "
                f"{self.counts.shape}, {self.hits.shape} and {self.chooses.shape}."
            )

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
        """Return the loosest threshold with the precision; None if the first one fails.

        Parameters
        ----------
        precision : float
            Share of shown items that are consumed, 1 − α.
        delta : float, default=0.1
            Probability that the guarantee fails, over the sample of users.
        without : int, optional
            A user to leave out, so that their own outcomes have no effect.
        """
        others = np.arange(len(self.chooses)) != (-1 if without is None else without)
        losses, tests = self.losses, ~self.chooses & others
        choosing, level = losses[:, self.chooses & others], 1 - precision
        p_values = [_p_value(row, level, delta) for row in choosing]
        found = None
        for threshold in range(int(np.argmin(p_values)), -1, -1):
            mine = losses[threshold, tests]
            if _p_value(mine, level, delta) > delta:
                break
            n_served = int((~np.isnan(mine)).sum())
            found = Passed(threshold, n_served, len(mine))
        return found

    def best(self, *, delta: float = 0.1) -> float | None:
        """Return the highest precision, in whole percent, that some threshold reaches."""
        return next((float(p) for p in _LEVELS if self.passed(float(p), delta=delta)), None)
