"""Features of every item for a profile, and trees over them: kernels that release the GIL.

Everything is in 32-bit lanes, one lane a column, so that a column's value does not depend on which
other columns are computed with it: a user left out leaves no trace, not even in a last bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

from surerec.measures._medians import STRIP_BYTES, aligned_zeros, middles_of_counts

if TYPE_CHECKING:
    from numpy.typing import NDArray


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
_TREE_TILE = 512  # neighbours in popularity


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


@njit(nogil=True, cache=True)
def summarise_rows(
    counts: NDArray[np.integer],
    picks: NDArray[np.int64],
    reverse: NDArray[np.integer],
    reverse_picks: NDArray[np.int64],
    support: NDArray[np.int64],
    recent: NDArray[np.float32],
    n_last: int,
    sums: NDArray[np.float32],
) -> None:
    """Summarise the rows of a profile for every column, in one pass over them.

    Row ``k`` of the followers is ``counts[picks[k]]``, of the predecessors
    ``reverse[reverse_picks[k]]``; the item of that row was taken by ``support[k]`` users and weighs
    ``recent[k]`` where recency counts. `sums` has N_SUMS rows; cosines still want their column's
    length, and all of it its divisor.
    """
    n_rows, n_columns = len(picks), counts.shape[1]
    forward, back = np.empty(_TILE, np.float32), np.empty(_TILE, np.float32)
    ratio, tile = np.empty(_TILE, np.float32), np.empty((N_SUMS, _TILE), np.float32)
    work = np.empty((2, STRIP_BYTES // 4), np.uint32)
    # A cache line wider than a tile: a strip's rows then do not compete for the same cache sets.
    steps = aligned_zeros(n_rows, _TILE + STRIP_BYTES // 4, work)
    middle = np.empty(_TILE)
    for left in range(0, n_columns, _TILE):
        width = min(_TILE, n_columns - left)
        end = np.uint64(width)
        tile[:] = np.float32(0.0)
        for k in range(n_rows):
            row = counts[picks[k], left : left + width]
            other = reverse[reverse_picks[k], left : left + width]
            for j in range(end):
                forward[j] = np.float32(row[j])
                back[j] = np.float32(other[j])
            last = np.float32(k >= n_rows - n_last)
            _add_row(
                forward[:width],
                back[:width],
                ratio[:width],
                np.float32(support[k]),
                recent[k],
                last,
                tile,
            )
            step = steps[k]
            for j in range(end):
                step[j] = np.uint32(np.int32(ratio[j] * np.float32(STEPS)))
        middles_of_counts(steps, work, middle[:width])
        for j in range(end):
            tile[MIDDLE_RATIO, j] = np.float32(middle[j] / (2.0 * STEPS))
        sums[:, left : left + width] = tile[:, :width]


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
    for k in range(len(rows)):
        row = matrix[rows[k]]
        for w in range(len(weights)):
            weight = weights[w, k]
            if weight != 0.0:
                for j in range(len(columns)):
                    out[w, j] += weight * row[columns[j]]


@njit(nogil=True, cache=True)
def add_trees(
    features: NDArray[np.float32],
    tree_starts: NDArray[np.int64],
    node_features: NDArray[np.int64],
    thresholds: NDArray[np.float32],
    keeps: NDArray[np.unsignedinteger],
    leaf_values: NDArray[np.float64],
    places: NDArray[np.int64],
    constants: NDArray[np.unsignedinteger],
    scores: NDArray[np.float64],
) -> None:
    """Add the value of every tree to the score of every column.

    A column's leaf is found without walking: each node whose test fails strikes out the leaves to
    its left, and the leftmost leaf that is left is the one (QuickScorer). So the work is the same
    for all columns and runs in vector lanes, at a third of the time of walking. A node that no
    column of a tile fails, or all of them do, is not looked at column by column: neighbours in
    popularity are alike in most of their features. Masks are of as many bits as a tree may have
    leaves, 32 or 64; `constants` are of that kind as well: all bits, no bit, and what turns the
    lowest bit into its place in `places`.
    """
    n_features, n_columns = features.shape
    whole, nothing, spread, shift = constants[0], constants[1], constants[2], constants[3]
    alive_room = np.empty(_TREE_TILE, keeps.dtype)
    common = np.empty(1, keeps.dtype)  # in as many bits
    lowest_of, highest_of = np.empty(n_features, np.float32), np.empty(n_features, np.float32)
    for left in range(0, n_columns, _TREE_TILE):
        right = min(left + _TREE_TILE, n_columns)
        width = np.uint64(right - left)
        total = scores[left:right]
        alive = alive_room[: right - left]
        for f in range(n_features):
            lowest_of[f], highest_of[f] = _range(features[f, left:right])
        for tree in range(len(tree_starts) - 1):
            alive[:] = whole
            common[0] = whole
            for node in range(tree_starts[tree], tree_starts[tree + 1]):
                f, threshold, keep = node_features[node], thresholds[node], keeps[node]
                if highest_of[f] <= threshold:
                    continue
                if lowest_of[f] > threshold:
                    common[0] &= keep
                    continue
                values = features[f, left:right]
                for j in range(width):
                    alive[j] &= whole if values[j] <= threshold else keep
            leaves = leaf_values[tree]
            of_all = common[0]
            for j in range(width):
                left_over = alive[j] & of_all
                alive[j] = (left_over & (nothing - left_over)) * spread  # kept in as many bits
                total[j] += leaves[places[alive[j] >> shift]]


@njit(nogil=True, cache=True)
def _range(values: NDArray[np.float32]) -> tuple[Any, Any]:
    """Give the lowest and the highest."""
    low, high = values[0], values[0]
    for j in range(len(values)):
        low = min(low, values[j])
        high = max(high, values[j])
    return low, high
