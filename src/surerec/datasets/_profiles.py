"""How one user's synthetic profile is filled: pure functions on arrays, a stream for each user."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from surerec._words import DAY
from surerec.datasets._kernels import (
    FAVOURITES,
    FIRST_SECOND,
    ORIGINAL,
    SEQUEL,
    draw,
    kernel,
    seed_stream,
    shift_of,
    uniform,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.datasets._kernels import Catalogue, Habits, Workspace

    Codes = NDArray[np.uint32]
    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Stamps = NDArray[np.int32]
    State = NDArray[np.uint64]


_MICROSECONDS: Final = 1_000_000
_EPOCH_SECONDS: Final = 91 * DAY // _MICROSECONDS  # about a quarter
_FOLLOW: Final = 0.6  # chance that who takes an original wants its sequel
_SOON: Final = 0.5  # chance, at each later draw, that a wanted sequel is drawn
_ORIGINAL_FIRST: Final = 0.9  # chance that who comes upon a sequel takes its unseen original
_TRIES: Final = 24
_SHELF_TRIES: Final = 8  # a favourite genre may be used up; then the whole catalogue serves
_LONG_SHARE: Final = 4  # a profile of more than 1 / 4 of the catalogue is drawn as a race
_TRACE: Final = 1e-9  # weight of the whole catalogue in a race, for when favourites are used up


@kernel
def _fill_times(state: State, habits: Habits, gaps: Floats, times: Ints) -> None:
    """Fill one user's times: a random start and span, random gaps; strictly rising but for ties."""
    n_moments = 1
    total = 0.0
    gaps[0] = 0.0
    for k in range(1, times.size):
        gaps[k] = 0.0  # a tie
        if habits.ties == 0.0 or uniform(state) >= habits.ties:
            gaps[k] = -math.log(uniform(state))
            total += gaps[k]
            n_moments += 1
    room = float(habits.seconds - n_moments)
    start = uniform(state) * room
    span = uniform(state) * (room - start)
    moment = 0
    past = 0.0
    for k in range(times.size):
        if gaps[k] > 0.0:
            moment += 1  # one second at least
            past += gaps[k]
        spent = span * min(past / total, 1.0) if total > 0.0 else 0.0
        times[k] = (FIRST_SECOND + moment + int(start + spent)) * _MICROSECONDS


@kernel
def _epoch(time: np.int64) -> int:
    return int((time // _MICROSECONDS - FIRST_SECOND) // _EPOCH_SECONDS)


@kernel
def _end_of_epoch(times: Ints, first: int) -> int:
    """Give the position after the last event in the epoch of event `first`."""
    epoch = _epoch(times[first])
    last = first + 1
    while last < times.size and _epoch(times[last]) == epoch:
        last += 1
    return last


@kernel
def _choose_favourites(cat: Catalogue, work: Workspace, row: int) -> None:
    """Choose genres as the genres of popular items, so that taste leaves popularity as it is."""
    for k in range(FAVOURITES):
        item = draw(0, -1, work.state, cat.start, cat.member, cat.chance, cat.alias)
        work.favourites[row, k] = cat.genre[item]


@kernel
def _wanted(stamp: int, state: State, taken: Stamps, pending: Ints) -> int:
    """Take a wanted sequel off the list, now and then; -1 if none."""
    if pending[0] == 0 or uniform(state) >= _SOON:
        return -1
    slot = 1 + int(uniform(state) * pending[0])
    item = int(pending[slot])
    pending[slot] = pending[pending[0]]
    pending[0] -= 1
    return item if taken[item] != stamp else -1


@kernel
def _untaken(
    stamp: int,
    epoch: int,
    taste: float,
    drift: float,
    state: State,
    taken: Stamps,
    favourites: Ints,
    start: Ints,
    member: Codes,
    chance: Floats,
    alias: Codes,
) -> int:
    """Draw an untaken item from the catalogue or a favourite genre, of old or of this epoch."""
    item = 0
    for attempt in range(_TRIES):
        moved = drift > 0.0 and uniform(state) < drift
        shelf = 0
        if attempt < _SHELF_TRIES and uniform(state) < taste:
            shelf = favourites[int(moved), int(uniform(state) * FAVOURITES)]
        item = draw(shelf, epoch if moved else -1, state, start, member, chance, alias)
        if taken[item] != stamp:
            break
    # Popularity so steep that all it offers is taken: go down it, by leaps, then by steps.
    leap = 1
    while taken[item] == stamp:
        item = (item + leap) % taken.size
        leap = 2 * leap if leap < taken.size else 1
    return item


@kernel
def _fill_short(
    cat: Catalogue, habits: Habits, work: Workspace, stamp: int, times: Ints, items: Codes
) -> None:
    """Fill a profile event by event, drawing again what was taken before."""
    # Unpacked here: in the loop, each access through a tuple would cost a reference count.
    state, taken, pending, favourites = work.state, work.taken, work.pending, work.favourites
    kind, start, member, chance, alias = cat.kind, cat.start, cat.member, cat.chance, cat.alias
    taste, drift = habits.taste, habits.drift
    epoch = -1
    pending[0] = 0
    for k in range(items.size):
        if drift > 0.0 and _epoch(times[k]) != epoch:
            epoch = _epoch(times[k])
            _choose_favourites(cat, work, 1)
        item = _wanted(stamp, state, taken, pending)
        if item < 0:
            item = _untaken(
                stamp, epoch, taste, drift, state, taken, favourites, start, member, chance, alias
            )
            unseen = kind[item] == SEQUEL and taken[item - 1] != stamp
            if unseen and uniform(state) < _ORIGINAL_FIRST:
                item -= 1
        items[k] = item
        taken[item] = stamp
        unseen = kind[item] == ORIGINAL and taken[item + 1] != stamp
        if unseen and uniform(state) < _FOLLOW:
            pending[0] += 1
            pending[pending[0]] = item + 1


@kernel
def _add_weights(cat: Catalogue, weights: Floats, shelf: int, epoch: int, share: float) -> None:
    """Add the weights by which `draw` draws, times `share`."""
    first = cat.start[shelf]
    size = cat.start[shelf + 1] - first
    shift = shift_of(epoch, size) if epoch >= 0 else 0
    for p in range(size):
        item = cat.member[first + (p + shift) % size]
        weights[item] += share * cat.weight[cat.member[first + p]] / cat.mass[shelf]


@kernel
def _race_weights(cat: Catalogue, habits: Habits, work: Workspace, epoch: int) -> None:
    """Fill the weights by which `_candidate` draws."""
    work.weights[:] = 0.0
    _add_weights(cat, work.weights, 0, -1, _TRACE)
    for moved in range(2):
        share = habits.drift if moved else 1.0 - habits.drift
        if share == 0.0:
            continue
        turned = epoch if moved else -1
        _add_weights(cat, work.weights, 0, turned, share * (1.0 - habits.taste))
        for k in range(FAVOURITES):
            shelf = work.favourites[moved, k]
            _add_weights(cat, work.weights, shelf, turned, share * habits.taste / FAVOURITES)


@kernel
def _race(work: Workspace, stamp: int, items: Codes) -> None:
    """Draw untaken items without replacement: exponential times by weight, the first ones win."""
    for item in range(work.keys.size):
        key = -math.log(uniform(work.state)) / work.weights[item]
        work.keys[item] = np.inf if work.taken[item] == stamp else key
    order = np.argsort(work.keys)  # allocates, but once for a quarter of the catalogue
    for k in range(items.size):
        items[k] = order[k]
        work.taken[order[k]] = stamp


@kernel
def _fill_long(
    cat: Catalogue,
    habits: Habits,
    work: Workspace,
    stamp: int,
    times: Ints,
    items: Codes,
) -> None:
    """Fill a profile by a race in each epoch, where drawing again would crawl."""
    first = 0
    while first < items.size:
        epoch = -1
        last = items.size
        if habits.drift > 0.0:
            epoch = _epoch(times[first])
            last = _end_of_epoch(times, first)
            _choose_favourites(cat, work, 1)
        _race_weights(cat, habits, work, epoch)
        _race(work, stamp, items[first:last])
        first = last


@kernel
def _shuffle(state: State, drift: float, times: Ints, items: Codes) -> None:
    """Put a profile in random order, within its epochs if there is drift.

    Popular items are drawn first; if they were taken first too, a user's past would not be like
    the future even without drift.
    """
    first = 0
    while first < items.size:
        last = items.size if drift == 0.0 else _end_of_epoch(times, first)
        for k in range(last - 1, first, -1):
            other = first + int(uniform(state) * (k + 1 - first))
            items[k], items[other] = items[other], items[k]
        first = last


@kernel
def _originals_first(
    stamp: int,
    state: State,
    kind: NDArray[np.int8],
    taken: Stamps,
    place: Floats,
    items: Codes,
) -> None:
    """Let most sequels that came before their originals change places with them."""
    for k in range(items.size):
        place[items[k]] = k
    for k in range(items.size):
        item = int(items[k])
        if kind[item] != SEQUEL or taken[item - 1] != stamp:
            continue
        other = int(place[item - 1])
        if other > k and uniform(state) < _ORIGINAL_FIRST:
            items[k], items[other] = item - 1, item


@kernel
def fill_profiles(
    first: int,
    last: int,
    seed: np.uint64,
    stream: int,
    cat: Catalogue,
    habits: Habits,
    work: Workspace,
    offsets: Ints,
    items: Codes,
    times: Ints,
) -> None:
    """Draw the profiles of the users from `first` to before `last`, in time order.

    Parameters
    ----------
    first, last : int
        The users.
    seed, stream : uint64, int
        With the user's number, they determine all that is drawn for that user.
    cat, habits, work : Catalogue, Habits, Workspace
        The items, what users have in common, and room to work in (`work.taken` all zero).
    offsets : int64[n_users + 1]
        Where each user's events begin.
    items, times : uint32[n_rows], int64[n_rows]
        The result: labels of items, and microseconds since 1970.
    """
    for user in range(first, last):
        stamp = user - first + 1
        mine = items[offsets[user] : offsets[user + 1]]
        when = times[offsets[user] : offsets[user + 1]]
        seed_stream(work.state, seed, stream, user)
        _fill_times(work.state, habits, work.keys, when)
        _choose_favourites(cat, work, 0)
        if mine.size * _LONG_SHARE > cat.weight.size:
            _fill_long(cat, habits, work, stamp, when, mine)
        else:
            _fill_short(cat, habits, work, stamp, when, mine)
        _shuffle(work.state, habits.drift, when, mine)
        _originals_first(stamp, work.state, cat.kind, work.taken, work.keys, mine)
        for k in range(mine.size):
            mine[k] = cat.label[mine[k]]
