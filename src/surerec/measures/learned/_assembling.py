"""Sums over a profile's rows brought to features, with what is known of item and profile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numba import njit

from surerec.measures._vectors import aligned_room
from surerec.measures.learned import _strip_kernels as strips
from surerec.measures.learned import _sum_kernels as summed

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from surerec.measures._aggregates import ProfileRows
    from surerec.measures._tiles import LeftOutUser
    from surerec.measures.learned._items import ItemMeans
    from surerec.precedence import RowSource

N_LAST: Final = 5
"""Items of a profile that are its last."""
_BLOCK: Final = 1024  # columns, a multiple of a strip's, that a thread sums at a time


def sums_in_parts(
    forward: RowSource,
    reverse: RowSource,
    out: LeftOutUser,
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
    own_support, own_place, own_time = (column[rows.history] for column in means)
    popularity = np.log((support + 1) / (n_users + 1))
    of_profile = np.log((own_support + 1) / (n_users + 1)).mean()
    about = m, n_users, min(m, N_LAST), own_place.mean(), own_time.mean(), of_profile
    _fill(sums, near, support, place, time, popularity, ridge, *about, out)


@njit(nogil=True, cache=True, error_model="numpy")
def _divide(values: NDArray[np.float32], by: int, out: NDArray[np.float32]) -> None:
    """Divide in 32 bits."""
    divisor = np.float32(by)
    for j in range(np.uint64(len(out))):
        out[j] = values[j] / divisor


@njit(nogil=True, cache=True)
def _scale(
    values: NDArray[np.float32], lengths: NDArray[np.float64], out: NDArray[np.float32]
) -> None:
    """Multiply in 64 bits."""
    for j in range(np.uint64(len(out))):
        out[j] = np.float64(values[j]) * lengths[j]


@njit(nogil=True, cache=True, error_model="numpy")
def _fill(
    sums: NDArray[np.float32],
    near: NDArray[np.float32],
    support: NDArray[np.int64],
    place: NDArray[np.float64],
    time: NDArray[np.float64],
    popularity: NDArray[np.float64],
    ridge: NDArray[np.float64],
    m: int,
    n_users: int,
    n_last: int,
    own_place: float,
    own_time: float,
    of_profile: float,
    out: NDArray[np.float32],
) -> None:
    """Write the features in the order of `FEATURES`; what is not 64 bits stays in 32."""
    count, back = sums[summed.COUNT], sums[summed.BACK]
    width, one, two = np.uint64(out.shape[1]), np.float32(1.0), np.float32(2.0)
    lengths, users = np.empty(out.shape[1]), np.float32(n_users)
    for j in range(width):
        lengths[j] = 1.0 / np.sqrt(np.float64(max(support[j], 1)))
    _divide(count, m * n_users, out[0])
    _divide(sums[summed.SHARE], m, out[1])
    out[2] = sums[summed.RECENT_SHARE]
    _divide(sums[summed.LAST_SHARE], n_last, out[3])
    out[4] = near[0]
    out[6] = sums[summed.HIGH_SHARE]
    out[7] = sums[summed.MIDDLE_RATIO]
    _divide(sums[summed.RATIO], m, out[8])
    out[9] = sums[summed.HIGH_RATIO]
    _divide(sums[summed.BACK_SHARE], m, out[10])
    _divide(sums[summed.COSINE], m, out[12])
    _scale(out[12], lengths, out[12])
    _scale(sums[summed.RECENT_COSINE], lengths, out[13])
    _scale(sums[summed.HIGH_COSINE], lengths, out[14])
    out[20] = np.float32(m)
    out[21] = np.float32(of_profile)
    for j in range(width):
        out[5, j] = near[0, j] + near[1, j]
        out[11, j] = (count[j] + one) / ((count[j] + back[j]) + two)
    share, lift = out[1], out[15]
    for j in range(width):
        lift[j] = np.float64(share[j] * users) / np.float64(support[j] + 1)
    for j in range(width):
        out[16, j] = popularity[j]
        out[17, j] = place[j]
        out[18, j] = place[j] - own_place
        out[19, j] = time[j] - own_time
    for k in range(4):
        scores, row = ridge[k], out[22 + k]
        for j in range(width):
            row[j] = scores[j]


@njit(nogil=True, cache=True)
def clear_nothing(found: NDArray[np.float32], nothing: Any) -> None:
    """Set what is nearer to 0 than `nothing` to 0."""
    for f in range(len(found)):
        row = found[f]
        for j in range(np.uint64(len(row))):
            row[j] = np.float32(0.0) if abs(row[j]) < nothing else row[j]
