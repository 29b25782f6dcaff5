"""What p-values are found from, once somebody looks at them."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np

from surerec.calibration._rough import (
    are_few,
    count_sure,
    count_unsure,
    exact_ratios,
    score_on_all_cores,
    score_roughly,
)
from surerec.conformal.kernels import counts_among
from surerec.measures.kernels import ROUGH

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from surerec.measures.kernels import ScoringPlan


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
        return counts_among(self.ordered, self.score)

    def inside(self, cut: int) -> NDArray[np.bool_]:
        """Tell whose count is above `cut`: who reaches the calibration score of that rank.

        Of the l calibration scores so many are not above a score as it reaches in order, and the
        count is one more: so it is above `cut` if the score reaches the `cut`-th.
        """
        return self.score >= _border(self.ordered, cut)


def _border(ordered: NDArray[np.float64], cut: int) -> float:
    if cut <= 0:
        return -np.inf
    return float(ordered[cut - 1]) if cut <= len(ordered) else np.nan  # which nothing reaches


class RoughScores:
    """Means of ratios, of which rough ones tell most p-values; see `_rough.py`.

    Parameters
    ----------
    plan : ScoringPlan
        Of a mean of ratios over rows of 16-bit matrices.
    again : callable
        Gives the same plan again. It is held until p-values or a set are first asked for: where
        rows were counted for it, their room is kept from others as long.
    history : array of int
        What is known of the person.
    n_training : int
        How much of it scores items.
    left_out : (items, times)
        What the person has in the counts: the history, or nothing.
    candidates : array of int
        Items outside the history.
    exactly : callable
        Gives the exact scores of all candidates, and the calibration scores in order.
    """

    def __init__(
        self,
        plan: ScoringPlan,
        again: Callable[[], ScoringPlan],
        history: NDArray[np.int64],
        n_training: int,
        left_out: tuple[NDArray[np.uint32], NDArray[np.int64]],
        candidates: NDArray[np.int64],
        exactly: Callable[[], Scores],
    ) -> None:
        self._candidates = candidates
        self._exactly = exactly
        self._again = again
        self._rows = history[:n_training], *left_out
        score = score_on_all_cores if len(plan.forward.places) else score_roughly
        self._rough, self._ordered, is_outside = score(
            plan, history, n_training, *left_out, candidates
        )
        self._plan: ScoringPlan | None = plan if is_outside else None
        if not is_outside:
            self.__dict__["_exact"] = exactly()

    @cached_property
    def _exact(self) -> Scores:
        return self._exactly()

    @property
    def score(self) -> NDArray[np.float64]:
        """The candidates' scores."""
        return self._exact.score

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """The p-values as counts."""
        if "_exact" in self.__dict__:
            return self._exact.counts
        plan, self._plan = self._plan, None
        counts, n_unsure = count_sure(self._rough, self._ordered)
        if not are_few(n_unsure, len(counts)):
            return self._exact.counts
        if n_unsure:
            plan = plan or self._again()
            count_unsure(plan, *self._rows, self._candidates, self._ordered, counts)
        return counts

    def inside(self, cut: int) -> NDArray[np.bool_]:
        """Tell whose count is above `cut`; see :meth:`Scores.inside`."""
        if "_exact" in self.__dict__:
            return self._exact.inside(cut)
        (plan, self._plan), border = (self._plan, None), _border(self._ordered, cut)
        found = self._rough >= border * (1 + ROUGH)
        unsure = np.flatnonzero((self._rough >= border * (1 - ROUGH)) & ~found)
        if not are_few(len(unsure), len(found)):
            return self._exact.inside(cut)
        if len(unsure):
            exact = exact_ratios(plan or self._again(), *self._rows, self._candidates[unsure])
            found[unsure] = exact >= border
        return found
