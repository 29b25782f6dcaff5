"""NumPy: p-values by `searchsorted`, and metrics by sorting."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from benchmarks.inputs import calibration_and_candidates, rankings
from benchmarks.measuring import best

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from benchmarks.measuring import Figures


def p_values(n_calibration: int, n_candidates: int, repeats: int) -> Figures:
    """Return p-values per second, plain and smoothed."""
    scores, new, probabilities = calibration_and_candidates(n_calibration, n_candidates)

    def plain() -> NDArray[np.float64]:
        return (np.searchsorted(np.sort(scores), new, side="right") + 1) / (n_calibration + 1)

    def smoothed() -> NDArray[np.float64]:
        ordered = np.sort(scores)
        below = np.searchsorted(ordered, new, side="left")
        equal = np.searchsorted(ordered, new, side="right") - below
        values: NDArray[np.float64] = (below + probabilities * (equal + 1)) / (n_calibration + 1)
        return values

    plain_seconds, plain_values = best(plain, repeats)
    smoothed_seconds, smoothed_values = best(smoothed, repeats)
    return {
        "plain_per_second": n_candidates / plain_seconds,
        "smoothed_per_second": n_candidates / smoothed_seconds,
        "plain_head": plain_values[:1000].tolist(),
        "smoothed_head": smoothed_values[:1000].tolist(),
    }


def _metrics(scores: NDArray[np.float64], relevant: NDArray[np.bool_]) -> tuple[float, ...]:
    hits = relevant[np.argsort(-scores)]
    ranks = np.flatnonzero(hits) + 1
    gains = 1 / np.log2(np.arange(2, len(scores) + 2))
    average = (np.arange(1, len(ranks) + 1) / ranks).mean()
    return average, gains[hits].sum() / gains[: len(ranks)].sum(), 1 / ranks[0]


def metrics(n_users: int, n_items: int, repeats: int) -> Figures:
    """Measure full rankings: AP, NDCG and RR; ties are ignored."""
    scores, relevant = rankings(n_users, n_items)

    def measure() -> list[float]:
        pairs = zip(scores, relevant, strict=True)
        means: list[float] = np.mean([_metrics(*pair) for pair in pairs], axis=0).tolist()
        return means

    seconds, means = best(measure, repeats)
    return {"seconds": seconds, "means": means}
