"""Calibration by a person's own items: the paper's p-values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from surerec.calibration._assessment import ItemAssessment, LaterAssessment
from surerec.calibration._batch import best_of_people
from surerec.calibration._calibration import (
    BestOfMany,
    Calibration,
    cannot_have_seen,
    seen_before,
)
from surerec.calibration._evidence import RoughScores, Scores
from surerec.calibration._fused import pick_scores, score_exactly
from surerec.calibration._guarantee import item_guarantee
from surerec.calibration._kernels import uniforms
from surerec.calibration._rough import has_rough_scores, is_known
from surerec.calibration._split import training_size
from surerec.conformal import TOLERANCE, left_out_up_to, smoothed_p_values
from surerec.conformal.kernels import judge
from surerec.measures.kernels import pays

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.calibration._assessment import Assessment
    from surerec.calibration._evidence import Evidence
    from surerec.calibration._guarantee import Guarantee
    from surerec.measures import Queries, Query, Scorer
    from surerec.measures.kernels import ScoringPlan
    from surerec.precedence import PrecedenceStatistics


def compare_with_items(
    scores: NDArray[np.float64],
    calibration: NDArray[np.int64],
    candidates: NDArray[np.int64],
    *,
    popularity: NDArray[np.int64] | None = None,
    chances: NDArray[np.float64] | None = None,
) -> ItemAssessment:
    """Give the candidates' p-values among the calibration items: the one plain way to them.

    Parameters
    ----------
    scores : array of float
        Of every item, by what was known before the calibration items.
    calibration, candidates : array of int
        Item codes.
    popularity : array of int, optional
        The place of every item by popularity; by default that of the codes.
    chances : array of float, optional
        For each candidate a random number in (0, 1], to break its ties by.

    Examples
    --------
    >>> scores = np.array([0.5, 0.23, 0.3, 0.3, 0.1])
    >>> compare_with_items(scores, np.array([1, 2]), np.array([3, 4])).p_values.round(3).tolist()
    [1.0, 0.333]
    """
    new, counts, smoothed = _judge(scores, calibration, candidates, chances)
    return ItemAssessment(
        candidates=candidates,
        score=new,
        shown=new.__getitem__,
        popularity=np.arange(len(scores)) if popularity is None else popularity,
        n_calibration=len(calibration),
        counts=counts,
        levels=len(calibration) + 1,
        smoothed=smoothed,
    )


def _judge(
    scores: NDArray[np.float64],
    calibration: NDArray[np.int64],
    candidates: NDArray[np.int64],
    chances: NDArray[np.float64] | None,
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64] | None]:
    """Give the candidates' scores, their p-values as counts, and with ties broken at random."""
    new, counts = np.empty(len(candidates)), np.empty(len(candidates), dtype=np.int64)
    judge(scores, calibration, candidates, new, counts)
    smoothed = None if chances is None else smoothed_p_values(scores[calibration], new, chances)
    return new, counts, smoothed


@dataclass(frozen=True)
class ItemCalibration(Calibration):
    """The known profile is split in time order: scored by its beginning, calibrated by the rest.

    Parameters
    ----------
    train_share : float
        The share of the known profile that candidates are scored by.
    smoothed : bool
        Break ties in p-values at random.
    seed : int
        Of the random numbers for that: the same for the same person and item, always.
    """

    features = frozenset({"confidence", "levels"})
    compares_scores = True

    train_share: float = 0.5
    smoothed: bool = False
    seed: int = 0

    def headline(self, confidence: float) -> str:
        """Return what is guaranteed in a few words."""
        return (
            f"keeps {confidence:.0%} of items new to the user that they will consume, if their "
            "taste stands still"
        )

    def splitting(self, train_share: float) -> ItemCalibration:
        """Return the calibration that splits a history elsewhere."""
        return replace(self, train_share=train_share)

    def scored(self, query: Query) -> Query:
        """Give the proper training items."""
        return query.first(training_size(len(query.history), self.train_share))

    def assess(
        self,
        scorer: Scorer,
        statistics: PrecedenceStatistics,
        query: Query,
        candidates: NDArray[np.int64],
    ) -> ItemAssessment:
        """Give every candidate's p-value among the calibration items."""
        n_training = training_size(len(query.history), self.train_share)
        n_users = max(statistics.n_users - len(query.users), 1)
        n_calibration = len(query.history) - n_training
        evidence = None
        if not self.smoothed and len(query.users) <= 1:
            evidence = _evidence(scorer, statistics, query, n_training, candidates)
        if evidence is not None:
            return LaterAssessment(
                evidence,
                candidates=candidates,
                value=lambda scores: scorer.value(scores, n_training, n_users),
                popularity=statistics.popularity,
                n_calibration=n_calibration,
                gap=seen_before(scorer, query),
            )
        chances = None
        if self.smoothed:
            chances = uniforms(np.uint64(self.seed), _key(query), candidates)
        scores = scorer.score_query(query.first(n_training))
        new, counts, smoothed = _judge(scores, query.history[n_training:], candidates, chances)
        return ItemAssessment(
            candidates=candidates,
            score=new,
            shown=lambda order: scorer.value(new[order], n_training, n_users),
            popularity=statistics.popularity,
            n_calibration=n_calibration,
            gap=seen_before(scorer, query),
            counts=counts,
            levels=n_calibration + 1,
            smoothed=smoothed,
        )

    def best_of_many(
        self,
        scorer: Scorer,
        statistics: PrecedenceStatistics,
        queries: Queries,
        significance: float,
        k: int | None,
        in_set: bool = True,  # noqa: FBT001, FBT002
    ) -> BestOfMany | None:
        """Give the k best of many people in one call of a kernel, if the scorer has a plan."""
        plan = scorer.plan
        if k is None or self.smoothed or plan is None or _hides(statistics, queries):
            return None
        lengths = queries.stops - queries.starts
        n_training = np.array([training_size(n, self.train_share) for n in lengths])
        levels = lengths - n_training + 1
        owners, items, counts, scores, ranks = best_of_people(
            plan,
            statistics,
            queries,
            n_training,
            left_out_up_to(significance, levels) if in_set else np.zeros_like(levels),
            min(k, statistics.n_items),
        )
        supported = significance + TOLERANCE >= 1 / levels
        covered = cannot_have_seen(scorer, queries.users) & supported
        levels, there = levels[owners], queries.users[owners] >= 0
        values = np.empty(len(scores))
        for some, n_others in ((there, statistics.n_users - 1), (~there, statistics.n_users)):
            n_known = n_training[owners[some]]
            values[some] = scorer.value(scores[some], n_known, max(n_others, 1))
        return BestOfMany(
            owners=owners,
            items=items,
            ranks=ranks,
            scores=values,
            p_values=counts / levels,
            entry_confidences=(levels - counts) / levels,
            covered=covered,
        )

    def guarantee(self, significance: float, assessment: Assessment | None = None) -> Guarantee:
        """Return what the confidence guarantees, to a user or to every covered one."""
        note = "It holds less well the more tastes drift."
        return item_guarantee(significance, assessment, "calibration", note)


def _evidence(
    scorer: Scorer,
    statistics: PrecedenceStatistics,
    query: Query,
    n_training: int,
    candidates: NDArray[np.int64],
) -> Evidence | None:
    """Give what the p-values of one person are found from; None where only scores can tell."""
    history, training = query.history, query.history[:n_training]
    plan = scorer.plan_of(training)
    if plan is None:
        return None
    own, times = statistics.taken_by(query.user)

    def again() -> ScoringPlan:
        found = scorer.plan_of(training)
        assert found is not None  # noqa: S101  # as it was before
        return found

    def exactly() -> Scores:
        whole = scorer.plan
        if whole is not None and pays(whole, n_training):
            return Scores(*score_exactly(whole, history, n_training, own, times, candidates))
        scores = scorer.score_query(query.first(n_training))  # on all cores
        return Scores(*pick_scores(scores, history[n_training:], candidates))

    if has_rough_scores(plan) and is_known(own, history):
        return RoughScores(plan, again, history, n_training, (own, times), candidates, exactly)
    return exactly()


def _key(query: Query) -> NDArray[np.int64]:
    """Identify the person: a user by code, anybody else by their history."""
    return np.array([-1 - query.users[0]]) if query.users else query.history


def _hides(statistics: PrecedenceStatistics, queries: Queries) -> bool:
    """Return whether some items outside a history are no candidates, as nobody else knows them."""
    if len(statistics.unknown_without(())):
        return True
    if queries.items is statistics.interactions.items_taken:
        return False  # users with their whole profiles
    found = (queries[place] for place in np.flatnonzero(queries.users >= 0).tolist())
    return any(
        len(np.setdiff1d(statistics.unknown_without(query.users), query.history)) for query in found
    )
