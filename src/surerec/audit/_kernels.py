"""p-values one after the other, and bets on them: pure functions on arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray


@njit(nogil=True, cache=True)
def online_p_values(
    scores: NDArray[np.float64], uniforms: NDArray[np.float64], p_values: NDArray[np.float64]
) -> None:
    """Give each score's smoothed p-value among those before it and itself."""
    ordered = np.empty(len(scores))
    for n in range(len(scores)):
        score = scores[n]
        below = np.searchsorted(ordered[:n], score)
        above = np.searchsorted(ordered[:n], score, side="right")
        p_values[n] = (below + uniforms[n] * (above - below + 1)) / (n + 1)
        for place in range(n, above, -1):
            ordered[place] = ordered[place - 1]
        ordered[above] = score


@njit(nogil=True, cache=True)
def simple_jumper(
    p_values: NDArray[np.float64],
    bets: NDArray[np.float64],
    jumping: float,
    logarithms: NDArray[np.float64],
) -> None:
    """Give the logarithm of the capital after each bet, which would soon be too large a number."""
    capital = np.full(len(bets), 1 / len(bets))
    logarithm = 0.0
    for n in range(len(p_values)):
        total = 0.0
        for k in range(len(bets)):
            capital[k] *= 1 + bets[k] * (p_values[n] - 0.5)
            total += capital[k]
        logarithm += np.log(total)
        logarithms[n] = logarithm
        for k in range(len(bets)):
            capital[k] = (1 - jumping) * capital[k] / total + jumping / len(bets)


@njit(nogil=True, cache=True)
def _mixed(number: np.uint64) -> np.uint64:
    """Return a hash of a number (splitmix64)."""
    number = (number ^ (number >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    number = (number ^ (number >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return number ^ (number >> np.uint64(31))


@njit(nogil=True, cache=True)
def band_keys(
    users: NDArray[np.int64],
    offsets: NDArray[np.int64],
    items: NDArray[np.uint32],
    seeds: NDArray[np.uint64],
    keys: NDArray[np.uint64],
) -> None:
    """Write one key for each user: a hash of the smallest hash of their items under each seed.

    Two users share a key with probability Jaccard ** len(seeds).
    """
    for at in range(len(users)):
        key = np.uint64(0)
        for seed in seeds:
            least = np.uint64(0xFFFFFFFFFFFFFFFF)
            for row in range(offsets[users[at]], offsets[users[at] + 1]):
                least = min(least, _mixed(np.uint64(items[row]) + seed))
            key = _mixed(key ^ least)
        keys[at] = key


@njit(nogil=True, cache=True)
def overlaps(
    pairs: NDArray[np.int64],
    offsets: NDArray[np.int64],
    items: NDArray[np.uint32],
    support: NDArray[np.int64],
    shared: NDArray[np.int64],
    expected: NDArray[np.float64],
) -> None:
    """Write for each pair of users the number of shared items, and the number by chance.

    By chance, a user consumes an item in proportion to its support and to the user's length.
    """
    seen = np.full(len(support), -1, dtype=np.int64)
    n_rows = offsets[-1]
    for at in range(len(pairs)):
        first, second = pairs[at]
        length = offsets[second + 1] - offsets[second]
        for row in range(offsets[second], offsets[second + 1]):
            seen[items[row]] = at
        n_shared, by_chance = 0, 0.0
        for row in range(offsets[first], offsets[first + 1]):
            n_shared += seen[items[row]] == at
            by_chance += min(1.0, support[items[row]] * length / n_rows)
        shared[at], expected[at] = n_shared, by_chance
