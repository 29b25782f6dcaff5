"""Kernels that draw synthetic histories, with a random stream for each user.

Items are ranks here, 0 is the most popular; a pair of ranks (2j, 2j + 1) may be an original and its
sequel. A *shelf* is a list of items to draw from by popularity: shelf 0 has all items, and each
other shelf has one genre.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numba import njit

from surerec._kernels import scramble
from surerec._words import DAY

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Codes = NDArray[np.uint32]
    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    State = NDArray[np.uint64]


SINGLE: Final = 0
ORIGINAL: Final = 1
SEQUEL: Final = 2

FIRST_SECOND: Final = 1_577_836_800  # 2020-01-01 00:00 UTC
FAVOURITES: Final = 3

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_S12 = np.uint64(12)
_UNIT: Final = 2.0**-52
_TURN: Final = 0.6180339887498949  # the golden ratio: successive epochs are far apart
_MICROSECONDS: Final = 1_000_000
_EPOCH_SECONDS: Final = 91 * DAY // _MICROSECONDS  # about a quarter
_TASTE: Final = 0.5  # share of the draws that come from a favourite genre
_FOLLOW: Final = 0.6  # probability that a user of an original will want its sequel
_SOON: Final = 0.5  # probability, at each later draw, that a pending sequel is drawn
_ORIGINAL_FIRST: Final = 0.9  # probability that the unseen original replaces a drawn sequel
_TRIES: Final = 24
_SHELF_TRIES: Final = 8  # then the whole catalogue, as a genre may be exhausted
_LONG_SHARE: Final = 4  # a history of more than 1 / 4 of the catalogue is drawn as a race
_TRACE: Final = 1e-9  # weight of the whole catalogue in a race, if favourites are exhausted


class Catalogue(NamedTuple):
    """The items, with the tables to draw them."""

    weight: NDArray[np.float64]  # of each item
    kind: NDArray[np.int8]  # of each item: SINGLE, ORIGINAL or SEQUEL
    label: NDArray[np.uint32]  # of each item: its public code
    start: NDArray[np.int64]  # of each shelf in the three arrays below, and their end
    member: NDArray[np.uint32]  # the items on the shelves
    keep: NDArray[np.float64]  # alias tables, one for each shelf
    alias: NDArray[np.uint32]
    mass: NDArray[np.float64]  # total weight of each shelf
    genre: NDArray[np.int64]  # shelf of each item's genre


class Workspace(NamedTuple):
    """Arrays that one thread reuses for all its users."""

    state: NDArray[np.uint64]  # of the random stream; longer than a cache line, unshared
    consumed: NDArray[np.int32]  # of each item: the stamp of its last user
    pending: NDArray[np.int64]  # sequels to come: their number, then their ranks
    favourites: NDArray[np.int64]  # shelves: row 0 permanent, row 1 of the current epoch
    weights: NDArray[np.float64]  # of each item, in a race
    keys: NDArray[np.float64]  # of each item: key in a race, or position; of each event: time gap


# --- Random numbers: splitmix64 ------------------------------------------------------------------


@njit(nogil=True, cache=True)
def seed_stream(state: State, seed: np.uint64, stream: int, index: int) -> None:
    """Start the stream of (seed, stream, index); three rounds of mixing avoid overlaps."""
    state[0] = scramble(scramble(scramble(seed + _GOLDEN) + np.uint64(stream)) + np.uint64(index))


@njit(nogil=True, cache=True)
def uniform(state: State) -> float:
    """Draw a number from the open interval (0, 1)."""
    state[0] += _GOLDEN
    return (np.float64(scramble(state[0]) >> _S12) + 0.5) * _UNIT


@njit(nogil=True, cache=True)
def uniforms(seed: np.uint64, stream: int, out: Floats) -> None:
    """Fill `out` with independent uniform numbers of the open interval (0, 1)."""
    state = np.zeros(1, np.uint64)
    seed_stream(state, seed, stream, 0)
    for i in range(out.size):
        out[i] = uniform(state)


# --- Draws by weight: alias tables ---------------------------------------------------------------


@njit(nogil=True, cache=True)
def alias_tables(weight: Floats, start: Ints, mass: Floats, keep: Floats, alias: Codes) -> None:
    """Build Vose's alias table of each shelf: keep p with probability `keep[p]`, else its alias.

    Parameters
    ----------
    weight : float64[n]
        Positive weight of each position of the shelves.
    start : int64[n_shelves + 1]
        Start of each shelf, and the end.
    mass : float64[n_shelves]
        Total weight of each shelf.
    keep, alias : float64[n], uint32[n]
        The result; aliases count from the start of their shelf.
    """
    small = np.empty(weight.size, np.int64)
    large = np.empty(weight.size, np.int64)
    for shelf in range(mass.size):
        first = start[shelf]
        size = start[shelf + 1] - first
        n_small = n_large = 0
        for p in range(size):
            keep[first + p] = weight[first + p] * size / mass[shelf]
            alias[first + p] = p
            if keep[first + p] < 1.0:
                small[n_small] = p
                n_small += 1
            else:
                large[n_large] = p
                n_large += 1
        while n_small > 0 and n_large > 0:
            n_small -= 1
            low, high = small[n_small], large[n_large - 1]
            alias[first + low] = high
            keep[first + high] -= 1.0 - keep[first + low]
            if keep[first + high] < 1.0:
                n_large -= 1
                small[n_small] = high
                n_small += 1
        for k in range(n_small):  # left over by rounding
            keep[first + small[k]] = 1.0


@njit(nogil=True, cache=True)
def shift_of(epoch: int, size: int) -> int:
    """Return the rotation of the popularity on a shelf of this size in this epoch."""
    turns = (epoch + 1) * _TURN
    return int((turns - math.floor(turns)) * size)


@njit(nogil=True, cache=True)
def draw(cat: Catalogue, state: State, shelf: int, epoch: int) -> int:
    """Draw an item from a shelf by the popularity of an epoch (-1: not rotated)."""
    first = cat.start[shelf]
    size = cat.start[shelf + 1] - first
    point = uniform(state) * size
    p = int(point)
    if point - p >= cat.keep[first + p]:
        p = int(cat.alias[first + p])
    if epoch >= 0:
        p = (p + shift_of(epoch, size)) % size
    return int(cat.member[first + p])


# --- Histories ----------------------------------------------------------------------------------


@njit(nogil=True, cache=True)
def _fill_times(state: State, ties: float, seconds: int, gaps: Floats, times: Ints) -> None:
    """Fill the times of one user, with random start, span and gaps; only ties are equal."""
    n_moments = 1
    total = 0.0
    gaps[0] = 0.0
    for k in range(1, times.size):
        gaps[k] = 0.0  # a tie
        if ties == 0.0 or uniform(state) >= ties:
            gaps[k] = -math.log(uniform(state))
            total += gaps[k]
            n_moments += 1
    free = float(seconds - n_moments)
    start = uniform(state) * free
    span = uniform(state) * (free - start)
    moment = 0
    past = 0.0
    for k in range(times.size):
        if gaps[k] > 0.0:
            moment += 1  # one second at least
            past += gaps[k]
        spent = span * min(past / total, 1.0) if total > 0.0 else 0.0
        times[k] = (FIRST_SECOND + moment + int(start + spent)) * _MICROSECONDS


@njit(nogil=True, cache=True)
def _epoch(time: np.int64) -> int:
    return int((time // _MICROSECONDS - FIRST_SECOND) // _EPOCH_SECONDS)


@njit(nogil=True, cache=True)
def _end_of_epoch(times: Ints, first: int) -> int:
    """Return the position after the last event in the epoch of event `first`."""
    epoch = _epoch(times[first])
    last = first + 1
    while last < times.size and _epoch(times[last]) == epoch:
        last += 1
    return last


@njit(nogil=True, cache=True)
def _choose_favourites(cat: Catalogue, work: Workspace, row: int) -> None:
    """Choose the genres of popular items, so that taste does not change popularity."""
    for k in range(FAVOURITES):
        item = draw(cat, work.state, 0, -1)
        work.favourites[row, k] = cat.genre[item]


@njit(nogil=True, cache=True)
def _pending_sequel(work: Workspace, stamp: int) -> int:
    """Draw and remove a pending sequel with probability `_SOON`; -1 if there is none."""
    pending = work.pending
    if pending[0] == 0 or uniform(work.state) >= _SOON:
        return -1
    slot = 1 + int(uniform(work.state) * pending[0])
    item = int(pending[slot])
    pending[slot] = pending[pending[0]]
    pending[0] -= 1
    return item if work.consumed[item] != stamp else -1


@njit(nogil=True, cache=True)
def _unconsumed(cat: Catalogue, work: Workspace, stamp: int, epoch: int, drift: float) -> int:
    """Draw an unconsumed item from the catalogue or a favourite genre, of any epoch or this one."""
    state, consumed = work.state, work.consumed
    item = 0
    for attempt in range(_TRIES):
        moved = drift > 0.0 and uniform(state) < drift
        shelf = 0
        if attempt < _SHELF_TRIES and uniform(state) < _TASTE:
            shelf = work.favourites[int(moved), int(uniform(state) * FAVOURITES)]
        item = draw(cat, state, shelf, epoch if moved else -1)
        if consumed[item] != stamp:
            break
    # All likely items are consumed: search the others, in leaps, then in steps.
    leap = 1
    while consumed[item] == stamp:
        item = (item + leap) % consumed.size
        leap = 2 * leap if leap < consumed.size else 1
    return item


@njit(nogil=True, cache=True)
def _fill_short(
    cat: Catalogue, work: Workspace, stamp: int, drift: float, times: Ints, items: Codes
) -> None:
    """Fill a history one item at a time, with another draw for a consumed item."""
    state, consumed, pending, kind = work.state, work.consumed, work.pending, cat.kind
    epoch = -1
    pending[0] = 0
    for k in range(items.size):
        if drift > 0.0 and _epoch(times[k]) != epoch:
            epoch = _epoch(times[k])
            _choose_favourites(cat, work, 1)
        item = _pending_sequel(work, stamp)
        if item < 0:
            item = _unconsumed(cat, work, stamp, epoch, drift)
            unseen = kind[item] == SEQUEL and consumed[item - 1] != stamp
            if unseen and uniform(state) < _ORIGINAL_FIRST:
                item -= 1
        items[k] = item
        consumed[item] = stamp
        unseen = kind[item] == ORIGINAL and consumed[item + 1] != stamp
        if unseen and uniform(state) < _FOLLOW:
            pending[0] += 1
            pending[pending[0]] = item + 1


@njit(nogil=True, cache=True)
def _add_weights(cat: Catalogue, weights: Floats, shelf: int, epoch: int, share: float) -> None:
    """Add the weights of `draw`, times `share`."""
    first = cat.start[shelf]
    size = cat.start[shelf + 1] - first
    shift = shift_of(epoch, size) if epoch >= 0 else 0
    for p in range(size):
        item = cat.member[first + (p + shift) % size]
        weights[item] += share * cat.weight[cat.member[first + p]] / cat.mass[shelf]


@njit(nogil=True, cache=True)
def _race_weights(cat: Catalogue, work: Workspace, drift: float, epoch: int) -> None:
    """Fill the weights of `_unconsumed`."""
    work.weights[:] = 0.0
    _add_weights(cat, work.weights, 0, -1, _TRACE)
    for moved in range(2):
        share = drift if moved else 1.0 - drift
        if share == 0.0:
            continue
        turned = epoch if moved else -1
        _add_weights(cat, work.weights, 0, turned, share * (1.0 - _TASTE))
        for k in range(FAVOURITES):
            shelf = work.favourites[moved, k]
            _add_weights(cat, work.weights, shelf, turned, share * _TASTE / FAVOURITES)


@njit(nogil=True, cache=True)
def _race(work: Workspace, stamp: int, items: Codes) -> None:
    """Draw unconsumed items without replacement, by the smallest exponential times."""
    for item in range(work.keys.size):
        key = -math.log(uniform(work.state)) / work.weights[item]
        work.keys[item] = np.inf if work.consumed[item] == stamp else key
    order = np.argsort(work.keys)  # allocates only for long histories
    for k in range(items.size):
        items[k] = order[k]
        work.consumed[order[k]] = stamp


@njit(nogil=True, cache=True)
def _fill_long(
    cat: Catalogue, work: Workspace, stamp: int, drift: float, times: Ints, items: Codes
) -> None:
    """Fill a history by a race in each epoch, which is faster for long histories."""
    first = 0
    while first < items.size:
        epoch = -1
        last = items.size
        if drift > 0.0:
            epoch = _epoch(times[first])
            last = _end_of_epoch(times, first)
            _choose_favourites(cat, work, 1)
        _race_weights(cat, work, drift, epoch)
        _race(work, stamp, items[first:last])
        first = last


@njit(nogil=True, cache=True)
def _shuffle(state: State, drift: float, times: Ints, items: Codes) -> None:
    """Shuffle a history, within epochs if there is drift.

    Popular items are drawn first. Without a shuffle, past and future would differ even without
    drift.
    """
    first = 0
    while first < items.size:
        last = items.size if drift == 0.0 else _end_of_epoch(times, first)
        for k in range(last - 1, first, -1):
            other = first + int(uniform(state) * (k + 1 - first))
            items[k], items[other] = items[other], items[k]
        first = last


@njit(nogil=True, cache=True)
def _originals_first(cat: Catalogue, work: Workspace, stamp: int, items: Codes) -> None:
    """Swap most sequels that precede their originals."""
    position = work.keys
    for k in range(items.size):
        position[items[k]] = k
    for k in range(items.size):
        item = int(items[k])
        if cat.kind[item] != SEQUEL or work.consumed[item - 1] != stamp:
            continue
        other = int(position[item - 1])
        if other > k and uniform(work.state) < _ORIGINAL_FIRST:
            items[k], items[other] = item - 1, item


@njit(nogil=True, cache=True)
def fill_profiles(
    first: int,
    last: int,
    seed: np.uint64,
    stream: int,
    cat: Catalogue,
    habits: tuple[float, float, int],
    work: Workspace,
    offsets: Ints,
    items: Codes,
    times: Ints,
) -> None:
    """Draw the histories of the users from `first` to before `last`, in time order.

    Parameters
    ----------
    first, last : int
        The users.
    seed, stream : uint64, int
        Together with the user's number, they determine the history.
    cat : Catalogue
        The items.
    habits : tuple of two floats and an int
        The shares of drift and ties, and the seconds of the period.
    work : Workspace
        Working arrays (`work.consumed` all zero).
    offsets : int64[n_users + 1]
        Start of the history of each user.
    items, times : uint32[n_rows], int64[n_rows]
        The result: item codes, and microseconds since 1970.
    """
    drift, ties, seconds = habits
    for user in range(first, last):
        stamp = user - first + 1
        mine = items[offsets[user] : offsets[user + 1]]
        when = times[offsets[user] : offsets[user + 1]]
        seed_stream(work.state, seed, stream, user)
        _fill_times(work.state, ties, seconds, work.keys, when)
        _choose_favourites(cat, work, 0)
        if mine.size * _LONG_SHARE > cat.weight.size:
            _fill_long(cat, work, stamp, drift, when, mine)
        else:
            _fill_short(cat, work, stamp, drift, when, mine)
        _shuffle(work.state, drift, when, mine)
        _originals_first(cat, work, stamp, mine)
        for k in range(mine.size):
            mine[k] = cat.label[mine[k]]
