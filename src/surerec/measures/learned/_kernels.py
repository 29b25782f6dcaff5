"""What is near, and the ridge's sums: kernels that release the GIL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray


_TILE = 512  # columns: four sums and a row of them stay in the first-level cache


@njit(nogil=True, cache=True)
def count_near(
    last: NDArray[np.int64],
    parts: NDArray[np.float32],
    windows: NDArray[np.int64],
    own_ends: NDArray[np.int64],
    span_offsets: NDArray[np.int64],
    starts: NDArray[Any],
    stops: NDArray[Any],
    items: NDArray[np.uint32],
    out: NDArray[np.float32],
) -> None:
    """Add ``parts[k]`` for each user who took an item soon after ``last[k]``, to ``out[w]``.

    Soon is among the next ``windows[w]`` items, which ascend. Spans are as in
    `surerec.precedence`; the users whose profiles end at `own_ends` are left out.
    """
    for k in range(len(last)):
        part = parts[k]
        for span in range(span_offsets[last[k]], span_offsets[last[k] + 1]):
            stop = np.int64(stops[span])
            is_left_out = False
            for end in own_ends:
                is_left_out |= stop == end
            if is_left_out:
                continue
            begin = np.int64(starts[span])
            reached = begin
            for w in range(len(windows)):
                end = min(stop, begin + windows[w])
                for place in range(np.uint64(reached), np.uint64(end)):
                    out[w, items[place]] += part
                reached = end


@njit(nogil=True, cache=True)
def _window(
    row: int,
    own: int,
    times: NDArray[np.int64],
    strict: bool,  # noqa: FBT001  # a kernel takes positional arguments only
    windows: NDArray[np.int64],
) -> int:
    """Give the first window after a row of a profile that reaches a later one, or their number."""
    start = row + 1
    while strict and times[start] == times[row]:
        start += 1
    for w in range(len(windows)):
        if own - start < windows[w]:
            return w
    return len(windows)


@njit(nogil=True, cache=True)
def leave_out_stand_ins(
    history: NDArray[np.int64],
    columns: NDArray[np.int64],
    stand_ins: NDArray[np.int64],
    offsets: NDArray[np.int64],
    items: NDArray[np.uint32],
    times: NDArray[np.int64],
    strict: bool,  # noqa: FBT001
    parts: NDArray[np.float32],
    windows: NDArray[np.int64],
    followers: NDArray[np.uint32],
    predecessors: NDArray[np.uint32],
    near: NDArray[np.float32],
    where: NDArray[np.int64],
    taken_at: NDArray[np.int64],
) -> None:
    """Take from each column what one of its takers contributed to it; −1 is nobody.

    `near` is by column as well, and `parts` are what the last items of the history weigh in it.
    Writes where in the flat profiles that taker took the item of the column. `where` is room for
    all items, and holds −1.
    """
    first_of_last = len(history) - len(parts)
    for j in range(len(columns)):
        user = stand_ins[j]
        taken_at[j] = -1
        if user < 0:
            continue
        profile = items[offsets[user] : offsets[user + 1]]
        where[profile] = np.arange(offsets[user], offsets[user + 1])
        own = where[columns[j]]
        taken_at[j] = own
        for k in range(len(history)):
            row = where[history[k]]
            if row < 0 or row == own or (strict and times[row] == times[own]):
                continue
            if row > own:
                predecessors[k, j] -= np.uint32(1)
                continue
            followers[k, j] -= np.uint32(1)
            if k >= first_of_last:
                w = _window(row, own, times, strict, windows)
                if w < len(windows):
                    near[w, j] -= parts[k - first_of_last]
        where[profile] = -1


@njit(nogil=True, cache=True)
def sum_rows(
    matrix: NDArray[np.float64],
    rows: NDArray[np.int64],
    weights: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None:
    """Write ``out[w] = Σ weights[w, k] · matrix[rows[k]]`` for every column."""
    n_columns = matrix.shape[1]
    for left in range(0, n_columns, _TILE):
        right = min(left + _TILE, n_columns)
        width = np.uint64(right - left)
        out[:, left:right] = 0.0
        for k in range(len(rows)):
            row = matrix[rows[k], left:right]
            for w in range(len(weights)):
                weight = weights[w, k]
                if weight != 0.0:
                    sums = out[w, left:right]
                    for j in range(width):
                        sums[j] += weight * row[j]


@njit(nogil=True, cache=True)
def sum_picked(
    matrix: NDArray[np.float64],
    rows: NDArray[np.int64],
    weights: NDArray[np.float64],
    columns: NDArray[np.int64],
    out: NDArray[np.float64],
) -> None:
    """Do the same for some columns alone."""
    out[:] = 0.0
    picked = np.empty(len(columns))
    width = np.uint64(len(columns))
    for k in range(len(rows)):
        row = matrix[rows[k]]
        for j in range(width):
            picked[j] = row[columns[j]]
        for w in range(len(weights)):
            weight = weights[w, k]
            if weight != 0.0:
                sums = out[w]
                for j in range(width):
                    sums[j] += weight * picked[j]
