"""Sums over a profile's rows brought to features, with what is known of item and profile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from surerec.measures._vectors import aligned_room
from surerec.measures.learned import _strip_kernels as strips
from surerec.measures.learned import _sum_kernels as summed

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from surerec.measures._aggregates import ProfileRows
    from surerec.measures._tiles import LeftOut
    from surerec.measures.learned._items import ItemMeans
    from surerec.precedence import Source

N_LAST: Final = 5
"""Items of a profile that are its last."""
_BLOCK: Final = 1024  # columns, a multiple of a strip's, that a thread sums at a time


def sums_in_parts(
    forward: Source,
    reverse: Source,
    out: LeftOut,
    weights: NDArray[np.float32],
    n_columns: int,
) -> tuple[NDArray[np.float32], list[Callable[[], None]]]:
    """Give room for what rows come to in each column, and what must be called to fill it.

    Without what a user contributed. The parts may be called side by side.
    """
    sums = np.empty((summed.N_SUMS, n_columns), np.float32)
    if not strips.in_strips(forward, reverse, out, n_columns):
        return sums, [lambda: summed.summarise_rows(forward, reverse, out, weights, N_LAST, sums)]
    rows = strips.strip_rows(
        forward.matrix, reverse.matrix, forward.places, reverse.places, out, weights, n_columns
    )

    def part(left: int) -> Callable[[], None]:
        def fill() -> None:
            steps = aligned_room((len(weights), strips.N_COLUMNS), np.uint16)
            right = min(left + _BLOCK, n_columns)
            strips.sum_strips(rows, left, right, N_LAST, steps, sums)

        return fill

    return sums, [part(left) for left in range(0, n_columns, _BLOCK)]


def assemble(
    sums: NDArray[np.float32],
    here: ItemMeans,
    means: ItemMeans,
    rows: ProfileRows,
    ridge: NDArray[np.float64],
    near: NDArray[np.float32],
    out: NDArray[np.float32],
) -> None:
    """Bring sums to means, and put what is known of item and profile beside them."""
    m, n_users = len(rows.history), max(rows.n_users, 1)
    support, place, time = here
    popularity = np.log((support + 1) / (n_users + 1))
    length = 1 / np.sqrt(np.maximum(support, 1))
    share = sums[summed.SHARE] / m
    count, back = sums[summed.COUNT], sums[summed.BACK]
    n_last = min(m, N_LAST)
    own_support, own_place, own_time = (column[rows.history] for column in means)
    values = {  # in the order of `FEATURES`
        "count": count / (m * n_users),
        "share": share,
        "recent_share": sums[summed.RECENT_SHARE],
        "last_share": sums[summed.LAST_SHARE] / n_last,
        "next": near[0],
        "soon": near[0] + near[1],
        "max_share": sums[summed.HIGH_SHARE],
        "median_ratio": sums[summed.MIDDLE_RATIO],
        "ratio": sums[summed.RATIO] / m,
        "max_ratio": sums[summed.HIGH_RATIO],
        "back_share": sums[summed.BACK_SHARE] / m,
        "order": (count + 1) / (count + back + 2),
        "cosine": sums[summed.COSINE] / m * length,
        "recent_cosine": sums[summed.RECENT_COSINE] * length,
        "max_cosine": sums[summed.HIGH_COSINE] * length,
        "lift": share * n_users / (support + 1),
        "support": popularity,
        "place": place,
        "place_ahead": place - own_place.mean(),
        "days_ahead": time - own_time.mean(),
        "length": m,
        "profile_support": np.log((own_support + 1) / (n_users + 1)).mean(),
        "ridge": ridge[0],
        "late_ridge": ridge[1],
        "recent_ridge": ridge[2],
        "last_ridge": ridge[3],
    }
    for row, value in enumerate(values.values()):
        out[row] = value
