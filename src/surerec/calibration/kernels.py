"""Kernels of calibrations on arrays: rough scores, the best items of many users, ranks.

A p-value is decided by comparing a candidate's score with calibration scores. Where the two are
further apart than rounding explains, a rough score (in 32 bits) compares as the exact one does;
ties are never further apart, so a tie is always decided by exact scores.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import njit

from surerec._kernels import scramble
from surerec._threads import run_together
from surerec.conformal.kernels import counts_among
from surerec.measures.kernels import (
    NARROW,
    RATIO,
    ROUGH,
    TOTAL,
    equal_columns,
    room_for,
    rough_ratios,
    rows_of,
    score_profile,
    total_ratios_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from surerec.measures.kernels import LeftOutUser, ScoringPlan

_UNSURE = -1
_FEW = 4  # of so many candidates one may be scored by itself: beyond, all at once are faster
_ROUGH_COST = 0.35  # nanoseconds a count
_LONGEST_TABLE = 1 << 20  # counts; beyond, which no count of a million users is, they are searched
_LOWEST = float(np.finfo(np.float64).min)  # below every score, but not the known items' −∞


@njit(nogil=True, cache=True)
def uniforms(
    seed: np.uint64, person: NDArray[np.int64], items: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return for each item a random number in (0, 1] that depends on seed, user and item alone."""
    golden = np.uint64(0x9E3779B97F4A7C15)
    state = scramble(seed + golden)
    for part in person:
        state = scramble(state ^ (np.uint64(part) + golden))
    out = np.empty(len(items))
    for k in range(len(items)):
        bits = scramble(state ^ scramble(np.uint64(items[k]) + golden))
        out[k] = (np.float64(bits >> np.uint64(11)) + 1.0) / 9007199254740992.0
    return out


def has_rough_scores(plan: ScoringPlan) -> bool:
    """Return whether a measure is a mean of ratios of 16-bit counts: these wait for the divider."""
    if not (plan.way.statistic == RATIO and plan.wanted == TOTAL and plan.sign > 0):
        return False
    sources = plan.forward, plan.reverse
    return all(rows.matrix.itemsize == rows.counted.itemsize == NARROW for rows in sources)


@njit(nogil=True, cache=True)
def _instants_of(out: LeftOutUser, n_calibration: int) -> NDArray[np.int64]:
    """Return when the user left out consumed the calibration items, their last; −1 if new."""
    instants = np.full(n_calibration, -1)
    if len(out.items):
        instants[:] = out.instants[len(out.items) - n_calibration :]
    return instants


@njit(nogil=True, cache=True)
def _of_candidates(
    rough: NDArray[np.float64], history: NDArray[np.int64], candidates: NDArray[np.int64]
) -> tuple[NDArray[np.float64], bool]:
    """Return the rough scores of candidates, and whether all of these are outside the history."""
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
    """Return the candidates' rough scores, and the calibration items' exact ones in order.

    And whether the candidates are outside the history, as rough scores of others are wrong.
    """
    source, reverse, out = rows_of(plan, history[:n_training], own, times)
    calibration, rough = history[n_training:], np.empty(len(plan.support))
    totals, instants = np.empty(len(calibration)), _instants_of(out, len(calibration))
    rough_ratios(0, len(rough), source, reverse, out, calibration, instants, totals, rough)
    new, is_outside = _of_candidates(rough, history, candidates)
    return new, np.sort(totals), is_outside


def score_on_all_cores(
    plan: ScoringPlan,
    history: NDArray[np.int64],
    n_training: int,
    own: NDArray[np.uint32],
    times: NDArray[np.int64],
    candidates: NDArray[np.int64],
) -> tuple[NDArray[np.float64], NDArray[np.float64], bool]:
    """Return what `score_roughly` does, for rows so long that waking a thread pays."""
    source, reverse, out = rows_of(plan, history[:n_training], own, times)
    calibration, rough = history[n_training:], np.empty(len(plan.support))
    totals, instants = np.empty(len(calibration)), _instants_of(out, len(calibration))

    def score(block: tuple[int, int]) -> None:
        rough_ratios(*block, source, reverse, out, calibration, instants, totals, rough)

    run_together(score, equal_columns(len(rough), _ROUGH_COST * n_training * len(rough)))
    new, is_outside = _of_candidates(rough, history, candidates)
    return new, np.sort(totals), is_outside


@njit(nogil=True, cache=True)
def exact_ratios(
    plan: ScoringPlan,
    training: NDArray[np.int64],
    own: NDArray[np.uint32],
    times: NDArray[np.int64],
    items: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Return the exact scores of some items that the user to leave out did not consume."""
    source, reverse, out = rows_of(plan, training, own, times)
    totals = np.empty(len(items))
    total_ratios_of(source, reverse, out, items, np.full(len(items), -1), totals)
    return totals


@njit(nogil=True, cache=True)
def count_sure(
    rough: NDArray[np.float64], ordered: NDArray[np.float64]
) -> tuple[NDArray[np.int64], int]:
    """Count for each rough score the calibration scores not above it, and itself; −1 where unsure.

    Returns the number of these as well. Each calibration score c has a border below,
    c · (1 − ROUGH), which whatever reaches c is above, and one above, c · (1 + ROUGH), which
    whatever is above reaches c: a rough score is off by half of ROUGH at most, and rounding the
    borders adds a billionth of it. One search finds how many lower borders are not above a rough
    score. It is sure if it has passed the upper border of the last of these too.
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


class RoughScores(NamedTuple):
    """Rough scores of candidates, which decide most p-values, and exact calibration scores."""

    rough: NDArray[np.float64]
    ordered: NDArray[np.float64]
    candidates: NDArray[np.int64]
    """Items outside the history."""
    exact: Callable[[NDArray[np.int64]], NDArray[np.float64]]
    """Returns the exact scores of some items."""

    def counts(self) -> NDArray[np.int64] | None:
        """Return p-values as counts; None where all exact scores are faster."""
        counts, n_unsure = count_sure(self.rough, self.ordered)
        if n_unsure * _FEW > len(counts):
            return None
        if n_unsure:
            unsure = np.flatnonzero(counts == _UNSURE)
            scores = self.exact(self.candidates[unsure])
            counts[unsure] = np.searchsorted(self.ordered, scores, side="right") + 1
        return counts

    def inside(self, cut: int) -> NDArray[np.bool_] | None:
        """Return whose count is above `cut`; None where all exact scores are faster."""
        lowest = border(self.ordered, cut)
        found = self.rough >= lowest * (1 + ROUGH)
        unsure = np.flatnonzero((self.rough >= lowest * (1 - ROUGH)) & ~found)
        if len(unsure) * _FEW > len(found):
            return None
        if len(unsure):
            found[unsure] = self.exact(self.candidates[unsure]) >= lowest
        return found


def border(ordered: NDArray[np.float64], cut: int) -> float:
    """Return the calibration score that the items reach whose count is above `cut`."""
    if cut <= 0:
        return -np.inf
    return float(ordered[cut - 1]) if cut <= len(ordered) else np.nan  # which nothing reaches


@njit(nogil=True, cache=True)
def keep_best(
    scores: NDArray[np.floating],
    by_popularity: NDArray[np.int64],
    lowest: float,
    items: NDArray[np.int64],
    best_scores: NDArray[np.float64],
) -> int:
    """Keep the items of the highest scores, none below `lowest`; return their number.

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
def find_best(
    plan: ScoringPlan,
    known: NDArray[np.integer],
    bounds: NDArray[np.int64],
    items_taken: NDArray[np.uint32],
    times: NDArray[np.int64],
    by_popularity: NDArray[np.int64],
    items: NDArray[np.int64],
    counts: NDArray[np.int64],
    scores: NDArray[np.float64],
) -> NDArray[np.int64]:
    """Find the best items of each user by the inductive method; return how many are found.

    A row of `bounds` says where a user's history begins and ends in `known`, how much of it is
    training, where their own part of the counts, which is left out, begins and ends in
    `items_taken`, and the highest count that their set leaves out.
    """
    room, n_found = room_for(len(plan.support)), np.zeros(len(bounds), np.int64)
    for row in range(len(bounds)):
        profile = known[bounds[row, 0] : bounds[row, 1]].astype(np.int64)
        n, begin, end, cut = bounds[row, 2], bounds[row, 3], bounds[row, 4], bounds[row, 5]
        own, when = items_taken[begin:end], times[begin:end]
        found = score_profile(plan, profile[:n], own, when, room)
        ordered = np.sort(found[profile[n:]])
        found[profile] = -np.inf
        # In the set are the items with more scores not above them, their own included, than cut.
        lowest = ordered[cut - 1] if cut > 0 else _LOWEST
        n_best = keep_best(found, by_popularity, lowest, items[row], scores[row])
        n_found[row] = n_best
        counts[row, :n_best] = counts_among(ordered, scores[row, :n_best])
    return n_found


@njit(nogil=True, cache=True)
def rank_among(
    thresholds: NDArray[np.uint32], values: NDArray[np.uint32], ranks: NDArray[np.int32]
) -> None:
    """For each value, count the sorted thresholds that are not above it.

    A sorted search, tabulated: counts are small integers, so the answer for each of them up to the
    largest threshold is found once.
    """
    n = len(thresholds)
    largest = np.int64(thresholds[n - 1])
    if largest > _LONGEST_TABLE:
        ranks[:] = np.searchsorted(thresholds, values, side="right")
        return
    table = np.empty(largest + 1, np.int32)
    below = 0
    for count in range(largest + 1):
        while below < n and thresholds[below] <= count:
            below += 1
        table[count] = below
    for k in range(len(values)):
        value = np.int64(values[k])
        ranks[k] = n if value > largest else table[value]
