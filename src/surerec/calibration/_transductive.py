"""The calibration of the transductive ancestors, CRS-max and CRS-med."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from surerec.calibration._assessment import ItemAssessment
from surerec.calibration._calibration import Calibration
from surerec.calibration._guarantee import item_guarantee
from surerec.calibration._items import split, training_size
from surerec.calibration.kernels import rank_among
from surerec.measures import ProfileRows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.calibration._assessment import Assessment
    from surerec.calibration._guarantee import Guarantee
    from surerec.measures import Query, Scorer
    from surerec.precedence import PrecedenceStatistics

OverLater: TypeAlias = Literal["max", "median"]
"""How the p-values of one item for several later ones are made one."""


@dataclass(frozen=True)
class TransductiveCalibration(Calibration):
    """Each later item of the known profile asks anew which candidate precedes it as well.

    It compares precedence counts with each later item, and no scores.

    Parameters
    ----------
    aggregate : {"max", "median"}
        CRS-max or CRS-med.
    literal : bool
        Take the paper's product literally, zeros and all.
    plain : bool
        Compare every pair instead of searching.
    train_share : float
        The share of the known profile that is training.
    """

    features = frozenset({"confidence", "levels"})
    reasons = MappingProxyType(
        {
            "groups": (
                "TransductiveConformal has no sets for groups, as its p-values are not proven "
                "valid and so cannot be merged; InductiveConformal and PopulationConformal have."
            )
        }
    )

    aggregate: OverLater
    literal: bool
    plain: bool
    train_share: float = 0.5

    def headline(self, confidence: float) -> str:
        """Return what is guaranteed in a few words."""
        return (
            f"keeps {confidence:.0%} of items new to the user that they will consume: the older "
            "method, not proven"
        )

    def splitting(self, train_share: float) -> TransductiveCalibration:
        """Return the calibration that splits a history elsewhere."""
        return replace(self, train_share=train_share)

    def scored(self, query: Query) -> Query:
        """Return the training items."""
        return query.first(training_size(len(query.history), self.train_share))

    def assess(
        self,
        scorer: Scorer,  # noqa: ARG002  # counts are compared
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

    def guarantee(self, significance: float, assessment: Assessment | None = None) -> Guarantee:
        """Return what the confidence guarantees, and what is not proven."""
        note = f"Taking the {self.aggregate} over later items is not proven to keep that."
        return item_guarantee(significance, assessment, "training", note)


def ranks_by_later_item(
    rows: ProfileRows,
    training: NDArray[np.int64],
    candidates: NDArray[np.int64],
    *,
    literal: bool = False,
    plain: bool = False,
) -> NDArray[np.int32]:
    """Count for each later item and candidate the training items that conform no better.

    Parameters
    ----------
    rows : ProfileRows
        Of the later items. One that nobody else took says nothing, and has no row in the result.
    training, candidates : array of int
        Item codes.
    literal : bool, default=False
        Take the paper's product literally: with a zero in it, no training item conforms better.
    plain : bool, default=False
        Compare every pair instead of searching.
    """
    if not len(rows.history):
        return np.empty((0, len(candidates)), dtype=np.int32)
    thresholds = np.sort(rows.columns("predecessors", training).matrix, axis=1)
    counts = rows.columns("predecessors", candidates).matrix
    ranks = np.empty(counts.shape, dtype=np.int32)
    for k in range(len(ranks)):
        if literal and thresholds[k, 0] == 0:
            ranks[k] = len(training)
        elif plain:
            ranks[k] = (thresholds[k][:, None] <= counts[k]).sum(axis=0)
        else:
            rank_among(thresholds[k], counts[k], ranks[k])
    informed: NDArray[np.int32] = ranks[rows.support > 0]
    return informed


def p_counts_in_halves(
    ranks: NDArray[np.int32], n_training: int, aggregate: OverLater
) -> NDArray[np.int64]:
    """Aggregate the p-values over the later items, as twice their counts.

    Doubled, so that a median between two p-values is a whole number as well. Where nothing is known
    of any later item nothing can be left out, and every p-value is 1.
    """
    doubled = np.full(ranks.shape[1], 2 * n_training, dtype=np.int64)
    if len(ranks) and aggregate == "max":
        doubled[:] = 2 * ranks.max(axis=0)
    elif len(ranks):
        middle = [(len(ranks) - 1) // 2, len(ranks) // 2]
        doubled[:] = np.partition(ranks, middle, axis=0)[middle].sum(axis=0)
    doubled += 2
    return doubled
