"""Many profiles scored at once: each ratio is divided once for all of them.

A ratio waits for the divider, and adding one that is there does not. The rows of popular items are
in many profiles, and without any one of the users who took it an item's row is the same, but for
the columns of what that user took: these are scored by themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from surerec.measures._aggregates import room_for, rows_of, score_profile
from surerec.measures._rough import total_ratios_of
from surerec.measures._tiles import NARROW, RATIO, TOTAL
from surerec.measures._vectors import aligned_zeros

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from surerec.measures._aggregates import ScoringPlan
    from surerec.measures._query import Query
    from surerec.precedence import PrecedenceStatistics

_TILE = 64  # columns: the ratios of a few thousand rows stay in the cache
_WORTH = 2  # rows in profiles for each row divided, from which on it pays


@njit(nogil=True, cache=True, error_model="numpy")
def _divide(
    plan: ScoringPlan,
    wanted: NDArray[np.int64],
    fewer: int,
    left: int,
    right: int,
    ratios: NDArray[np.float64],
) -> None:
    """Write the ratios of rows in some columns, their items taken by so many users `fewer`."""
    forward, reverse = plan.forward.matrix, plan.reverse.matrix
    for slot in range(len(wanted)):
        item, values = wanted[slot], ratios[slot]
        consumed = np.int64(plan.support[item]) - fewer
        row, back = forward[item, left:right], reverse[item, left:right]
        if consumed <= 0:
            values[:] = 0.0
            continue
        for j in range(np.uint64(right - left)):
            free = np.float64(np.int32(consumed - np.int32(back[j])))
            values[j] = np.float64(row[j]) / np.maximum(free, 1.0)


@njit(nogil=True, cache=True)
def _score_own(
    plan: ScoringPlan,
    profile: NDArray[np.int64],
    own: NDArray[np.uint32],
    times: NDArray[np.int64],
    scores: NDArray[np.float64],
) -> None:
    """Score what the user to leave out took beside the profile."""
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
    """Return by how many fewer users took what is known of each person, without them.

    −1 where that differs from item to item.
    """
    fewer, marks = np.full(len(starts), -1), np.full(n_items, -1)
    for person in range(len(starts)):
        own, n_own = item_codes[own_starts[person] : own_stops[person]], 0
        for item in own:
            marks[item] = person
        for item in known[starts[person] : stops[person]]:
            n_own += marks[item] == person
        if len(own) == 0 or n_own == stops[person] - starts[person]:
            fewer[person] = min(len(own), 1)
    return fewer


@njit(nogil=True, cache=True)
def _sum_rows(
    rows: NDArray[np.float64], places: NDArray[np.int64], totals: NDArray[np.float64]
) -> None:
    """Add up the rows at some places, from the first to the last, into _TILE totals."""
    totals[:] = 0.0
    n_fours = len(places) // 4 * 4
    for k in range(0, n_fours, 4):  # a total is read once for every four rows
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
    wanted: NDArray[np.int64],
    fewer: int,
    people: NDArray[np.int64],
    places: NDArray[np.int64],
    ends: NDArray[np.int64],
    scores: NDArray[np.float64],
) -> None:
    """Score people whose rows, at some `places` among those `wanted`, are the same."""
    n_items, totals = len(plan.support), np.empty(_TILE)
    ratios = aligned_zeros(len(wanted), _TILE, totals)
    for left in range(0, n_items, _TILE):
        right, done = min(left + _TILE, n_items), 0
        _divide(plan, wanted, fewer, left, right, ratios)
        for person, end in zip(people, ends):  # noqa: B905  # numba knows no strict
            _sum_rows(ratios, places[done:end], totals)
            scores[person, left:right] = totals[: right - left]
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
    """Score what was not shared: all items of other people, and what each took beside a history."""
    room = room_for(len(plan.support))
    for person in range(len(starts)):
        profile = known[starts[person] : stops[person]]
        begin, end = own_starts[person], own_stops[person]
        own, when = item_codes[begin:end], times[begin:end]
        if not is_shared[person]:
            scores[person] = score_profile(plan, profile, own, when, room)
        elif len(own) > len(profile):
            _score_own(plan, profile, own, when, scores[person])
        scores[person][profile] = -np.inf


def score_together(
    plan: ScoringPlan, statistics: PrecedenceStatistics, queries: Sequence[Query]
) -> NDArray[np.float64]:
    """Score every item for each query, −∞ for what is known: a row for each.

    At most one user is to be left out of each.
    """
    histories = [query.history for query in queries]
    known, lengths = np.concatenate(histories), np.array([len(each) for each in histories])
    stops = np.cumsum(lengths)
    parts = known, stops - lengths, stops
    consumed, times, begin, end = _left_out(statistics, [query.user for query in queries])
    scores = np.empty((len(queries), statistics.n_items))
    fewer = np.full(len(queries), -1)
    mean_ratio = plan.way.statistic == RATIO and plan.wanted == TOTAL and plan.sign > 0.0
    if mean_ratio and plan.forward.matrix.itemsize == NARROW:
        fewer = _fewer(*parts, consumed, begin, end, statistics.n_items)
    for minus in range(2):
        people = np.flatnonzero(fewer == minus)
        rows = known[np.repeat(fewer == minus, lengths)]
        slots = np.zeros(statistics.n_items, dtype=np.int64)
        slots[rows] = 1
        wanted = np.flatnonzero(slots)
        if len(rows) < _WORTH * len(wanted):
            fewer[people] = -1
        elif len(people):
            slots[wanted] = np.arange(len(wanted))
            ends = np.cumsum(lengths[people])
            _score_shared(plan, wanted, minus, people, slots[rows], ends, scores)
    _score_others(plan, *parts, consumed, times, begin, end, fewer >= 0, scores)
    return scores


def _left_out(
    statistics: PrecedenceStatistics, users: Sequence[int | None]
) -> tuple[NDArray[np.uint32], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return what all users took and when, and where that of each of some begins and ends."""
    interactions = statistics.interactions
    codes = np.array([-1 if user is None else user for user in users])
    if (codes >= 0).any():
        statistics.require_profiles("no user can be left out")
    # Nobody has the code −1, and a part that begins and ends where the first profile begins.
    starts, stops = interactions.offsets[np.maximum(codes, 0)], interactions.offsets[codes + 1]
    return interactions.item_codes, interactions.times, starts, stops
