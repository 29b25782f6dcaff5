"""Sums over the rows of a profile for every column, in one pass: kernels that release the GIL.

Everything is in 32-bit lanes, one lane a column, so that a column's value does not depend on which
other columns are computed with it: a user left out leaves no trace, not even in a last bit.

Rows are read from wherever a store holds them, and the user's own part is subtracted on the way. Of
a compressed row only what is in it is looked at, where that is little: adding nothing changes
nothing, to the last bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

from surerec.measures._tiles import mark_own, own_columns
from surerec.measures._vectors import STRIP_BYTES, aligned_zeros, middles_of_counts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.measures._tiles import LeftOutUser
    from surerec.precedence import RowSource


(
    COUNT,
    BACK,
    SHARE,
    RECENT_SHARE,
    LAST_SHARE,
    BACK_SHARE,
    RATIO,
    HIGH_RATIO,
    HIGH_SHARE,
    COSINE,
    RECENT_COSINE,
    HIGH_COSINE,
    MIDDLE_RATIO,
) = range(13)
"""The rows of what `summarise_rows` writes."""
N_SUMS = 13

STEPS = 65536
"""Steps of a ratio between 0 and 1 in which medians are found."""

_TILE = 512  # columns: the sums and two rows of them stay in the first-level cache
_SPARSE = 8  # a row with less than one in so many columns is added column by column


@njit(nogil=True, cache=True, error_model="numpy")
def _add_row(
    forward: NDArray[np.float32],
    back: NDArray[np.float32],
    ratio: NDArray[np.float32],
    taken: Any,
    recent: Any,
    last: Any,
    sums: NDArray[np.float32],
) -> None:
    """Take one row into the sums; short loops, so that each is compiled to vector code."""
    width = np.uint64(len(forward))
    one = np.float32(1.0)
    part = one / taken if taken > np.float32(0.0) else np.float32(0.0)
    length = one / np.sqrt(taken) if taken > np.float32(0.0) else np.float32(0.0)
    known = taken > np.float32(0.0)
    count, backs = sums[COUNT], sums[BACK]
    for j in range(width):
        count[j] += forward[j]
        backs[j] += back[j]
    share, recents = sums[SHARE], sums[RECENT_SHARE]
    lasts, highest = sums[LAST_SHARE], sums[HIGH_SHARE]
    for j in range(width):
        value = forward[j] * part
        share[j] += value
        recents[j] += recent * value
        highest[j] = max(highest[j], value)
    if last > np.float32(0.0):
        for j in range(width):
            lasts[j] += forward[j] * part
    total, high = sums[RATIO], sums[HIGH_RATIO]
    if known:
        for j in range(width):
            free = taken - back[j]
            value = forward[j] / max(one, free)
            ratio[j] = value
            total[j] += value
            high[j] = max(high[j], value)
    else:
        ratio[:] = np.float32(0.0)
    back_share = sums[BACK_SHARE]
    cosine, recent_cosine, high_cosine = sums[COSINE], sums[RECENT_COSINE], sums[HIGH_COSINE]
    for j in range(width):
        back_share[j] += back[j] * part
        value = (forward[j] + back[j]) * length
        cosine[j] += value
        recent_cosine[j] += recent * value
        high_cosine[j] = max(high_cosine[j], value)


@njit(nogil=True, cache=True, error_model="numpy")
def _add_columns(
    columns: NDArray[np.int64],
    forward: NDArray[np.int32],
    back: NDArray[np.int32],
    ratio: NDArray[np.float32],
    taken: Any,
    recent: Any,
    last: Any,
    sums: NDArray[np.float32],
) -> None:
    """Take some columns of a row into the sums, as `_add_row` does: to the last bit."""
    one = np.float32(1.0)
    known = taken > np.float32(0.0)
    part = one / taken if known else np.float32(0.0)
    length = one / np.sqrt(taken) if known else np.float32(0.0)
    for j in columns:
        after, before = np.float32(forward[j]), np.float32(back[j])
        sums[COUNT, j] += after
        sums[BACK, j] += before
        share = after * part
        sums[SHARE, j] += share
        sums[RECENT_SHARE, j] += recent * share
        sums[HIGH_SHARE, j] = max(sums[HIGH_SHARE, j], share)
        if last > np.float32(0.0):
            sums[LAST_SHARE, j] += share
        ratio[j] = np.float32(0.0)
        if known:
            value = after / max(one, taken - before)
            ratio[j] = value
            sums[RATIO, j] += value
            sums[HIGH_RATIO, j] = max(sums[HIGH_RATIO, j], value)
        sums[BACK_SHARE, j] += before * part
        cosine = (after + before) * length
        sums[COSINE, j] += cosine
        sums[RECENT_COSINE, j] += recent * cosine
        sums[HIGH_COSINE, j] = max(sums[HIGH_COSINE, j], cosine)


@njit(nogil=True, cache=True)
def _load(
    source: RowSource,
    k: int,
    left: int,
    cursors: NDArray[np.int64],
    tile: NDArray[np.int32],
    columns: NDArray[np.int64],
    n_columns: int,
) -> int:
    """Write the columns of row `k` from `left` on into a tile of zeros; −1, if it is not sparse.

    Else it says which it wrote in `columns`, behind the first `n_columns`, and gives how many there
    are then. ``cursors[k]`` is how far a compressed row was read: tiles come from left to right.
    """
    place, width = source.places[k], np.uint64(len(tile))
    n_dense, n_counted = len(source.matrix), len(source.counted)
    if place < n_dense:
        row = source.matrix[place, left : left + len(tile)]
        for j in range(width):
            tile[j] = np.int32(row[j])
        return -1
    if place < n_dense + n_counted:
        other = source.counted[place - n_dense, left : left + len(tile)]
        for j in range(width):
            tile[j] = np.int32(other[j])
        return -1
    place -= n_dense + n_counted
    at, end, stop = cursors[k], source.offsets[place + 1], left + len(tile)
    n = n_columns
    while at < end and source.items[at] < stop:
        column = np.int64(source.items[at]) - left
        # Always inside, if the items ascend, which those of a stranger may not.
        if column >= 0 and n < len(columns):
            tile[column] = np.int32(source.counts[at])
            columns[n] = column
            n += 1
        at += 1
    cursors[k] = at
    return n


@njit(nogil=True, cache=True)
def _begins(source: RowSource) -> NDArray[np.int64]:
    """Give where each compressed row begins."""
    n_before = len(source.matrix) + len(source.counted)
    begins = np.zeros(len(source.places), np.int64)
    for k in range(len(begins)):
        if source.places[k] >= n_before:
            begins[k] = source.offsets[source.places[k] - n_before]
    return begins


@njit(nogil=True, cache=True)
def _without_own(
    columns: NDArray[np.int64],
    n_after: int,
    after: NDArray[np.int32],
    before: NDArray[np.int32],
    minus: NDArray[np.int32],
    minus_back: NDArray[np.int32],
) -> NDArray[np.int64]:
    """Leave the user out of some columns, and give each once: what precedes may also follow."""
    n = 0
    for place in range(len(columns)):
        j = columns[place]
        if place < n_after or not after[j]:
            columns[n] = j
            n += 1
    for j in columns[:n]:
        after[j] -= minus[j]
        before[j] -= minus_back[j]
    return columns[:n]


@njit(nogil=True, cache=True)
def _note_ratios(
    ratio: NDArray[np.float32], step: NDArray[np.uint32], nonzero: NDArray[np.int32]
) -> None:
    """Write the ratios of a row in steps, and count those of each column that are not zero."""
    for j in range(np.uint64(len(ratio))):
        step[j] = np.uint32(np.int32(ratio[j] * np.float32(STEPS)))
        nonzero[j] += np.int32(ratio[j] > np.float32(0.0))


@njit(nogil=True, cache=True)
def _summarise_tile(
    left: int,
    width: int,
    source: RowSource,
    reverse: RowSource,
    out: LeftOutUser,
    recent: NDArray[np.float32],
    n_last: int,
    cursors: NDArray[np.int64],
    back_cursors: NDArray[np.int64],
    own: NDArray[np.int64],
    instants: NDArray[np.int64],
    numbers: NDArray[np.int32],
    floats: NDArray[np.float32],
    columns: NDArray[np.int64],
    steps: NDArray[np.uint32],
    tile: NDArray[np.float32],
) -> None:
    """Add up the rows of `width` columns from `left` on in `tile`, and note their ratios in steps.

    `own` are those of the user to leave out, in time order, taken at `instants`. `numbers` and
    `floats` are room; of the first, row 4 then has for each column how many ratios are not zero.
    """
    n_rows = len(source.places)
    numbers[:] = 0
    # Row by row: those of a part of the columns would not lie side by side for the compiler.
    after, before, minus = numbers[0, :width], numbers[1, :width], numbers[2, :width]
    minus_back, nonzero = numbers[3, :width], numbers[4, :width]
    forward, back, ratio = floats[0, :width], floats[1, :width], floats[2, :width]
    done, done_back, earlier = 0, 0, -1
    for k in range(n_rows):
        if len(own):
            at = out.of_rows[k]
            done = mark_own(at, earlier, done, own, instants, True, minus)
            done_back = mark_own(at, earlier, done_back, own, instants, False, minus_back)
            earlier = at
        n_after = _load(source, k, left, cursors, after, columns, 0)
        n_both = _load(reverse, k, left, back_cursors, before, columns, max(n_after, 0))
        taken, last = np.float32(out.support[k]), np.float32(k >= n_rows - n_last)
        step = steps[k]
        if n_after < 0 or n_both < 0 or n_both * _SPARSE > width:
            for j in range(np.uint64(width)):
                forward[j] = np.float32(after[j] - minus[j])
                back[j] = np.float32(before[j] - minus_back[j])
            after[:] = 0
            before[:] = 0
            _add_row(forward, back, ratio, taken, recent[k], last, tile)
            _note_ratios(ratio, step, nonzero)
            continue
        step[:] = np.uint32(0)
        some = _without_own(columns[:n_both], n_after, after, before, minus, minus_back)
        _add_columns(some, after, before, ratio, taken, recent[k], last, tile)
        for j in some:
            _note_ratios(ratio[j : j + 1], step[j : j + 1], nonzero[j : j + 1])
            after[j] = 0
            before[j] = 0


@njit(nogil=True, cache=True)
def summarise_rows(
    source: RowSource,
    reverse: RowSource,
    out: LeftOutUser,
    recent: NDArray[np.float32],
    n_last: int,
    sums: NDArray[np.float32],
) -> None:
    """Summarise the rows of a profile for every column, in one pass over them.

    The rows of `source` are the followers of the profile's items, those of `reverse` their
    predecessors; a user's own part is left `out`. The item of row ``k`` weighs ``recent[k]`` where
    recency counts. `sums` has N_SUMS rows; cosines still want their column's length, and all of it
    its divisor.
    """
    n_rows, n_columns = len(source.places), sums.shape[1]
    own, instants = np.empty(_TILE, np.int64), np.empty(_TILE, np.int64)
    columns = np.empty(2 * _TILE, np.int64)
    cursors, back_cursors = _begins(source), _begins(reverse)
    numbers, floats = np.empty((5, _TILE), np.int32), np.empty((3, _TILE), np.float32)
    tile, middle = np.empty((N_SUMS, _TILE), np.float32), np.empty(_TILE)
    work = np.empty((2, STRIP_BYTES // 4), np.uint32)
    # A cache line wider than a tile: a strip's rows then do not compete for the same cache sets.
    steps = aligned_zeros(n_rows, _TILE + STRIP_BYTES // 4, work)
    for left in range(0, n_columns, _TILE):
        width = min(_TILE, n_columns - left)
        n_own = own_columns(out, left, left + width, own, instants)
        tile[:] = np.float32(0.0)
        _summarise_tile(
            left,
            width,
            source,
            reverse,
            out,
            recent,
            n_last,
            cursors,
            back_cursors,
            own[:n_own],
            instants[:n_own],
            numbers,
            floats,
            columns,
            steps,
            tile,
        )
        # Where less than half of the ratios are not zero, so is the middle.
        if numbers[4, :width].max() > (n_rows - 1) // 2:
            middles_of_counts(steps, work, middle[:width])
            for j in range(np.uint64(width)):
                tile[MIDDLE_RATIO, j] = np.float32(middle[j] / (2.0 * STEPS))
        sums[:, left : left + width] = tile[:, :width]
