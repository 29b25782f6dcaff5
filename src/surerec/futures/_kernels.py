"""Ranks of a few items among many: pure functions on arrays that release the GIL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ranks_among"]


@njit(nogil=True, cache=True)
def ranks_among(
    scores: NDArray[np.float64],
    candidates: NDArray[np.int64],
    items: NDArray[np.int64],
    ranks: NDArray[np.int64],
) -> None:
    """Give the rank of each item among the candidates, by score and then by code, from 1.

    One pass over the candidates: each is searched among the few items, not the other way round.
    """
    n = len(items)
    order = np.argsort(-scores[items], kind="mergesort")
    # Among equal scores the smaller code comes first; there are few of them.
    for a in range(1, n):
        b = a
        while (
            b > 0
            and scores[items[order[b - 1]]] == scores[items[order[b]]]
            and (items[order[b - 1]] > items[order[b]])
        ):
            order[b - 1], order[b] = order[b], order[b - 1]
            b -= 1
    before = np.zeros(n + 1, np.int64)
    for candidate in candidates:
        score = scores[candidate]
        low, high = 0, n  # the first item that this candidate comes before
        while low < high:
            middle = (low + high) >> 1
            item = items[order[middle]]
            if score > scores[item] or (score == scores[item] and candidate < item):
                high = middle
            else:
                low = middle + 1
        before[low] += 1
    above = 0
    for place in range(n):
        above += before[place]
        ranks[order[place]] = above + 1
