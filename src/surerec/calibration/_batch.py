"""The k best of many people in one call: what `recommend` does, without its cost per call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

from surerec.calibration._likely import is_worth_a_rough_look, keep_best, score_likely
from surerec.conformal.kernels import count_at_most, levels_of
from surerec.measures.kernels import room_for, score_profile

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.measures import Queries
    from surerec.measures.kernels import ScoringPlan
    from surerec.precedence import PrecedenceStatistics

_LOWEST = float(np.finfo(np.float64).min)  # below every score, but not the known items' −∞


@njit(nogil=True, cache=True)
def _find_best(
    plan: ScoringPlan,
    known: NDArray[np.integer],
    starts: NDArray[np.int64],
    stops: NDArray[np.int64],
    n_training: NDArray[np.int64],
    items_taken: NDArray[np.uint32],
    times: NDArray[np.int64],
    own_starts: NDArray[np.int64],
    own_stops: NDArray[np.int64],
    is_own: bool,  # noqa: FBT001  # a kernel takes positional arguments only
    cuts: NDArray[np.int64],
    by_popularity: NDArray[np.int64],
    items: NDArray[np.int64],
    counts: NDArray[np.int64],
    scores: NDArray[np.float64],
    n_found: NDArray[np.int64],
) -> None:
    """Find the best items of each person by the inductive method, left out of all counts.

    ``cuts[row]`` is the highest count that the person's set leaves out; `is_own` says that what is
    known of each is what they have in the counts.
    """
    room = room_for(len(plan.support))
    rough = np.empty(len(plan.support))
    for row in range(len(starts)):
        profile, n = known[starts[row] : stops[row]].astype(np.int64), n_training[row]
        own = items_taken[own_starts[row] : own_stops[row]]
        when, cut = times[own_starts[row] : own_stops[row]], cuts[row]
        # Rough scores of what somebody left out took beside the history would be wrong.
        likely = is_own or len(own) == 0
        if likely and is_worth_a_rough_look(plan, items.shape[1]):
            found = room
            ordered = score_likely(
                plan,
                profile,
                own,
                when,
                n,
                cut,
                by_popularity,
                rough,
                items[row],
                scores[row],
                found,
            )
        else:
            found = score_profile(plan, profile[:n], own, when, room)
            ordered = np.sort(found[profile[n:]])
            found[profile] = -np.inf
        # In the set are the items with more scores not above them, their own included, than cut.
        lowest = ordered[cut - 1] if cut > 0 else _LOWEST
        n_best = keep_best(found, by_popularity, lowest, items[row], scores[row])
        n_found[row] = n_best
        count_at_most(levels_of(ordered), scores[row, :n_best], counts[row, :n_best])


def best_of_people(
    plan: ScoringPlan,
    statistics: PrecedenceStatistics,
    queries: Queries,
    n_training: NDArray[np.int64],
    cuts: NDArray[np.int64],
    k: int,
) -> tuple[NDArray[Any], ...]:
    """Find the k best items of many people.

    Returns
    -------
    tuple of array
        A row for each item found: which of the people it is for, the item, the count of its
        p-value, its score, its rank.
    """
    by_popularity = np.argsort(statistics.popularity)
    if np.array_equal(by_popularity, np.arange(statistics.n_items)):
        by_popularity = by_popularity[:0]  # the order of the codes
    items_taken, times, own_starts, own_stops, is_own = _left_out(statistics, queries)
    shape = (len(queries), k)
    items, counts = np.empty(shape, np.int64), np.empty(shape, np.int64)
    scores, n_found = np.empty(shape), np.zeros(len(queries), np.int64)
    _find_best(
        plan,
        queries.items,
        queries.starts,
        queries.stops,
        n_training,
        items_taken,
        times,
        own_starts,
        own_stops,
        is_own,
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


def _left_out(
    statistics: PrecedenceStatistics, queries: Queries
) -> tuple[NDArray[np.uint32], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], bool]:
    """Give what people contributed, where each part lies, and whether it is what is known."""
    interactions, there = statistics.interactions, queries.users >= 0
    if there.any():
        statistics.require_profiles("there is nobody to recommend to")
    users = np.where(there, queries.users, -1)
    starts, stops = interactions.offsets[np.maximum(users, 0)], interactions.offsets[users + 1]
    is_own = queries.items is interactions.items_taken
    return interactions.items_taken, interactions.times, starts, stops, is_own
