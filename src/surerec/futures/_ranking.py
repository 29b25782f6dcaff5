"""One person's candidates, ranked: by score, then by popularity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

SLATE_MOST: Final = 100
"""The longest slate whose hits can be calibrated."""

_FAR_BELOW: Final = 2.0**-100
_LARGEST: Final = float(np.finfo(np.float32).max)  # values of slates are kept so
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
    lowest = values.min(initial=0.0)
    above = values - lowest if lowest < 0 else values
    total = above.sum()
    if not np.isfinite(total):  # numbers near the largest that there are
        return share_of_all(values * _FAR_BELOW)
    return above / total if total > 0 else np.full(len(values), 1 / max(len(values), 1))


def shares_of_best(
    values: NDArray[np.float64], best: NDArray[np.int64], known: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Give the shares of a person's best items, without ranking the others.

    As a :class:`Ranking` of all items outside of what is known has them.

    Examples
    --------
    >>> shares_of_best(np.array([3.0, 9, 1, 4]), np.array([3, 0]), np.array([1])).round(3)
    array([0.5  , 0.375])
    """
    outside = np.ones(len(values), dtype=bool)
    outside[known] = False
    shares = share_of_all(values[outside])
    places = np.cumsum(outside)[best] - 1
    return np.asarray(shares[places] + _apart(len(shares))[: len(best)])


def _apart(n: int) -> NDArray[np.float64]:
    """Give what tells equal shares apart by rank."""
    return _TIE * (1 - np.arange(n) / max(n, 1))


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
        order = np.lexsort((popularity[candidates], -scores[candidates]))
        found = values[candidates]
        shares = share_of_all(found)[order] + _apart(len(order))
        return cls(candidates[order], found[order], shares)

    def by_item(self, n_items: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Give every item's rank, from 1, and share; infinite and 0 for those not ranked."""
        ranks, shares = np.full(n_items, np.inf), np.zeros(n_items)
        ranks[self.items] = np.arange(1, len(self.items) + 1)
        shares[self.items] = self.shares
        return ranks, shares

    def of_the_best(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Give the mean value of the k best and the sum of their shares, for k up to 100.

        Where there are fewer, what all of them give.
        """
        k = np.minimum(np.arange(1, SLATE_MOST + 1), max(len(self.items), 1))
        sums = [np.cumsum(some[:SLATE_MOST]) for some in (self.values, self.shares)]
        best, mass = (some[k - 1] if len(some) else np.zeros(SLATE_MOST) for some in sums)
        return np.clip(best / k, -_LARGEST, _LARGEST), mass
