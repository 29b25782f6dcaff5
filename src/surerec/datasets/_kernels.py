"""How numbers and items are drawn for synthetic profiles: pure functions on arrays.

Items are ranks here, 0 the most popular; a pair of ranks (2j, 2j + 1) may be an original and its
sequel. A *shelf* is a list of items to draw from by popularity: shelf 0 holds all, the others one
genre each.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numba import njit

from surerec._kernels import scramble

if TYPE_CHECKING:
    from collections.abc import Callable

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
_TURN: Final = 0.6180339887498949  # the golden ratio: successive epochs land far apart


class Catalogue(NamedTuple):
    """The items: who may be drawn how often, and what each is."""

    weight: NDArray[np.float64]  # of each item
    kind: NDArray[np.int8]  # of each item: SINGLE, ORIGINAL or SEQUEL
    label: NDArray[np.uint32]  # of each item, as given to the outside
    start: NDArray[np.int64]  # of each shelf in the three arrays below, and their end
    member: NDArray[np.uint32]  # the items on the shelves
    chance: NDArray[np.float64]  # alias tables, one for each shelf
    alias: NDArray[np.uint32]
    mass: NDArray[np.float64]  # total weight of each shelf
    genre: NDArray[np.int64]  # shelf of each item's genre


class Habits(NamedTuple):
    """What all users have in common."""

    taste: float
    drift: float
    ties: float
    seconds: int  # length of the calendar


class Workspace(NamedTuple):
    """Arrays that one thread reuses for all its users."""

    state: NDArray[np.uint64]  # of the random stream; longer than a cache line, unshared
    taken: NDArray[np.int32]  # of each item: the stamp of the last user who took it
    pending: NDArray[np.int64]  # wanted sequels: their number, then they
    favourites: NDArray[np.int64]  # shelves: row 0 for good, row 1 for the current epoch
    weights: NDArray[np.float64]  # of each item, in a race
    keys: NDArray[np.float64]  # of each item, in a race, or its place; of each event, gaps in time


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function that releases the GIL, once on a machine."""
    compiled: Callable[..., Any] = njit(nogil=True, cache=True)(function)
    return compiled


# --- Random numbers: splitmix64 ------------------------------------------------------------------


@kernel
def seed_stream(state: State, seed: np.uint64, stream: int, index: int) -> None:
    """Start the stream of (seed, stream, index); mixing thrice keeps streams from overlapping."""
    state[0] = scramble(scramble(scramble(seed + _GOLDEN) + np.uint64(stream)) + np.uint64(index))


@kernel
def uniform(state: State) -> float:
    """Draw from the open interval (0, 1)."""
    state[0] += _GOLDEN
    return (np.float64(scramble(state[0]) >> _S12) + 0.5) * _UNIT


@kernel
def uniforms(seed: np.uint64, stream: int, out: Floats) -> None:
    """Fill `out` with independent uniform numbers of the open interval (0, 1)."""
    state = np.zeros(1, np.uint64)
    seed_stream(state, seed, stream, 0)
    for i in range(out.size):
        out[i] = uniform(state)


# --- Draws by weight: alias tables ---------------------------------------------------------------


@kernel
def alias_tables(weight: Floats, start: Ints, mass: Floats, chance: Floats, alias: Codes) -> None:
    """Build Vose's alias table of each shelf: position p is kept with `chance[p]`, else its alias.

    Parameters
    ----------
    weight : float64[n]
        Of each position of the shelves, all above zero.
    start : int64[n_shelves + 1]
        Where each shelf begins, and the end.
    mass : float64[n_shelves]
        Total weight of each shelf.
    chance, alias : float64[n], uint32[n]
        The result; aliases count from their shelf's start.
    """
    small = np.empty(weight.size, np.int64)
    large = np.empty(weight.size, np.int64)
    for shelf in range(mass.size):
        first = start[shelf]
        size = start[shelf + 1] - first
        n_small = n_large = 0
        for p in range(size):
            chance[first + p] = weight[first + p] * size / mass[shelf]
            alias[first + p] = p
            if chance[first + p] < 1.0:
                small[n_small] = p
                n_small += 1
            else:
                large[n_large] = p
                n_large += 1
        while n_small > 0 and n_large > 0:
            n_small -= 1
            low, high = small[n_small], large[n_large - 1]
            alias[first + low] = high
            chance[first + high] -= 1.0 - chance[first + low]
            if chance[first + high] < 1.0:
                n_large -= 1
                small[n_small] = high
                n_small += 1
        for k in range(n_small):  # what rounding left over
            chance[first + small[k]] = 1.0


@kernel
def shift_of(epoch: int, size: int) -> int:
    """Give how far popularity is turned on a shelf of this size in this epoch."""
    turns = (epoch + 1) * _TURN
    return int((turns - math.floor(turns)) * size)


@kernel
def draw(
    shelf: int,
    epoch: int,
    state: State,
    start: Ints,
    member: Codes,
    chance: Floats,
    alias: Codes,
) -> int:
    """Draw an item from a shelf by popularity, as turned in this epoch (-1: not turned)."""
    first = start[shelf]
    size = start[shelf + 1] - first
    point = uniform(state) * size
    p = int(point)
    if point - p >= chance[first + p]:
        p = int(alias[first + p])
    if epoch >= 0:
        p = (p + shift_of(epoch, size)) % size
    return int(member[first + p])
