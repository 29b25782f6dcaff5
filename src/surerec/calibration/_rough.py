"""p-values from rough scores: exact ones are added up only where a rough one cannot tell.

A p-value is decided by comparing a candidate's score with calibration scores. Where the two are
further apart than rounding explains, a rough score compares as the exact one does; ties are never
further apart, so a tie is always told by exact scores.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from surerec._threads import run_together
from surerec.calibration._likely import instants_of, rough_and_sorted
from surerec.conformal.kernels import counts_among
from surerec.measures.kernels import (
    NARROW,
    RATIO,
    ROUGH,
    TOTAL,
    equal_columns,
    rough_ratios,
    rows_of,
    total_ratios_of,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.measures.kernels import ScoringPlan

_UNSURE = -1
_ROUGH_COST = 0.35  # nanoseconds a count
_FEW = 4  # of so many candidates one may be scored by itself: beyond, all at once are faster


def has_rough_scores(plan: ScoringPlan) -> bool:
    """Tell whether a measure is a mean of ratios of 16-bit counts: these wait for the divider."""
    if not (plan.way.statistic == RATIO and plan.wanted == TOTAL and plan.sign > 0):
        return False
    forward, reverse = plan.forward, plan.reverse
    sizes = forward.matrix.itemsize, forward.counted.itemsize
    return sizes == (reverse.matrix.itemsize, reverse.counted.itemsize) == (NARROW, NARROW)


@njit(nogil=True, cache=True)
def is_known(own: NDArray[np.uint32], history: NDArray[np.int64]) -> bool:
    """Tell whether somebody to leave out took nothing but the history, in its order, or nothing.

    Rough scores of what they took beside it would be wrong.
    """
    if len(own) != len(history):
        return len(own) == 0
    differ = 0
    for place in range(len(own)):
        differ += own[place] != history[place]
    return differ == 0


@njit(nogil=True, cache=True)
def _of_candidates(
    rough: NDArray[np.float64], history: NDArray[np.int64], candidates: NDArray[np.int64]
) -> tuple[NDArray[np.float64], bool]:
    """Give the rough scores of candidates, and whether all of these are outside the history."""
    new, lowest = np.empty(len(candidates)), 0.0
    rough[history] = -1.0
    for place in range(len(candidates)):
        new[place] = rough[candidates[place]]
        lowest = min(lowest, new[place])
    return new, lowest >= 0.0


@njit(nogil=True, cache=True)
def score_roughly(
    plan: ScoringPlan,
    history: NDArray[np.int64],
    n_training: int,
    own: NDArray[np.uint32],
    times: NDArray[np.int64],
    candidates: NDArray[np.int64],
) -> tuple[NDArray[np.float64], NDArray[np.float64], bool]:
    """Give the candidates' rough scores, and the calibration items' exact ones in order.

    And whether the candidates are outside the history, as rough scores of others are wrong.
    """
    source, reverse, out = rows_of(plan, history[:n_training], own, times)
    rough = np.empty(len(plan.support))
    calibration = rough_and_sorted(source, reverse, out, history[n_training:], rough)
    new, is_outside = _of_candidates(rough, history, candidates)
    return new, calibration, is_outside


def score_on_all_cores(
    plan: ScoringPlan,
    history: NDArray[np.int64],
    n_training: int,
    own: NDArray[np.uint32],
    times: NDArray[np.int64],
    candidates: NDArray[np.int64],
) -> tuple[NDArray[np.float64], NDArray[np.float64], bool]:
    """Do the same by blocks of columns, for rows so long that waking a thread pays."""
    source, reverse, out = rows_of(plan, history[:n_training], own, times)
    calibration, rough = history[n_training:], np.empty(len(plan.support))
    totals, instants = np.empty(len(calibration)), instants_of(out, len(calibration))

    def score(block: tuple[int, int]) -> None:
        rough_ratios(*block, source, reverse, out, calibration, instants, totals, rough)

    run_together(score, equal_columns(len(rough), _ROUGH_COST * n_training * len(rough)))
    totals.sort()
    new, is_outside = _of_candidates(rough, history, candidates)
    return new, totals, is_outside


@njit(nogil=True, cache=True, inline="always")  # alone it is compiled where it is asked for alone
def exact_ratios(
    plan: ScoringPlan,
    training: NDArray[np.int64],
    own: NDArray[np.uint32],
    times: NDArray[np.int64],
    items: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Give the exact scores of some items that the user to leave out did not take."""
    source, reverse, out = rows_of(plan, training, own, times)
    totals = np.empty(len(items))
    total_ratios_of(source, reverse, out, items, np.full(len(items), -1), totals)
    return totals


@njit(nogil=True, cache=True)
def count_sure(
    rough: NDArray[np.float64], ordered: NDArray[np.float64]
) -> tuple[NDArray[np.int64], int]:
    """Count for each rough score the calibration scores not above it, and itself; −1 where unsure.

    Gives the number of these as well. Each calibration score c has a border below, c · (1 − ROUGH),
    which whatever reaches c is above, and one above, c · (1 + ROUGH), which whatever is above
    reaches c: a rough score is off by half of ROUGH at most, and rounding the borders adds a
    billionth of it. One search finds how many lower borders are not above a rough score. It is sure
    if it has passed the upper border of the last of these too.
    """
    counts = counts_among(ordered * (1.0 - ROUGH), rough)
    upper = np.empty(len(ordered) + 2)
    upper[:2] = -np.inf  # by count: there is none below the first
    upper[2:] = ordered * (1.0 + ROUGH)
    n_unsure = 0
    for place in range(len(counts)):
        is_unsure = rough[place] < upper[counts[place]]
        n_unsure += is_unsure
        counts[place] = _UNSURE if is_unsure else counts[place]
    return counts, n_unsure


@njit(nogil=True, cache=True)
def count_unsure(
    plan: ScoringPlan,
    training: NDArray[np.int64],
    own: NDArray[np.uint32],
    times: NDArray[np.int64],
    candidates: NDArray[np.int64],
    ordered: NDArray[np.float64],
    counts: NDArray[np.int64],
) -> None:
    """Count by exact scores where `count_sure` was unsure."""
    unsure = np.flatnonzero(counts == _UNSURE)
    scores = exact_ratios(plan, training, own, times, candidates[unsure])
    counts[unsure] = np.searchsorted(ordered, scores, side="right") + 1


def are_few(number: int, among: int) -> bool:
    """Tell whether so few candidates are unsure that they are scored by themselves."""
    return number * _FEW <= among
