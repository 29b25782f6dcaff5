"""One person's candidates, ranked: by score, then by popularity."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from surerec._ordering import best_first

if TYPE_CHECKING:
    from numpy.typing import NDArray

LIST_MOST: Final = 100
"""The longest list whose hits can be calibrated."""

_FAR_BELOW: Final = 2.0**-100
_LARGEST: Final = float(np.finfo(np.float32).max)  # values of lists are kept so
_TIE: Final = 1e-9  # tells equal shares apart by rank, and is far below any other difference


def share_of_all(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Give each value as a share of their sum, so that they compare between people.

    If the values were the probabilities with which a person takes the items, this would be each
    item's part of what that person is expected to take: cutting there loses least for its size.
    Values below 0 are shifted up first. Where all are alike, so are the shares.

    Examples
    --------
    >>> share_of_all(np.array([3.0, 1.0]))
    array([0.75, 0.25])
    """
    return _shared(values, *share_terms(values))


def share_terms(values: NDArray[np.float64]) -> tuple[float, float, float]:
    """Give what makes shares of all of a person's values: factor, shift and total.

    Each share is ``(factor · value − shift) / total``.

    Examples
    --------
    >>> share_terms(np.array([3.0, 1.0])), share_terms(np.array([0.0, 0.0]))
    ((1.0, 0.0, 4.0), (0.0, -1.0, 2.0))
    """
    factor, lowest = 1.0, float(np.minimum.reduce(values, initial=0.0))
    total = _total(values, lowest)
    if not math.isfinite(total):  # numbers near the largest that there are
        factor, lowest = _FAR_BELOW, lowest * _FAR_BELOW
        total = _total(values * factor, lowest)
    return (factor, lowest, total) if total > 0 else (0.0, -1.0, float(max(len(values), 1)))


def _total(values: NDArray[np.float64], lowest: float) -> float:
    return float(np.add.reduce(values - lowest if lowest < 0 else values))


def _shared(
    values: NDArray[np.float64],
    factor: float | NDArray[np.float64],
    shift: float | NDArray[np.float64],
    total: float | NDArray[np.float64],
) -> NDArray[np.float64]:
    return np.asarray((values * factor - shift) / total)


def shares_by_terms(
    values: NDArray[np.float64],
    terms: NDArray[np.float64],
    ranks: NDArray[np.int64],
    n_candidates: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Give the shares of some of people's items, without ranking all the others.

    As a :class:`Ranking` of all items has them.

    Parameters
    ----------
    values : array of float
        What the scorer says of each item.
    terms : array of float, 3 × n
        For each, what :func:`share_terms` gives for its person.
    ranks, n_candidates : array of int
        For each, its rank, from 1, and among how many.

    Examples
    --------
    >>> terms = np.array([share_terms(np.array([3.0, 1, 4]))] * 2).T
    >>> both = np.array([1, 2]), np.array([3, 3])
    >>> shares_by_terms(np.array([4.0, 3.0]), terms, *both).round(3)
    array([0.5  , 0.375])
    """
    return _shared(values, *terms) + _TIE * (1 - (ranks - 1) / n_candidates)


def _apart(n: int) -> NDArray[np.float64]:
    """Give what tells equal shares apart by rank."""
    return _TIE * (1 - np.arange(n) / max(n, 1))


def place_among(
    item: int,
    candidates: NDArray[np.int64],
    scores: NDArray[np.float64],
    values: NDArray[np.float64],
    popularity: NDArray[np.int64],
) -> tuple[float, float]:
    """Give the rank, from 1, and the share of one candidate, without ranking the others.

    To the last digit as a :class:`Ranking` has them; infinite and 0 if it is no candidate.

    Examples
    --------
    >>> scores, popularity = np.array([5.0, 9, 5, 8]), np.array([2, 1, 0, 3])
    >>> rank, share = place_among(0, np.array([0, 2, 3]), scores, scores, popularity)
    >>> rank, round(share, 2)
    (3.0, 0.28)
    """
    n, at = len(candidates), int(np.searchsorted(candidates, item))
    if at == n or candidates[at] != item:
        return np.inf, 0.0
    found = scores[candidates]
    ahead = int(np.count_nonzero(found > found[at]))
    alike = candidates[found == found[at]]
    ahead += int(np.count_nonzero(popularity[alike] < popularity[item]))
    return ahead + 1.0, float(share_of_all(values[candidates])[at] + _TIE * (1 - ahead / n))


@dataclass(frozen=True)
class Ranking:
    """The candidates of one person, best first.

    Examples
    --------
    >>> scores, popularity = np.array([5.0, 9, 5, 8]), np.array([2, 1, 0, 3])
    >>> found = Ranking.of(np.array([0, 2, 3]), scores, scores, popularity)
    >>> found.items.tolist(), found.shares.round(2).tolist()
    ([3, 2, 0], [0.44, 0.28, 0.28])
    """

    items: NDArray[np.int64]
    """Their codes."""
    values: NDArray[np.float64]
    """What the scorer says of them, in a unit that compares between people."""
    shares: NDArray[np.float64]
    """Each one's share of all, ties told apart by rank: strictly falling."""

    @classmethod
    def of(
        cls,
        candidates: NDArray[np.int64],
        scores: NDArray[np.float64],
        values: NDArray[np.float64],
        popularity: NDArray[np.int64],
    ) -> Ranking:
        """Rank candidates by every item's score, those of equal score by popularity."""
        order = best_first(scores[candidates], popularity[candidates])
        found = values[candidates]
        shares = share_of_all(found)[order] + _apart(len(order))
        return cls(candidates[order], found[order], shares)

    def by_item(self, n_items: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Give every item's rank, from 1, and share; infinite and 0 for those not ranked."""
        ranks, shares = np.full(n_items, np.inf), np.zeros(n_items)
        ranks[self.items] = np.arange(1, len(self.items) + 1)
        shares[self.items] = self.shares
        return ranks, shares

    def places(self, candidates: NDArray[np.int64], n_items: int) -> NDArray[np.int64]:
        """Give where in the ranking some items are; −1 for those not ranked."""
        places = np.full(n_items, -1)
        places[self.items] = np.arange(len(self.items))
        return places[candidates]

    def of_the_best(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Give the mean value of the k best and the sum of their shares, for k up to 100.

        Where there are fewer, what all of them give.
        """
        k = np.minimum(np.arange(1, LIST_MOST + 1), max(len(self.items), 1))
        sums = [np.cumsum(some[:LIST_MOST]) for some in (self.values, self.shares)]
        best, mass = (some[k - 1] if len(some) else np.zeros(LIST_MOST) for some in sums)
        return np.clip(best / k, -_LARGEST, _LARGEST), mass
