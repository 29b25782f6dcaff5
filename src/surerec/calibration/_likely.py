"""Which items may be among the best, by rough scores; only their exact scores are needed then."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from surerec.measures.kernels import (
    NARROW,
    RATIO,
    ROUGH,
    TOTAL,
    rough_ratios,
    rows_of,
    total_ratios_of,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.measures.kernels import LeftOutUser, ScoringPlan
    from surerec.precedence import RowSource

_ITEMS_PER_WANTED = 32  # from so many on: an exact score takes as long as so many rough ones


@njit(nogil=True, cache=True)
def keep_best(
    scores: NDArray[np.floating],
    by_popularity: NDArray[np.int64],
    lowest: float,
    items: NDArray[np.int64],
    best_scores: NDArray[np.float64],
) -> int:
    """Keep the items of the highest scores, none below `lowest`; give their number.

    Equal scores keep the order of popularity; an empty one is that of the codes, which is read a
    fifth faster. A p-value never falls as the score rises, so this is the order by p-value, score
    and popularity too, found without a p-value for every item.
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
            lowest = np.nextafter(best_scores[k - 1], np.inf)  # an equal one comes too late
    return found


@njit(nogil=True, cache=True)
def is_worth_a_rough_look(plan: ScoringPlan, k: int) -> bool:
    """Tell whether to find the k best roughly first: for means of ratios, of which few are wanted.

    Ratios wait for the divider, which is three times as fast in 32 bits.
    """
    mean_ratio = plan.way.statistic == RATIO and plan.wanted == TOTAL and plan.sign > 0.0
    few = k * _ITEMS_PER_WANTED <= len(plan.support)
    return mean_ratio and few and plan.forward.matrix.itemsize == NARROW


@njit(nogil=True, cache=True)
def instants_of(out: LeftOutUser, n_calibration: int) -> NDArray[np.int64]:
    """Give when whoever is left out took the calibration items, their last; −1 if they are new."""
    instants = np.full(n_calibration, -1)
    if len(out.items):
        instants[:] = out.instants[len(out.items) - n_calibration :]
    return instants


@njit(nogil=True, inline="always")  # what it calls would be compiled once more with it alone
def rough_and_sorted(
    source: RowSource,
    reverse: RowSource,
    out: LeftOutUser,
    calibration: NDArray[np.int64],
    rough: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Score all items roughly, and give the exact scores of the calibration items, ascending.

    Whoever is left out took the rows' items and these, in that order, or nothing.
    """
    totals, instants = np.empty(len(calibration)), instants_of(out, len(calibration))
    rough_ratios(0, len(rough), source, reverse, out, calibration, instants, totals, rough)
    totals.sort()
    return totals


@njit(nogil=True, cache=True)
def score_likely(
    plan: ScoringPlan,
    profile: NDArray[np.int64],
    own: NDArray[np.uint32],
    times: NDArray[np.int64],
    n_training: int,
    cut: int,
    by_popularity: NDArray[np.int64],
    rough: NDArray[np.float64],
    items: NDArray[np.int64],
    best_scores: NDArray[np.float64],
    found: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Score what may be among the best of a person, −∞ for all else; give the calibration scores.

    Whoever is left out took `own`: the profile itself, or nothing.

    An item that is further below the k-th best, or below the set, than rounding can explain needs
    no exact score. `items` and `best_scores`, which say what k is, are written to on the way.
    """
    training = profile[:n_training]
    source, reverse, out = rows_of(plan, training, own, times)
    calibration = rough_and_sorted(source, reverse, out, profile[n_training:], rough)
    rough[profile] = -np.inf
    share = 1.0 - 3.0 * ROUGH
    least = calibration[cut - 1] * share if cut > 0 else 0.0
    if keep_best(rough, by_popularity, least, items, best_scores) == len(items):
        least = best_scores[len(items) - 1] * share
    found[:] = -np.inf
    likely = np.flatnonzero(rough >= least)
    totals = np.empty(len(likely))
    total_ratios_of(source, reverse, out, likely, np.full(len(likely), -1), totals)
    found[likely] = totals
    return calibration
