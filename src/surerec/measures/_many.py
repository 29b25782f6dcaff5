"""Many profiles scored at once: each ratio is divided once for all of them.

A ratio waits for the divider, and adding one that is there does not. The rows of popular items are
in many profiles, and without any one of the users who took it an item's row is the same, but for
the columns of what that user took: these are scored by themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

from surerec.measures._plan import room_for, rows_of, score_profile
from surerec.measures._rough import total_ratios_of
from surerec.measures._tiles import NARROW, RATIO, TOTAL
from surerec.measures._vectors import aligned_zeros

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from surerec.measures._plan import Plan
    from surerec.measures._query import Query
    from surerec.precedence import PrecedenceStatistics

_TILE = 64  # columns: the ratios of a few thousand rows stay in the cache
_WORTH = 2  # rows in profiles for each row divided, from which on it pays


@njit(nogil=True, cache=True)
def _mark(marks: NDArray[np.int64], items: NDArray[Any], mark: int) -> None:
    for item in items:
        marks[item] = mark


@njit(nogil=True, cache=True)
def _all_marked(marks: NDArray[np.int64], items: NDArray[Any], mark: int) -> bool:
    same = True
    for item in items:
        same &= marks[item] == mark
    return same


@njit(nogil=True, cache=True)
def _rows_wanted(
    known: NDArray[Any],
    starts: NDArray[np.int64],
    stops: NDArray[np.int64],
    chosen: NDArray[np.bool_],
    slots: NDArray[np.int64],
) -> tuple[NDArray[np.int64], int]:
    """Give the items of the chosen profiles, numbered in `slots`, and how many rows these have."""
    slots[:] = -1
    wanted, n_rows, n = np.empty(len(slots), np.int64), 0, 0
    for person in range(len(starts)):
        if not chosen[person]:
            continue
        n_rows += stops[person] - starts[person]
        for item in known[starts[person] : stops[person]]:
            if slots[item] < 0:
                slots[item] = n
                wanted[n] = item
                n += 1
    return wanted[:n], n_rows


@njit(nogil=True, cache=True)
def _places_of(
    known: NDArray[Any],
    starts: NDArray[np.int64],
    stops: NDArray[np.int64],
    slots: NDArray[np.int64],
    n_rows: int,
) -> NDArray[np.int64]:
    """Give the numbers of the profiles' rows, one profile after the other."""
    places, done = np.empty(n_rows, np.int64), 0
    for person in range(len(starts)):
        for item in known[starts[person] : stops[person]]:
            places[done] = slots[item]
            done += 1
    return places


@njit(nogil=True, cache=True, error_model="numpy")
def _divide(
    plan: Plan,
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
        taken = np.int64(plan.support[item]) - fewer
        row, back = forward[item, left:right], reverse[item, left:right]
        if taken <= 0:
            values[:] = 0.0
            continue
        for j in range(np.uint64(right - left)):
            free = np.float64(np.int32(taken - np.int32(back[j])))
            values[j] = np.float64(row[j]) / np.maximum(free, 1.0)


@njit(nogil=True, cache=True)
def _score_own(
    plan: Plan,
    profile: NDArray[np.int64],
    own: NDArray[np.uint32],
    times: NDArray[np.int64],
    scores: NDArray[np.float64],
) -> None:
    """Score what the user to leave out took beside the profile."""
    taken = np.zeros(len(scores), np.bool_)
    for item in profile:
        taken[item] = True
    places = np.array([place for place in range(len(own)) if not taken[own[place]]])
    if len(places) == 0:
        return
    source, reverse, out = rows_of(plan, profile, own, times)
    items, totals = own[places].astype(np.int64), np.empty(len(places))
    total_ratios_of(source, reverse, out, items, out.instants[places], totals)
    scores[items] = totals


@njit(nogil=True, cache=True)
def _fewer(
    plan: Plan,
    known: NDArray[Any],
    starts: NDArray[np.int64],
    stops: NDArray[np.int64],
    items_taken: NDArray[np.uint32],
    own_starts: NDArray[np.int64],
    own_stops: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Give by how many fewer users took what is known of each person, without them.

    −1 where that differs, or where rows cannot be shared at all.
    """
    fewer, marks = np.full(len(starts), -1), np.full(len(plan.support), -1)
    mean_ratio = plan.way.statistic == RATIO and plan.wanted == TOTAL and plan.sign > 0.0
    if not mean_ratio or plan.forward.matrix.itemsize != NARROW:
        return fewer
    for person in range(len(starts)):
        own = items_taken[own_starts[person] : own_stops[person]]
        _mark(marks, own, person)
        if len(own) == 0:
            fewer[person] = 0
        elif _all_marked(marks, known[starts[person] : stops[person]], person):
            fewer[person] = 1
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
    plan: Plan,
    known: NDArray[Any],
    starts: NDArray[np.int64],
    stops: NDArray[np.int64],
    fewer: NDArray[np.int64],
    scores: NDArray[np.float64],
) -> None:
    """Score the people whose rows are the same; where that does not pay, set `fewer` to −1."""
    n_items = len(plan.support)
    slots, totals = np.empty(n_items, np.int64), np.empty(_TILE)
    for minus in range(2):
        wanted, n_rows = _rows_wanted(known, starts, stops, fewer == minus, slots)
        if n_rows < _WORTH * len(wanted):
            fewer[fewer == minus] = -1
            continue
        people = np.flatnonzero(fewer == minus)
        places = _places_of(known, starts[people], stops[people], slots, n_rows)
        ratios = aligned_zeros(len(wanted), _TILE, totals)
        for left in range(0, n_items, _TILE):
            right, done = min(left + _TILE, n_items), 0
            _divide(plan, wanted, minus, left, right, ratios)
            for person in people:
                n = stops[person] - starts[person]
                _sum_rows(ratios, places[done : done + n], totals)
                scores[person, left:right] = totals[: right - left]
                done += n


@njit(nogil=True, cache=True)
def score_outside(
    plan: Plan,
    known: NDArray[Any],
    starts: NDArray[np.int64],
    stops: NDArray[np.int64],
    items_taken: NDArray[np.uint32],
    times: NDArray[np.int64],
    own_starts: NDArray[np.int64],
    own_stops: NDArray[np.int64],
    scores: NDArray[np.float64],
) -> None:
    """Score every item for each person, who is left out of all counts; −∞ for what is known.

    Of each person ``known[starts:stops]`` is known, and ``items_taken[own_starts:own_stops]`` is
    what they have in the counts. Equal to `score_profile` to the last bit.
    """
    fewer = _fewer(plan, known, starts, stops, items_taken, own_starts, own_stops)
    _score_shared(plan, known, starts, stops, fewer, scores)
    room = room_for(len(plan.support))
    for person in range(len(starts)):
        profile = known[starts[person] : stops[person]].astype(np.int64)
        begin, end = own_starts[person], own_stops[person]
        own, when = items_taken[begin:end], times[begin:end]
        if fewer[person] < 0:
            scores[person] = score_profile(plan, profile, own, when, room)
        elif len(own) > len(profile):
            _score_own(plan, profile, own, when, scores[person])
        scores[person][profile] = -np.inf


def score_together(
    plan: Plan, statistics: PrecedenceStatistics, queries: Sequence[Query]
) -> NDArray[np.float64]:
    """Score every item for each query, −∞ for what is known: a row for each.

    At most one user is to be left out of each.
    """
    known = [query.history for query in queries]
    lengths = np.array([len(history) for history in known])
    stops = np.cumsum(lengths)
    scores = np.empty((len(queries), statistics.n_items))
    score_outside(
        plan,
        np.concatenate(known),
        stops - lengths,
        stops,
        *_left_out(statistics, [query.user for query in queries]),
        scores,
    )
    return scores


def _left_out(
    statistics: PrecedenceStatistics, users: Sequence[int | None]
) -> tuple[NDArray[np.uint32], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Give what all users took and when, and where that of each of some begins and ends."""
    interactions = statistics.interactions
    codes = np.array([-1 if user is None else user for user in users])
    if (codes >= 0).any():
        statistics.require_profiles("no user can be left out")
    # Nobody has the code −1, and a part that begins and ends where the first profile begins.
    starts, stops = interactions.offsets[np.maximum(codes, 0)], interactions.offsets[codes + 1]
    return interactions.items_taken, interactions.times, starts, stops
