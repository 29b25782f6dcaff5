"""The transductive ancestors, CRS-max and CRS-med."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from surerec.errors import InputError
from surerec.measures._aggregates import ProfileRows
from surerec.recommenders._base import Recommender
from surerec.recommenders._kernels import middle_sums, rank_among, rank_by_comparing
from surerec.recommenders._sets import Assessment
from surerec.recommenders._split import check_share, split

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.recommenders._query import Query

__all__ = ["TransductiveConformal", "p_counts_in_halves", "ranks_by_later_item"]


class TransductiveConformal(Recommender):
    """Recommendation sets by the conformal recommender system (paper, section 4).

    For each later item c of the known profile, ``p(o, c)`` is the share of the training items,
    candidate o included, whose precedence probability ``PC(·, c) / Sup(c)`` is not above that of o
    (notes 9). The p-value of o is the maximum or the median over the later items.

    Parameters
    ----------
    aggregate : {"max", "median"}, default="max"
        CRS-max or CRS-med.
    zeros : {"exact", "product"}, default="exact"
        With "product" the paper's product is taken literally: a training item that never precedes
        c makes every product 0 and every ``p(o, c)`` 1.
    train_share : float, default=0.5
        The share of the known profile that is training.
    search : {"sorted", "plain"}, default="sorted"
        Count by a sorted search, or compare every training item with every candidate for every
        later item, as the paper's O(n_c · l · m) does: the same numbers, slower.

    Examples
    --------
    >>> import surerec as sr
    >>> films = sr.datasets.synthetic(n_users=200, n_items=60, n_rows=4000, seed=1)
    >>> model = sr.TransductiveConformal(aggregate="median").fit(films)
    >>> model.recommend(user=7, confidence=0.7).confidence
    0.7
    """

    def __init__(
        self,
        aggregate: Literal["max", "median"] = "max",
        *,
        zeros: Literal["exact", "product"] = "exact",
        train_share: float = 0.5,
        search: Literal["sorted", "plain"] = "sorted",
    ) -> None:
        self.aggregate = aggregate
        self.zeros = zeros
        self.train_share = train_share
        self.search = search

    def default_name(self) -> str:
        """Give the paper's name for it."""
        return "crs-max" if self.aggregate == "max" else "crs-med"

    def _validate(self) -> None:
        if self.aggregate not in ("max", "median"):
            raise InputError(f"aggregate is {self.aggregate!r}; choose max or median.")
        if self.zeros not in ("exact", "product"):
            raise InputError(f"zeros is {self.zeros!r}; choose exact or product.")
        if self.search not in ("sorted", "plain"):
            raise InputError(f"search is {self.search!r}; choose sorted or plain.")
        check_share(self.train_share)

    def _training(self, query: Query) -> NDArray[np.int64]:
        return split(query.history, self.train_share)[0]

    def _assess(self, query: Query, candidates: NDArray[np.int64]) -> Assessment:
        training, later = split(query.history, self.train_share)
        rows = ProfileRows(self.statistics_, later, query.user)
        how = {"literal": self.zeros == "product", "plain": self.search == "plain"}
        ranks = ranks_by_later_item(rows, training, candidates, **how)
        n_levels = len(training) + 1
        mean = (ranks.mean(axis=0) + 1) / n_levels if len(ranks) else np.ones(len(candidates))
        return Assessment(
            candidates,
            score=mean,
            shown=mean.__getitem__,
            counts=p_counts_in_halves(ranks, len(training), self.aggregate),
            levels=2 * n_levels,
            n_calibration=len(training) if len(ranks) else 0,
        )

    def _promise(self, significance: float, assessment: Assessment) -> str:
        n = assessment.n_calibration
        training = f"{n} training item{'' if n == 1 else 's'}"
        return (
            f"An item that this person will take is left out with probability at most "
            f"{significance:.4g}, if the {training} and what they take next "
            f"are exchangeable; taking the {self.aggregate} over later items is not proven to "
            f"keep that."
        )


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
    rank = rank_by_comparing if plain else rank_among
    for k in range(len(ranks)):
        if literal and thresholds[k, 0] == 0:
            ranks[k] = len(training)
        else:
            rank(thresholds[k], counts[k], ranks[k])
    informed: NDArray[np.int32] = ranks[rows.support > 0]
    return informed


def p_counts_in_halves(
    ranks: NDArray[np.int32], n_training: int, aggregate: Literal["max", "median"]
) -> NDArray[np.int64]:
    """Aggregate the p-values over the later items, as twice their counts.

    Doubled, so that a median between two p-values is a whole number as well. Where nothing is known
    of any later item nothing can be left out, and every p-value is 1.
    """
    doubled = np.full(ranks.shape[1], 2 * n_training, dtype=np.int64)
    if len(ranks) and aggregate == "max":
        doubled[:] = 2 * ranks.max(axis=0)
    elif len(ranks):
        middle_sums(ranks, doubled)
    doubled += 2
    return doubled
