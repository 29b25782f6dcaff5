"""Where a candidate stands on one scale for everybody, in bins that are finest at the top."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

N_BINS: Final = 200
"""How many bins there are at the most."""

_FEWEST: Final = 0.05  # items a person above the highest edge, on average


@dataclass(frozen=True, eq=False)
class Bins:
    """One number for how likely a candidate is, from its share, its rank and the known items.

    ``w₀ · log share − w₁ · log rank + w₂ · log known``: no score can tell how much a person will
    take, but the length of what is known of them can. As the weights are not negative, a person's
    candidates keep their order.

    Attributes
    ----------
    weights : array of float
        The three weights.
    edges : array of float
        Ascending; bin b holds what is at ``edges[b − 1]`` or above, and below ``edges[b]``.

    Examples
    --------
    >>> bins = Bins(np.array([1.0, 0.0, 0.0]), np.log([0.1, 0.4]))
    >>> bins.of(np.array([0.5, 0.3, 0.15, 0.05]), 7).tolist()
    [2, 1, 1, 0]
    """

    weights: NDArray[np.float64]
    edges: NDArray[np.float64]

    @property
    def n(self) -> int:
        """How many bins there are."""
        return len(self.edges) + 1

    def of(
        self,
        shares: NDArray[np.float64],
        n_known: NDArray[np.int64] | int,
        ranks: NDArray[np.int64] | None = None,
    ) -> NDArray[np.int64]:
        """Give the bin of each of a person's candidates, given their shares, best first.

        Or those of several people, with their ranks and how many items are known for each.
        """
        found = scale(self.weights, shares, n_known, ranks)
        return np.searchsorted(self.edges, found, side="right").astype(np.int64)


def scale(
    weights: NDArray[np.float64],
    shares: NDArray[np.float64],
    n_known: NDArray[np.int64] | int,
    ranks: NDArray[np.int64] | None = None,
) -> NDArray[np.float64]:
    """Give the number that bins are cut from, for shares that fall along the last axis."""
    if ranks is None:
        ranks = np.arange(1, shares.shape[-1] + 1)
    known = np.log(np.maximum(n_known, 1))
    return np.asarray(weights[0] * np.log(shares) - weights[1] * np.log(ranks) + weights[2] * known)


def edges_of(values: NDArray[np.float64], n_people: int) -> NDArray[np.float64]:
    """Cut values of the candidates of so many people into bins.

    Above the highest edge lies one item for every 20 people, above the lowest nearly everything,
    and from edge to edge the lists grow by the same factor.

    Examples
    --------
    >>> len(edges_of(np.arange(1000.0), 10)) <= N_BINS
    True
    """
    ordered = np.sort(values)[::-1]
    most = len(ordered) / n_people
    lengths = np.geomspace(min(_FEWEST, most), most, N_BINS)[:-1]
    places = np.unique(np.maximum((lengths * n_people).astype(np.int64), 1)) - 1
    return np.unique(ordered[places])
