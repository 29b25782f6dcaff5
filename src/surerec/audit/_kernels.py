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
