"""Expected metrics of a ranking with ties: pure functions on arrays that release the GIL.

A ranking comes as its groups of tied items that hold at least one relevant item, best first:
``before[g]`` items rank above group g, ``sizes[g]`` are in it, ``hits[g]`` of those are relevant.
Every order within a group is equally likely.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray


@njit(nogil=True, cache=True)
def tied_groups(
    ordered: NDArray[np.float64],
    relevant: NDArray[np.float64],
    before: NDArray[np.int64],
    sizes: NDArray[np.int64],
    hits: NDArray[np.int64],
) -> int:
    """Find the groups from all scores and from those of the relevant items, each ascending."""
    n_groups, i, j = 0, len(ordered) - 1, len(relevant) - 1
    while j >= 0:
        score = relevant[j]
        while ordered[i] > score:
            i -= 1
        first, first_hit = i, j
        while i >= 0 and ordered[i] == score:
            i -= 1
        while j >= 0 and relevant[j] == score:
            j -= 1
        before[n_groups] = len(ordered) - 1 - first
        sizes[n_groups] = first - i
        hits[n_groups] = first_hit - j
        n_groups += 1
    return n_groups


@njit(nogil=True, cache=True)
def _precisions(before: int, size: int, hits: int, found: int) -> float:
    """Sum the expected precisions at the relevant items of one group, `found` ranking above it.

    A place of the group is relevant with probability hits/size; given that, each of its other
    places is with (hits − 1)/(size − 1).
    """
    others = (hits - 1) / (size - 1) if size > 1 else 0.0
    total = 0.0
    for place in range(size):
        total += (found + 1 + place * others) / (before + place + 1)
    return total * hits / size


@njit(nogil=True, cache=True)
def _first_reciprocal(before: int, size: int, hits: int) -> float:
    """Give the expected reciprocal rank of the first relevant item, which is in this group.

    The first is at place j with probability C(size − j, hits − 1) / C(size, hits): each from the
    last by one ratio.
    """
    chance = hits / size
    total = chance / (before + 1)
    for place in range(1, size - hits + 1):
        chance *= (size - hits - place + 1) / (size - place)
        total += chance / (before + place + 1)
    return total


@njit(nogil=True, cache=True)
def expected_metrics(
    before: NDArray[np.int64],
    sizes: NDArray[np.int64],
    hits: NDArray[np.int64],
    n_candidates: int,
    discounts: NDArray[np.float64],
) -> tuple[float, float, float, float]:
    """Give AP, AUC, NDCG and RR; ``discounts[j]`` is the gain at rank j + 1."""
    n_relevant = hits.sum()
    n_others = n_candidates - n_relevant
    found = 0
    precisions = gain = 0.0
    half_wins = 0  # pairs won count two and tied pairs one: whole numbers, so exact
    for g in range(len(before)):
        above, size, hit = before[g], sizes[g], hits[g]
        precisions += _precisions(above, size, hit, found)
        discount = 0.0
        for place in range(above, above + size):
            discount += discounts[place]
        gain += discount * hit / size
        tied = size - hit
        beaten = n_others - (above - found) - tied
        half_wins += hit * (2 * beaten + tied)
        found += hit
    ideal = 0.0
    for place in range(n_relevant):
        ideal += discounts[place]
    auc = half_wins / (2 * n_relevant * n_others) if n_others > 0 else np.nan
    reciprocal = _first_reciprocal(before[0], sizes[0], hits[0])
    return precisions / n_relevant, auc, gain / ideal, reciprocal


@njit(nogil=True, cache=True)
def expected_hits(
    before: NDArray[np.int64],
    sizes: NDArray[np.int64],
    hits: NDArray[np.int64],
    curve: NDArray[np.float64],
) -> None:
    """Write the expected number of relevant items among the first k to ``curve[k - 1]``."""
    k, found = 0, 0
    for g in range(len(before)):
        above, size, hit = before[g], sizes[g], hits[g]
        while k < min(above, len(curve)):
            curve[k] = found
            k += 1
        while k < min(above + size, len(curve)):
            curve[k] = found + hit * (k + 1 - above) / size
            k += 1
        found += hit
    curve[k:] = found
