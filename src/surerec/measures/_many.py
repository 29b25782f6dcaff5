"""Batches of queries, which compute each ratio once for all of them.

A division is slow, and adding a ratio that is already there is fast. The rows of popular items are
in many profiles. Without one of its consumers, an item's row changes only in the columns of that
user's items, which are scored separately.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from surerec.measures._aggregates import rows_of, score_buffer, score_profile
from surerec.measures._tiles import NARROW, RATIO, TOTAL
from surerec.measures._vectors import aligned_zeros
from surerec.precedence.kernels import pick

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from surerec.measures._aggregates import ScoringPlan
    from surerec.measures._query import Query
    from surerec.measures._tiles import LeftOutUser
    from surerec.precedence import PrecedenceStatistics, RowSource

_TILE = 64  # columns: the ratios of a few thousand rows stay in the cache
_WORTH = 2  # profile rows per distinct row, from which on sharing is faster


@njit(nogil=True, cache=True, error_model="numpy")
def _divide(
    plan: ScoringPlan,
    items: NDArray[np.int64],
    fewer: int,
    left: int,
    right: int,
    ratios: NDArray[np.float64],
) -> None:
    """Write the ratios of rows in some columns, with a support that is lower by `fewer`."""
    forward, reverse = plan.forward.matrix, plan.reverse.matrix
    for slot in range(len(items)):
        item, values = items[slot], ratios[slot]
        consumed = np.int64(plan.support[item]) - fewer
        row, back = forward[item, left:right], reverse[item, left:right]
        if consumed <= 0:
            values[:] = 0.0
            continue
        for j in range(np.uint64(right - left)):
            free = np.float64(np.int32(consumed - np.int32(back[j])))
            values[j] = np.float64(row[j]) / np.maximum(free, 1.0)


@njit(nogil=True, cache=True, error_model="numpy")
def _add_ratios_of(
    at: int,
    support: int,
    instants: NDArray[np.int64],
    counts: NDArray[np.int32],
    back: NDArray[np.int32],
    totals: NDArray[np.float64],
) -> None:
    """Add the ratios of some columns of a row, without the left-out user."""
    consumed = np.int32(support)
    for j in range(np.uint64(len(totals))):
        instant = instants[j]
        count = counts[j] - np.int32((at >= 0) & (at < instant))
        free = consumed - back[j] + np.int32((instant >= 0) & (instant < at))
        totals[j] += np.float64(count) / np.maximum(np.float64(free), 1.0)


@njit(nogil=True, cache=True, error_model="numpy")
def total_ratios_of(
    source: RowSource,
    reverse: RowSource,
    out: LeftOutUser,
    items: NDArray[np.int64],
    instants: NDArray[np.int64],
    totals: NDArray[np.float64],
) -> None:
    """Sum the ratios of some items, which the left-out user consumed at `instants` (−1: never).

    The order of the rows is that for all items, so that sums are equal to the last bit.
    """
    totals[:] = 0.0
    n = len(items)
    counts, free = np.empty(n, np.int32), np.empty(n, np.int32)
    for k in range(len(source.places)):
        if out.support[k]:
            pick(source, k, items, counts)
            pick(reverse, k, items, free)
            _add_ratios_of(out.of_rows[k], out.support[k], instants, counts, free, totals)


@njit(nogil=True, cache=True)
def _score_own(
    plan: ScoringPlan,
    profile: NDArray[np.int64],
    own: NDArray[np.uint32],
    times: NDArray[np.int64],
    scores: NDArray[np.float64],
) -> None:
    """Score the left-out user's items that are not in the profile."""
    consumed = np.zeros(len(scores), np.bool_)
    for item in profile:
        consumed[item] = True
    places = np.array([place for place in range(len(own)) if not consumed[own[place]]])
    if len(places) == 0:
        return
    source, reverse, out = rows_of(plan, profile, own, times)
    items, totals = own[places].astype(np.int64), np.empty(len(places))
    total_ratios_of(source, reverse, out, items, out.instants[places], totals)
    scores[items] = totals


@njit(nogil=True, cache=True)
def _fewer(
    known: NDArray[np.int64],
    starts: NDArray[np.int64],
    stops: NDArray[np.int64],
    item_codes: NDArray[np.uint32],
    own_starts: NDArray[np.int64],
    own_stops: NDArray[np.int64],
    n_items: int,
) -> NDArray[np.int64]:
    """Return by how much the left-out user lowers the support of each query's items.

    −1 if that differs between items.
    """
    fewer, marks = np.full(len(starts), -1), np.full(n_items, -1)
    for query in range(len(starts)):
        own, n_own = item_codes[own_starts[query] : own_stops[query]], 0
        for item in own:
            marks[item] = query
        for item in known[starts[query] : stops[query]]:
            n_own += marks[item] == query
        if len(own) == 0 or n_own == stops[query] - starts[query]:
            fewer[query] = min(len(own), 1)
    return fewer


@njit(nogil=True, cache=True)
def _sum_rows(
    rows: NDArray[np.float64], places: NDArray[np.int64], totals: NDArray[np.float64]
) -> None:
    """Sum the rows at some places, in order, into _TILE totals."""
    totals[:] = 0.0
    n_fours = len(places) // 4 * 4
    for k in range(0, n_fours, 4):  # one access to a total per four rows
        a, b = rows[places[k]], rows[places[k + 1]]
        c, d = rows[places[k + 2]], rows[places[k + 3]]
        for j in range(np.uint64(_TILE)):
            totals[j] = (((totals[j] + a[j]) + b[j]) + c[j]) + d[j]
    for k in range(n_fours, len(places)):
        row = rows[places[k]]
        for j in range(np.uint64(_TILE)):
            totals[j] += row[j]


@njit(nogil=True, cache=True)
def _score_shared(
    plan: ScoringPlan,
    items: NDArray[np.int64],
    fewer: int,
    queries: NDArray[np.int64],
    places: NDArray[np.int64],
    ends: NDArray[np.int64],
    scores: NDArray[np.float64],
) -> None:
    """Score queries that share the rows of `items`; each has those at some `places`."""
    n_items, totals = len(plan.support), np.empty(_TILE)
    ratios = aligned_zeros(len(items), _TILE, totals)
    for left in range(0, n_items, _TILE):
        right, done = min(left + _TILE, n_items), 0
        _divide(plan, items, fewer, left, right, ratios)
        for query, end in zip(queries, ends):  # noqa: B905  # numba does not support strict
            _sum_rows(ratios, places[done:end], totals)
            scores[query, left:right] = totals[: right - left]
            done = end


@njit(nogil=True, cache=True)
def _score_others(
    plan: ScoringPlan,
    known: NDArray[np.int64],
    starts: NDArray[np.int64],
    stops: NDArray[np.int64],
    item_codes: NDArray[np.uint32],
    times: NDArray[np.int64],
    own_starts: NDArray[np.int64],
    own_stops: NDArray[np.int64],
    is_shared: NDArray[np.bool_],
    scores: NDArray[np.float64],
) -> None:
    """Score the other queries, and the left-out users' items that are not in the history."""
    buffer = score_buffer(len(plan.support))
    for query in range(len(starts)):
        profile = known[starts[query] : stops[query]]
        begin, end = own_starts[query], own_stops[query]
        own, when = item_codes[begin:end], times[begin:end]
        if not is_shared[query]:
            scores[query] = score_profile(plan, profile, own, when, buffer)
        elif len(own) > len(profile):
            _score_own(plan, profile, own, when, scores[query])
        scores[query][profile] = -np.inf


def score_many_profiles(
    plan: ScoringPlan, statistics: PrecedenceStatistics, queries: Sequence[Query]
) -> NDArray[np.float64]:
    """Return the scores of every item for each query, one row each; −∞ for the history.

    Each query leaves out at most one user.
    """
    histories = [query.history for query in queries]
    known, lengths = np.concatenate(histories), np.array([len(each) for each in histories])
    stops = np.cumsum(lengths)
    parts = known, stops - lengths, stops
    consumed, times, begin, end = _left_out(statistics, [query.user for query in queries])
    scores = np.empty((len(queries), statistics.n_items))
    fewer = np.full(len(queries), -1)
    mean_ratio = plan.way.statistic == RATIO and plan.kind == TOTAL and plan.sign > 0.0
    if mean_ratio and plan.forward.matrix.itemsize == NARROW:
        fewer = _fewer(*parts, consumed, begin, end, statistics.n_items)
    for minus in range(2):
        sharing = np.flatnonzero(fewer == minus)
        rows = known[np.repeat(fewer == minus, lengths)]
        slots = np.zeros(statistics.n_items, dtype=np.int64)
        slots[rows] = 1
        items = np.flatnonzero(slots)
        if len(rows) < _WORTH * len(items):
            fewer[sharing] = -1
        elif len(sharing):
            slots[items] = np.arange(len(items))
            ends = np.cumsum(lengths[sharing])
            _score_shared(plan, items, minus, sharing, slots[rows], ends, scores)
    _score_others(plan, *parts, consumed, times, begin, end, fewer >= 0, scores)
    return scores


def _left_out(
    statistics: PrecedenceStatistics, users: Sequence[int | None]
) -> tuple[NDArray[np.uint32], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return all profiles with times, and the start and end of the profiles of some users."""
    interactions = statistics.interactions
    codes = np.array([-1 if user is None else user for user in users])
    if (codes >= 0).any():
        statistics.require_profiles("no user can be left out")
    # The code −1 stands for no user and gets an empty profile.
    starts, stops = interactions.offsets[np.maximum(codes, 0)], interactions.offsets[codes + 1]
    return interactions.item_codes, interactions.times, starts, stops
