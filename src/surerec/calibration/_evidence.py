"""What p-values are found from, once somebody looks at them."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np

from surerec.conformal.kernels import count_at_most, levels_of

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Evidence(Protocol):
    """Candidates' scores and calibration scores, as exact as they are asked for."""

    @property
    def score(self) -> NDArray[np.float64]:
        """The candidates' scores."""

    @property
    def counts(self) -> NDArray[np.int64]:
        """Their p-values, as counts of calibration scores not above them and themselves."""

    def inside(self, cut: int) -> NDArray[np.bool_]:
        """Tell whose count is above `cut`."""


class Scores:
    """All scores, and the calibration scores in ascending order.

    Examples
    --------
    >>> found = Scores(np.array([0.3, 0.1]), np.array([0.23, 0.3]))
    >>> found.counts.tolist(), found.inside(1).tolist()
    ([3, 1], [True, False])
    """

    def __init__(self, score: NDArray[np.float64], ordered: NDArray[np.float64]) -> None:
        self.score = score
        self.ordered = ordered

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """The p-values as counts."""
        counts = np.empty(len(self.score), dtype=np.int64)
        count_at_most(levels_of(self.ordered), self.score, counts)
        return counts

    def inside(self, cut: int) -> NDArray[np.bool_]:
        """Tell whose count is above `cut`: who reaches the calibration score of that rank.

        Of the l calibration scores so many are not above a score as it reaches in order, and the
        count is one more: so it is above `cut` if the score reaches the `cut`-th.
        """
        if cut <= 0:
            return np.ones(len(self.score), dtype=bool)
        if cut > len(self.ordered):
            return np.zeros(len(self.score), dtype=bool)
        return self.score >= self.ordered[cut - 1]
