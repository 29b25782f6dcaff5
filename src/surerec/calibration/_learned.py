"""Learned thresholds: an item's share of what its user is expected to consume.

Scores of most models do not compare between users, but probabilities do. A regression on the users
who choose the scale turns share, rank and history length into the probability of an item. Divided
by the user's sum it is the item's part of the expected consumption, and a threshold on it loses
least recall for its set size. These users do not calibrate the threshold.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from surerec.calibration._guarantee import level_of
from surerec.calibration._ranking import share_terms, shares_of
from surerec.calibration._regressions import ItemCurve

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.calibration._guarantee import GuaranteeKind
    from surerec.calibration._probabilities import ItemProbabilities
    from surerec.calibration._ranking import Outcomes, Ranking

COMPARED: Final = (0.1, 0.2, 0.3, 0.5)
"""The ε at which set sizes by rank and by learned threshold are compared."""


@dataclass(frozen=True, eq=False)
class LearnedThreshold:
    """Turns a ranking into shares of the expected consumption.

    Parameters
    ----------
    probabilities : ItemProbabilities
        The calibration users' candidates by bin; those who chose the bins learn the threshold.
    """

    probabilities: ItemProbabilities

    @cached_property
    def _choosing(self) -> NDArray[np.intp]:
        return np.flatnonzero(self.probabilities.chooses)

    @cached_property
    def _curve(self) -> ItemCurve:
        of, some = self.probabilities, self._choosing
        return ItemCurve(of.bins, of.counts[some], of.hits[some], of.n_known[some])

    def swayed(self, place: int) -> bool:
        """Return whether a calibration user's own outcomes decided the bins."""
        return bool(self.probabilities.swayed[place])

    def entries(
        self, ranking: Ranking, n_known: int, place: int | None = None
    ) -> NDArray[np.float64]:
        """Return the threshold at which each item enters, best first.

        Parameters
        ----------
        ranking : Ranking
            The candidates of a user.
        n_known : int
            The length of the history.
        place : int, optional
            The user's place among the calibration users, so that their own outcomes have no effect.
        """
        return self._entries(self.probabilities.bins.of(ranking.shares, n_known), n_known, place)

    def _entries(
        self, bins: NDArray[np.int64], n_known: int, place: int | None
    ) -> NDArray[np.float64]:
        without = None
        if place is not None and self.probabilities.chooses[place]:
            without = int(np.searchsorted(self._choosing, place))
        ranks = np.arange(1, len(bins) + 1)
        rates = self._curve.rates(bins, ranks, n_known, without=without)
        return -shares_of(rates, share_terms(rates), ranks, max(len(bins), 1))

    def _entries_at(self, place: int) -> NDArray[np.float64]:
        """Return the entries of a calibration user's candidates, whose bins fall down the list."""
        of = self.probabilities
        bins = np.repeat(np.arange(of.bins.n), of.counts[place])[::-1]
        return self._entries(bins, int(of.n_known[place]), place)

    def held_out(self, outcomes: Outcomes) -> NDArray[np.float64]:
        """Return the thresholds at which calibration users' held-out items enter."""
        found = np.full(len(outcomes.ranks), np.inf)
        known = np.flatnonzero(np.isfinite(outcomes.ranks))
        ends = np.searchsorted(outcomes.owners[known], np.arange(len(outcomes) + 1))
        for place in range(len(outcomes)):
            mine = known[ends[place] : ends[place + 1]]
            found[mine] = self._entries_at(place)[outcomes.ranks[mine].astype(np.int64) - 1]
        return found

    def compare(self, outcomes: Outcomes, guarantee: GuaranteeKind) -> NDArray[np.float64]:
        """Return the mean set sizes by rank and by learned threshold, 2 × 4, at equal risk.

        They are those of the users who choose, each with a regression on others.
        """
        n_candidates = outcomes.n_candidates[self._choosing].tolist()
        candidates = (
            (np.arange(1.0, n + 1) for n in n_candidates),
            map(self._entries_at, self._choosing.tolist()),
        )
        found = np.empty((2, len(COMPARED)))
        for row, held_out in enumerate((outcomes.ranks, self.held_out(outcomes))):
            curve = guarantee.curve(held_out, outcomes.owners, len(outcomes))
            curve = curve.of_owners(self.probabilities.chooses)
            at = np.array([curve.threshold(epsilon) for epsilon in COMPARED])
            sizes = [np.searchsorted(each, at, side="right") for each in candidates[row]]
            found[row] = np.mean(sizes, axis=0)
        return found


def sizes_by_unit(probabilities: ItemProbabilities | None) -> dict[str, dict[float, float]]:
    """Return the mean set sizes by threshold unit and confidence; empty if not compared."""
    if probabilities is None or not probabilities.sizes.any():
        return {}
    levels = [level_of(epsilon) for epsilon in COMPARED]
    rows = zip(("rank", "learned"), probabilities.sizes.tolist(), strict=True)
    return {unit: dict(zip(levels, sizes, strict=True)) for unit, sizes in rows}
