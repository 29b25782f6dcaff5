"""Item-level calibrations on a user's own items: the paper's method and its predecessors."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeAlias

import numpy as np

from surerec._words import counted
from surerec.calibration._calibration import (
    BestOfMany,
    Calibration,
    ItemAssessment,
    cannot_have_seen,
    seen_before,
)
from surerec.calibration._guarantee import Guarantee, level_of
from surerec.calibration.kernels import find_best, uniforms
from surerec.conformal import TOLERANCE, left_out_up_to, smoothed_p_values
from surerec.conformal.kernels import counts_among
from surerec.measures import ProfileRows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.calibration._calibration import Assessment
    from surerec.measures import Queries, Query, Scorer
    from surerec.precedence import PrecedenceStatistics

OverLater: TypeAlias = Literal["max", "median"]
"""How an item's p-values over several later items are aggregated."""


def split(
    history: NDArray[np.int64], train_share: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the ⌈share · n⌉ proper training items (at least one) and the calibration items.

    Examples
    --------
    >>> import numpy as np
    >>> split(np.arange(5), 0.5)
    (array([0, 1, 2]), array([3, 4]))
    """
    n_training = training_size(len(history), train_share)
    return history[:n_training], history[n_training:]


def training_size(n_items: int, train_share: float) -> int:
    """Return ⌈share · n⌉, at least one."""
    # Rounded first, as 0.1 · 30 exceeds 3 in floating point.
    return max(1, math.ceil(round(train_share * n_items, 9)))


def compare_with_items(
    scores: NDArray[np.float64],
    calibration: NDArray[np.int64],
    candidates: NDArray[np.int64],
    *,
    uniform: NDArray[np.float64] | None = None,
    **fields: Any,
) -> ItemAssessment:
    """Return the candidates' p-values among the calibration items.

    Parameters
    ----------
    scores : array of float
        Scores of all items, given the training items.
    calibration, candidates : array of int
        Item codes.
    uniform : array of float, optional
        A random number in (0, 1] for each candidate, which breaks its ties.
    **fields
        Other fields of the assessment.

    Examples
    --------
    >>> scores = np.array([0.5, 0.23, 0.3, 0.3, 0.1])
    >>> compare_with_items(scores, np.array([1, 2]), np.array([3, 4])).p_values.round(3).tolist()
    [1.0, 0.333]
    """
    new, known = scores[candidates], np.sort(scores[calibration])
    return ItemAssessment(
        candidates=candidates,
        score=new,
        n_calibration=len(calibration),
        counts=counts_among(known, new),
        levels=len(calibration) + 1,
        smoothed=None if uniform is None else smoothed_p_values(known, new, uniform),
        **{"shown": new.__getitem__, "popularity": np.arange(len(scores)), **fields},
    )


@dataclass(frozen=True)
class SplitCalibration(Calibration):
    """Splits a history in time order into training and calibration items.

    Parameters
    ----------
    train_share : float
        The share of the history that is training.
    """

    features = frozenset({"confidence", "levels"})
    based_on: ClassVar[str]
    """The name of the items that p-values are based on."""

    train_share: float = 0.5

    @property
    def note(self) -> str:
        """What a guarantee depends on, as a sentence."""
        return ""

    def splitting(self, train_share: float) -> Self:
        """Return the calibration that splits a history elsewhere."""
        return replace(self, train_share=train_share)

    def scored(self, query: Query) -> Query:
        """Return the training items."""
        return query.first(training_size(len(query.history), self.train_share))

    def guarantee(self, significance: float, assessment: Assessment | None = None) -> Guarantee:
        """Return what the confidence guarantees, to one user or to all covered users."""
        n = None if assessment is None else assessment.n_calibration
        known = f"{self.based_on} items" if n is None else counted(n, f"{self.based_on} items")
        return Guarantee(
            kind="item",
            level=level_of(significance),
            claim=(
                "An item new to the user that they consume next is left out with probability at "
                f"most {100 * significance:.4g}%"
            ),
            horizon="the next items new to the user",
            n_calibration=n,
            covers="each user",
            assumptions=(
                f"Assumes that the user's {known} and future items are exchangeable.",
                self.note,
            ),
        )


@dataclass(frozen=True)
class ItemCalibration(SplitCalibration):
    """The inductive method, which compares candidates' scores with those of calibration items.

    Parameters
    ----------
    train_share : float
        The share of the history that candidates are scored by.
    smoothed : bool
        Whether ties in p-values are broken at random.
    random_state : int
        Seed of these random numbers, which depend on user and item alone.
    """

    compares_scores = True
    based_on = "calibration"
    note = "Drift of the user's taste weakens it."

    smoothed: bool = False
    random_state: int = 0

    def headline(self, confidence: float) -> str:
        """Return a short description of the guarantee."""
        contains = f"contains each new item a user consumes next with probability {confidence:.0%}"
        return f"{contains}, if tastes do not drift"

    def assess(
        self,
        scorer: Scorer,
        statistics: PrecedenceStatistics,
        query: Query,
        candidates: NDArray[np.int64],
    ) -> ItemAssessment:
        """Return every candidate's p-value among the calibration items."""
        history = query.history
        n_training = training_size(len(history), self.train_share)
        scores, uniform = scorer.score_query(query.first(n_training)), None
        if self.smoothed:
            uniform = uniforms(np.uint64(self.random_state), _key(query), candidates)
        n_users = max(statistics.n_users - len(query.users), 1)
        return compare_with_items(
            scores,
            history[n_training:],
            candidates,
            uniform=uniform,
            shown=scorer.value(scores[candidates], n_training, n_users).__getitem__,
            popularity=statistics.popularity,
            gap=seen_before(scorer, query),
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
        """Return the k best items of many users by one kernel call, if the scorer has a plan."""
        plan = scorer.plan
        if k is None or self.smoothed or plan is None or _hides(statistics, queries):
            return None
        lengths = queries.stops - queries.starts
        n_training = np.array([training_size(n, self.train_share) for n in lengths])
        levels = lengths - n_training + 1
        thresholds = left_out_up_to(significance, levels) if in_set else np.zeros_like(levels)
        by_popularity = np.argsort(statistics.popularity)
        if np.array_equal(by_popularity, np.arange(statistics.n_items)):
            by_popularity = by_popularity[:0]  # the order of the codes
        interactions, users = statistics.interactions, np.maximum(queries.users, -1)
        own = interactions.offsets[np.maximum(users, 0)], interactions.offsets[users + 1]
        shape = len(queries), min(k, statistics.n_items)
        items, counts, scores = np.empty(shape, int), np.empty(shape, int), np.empty(shape)
        n_found = find_best(
            plan,
            queries.items,
            np.column_stack((queries.starts, queries.stops, n_training, *own, thresholds)),
            interactions.item_codes,
            interactions.times,
            by_popularity,
            items,
            counts,
            scores,
        )
        inside = np.arange(shape[1]) < n_found[:, None]
        owners, places = np.nonzero(inside)
        items, counts, scores = items[inside], counts[inside], scores[inside]
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
            ranks=places + 1,
            scores=values,
            p_values=counts / levels,
            entry_confidences=(levels - counts) / levels,
            covered=covered,
        )


def _key(query: Query) -> NDArray[np.int64]:
    """Return the user's code as a key; the history for an unknown user."""
    return np.array([-1 - query.users[0]]) if query.users else query.history


def _hides(statistics: PrecedenceStatistics, queries: Queries) -> bool:
    """Return whether some items outside a history have no other users, and are no candidates."""
    if len(statistics.unknown_without(())):
        return True
    if queries.items is statistics.interactions.item_codes:
        return False  # users with their whole profiles
    found = (queries[place] for place in np.flatnonzero(queries.users >= 0).tolist())
    return any(
        len(np.setdiff1d(statistics.unknown_without(query.users), query.history)) for query in found
    )


@dataclass(frozen=True, kw_only=True)
class TransductiveCalibration(SplitCalibration):
    """The transductive method, which compares precedence counts with each later item, not scores.

    Parameters
    ----------
    aggregate : {"max", "median"}
        CRS-max or CRS-med.
    literal : bool
        Use the paper's product literally, with its zeros.
    plain : bool
        Compare every pair instead of searching.
    train_share : float
        The share of the history that is training.
    """

    based_on = "training"
    reasons = MappingProxyType(
        {
            "groups": (
                "TransductiveConformal has no sets for groups, as its p-values are not proven "
                "valid and cannot be merged. Use InductiveConformal or PopulationConformal."
            )
        }
    )

    aggregate: OverLater
    literal: bool
    plain: bool

    @property
    def note(self) -> str:
        """The step that lacks a proof, as a sentence."""
        return f"Validity of the {self.aggregate} over later items is not proven."

    def headline(self, confidence: float) -> str:
        """Return a short description of the guarantee."""
        return (
            f"contains each new item a user consumes next with probability {confidence:.0%} "
            "(older method, not proven)"
        )

    def assess(
        self,
        scorer: Scorer,  # noqa: ARG002  # it compares counts
        statistics: PrecedenceStatistics,
        query: Query,
        candidates: NDArray[np.int64],
    ) -> ItemAssessment:
        """Return every candidate's p-value over the later items."""
        training, later = split(query.history, self.train_share)
        rows = ProfileRows(statistics, later, query.user)
        ranks = ranks_by_later_item(
            rows, training, candidates, literal=self.literal, plain=self.plain
        )
        n_levels = len(training) + 1
        mean = (ranks.mean(axis=0) + 1) / n_levels if len(ranks) else np.ones(len(candidates))
        return ItemAssessment(
            candidates=candidates,
            score=mean,
            shown=mean.__getitem__,
            popularity=statistics.popularity,
            n_calibration=len(training) if len(ranks) else 0,
            counts=p_counts_in_halves(ranks, len(training), self.aggregate),
            levels=2 * n_levels,
            rises_with_score=False,
        )


def ranks_by_later_item(
    rows: ProfileRows,
    training: NDArray[np.int64],
    candidates: NDArray[np.int64],
    *,
    literal: bool = False,
    plain: bool = False,
) -> NDArray[np.int32]:
    """Count, for each later item and candidate, the training items that conform no better.

    Parameters
    ----------
    rows : ProfileRows
        Rows of the later items. Items without other users have no row in the result.
    training, candidates : array of int
        Item codes.
    literal : bool, default=False
        Use the paper's product literally: with a zero in it, no training item conforms better.
    plain : bool, default=False
        Compare every pair instead of searching.
    """
    if not len(rows.history):
        return np.empty((0, len(candidates)), dtype=np.int32)
    thresholds = rows.columns("predecessors", training)
    counts = rows.columns("predecessors", candidates)
    ranks = np.empty(counts.shape, dtype=np.int32)
    for k in range(len(ranks)):
        if literal and thresholds[k].min() == 0:
            ranks[k] = len(training)
        elif plain:
            ranks[k] = (thresholds[k][:, None] <= counts[k]).sum(axis=0)
        else:
            # Number of thresholds not above each count, up to the largest threshold.
            not_above = np.bincount(thresholds[k]).cumsum(dtype=np.int32)
            not_above.take(counts[k], out=ranks[k], mode="clip")
    informed: NDArray[np.int32] = ranks[rows.support > 0]
    return informed


def p_counts_in_halves(
    ranks: NDArray[np.int32], n_training: int, aggregate: OverLater
) -> NDArray[np.int64]:
    """Return the p-values, aggregated over the later items, as doubled counts.

    Doubling keeps a median between two counts a whole number. Without ranks every p-value is 1.
    """
    doubled = np.full(ranks.shape[1], 2 * n_training, dtype=np.int64)
    if len(ranks) and aggregate == "max":
        doubled[:] = 2 * ranks.max(axis=0)
    elif len(ranks):
        middle = [(len(ranks) - 1) // 2, len(ranks) // 2]
        doubled[:] = np.sort(ranks, axis=0)[middle].sum(axis=0)
    doubled += 2
    return doubled
