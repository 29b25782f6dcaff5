"""Learn then test: thresholds tried one after the other, with a promise of the last that passed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from surerec.conformal._betting import betting_p_values
from surerec.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LEVELS: Final = np.arange(99, 0, -1) / 100


class Passed(NamedTuple):
    """The loosest threshold that passed."""

    threshold: int
    n_served: int
    """People who tested it and are shown something."""
    n_testing: int
    """People who could test it."""

    @property
    def share_served(self) -> float:
        """The share of people who are shown anything."""
        return self.n_served / self.n_testing


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
        shown, taken = (
            np.cumsum(some[:, ::-1], axis=1)[:, ::-1].astype(np.float64)
            for some in (self.counts, self.hits)
        )
        shown[shown == 0] = np.nan
        return np.ascontiguousarray((1 - taken / shown).T)

    def passed(
        self, precision: float, *, delta: float = 0.1, without: int | None = None
    ) -> Passed | None:
        """Give the loosest threshold that keeps the precision; None if the first fails already.

        Parameters
        ----------
        precision : float
            The share of what is shown that is to be taken, 1 − α.
        delta : float, default=0.1
            The probability with which the promise may fail, over the draw of these people.
        without : int, optional
            Somebody to leave out, so that nobody is served by their own future.
        """
        tests = ~self.chooses
        losses = self.losses
        choosing = losses[:, self.chooses]
        if without is not None:
            tests = tests.copy()
            tests[without] = False
            if self.chooses[without]:
                choosing = np.delete(choosing, int(self.chooses[:without].sum()), axis=1)
        level = 1 - precision
        doubts = betting_p_values(choosing, level, delta=delta)
        found = None
        for threshold in range(int(np.argmin(doubts)), -1, -1):
            mine = losses[threshold, tests]
            if betting_p_values(mine[None, :], level, delta=delta)[0] > delta:
                break
            n_served = int((~np.isnan(mine)).sum())
            found = Passed(threshold, n_served, len(mine))
        return found

    def best(self, *, delta: float = 0.1) -> float | None:
        """Give the highest precision, in whole hundredths, that some threshold keeps."""
        return next((float(p) for p in _LEVELS if self.passed(float(p), delta=delta)), None)
