"""Many profiles scored at once: each ratio is divided once for all of them.

A ratio waits for the divider, and adding one that is there does not. The rows of popular items are
in many profiles, and without any one of the users who took it an item's row is the same, but for
the columns of what that user took: these are scored by themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

from surerec.measures._folding import NARROW, RATIO, TOTAL, room_for
from surerec.measures._plan import rows_of, score_profile
from surerec.measures._rough import total_ratios_of

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
def _add_up(
    ratios: NDArray[np.float64],
    slots: NDArray[np.int64],
    profile: NDArray[Any],
    totals: NDArray[np.float64],
) -> None:
    """Add the ratios of a profile's rows up, in their order; several at a time are read."""
    n, width = len(profile), np.uint64(len(totals))
    totals[:] = 0.0
    for k in range(0, n - n % 4, 4):
        first, second = ratios[slots[profile[k]]], ratios[slots[profile[k + 1]]]
        third, fourth = ratios[slots[profile[k + 2]]], ratios[slots[profile[k + 3]]]
        for j in range(width):
            totals[j] = (((totals[j] + first[j]) + second[j]) + third[j]) + fourth[j]
    for k in range(n - n % 4, n):
        last = ratios[slots[profile[k]]]
        for j in range(width):
            totals[j] += last[j]


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
    slots = np.empty(n_items, np.int64)
    for minus in range(2):
        wanted, n_rows = _rows_wanted(known, starts, stops, fewer == minus, slots)
        if n_rows < _WORTH * len(wanted):
            fewer[fewer == minus] = -1
            continue
        ratios = np.empty((len(wanted), _TILE))
        for left in range(0, n_items, _TILE):
            right = min(left + _TILE, n_items)
            _divide(plan, wanted, minus, left, right, ratios)
            for person in np.flatnonzero(fewer == minus):
                profile = known[starts[person] : stops[person]]
                _add_up(ratios, slots, profile, scores[person, left:right])


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
    own, times = zip(*(statistics.taken_by(query.user) for query in queries), strict=True)
    scores = np.empty((len(queries), statistics.n_items))
    score_outside(
        plan,
        np.concatenate(known),
        *_ends(known),
        np.concatenate(own),
        np.concatenate(times),
        *_ends(own),
        scores,
    )
    return scores


def _ends(parts: Sequence[NDArray[Any]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Give where each part begins and ends among all of them."""
    lengths = np.array([len(part) for part in parts])
    stops = np.cumsum(lengths)
    return stops - lengths, stops
