"""Learned thresholds: an item's share of what its user is expected to consume.

Scores of most models do not compare between users, but probabilities do. A regression on the users
who choose the scale turns share, rank and history length into the probability of an item. Divided
by the user's sum it is the item's part of the expected consumption, and a threshold on it loses
least recall for its set size. These users do not calibrate the threshold.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from surerec._progress import stage
from surerec.calibration._calibration_users import CalibrationUsers
from surerec.calibration._guarantee import level_of
from surerec.calibration._probabilities import COMPARED, FEWEST_USERS, ItemProbabilities, choose
from surerec.calibration._ranking import observe, share_terms, shares_of
from surerec.calibration._regressions import ItemCurve
from surerec.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.calibration._calibration_users import NamedItems
    from surerec.calibration._guarantee import GuaranteeKind, ThresholdChoice
    from surerec.calibration._held_out import Cases
    from surerec.calibration._probabilities import Choice
    from surerec.calibration._ranking import Outcomes, Ranking
    from surerec.measures import Scorer
    from surerec.precedence import PrecedenceStatistics


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


@stage("calibration")
def calibrate(
    scorer: Scorer,
    past: PrecedenceStatistics,
    cases: Cases,
    threshold: ThresholdChoice | None,
    statistics: PrecedenceStatistics,
    *,
    guarantee: GuaranteeKind,
    listed: NamedItems | None = None,
    random_state: int = 0,
) -> tuple[CalibrationUsers, ItemProbabilities | None]:
    """Return the calibration users and their probabilities; None for these with too few users.

    Parameters
    ----------
    scorer : Scorer
        Scores the items.
    past : PrecedenceStatistics
        Statistics before the held-out interactions.
    cases : Cases
        The calibration users' histories and held-out interactions.
    threshold : {"rank", "score", "learned"} or None
        Unit of the thresholds; see :func:`entries_of`.
    statistics : PrecedenceStatistics
        Statistics of the served model, which define the codes of users.
    guarantee : GuaranteeKind
        The guarantee, by which rank and learned thresholds are compared.
    listed : NamedItems, optional
        The only candidates, by their codes in `past`.
    random_state : int, default=0
        Seed of the random choice of users who choose the scale.
    """
    allowed = None if listed is None else listed.codes
    choice = choose(scorer, past, cases, allowed=allowed, random_state=random_state)
    bins = None if choice is None else choice.bins
    doing = "Scoring calibration users"
    outcomes = observe(scorer, past, cases, bins=bins, allowed=allowed, doing=doing)
    if listed is not None and not len(outcomes):
        raise InputError(
            f"No calibration user consumed an item of the list {listed.name!r} next, so it has no "
            "guarantee. Pass a longer list."
        )
    entries, probabilities = entries_of(outcomes, choice, threshold, guarantee)
    return CalibrationUsers.of(outcomes, entries, statistics), probabilities


def entries_of(
    outcomes: Outcomes,
    choice: Choice | None,
    threshold: ThresholdChoice | None,
    guarantee: GuaranteeKind,
) -> tuple[NDArray[np.float64], ItemProbabilities | None]:
    """Return the thresholds at which held-out items enter, and the probabilities of items.

    Without a threshold unit, rank and learned thresholds are compared, and the one with the smaller
    sets is used.
    """
    probabilities = None
    if choice is not None and len(outcomes) >= FEWEST_USERS:
        found = ItemProbabilities.of(outcomes, choice)
        probabilities = None if found.chooses.all() or not found.chooses.any() else found
    if threshold in {None, "learned"} and probabilities is not None and not guarantee.tested:
        sizes = LearnedThreshold(probabilities).compare(outcomes, guarantee)
        probabilities = replace(probabilities, sizes=sizes)
    unit = unit_of(threshold, probabilities)
    if unit == "learned" and probabilities is not None:
        return LearnedThreshold(probabilities).held_out(outcomes), probabilities
    return outcomes.entries("score" if unit == "score" else "rank"), probabilities


def unit_of(
    threshold: ThresholdChoice | None, probabilities: ItemProbabilities | None
) -> ThresholdChoice:
    """Return the threshold unit in use; raise InputError if it cannot be learned."""
    if threshold is None:
        return "rank" if probabilities is None else probabilities.unit
    if threshold == "learned" and probabilities is None:
        raise InputError(
            f'threshold="learned" needs at least {FEWEST_USERS} calibration users. Pass more '
            'users, or threshold="rank".'
        )
    return threshold
