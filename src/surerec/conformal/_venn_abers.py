"""Venn–Abers calibration: probabilities from scores, by isotonic regression."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import njit

from surerec._arguments import check_mask, check_numbers, is_number
from surerec.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


@njit(nogil=True, cache=True)
def _pool(
    counts: NDArray[np.float64], hits: NDArray[np.float64], rates: NDArray[np.float64]
) -> None:
    """Compute the best non-decreasing rates by pooling adjacent violators.

    A bin without cases gets the rate of the bin below; below all cases, that of the lowest bin.
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


def isotonic_rates(counts: ArrayLike, hits: ArrayLike) -> NDArray[np.float64]:
    """Return the rate of hits in each bin by isotonic (non-decreasing) regression.

    Parameters
    ----------
    counts, hits : array-like of float
        Number of cases in each bin, and of hits among them.

    Examples
    --------
    >>> isotonic_rates([4, 2, 0, 4], [0, 1, 0, 1]).round(3).tolist()
    [0.0, 0.333, 0.333, 0.333]
    """
    cases = np.asarray(counts, dtype=np.float64)
    rates = np.empty(len(cases))
    _pool(cases, np.asarray(hits, dtype=np.float64), rates)
    return rates


class CalibratedProbability(NamedTuple):
    """A probability and its bounds, one of which is calibrated for any data."""

    probability: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


def venn_abers(scores: ArrayLike, happened: ArrayLike, new: ArrayLike) -> CalibratedProbability:
    """Return the probability of an event for each new score, by isotonic regression.

    The new score is added to the calibration scores, once without the event and once with it. The
    two fits give the bounds (Vovk, Petej and Fedorova, 2015). The probability minimises the worst
    log loss between them, ``high / (1 − low + high)``.

    Parameters
    ----------
    scores : array-like of float
        Scores of the calibration cases, higher if the event is more probable.
    happened : array-like of bool
        Whether the event happened.
    new : array-like of float
        The scores to calibrate.

    Examples
    --------
    >>> found = venn_abers([1, 2, 3, 4], [False, False, True, True], [0.5, 4.5])
    >>> found.low.round(2).tolist(), found.high.round(2).tolist()
    ([0.0, 0.67], [0.33, 1.0])
    """
    known = check_numbers("scores", scores)
    outcome = check_mask("happened", happened, len(known)).astype(np.float64)
    requested = check_numbers("new", [new] if is_number(new) else new)
    if not known.size:
        raise InputError("There are no calibration cases. Pass at least one score.")
    if np.isnan(known).any() or np.isnan(requested).any():
        raise InputError("A score is NaN and has no probability. Remove it.")
    levels, level_of = np.unique(known, return_inverse=True)
    counts = np.bincount(level_of).astype(np.float64)
    hits = np.bincount(level_of, weights=outcome).astype(np.float64)
    bounds = np.array([_bounds(levels, counts, hits, score) for score in requested]).reshape(-1, 2)
    low, high = bounds[:, 0], bounds[:, 1]
    return CalibratedProbability(high / (1 - low + high), low, high)


def _bounds(
    levels: NDArray[np.float64], counts: NDArray[np.float64], hits: NDArray[np.float64], new: float
) -> tuple[float, float]:
    place = int(np.searchsorted(levels, new))
    if place == len(levels) or levels[place] != new:
        counts, hits = np.insert(counts, place, 0.0), np.insert(hits, place, 0.0)
    else:
        counts, hits = counts.copy(), hits.copy()
    counts[place] += 1
    found = []
    for outcome in (0.0, 1.0):
        with_it = hits.copy()
        with_it[place] += outcome
        found.append(float(isotonic_rates(counts, with_it)[place]))
    return found[0], found[1]
