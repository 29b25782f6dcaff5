"""A calibrated probability by isotonic regression, with an interval from resampling users."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from surerec.conformal._pooling import isotonic_rates
from surerec.conformal._venn_abers import CalibratedProbability
from surerec.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

N_RESAMPLES: Final = 200
"""How often users are drawn anew for the interval of a curve."""

_ENDS: Final = (4, -5)  # of the resampled curves in order: between them lie 95 %
_BLOCKS: Final = 10  # of users: intervals without one of these blocks are made once each


@dataclass(frozen=True, eq=False)
class UserCurve:
    """The probability of a case by its bin, learned from many cases of each of some users.

    Parameters
    ----------
    counts, hits : array of int, n_users × n_bins
        Of each user, how many cases fell into each bin, and how many of them came true.
    seed : int
        Of the resampling.

    Notes
    -----
    The cases of one user are not independent, so an interval over cases would be far too narrow:
    users are drawn anew, 200 times, each with all of their cases.

    Examples
    --------
    >>> counts, hits = np.full((50, 2), 4), np.tile([1, 3], (50, 1))
    >>> UserCurve(counts, hits).probability().tolist()
    [0.25, 0.75]
    """

    counts: NDArray[np.integer]
    hits: NDArray[np.integer]
    seed: int = 0
    _intervals: dict[int | None, NDArray[np.float64]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        if self.counts.shape != self.hits.shape or self.counts.ndim != 2 or not self.counts.size:  # noqa: PLR2004
            raise InputError("There are no calibration cases to learn a probability from.")

    @property
    def n_users(self) -> int:
        """How many users it was learned from."""
        return len(self.counts)

    @cached_property
    def _whole(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return self.counts.sum(axis=0).astype(np.float64), self.hits.sum(axis=0).astype(np.float64)

    @cached_property
    def _drawn(self) -> tuple[NDArray[np.float64], ...]:
        """How often each user was drawn, and the counts and hits of each draw."""
        rng = np.random.default_rng(self.seed)
        n = self.n_users
        times = rng.multinomial(n, np.full(n, 1 / n), size=N_RESAMPLES).astype(np.float64)
        return times, times @ self.counts, times @ self.hits

    def probability(self, *, without: int | None = None) -> NDArray[np.float64]:
        """Give the probability of each bin, never falling.

        Parameters
        ----------
        without : int, optional
            A user to leave out, so that nobody is served by their own future.
        """
        counts, hits = self._whole
        if without is not None:
            counts, hits = counts - self.counts[without], hits - self.hits[without]
        return isotonic_rates(counts, hits)

    def with_interval(self, *, without: int | None = None) -> CalibratedProbability:
        """Give the probability of each bin, and where the curve lies in 95 % of the resamples.

        Whoever is left out of the curve is left out of the resamples with a tenth of the users, so
        that serving thousands of calibration users takes ten intervals and not thousands.
        """
        block = None if without is None else without % _BLOCKS
        if block not in self._intervals:
            self._intervals[block] = self._interval(block)
        low, high = self._intervals[block]
        said = self.probability(without=without)
        return CalibratedProbability(said, np.minimum(low, said), np.maximum(high, said))

    def with_intervals(self, without: NDArray[np.int64]) -> CalibratedProbability:
        """Do the same without each of some users: a row for each.

        Examples
        --------
        >>> curve = UserCurve(np.full((50, 2), 4), np.tile([1, 3], (50, 1)))
        >>> curve.with_intervals(np.array([3, 8])).probability.tolist()
        [[0.25, 0.75], [0.25, 0.75]]
        """
        blocks, which = np.unique(without % _BLOCKS, return_inverse=True)
        for block in blocks.tolist():
            if block not in self._intervals:
                self._intervals[block] = self._interval(block)
        shape = len(blocks), 2, self.counts.shape[1]
        ends = np.array([self._intervals[block] for block in blocks.tolist()]).reshape(shape)
        counts, hits = self._whole
        said = isotonic_rates(counts - self.counts[without], hits - self.hits[without])
        low, high = ends[which].transpose(1, 0, 2)
        return CalibratedProbability(said, np.minimum(low, said), np.maximum(high, said))

    def _interval(self, block: int | None) -> NDArray[np.float64]:
        times, counts, hits = self._drawn
        if block is not None:
            times = times[:, block::_BLOCKS]
            counts = counts - times @ self.counts[block::_BLOCKS]
            hits = hits - times @ self.hits[block::_BLOCKS]
        return np.sort(isotonic_rates(counts, hits).T, axis=1)[:, list(_ENDS)].T
