"""The k best of many users in one call: what `recommend` does, without its cost per call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import njit

from surerec.conformal._kernels import count_at_most, levels_of
from surerec.measures._folding import room_for
from surerec.recommenders._fused import score_profile
from surerec.recommenders._likely import is_worth_a_rough_look, keep_best, score_likely

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.recommenders._fused import Plan

__all__ = ["Best", "as_columns", "best_of_users"]

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
def best_of_users(
    wish: Plan,
    starts: NDArray[np.int64],
    stops: NDArray[np.int64],
    n_training: NDArray[np.int64],
    items_taken: NDArray[np.uint32],
    times: NDArray[np.int64],
    cuts: NDArray[np.int64],
    items: NDArray[np.int64],
    counts: NDArray[np.int64],
    scores: NDArray[np.float64],
    n_found: NDArray[np.int64],
) -> None:
    """Find the best items of each user by the inductive method, the user left out of all counts.

    ``cuts[row]`` is the highest count that the user's set leaves out.
    """
    room = room_for(len(wish.support))
    rough = np.empty(len(wish.support), np.float32)
    for row in range(len(starts)):
        own, n = items_taken[starts[row] : stops[row]], n_training[row]
        when, cut = times[starts[row] : stops[row]], cuts[row]
        if is_worth_a_rough_look(wish, n, items.shape[1]):
            found = room.low
            ordered = score_likely(wish, own, when, n, cut, rough, items[row], scores[row], found)
        else:
            profile = own.astype(np.int64)
            found = score_profile(wish, profile[:n], own, when, room)
            ordered = np.sort(found[profile[n:]])
            found[profile] = -np.inf
        # In the set are the items with more scores not above them, their own included, than cut.
        lowest = ordered[cut - 1] if cut > 0 else _LOWEST
        n_best = keep_best(found, lowest, items[row], scores[row])
        n_found[row] = n_best
        count_at_most(levels_of(ordered), scores[row, :n_best], counts[row, :n_best])


def as_columns(best: Best) -> tuple[NDArray[Any], ...]:
    """Flatten the found ones: row of the user, item, count, score, rank."""
    k = best.items.shape[1]
    inside = np.arange(k) < best.n_found[:, None]
    rows, places = np.nonzero(inside)
    return rows, best.items[inside], best.counts[inside], best.scores[inside], places + 1
