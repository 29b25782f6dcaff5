"""Stand-ins left out of columns: kernels that release the GIL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray


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
