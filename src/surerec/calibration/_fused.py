"""A person's scores and calibration scores in one call of a kernel: the fused way to p-values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from surerec.measures.kernels import room_for, score_profile

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.measures.kernels import ScoringPlan


@njit(nogil=True, cache=True)
def score_exactly(
    plan: ScoringPlan,
    history: NDArray[np.int64],
    n_training: int,
    own: NDArray[np.uint32],
    times: NDArray[np.int64],
    candidates: NDArray[np.int64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Give the candidates' scores, and the calibration items' in order."""
    scores = score_profile(plan, history[:n_training], own, times, room_for(len(plan.support)))
    return pick_scores(scores, history[n_training:], candidates)


@njit(nogil=True, cache=True)
def pick_scores(
    scores: NDArray[np.float64], calibration: NDArray[np.int64], candidates: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Give the same from the scores of all items."""
    new = np.empty(len(candidates))
    for place in range(len(candidates)):
        new[place] = scores[candidates[place]]
    return new, np.sort(scores[calibration])
