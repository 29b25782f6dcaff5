"""Isotonic regression on counts: neighbours that fall are pooled."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


@njit(nogil=True, cache=True)
def _pool(
    counts: NDArray[np.float64], hits: NDArray[np.float64], rates: NDArray[np.float64]
) -> None:
    """Give the never falling rates that fit best, by pooling neighbours that fall.

    A bin without cases takes the rate of the one below; those below all cases that of the lowest.
    """
    n = len(counts)
    sums, weights = np.empty(n), np.empty(n)
    stops = np.empty(n, np.int64)
    n_blocks = 0
    for at in range(n):
        if counts[at] <= 0.0:
            if n_blocks:
                stops[n_blocks - 1] = at + 1
            continue
        sums[n_blocks], weights[n_blocks], stops[n_blocks] = hits[at], counts[at], at + 1
        n_blocks += 1
        while (
            n_blocks > 1
            and sums[n_blocks - 2] * weights[n_blocks - 1]
            >= sums[n_blocks - 1] * weights[n_blocks - 2]
        ):
            n_blocks -= 1
            sums[n_blocks - 1] += sums[n_blocks]
            weights[n_blocks - 1] += weights[n_blocks]
            stops[n_blocks - 1] = stops[n_blocks]
    begin = 0
    for block in range(n_blocks):
        rates[begin : stops[block]] = sums[block] / weights[block]
        begin = stops[block]
    if n_blocks == 0:
        rates[:] = np.nan


@njit(nogil=True, cache=True)
def _pool_all(
    counts: NDArray[np.float64], hits: NDArray[np.float64], rates: NDArray[np.float64]
) -> None:
    for row in range(len(counts)):
        _pool(counts[row], hits[row], rates[row])


def isotonic_rates(counts: ArrayLike, hits: ArrayLike) -> NDArray[np.float64]:
    """Give for each bin the share of hits, never falling from bin to bin and closest to what was.

    Parameters
    ----------
    counts, hits : array-like of float
        Cases of each bin and how many of them came true; in rows, one regression a row.

    Examples
    --------
    >>> isotonic_rates([4, 2, 0, 4], [0, 1, 0, 1]).round(3).tolist()
    [0.0, 0.333, 0.333, 0.333]
    """
    cases = np.atleast_2d(np.asarray(counts, dtype=np.float64))
    rates = np.empty(cases.shape)
    _pool_all(cases, np.atleast_2d(np.asarray(hits, dtype=np.float64)), rates)
    return rates[0] if np.ndim(counts) == 1 else rates
