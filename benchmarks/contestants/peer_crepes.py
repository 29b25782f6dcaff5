"""crepes: p-values of a conformal classifier."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crepes.base import ConformalClassifier

from benchmarks.inputs import calibration_and_candidates
from benchmarks.measuring import best

if TYPE_CHECKING:
    from benchmarks.measuring import Figures


def p_values(n_calibration: int, n_candidates: int, n_asked: int, repeats: int) -> Figures:
    """Return p-values per second, plain and smoothed, for the first of the candidates."""
    scores, new, _ = calibration_and_candidates(n_calibration, n_candidates)
    candidates = -new[:n_asked]  # crepes expects nonconformity

    def run(*, smoothing: bool) -> Any:
        model = ConformalClassifier()
        model.fit(-scores)
        return model.predict_p(candidates, smoothing=smoothing, seed=0)

    plain, values = best(lambda: run(smoothing=False), repeats)
    smoothed, _ = best(lambda: run(smoothing=True), repeats)
    return {
        "plain_per_second": len(candidates) / plain,
        "smoothed_per_second": len(candidates) / smoothed,
        "plain_head": values[:1000].ravel().tolist(),
    }
