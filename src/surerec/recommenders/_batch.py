"""The k best of many users in one call: what `recommend` does, without its cost per call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import njit

from surerec.conformal._kernels import count_at_most
from surerec.measures import _kernels as kernels
from surerec.measures._tiles import LeftOut, leave_out
from surerec.precedence import Source

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Best", "as_columns", "best_of_users"]

aggregate_columns = kernels.aggregate_columns
_PLACES = np.zeros(1 + kernels.HIGH, dtype=np.int64)  # of the aggregates, by which is wanted
_PLACES[[kernels.LOW, kernels.MIDDLE, kernels.TOTAL, kernels.HIGH]] = range(4)
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
def _with_places(rows: Source, places: NDArray[np.int64]) -> Source:
    return Source(rows.matrix, rows.counted, rows.offsets, rows.items, rows.counts, places)


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
    following: bool,  # noqa: FBT001
    forward: Source,
    reverse: Source,
    all_support: NDArray[np.uint32],
    cuts: NDArray[np.int64],
    items: NDArray[np.int64],
    counts: NDArray[np.int64],
    scores: NDArray[np.float64],
    n_found: NDArray[np.int64],
) -> None:
    """Find the best items of each user by the inductive method, the user left out of all counts.

    ``cuts[row]`` is the highest count that the user's set leaves out.
    """
    n_items = len(all_support)
    room = np.empty((4, n_items))
    low, middle, total, high = room[0], room[1], room[2], room[3]
    found = room[_PLACES[wanted]]
    for row in range(len(starts)):
        own = items_taken[starts[row] : stops[row]]
        profile = own.astype(np.int64)
        training, calibration = profile[: n_training[row]], profile[n_training[row] :]
        own_times = times[starts[row] : stops[row]]
        instants, of_rows, support = leave_out(training, all_support, own, own_times, strict)
        out = LeftOut(own, instants, of_rows, support)
        source = _with_places(forward, training)
        back = _with_places(reverse, training)
        aggregate_columns(
            0, n_items, statistic, wanted, following, source, back, out, low, middle, total, high
        )
        ordered = np.sort(sign * found[calibration])
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
