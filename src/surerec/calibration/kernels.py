"""Calibration kernels: reproducible random numbers, and the best items of many users."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from surerec._kernels import scramble
from surerec.conformal.kernels import counts_among
from surerec.measures.kernels import score_buffer, score_profile

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.measures.kernels import ScoringPlan

_LOWEST = float(np.finfo(np.float64).min)  # above the −∞ of known items


@njit(nogil=True, cache=True)
def uniforms(
    random_state: np.uint64, user: NDArray[np.int64], items: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return a random number in (0, 1] per item, by random state, user and item alone."""
    golden = np.uint64(0x9E3779B97F4A7C15)
    state = scramble(random_state + golden)
    for part in user:
        state = scramble(state ^ (np.uint64(part) + golden))
    out = np.empty(len(items))
    for k in range(len(items)):
        bits = scramble(state ^ scramble(np.uint64(items[k]) + golden))
        out[k] = (np.float64(bits >> np.uint64(11)) + 1.0) / 9007199254740992.0
    return out


@njit(nogil=True, cache=True)
def keep_best(
    scores: NDArray[np.floating],
    by_popularity: NDArray[np.int64],
    lowest: float,
    items: NDArray[np.int64],
    best_scores: NDArray[np.float64],
) -> int:
    """Keep the items of the highest scores, none below `lowest`; return their number.

    Ties keep the order of popularity; an empty order means that of the codes, which is a fifth
    faster. p-values never fall as scores rise, so this is also the order by p-value, score and
    popularity.
    """
    k, found, by_code = len(items), 0, len(by_popularity) == 0
    for rank in range(len(scores)):
        item = rank if by_code else by_popularity[rank]
        score = float(scores[item])
        if score < lowest:
            continue
        place = found if found < k else k - 1
        while place > 0 and best_scores[place - 1] < score:
            items[place] = items[place - 1]
            best_scores[place] = best_scores[place - 1]
            place -= 1
        items[place], best_scores[place] = item, score
        if found < k:
            found += 1
        if found == k:
            lowest = np.nextafter(best_scores[k - 1], np.inf)  # a later tie ranks lower
    return found


@njit(nogil=True, cache=True)
def ranks_among(
    scores: NDArray[np.float64], outside: NDArray[np.bool_], wanted: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the ranks of a few items among those outside a history; infinite for others.

    Ties keep the order of the codes. Counting is many times faster than a sort.
    """
    ranks = np.full(len(wanted), np.inf)
    for place in range(len(wanted)):
        item, score, rank = wanted[place], scores[wanted[place]], 1
        if not outside[item]:
            continue
        for other in range(len(scores)):
            if outside[other]:
                above = scores[other] > score
                rank += above or (other < item and scores[other] == score)
        ranks[place] = rank
    return ranks


@njit(nogil=True, cache=True)
def find_best(
    plan: ScoringPlan,
    known: NDArray[np.integer],
    bounds: NDArray[np.int64],
    item_codes: NDArray[np.uint32],
    times: NDArray[np.int64],
    by_popularity: NDArray[np.int64],
    items: NDArray[np.int64],
    counts: NDArray[np.int64],
    scores: NDArray[np.float64],
) -> NDArray[np.int64]:
    """Find the best items of each user by the inductive method; return their number.

    A row of `bounds` holds, for one user: start and stop of the history in `known`, its number of
    training items, start and stop of their own rows in `item_codes`, which are left out, and the
    highest count outside the set.
    """
    room, n_found = score_buffer(len(plan.support)), np.zeros(len(bounds), np.int64)
    for row in range(len(bounds)):
        profile = known[bounds[row, 0] : bounds[row, 1]].astype(np.int64)
        n, begin, end, threshold = bounds[row, 2], bounds[row, 3], bounds[row, 4], bounds[row, 5]
        own, when = item_codes[begin:end], times[begin:end]
        found = score_profile(plan, profile[:n], own, when, room)
        ordered = np.sort(found[profile[n:]])
        found[profile] = -np.inf
        # The set contains the items with more than `threshold` scores not above their own.
        lowest = ordered[threshold - 1] if threshold > 0 else _LOWEST
        n_best = keep_best(found, by_popularity, lowest, items[row], scores[row])
        n_found[row] = n_best
        counts[row, :n_best] = counts_among(ordered, scores[row, :n_best])
    return n_found
