"""The k best of many users in one call: what `recommend` does, without its cost per call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import njit

from surerec.conformal._kernels import count_at_most
from surerec.measures import _kernels as kernels

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Best", "as_columns", "best_of_users"]

_aggregate_counts = kernels.aggregate_counts
_aggregate_values = kernels.aggregate_values
_gather_columns = kernels.gather_columns
_MIDDLE, _TOTAL, _LOW = kernels.MIDDLE, kernels.TOTAL, kernels.LOW
_RATIO = kernels.RATIO
_LOWEST = float(np.finfo(np.float64).min)  # below every score, but not the known items' −∞


class Best(NamedTuple):
    """For each user (row) the best items, as many as there are."""

    items: NDArray[np.int64]
    counts: NDArray[np.int64]
    scores: NDArray[np.float64]
    n_found: NDArray[np.int64]

    @classmethod
    def empty(cls, n_users: int, k: int) -> Best:
        """Give room for the k best of so many users."""
        shape = (n_users, k)
        return cls(
            np.empty(shape, np.int64),
            np.empty(shape, np.int64),
            np.empty(shape, np.float64),
            np.zeros(n_users, np.int64),
        )


@njit(nogil=True, cache=True)
def _score_columns(
    statistic: int,
    wanted: int,
    counts: NDArray[np.uint32],
    picks: NDArray[np.int64],
    back: NDArray[np.uint32],
    back_picks: NDArray[np.int64],
    support: NDArray[np.int64],
    room: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Aggregate one statistic, and give the one aggregate that is wanted."""
    n = counts.shape[1]
    low, middle, total, high = room[0, :n], room[1, :n], room[2, :n], room[3, :n]
    if statistic == 0:
        _aggregate_counts(wanted, counts, picks, low, middle, total, high)
    else:
        _aggregate_values(
            statistic, wanted, counts, picks, back, back_picks, support, low, middle, total, high
        )
    if wanted == _LOW:
        return low
    if wanted == _MIDDLE:
        return middle
    return total if wanted == _TOTAL else high


@njit(nogil=True, cache=True)
def _keep_best(
    scores: NDArray[np.float64],
    lowest: float,
    items: NDArray[np.int64],
    best_scores: NDArray[np.float64],
) -> int:
    """Keep the items of the highest scores, none below `lowest`; give their number.

    Equal scores keep the order of the codes. A p-value never falls as the score rises, so this is
    the order by p-value, score and code too, found without a p-value for every item.
    """
    k, found = len(items), 0
    for item in range(len(scores)):
        score = scores[item]
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
def best_of_users(
    starts: NDArray[np.int64],
    stops: NDArray[np.int64],
    n_training: NDArray[np.int64],
    items_taken: NDArray[np.uint32],
    times: NDArray[np.int64],
    strict: bool,  # noqa: FBT001  # a kernel takes positional arguments only
    statistic: int,
    wanted: int,
    sign: float,
    forward: NDArray[np.uint32],
    reverse: NDArray[np.uint32],
    literal: bool,  # noqa: FBT001
    all_support: NDArray[np.uint32],
    cuts: NDArray[np.int64],
    items: NDArray[np.int64],
    counts: NDArray[np.int64],
    scores: NDArray[np.float64],
    n_found: NDArray[np.int64],
) -> None:
    """Find the best items of each user by the inductive method, the user left out of all counts.

    A candidate's columns have no part of the user's own; those of the calibration items have, and
    are gathered without it. ``cuts[row]`` is the highest count that the user's set leaves out.
    """
    n_items = forward.shape[1]
    room = np.empty((4, n_items))
    own_room = np.empty((4, n_items))
    for row in range(len(starts)):
        profile = items_taken[starts[row] : stops[row]].astype(np.int64)
        instants = np.arange(len(profile))
        if strict:
            for place in range(1, len(profile)):
                later = times[starts[row] + place] != times[starts[row] + place - 1]
                instants[place] = instants[place - 1] + later
        m = n_training[row]
        training, calibration = profile[:m], profile[m:]
        support = all_support[training].astype(np.int64) - 1
        found = _score_columns(
            statistic, wanted, forward, training, reverse, training, support, room
        )
        own = np.empty((m, len(calibration)), np.uint32)
        _gather_columns(
            forward, training, calibration, instants[:m], instants[m:], not literal, own
        )
        back = own
        if statistic == _RATIO:
            back = np.empty_like(own)
            _gather_columns(
                reverse, training, calibration, instants[:m], instants[m:], literal, back
            )
        each = np.arange(m)
        known = _score_columns(statistic, wanted, own, each, back, each, support, own_room)
        ordered = np.sort(sign * known)
        for item in range(n_items):
            found[item] *= sign
        found[profile] = -np.inf
        # In the set are the items with more scores not above them, their own included, than cut.
        lowest = ordered[cuts[row] - 1] if cuts[row] > 0 else _LOWEST
        n = _keep_best(found, lowest, items[row], scores[row])
        n_found[row] = n
        count_at_most(ordered, scores[row, :n], counts[row, :n])


def as_columns(best: Best) -> tuple[NDArray[Any], ...]:
    """Flatten the found ones: row of the user, item, count, score, rank."""
    k = best.items.shape[1]
    inside = np.arange(k) < best.n_found[:, None]
    rows, places = np.nonzero(inside)
    return rows, best.items[inside], best.counts[inside], best.scores[inside], places + 1
