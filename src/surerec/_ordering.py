"""The order in which items are shown: by score, and by popularity where scores are equal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from surerec._kernels import falling

if TYPE_CHECKING:
    from numpy.typing import NDArray


def best_first(
    scores: NDArray[np.float64], popularity: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """Give the places of scores from the highest to the lowest, equal ones by popularity.

    Parameters
    ----------
    scores : array of float
        None of them NaN.
    popularity : array of int, optional
        The place of each item by popularity, all different; by default that of the scores.

    Examples
    --------
    >>> best_first(np.array([0.5, 2.0, -1.0, 2.0]), np.array([0, 3, 2, 1])).tolist()
    [3, 1, 0, 2]
    """
    values = np.ascontiguousarray(scores, dtype=np.float64)
    if popularity is None or (popularity[1:] > popularity[:-1]).all():
        return falling(values)
    order = np.argsort(popularity)
    return order[falling(values[order])]
