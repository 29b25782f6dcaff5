"""Venn–Abers: a probability from a score, calibrated on other people's outcomes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from surerec._arguments import check_mask, check_numbers, is_number
from surerec.conformal._pooling import isotonic_rates
from surerec.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


class CalibratedProbability(NamedTuple):
    """A probability between its two bounds, one of which is calibrated whatever the data."""

    probability: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


def venn_abers(scores: ArrayLike, happened: ArrayLike, new: ArrayLike) -> CalibratedProbability:
    """Give the probability of an event for each new score, by isotonic regression.

    The new score is added to the calibration scores once as if its event had not happened and once
    as if it had; the two fits give the bounds (Vovk, Petej and Fedorova, 2015). They are merged
    into the probability that minimises the worst log loss, ``high / (1 − low + high)``.

    Parameters
    ----------
    scores : array-like of float
        Of the calibration cases, higher where the event is likelier.
    happened : array-like of bool
        Whether it happened.
    new : array-like of float
        The scores to judge.

    Examples
    --------
    >>> found = venn_abers([1, 2, 3, 4], [False, False, True, True], [0.5, 4.5])
    >>> found.low.round(2).tolist(), found.high.round(2).tolist()
    ([0.0, 0.67], [0.33, 1.0])
    """
    known = check_numbers("scores", scores)
    outcome = check_mask("happened", happened, len(known)).astype(np.float64)
    wanted = check_numbers("new", [new] if is_number(new) else new)
    if not known.size:
        raise InputError("There are no calibration cases to learn a probability from.")
    if np.isnan(known).any() or np.isnan(wanted).any():
        raise InputError("A score is not a number: it has no probability.")
    levels, level_of = np.unique(known, return_inverse=True)
    counts = np.bincount(level_of).astype(np.float64)
    hits = np.bincount(level_of, weights=outcome).astype(np.float64)
    bounds = np.array([_bounds(levels, counts, hits, score) for score in wanted]).reshape(-1, 2)
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
