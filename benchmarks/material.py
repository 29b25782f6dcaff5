"""Random inputs for p-values and metrics, equal for all contestants."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def calibration_and_candidates(
    n_calibration: int, n_candidates: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return calibration scores, candidate scores (some of them tied), and uniforms in (0, 1]."""
    random = np.random.default_rng(1)
    scores = random.normal(size=n_calibration)
    new = random.normal(size=n_candidates)
    tied = random.random(n_candidates) < 0.1
    new[tied] = random.choice(scores, int(tied.sum()))
    return scores, new, 1 - random.random(n_candidates)


def rankings(n_users: int, n_items: int) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return scores without ties, and the relevant items: 1% of them, at least one."""
    random = np.random.default_rng(2)
    scores = random.permuted(np.tile(np.arange(n_items) / n_items, (n_users, 1)), axis=1)
    relevant = random.random((n_users, n_items)) < 0.01
    relevant[:, 0] = True
    return scores, relevant
