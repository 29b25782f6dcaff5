"""A person's scores and p-values in one call of a kernel: the fused way to p-values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from surerec.conformal.kernels import judge
from surerec.measures.kernels import room_for, score_profile

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.measures.kernels import Plan


@njit(nogil=True, cache=True)
def judge_profile(
    plan: Plan,
    history: NDArray[np.int64],
    n_training: int,
    own: NDArray[np.uint32],
    times: NDArray[np.int64],
    candidates: NDArray[np.int64],
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Give the candidates' scores, and their p-values as counts."""
    new, counts = np.empty(len(candidates)), np.empty(len(candidates), np.int64)
    room = room_for(len(plan.support))
    scores = score_profile(plan, history[:n_training], own, times, room)
    judge(scores, history[n_training:], candidates, new, counts)
    return new, counts
