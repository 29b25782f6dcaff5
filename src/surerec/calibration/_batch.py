"""The k best of many users in one call: what `recommend` does, without its cost per call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

from surerec.calibration._likely import is_worth_a_rough_look, keep_best, score_likely
from surerec.conformal.kernels import count_at_most, levels_of
from surerec.errors import InputError
from surerec.measures.kernels import room_for, score_profile

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.measures.kernels import Plan
    from surerec.precedence import PrecedenceStatistics

_LOWEST = float(np.finfo(np.float64).min)  # below every score, but not the known items' −∞


@njit(nogil=True, cache=True)
def _find_best(
    plan: Plan,
    starts: NDArray[np.int64],
    stops: NDArray[np.int64],
    n_training: NDArray[np.int64],
    items_taken: NDArray[np.uint32],
    times: NDArray[np.int64],
    cuts: NDArray[np.int64],
    by_popularity: NDArray[np.int64],
    items: NDArray[np.int64],
    counts: NDArray[np.int64],
    scores: NDArray[np.float64],
    n_found: NDArray[np.int64],
) -> None:
    """Find the best items of each user by the inductive method, the user left out of all counts.

    ``cuts[row]`` is the highest count that the user's set leaves out.
    """
    room = room_for(len(plan.support))
    rough = np.empty(len(plan.support), np.float32)
    for row in range(len(starts)):
        own, n = items_taken[starts[row] : stops[row]], n_training[row]
        when, cut = times[starts[row] : stops[row]], cuts[row]
        if is_worth_a_rough_look(plan, n, items.shape[1]):
            found = room.low
            ordered = score_likely(
                plan, own, when, n, cut, by_popularity, rough, items[row], scores[row], found
            )
        else:
            profile = own.astype(np.int64)
            found = score_profile(plan, profile[:n], own, when, room)
            ordered = np.sort(found[profile[n:]])
            found[profile] = -np.inf
        # In the set are the items with more scores not above them, their own included, than cut.
        lowest = ordered[cut - 1] if cut > 0 else _LOWEST
        n_best = keep_best(found, by_popularity, lowest, items[row], scores[row])
        n_found[row] = n_best
        count_at_most(levels_of(ordered), scores[row, :n_best], counts[row, :n_best])


def best_of_users(
    plan: Plan,
    statistics: PrecedenceStatistics,
    starts: NDArray[np.int64],
    stops: NDArray[np.int64],
    n_training: NDArray[np.int64],
    cuts: NDArray[np.int64],
    k: int,
) -> tuple[NDArray[Any], ...]:
    """Find the k best items of users whose profiles are at these places.

    Returns
    -------
    tuple of array
        A row for each item found: which of the users it is for, the item, the count of its
        p-value, its score, its rank.
    """
    interactions = statistics.interactions
    if interactions is None:
        raise InputError("These statistics have no users to recommend to.")
    by_popularity = np.argsort(statistics.popularity)
    if np.array_equal(by_popularity, np.arange(statistics.n_items)):
        by_popularity = by_popularity[:0]  # the order of the codes
    shape = (len(starts), k)
    items, counts = np.empty(shape, np.int64), np.empty(shape, np.int64)
    scores, n_found = np.empty(shape), np.zeros(len(starts), np.int64)
    _find_best(
        plan,
        starts,
        stops,
        n_training,
        interactions.items_taken,
        interactions.times,
        cuts,
        by_popularity,
        items,
        counts,
        scores,
        n_found,
    )
    inside = np.arange(k) < n_found[:, None]
    rows, places = np.nonzero(inside)
    return rows, items[inside], counts[inside], scores[inside], places + 1
