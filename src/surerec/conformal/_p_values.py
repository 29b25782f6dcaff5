"""p-values from calibration scores and candidate scores."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from surerec._arguments import check_numbers
from surerec._threads import run_blocks
from surerec.conformal._kernels import count_at_most, levels_of, smooth
from surerec.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


_AT_ONCE = 1 << 17


def _numbers(name: str, values: ArrayLike) -> NDArray[np.float64]:
    numbers = check_numbers(f"{name} scores", values)
    if np.isnan(numbers).any():
        raise InputError(f"Of the {name} scores {int(np.isnan(numbers).sum())} are not numbers.")
    return numbers


def p_value_counts(calibration: ArrayLike, candidates: ArrayLike) -> NDArray[np.int64]:
    """Count how many of the calibration scores and the candidate's own are not above it.

    The p-value is ``count / (l + 1)`` for l calibration scores (paper, Eq. p2). Counts are kept,
    because integers compare exactly where fractions do not.

    Parameters
    ----------
    calibration, candidates : array-like of float
        Conformity scores, higher for what conforms more; a nonconformity with its sign turned.

    Examples
    --------
    >>> p_value_counts([0.23, 0.3], [0.3, 0.1])
    array([3, 1])
    """
    values = _numbers("candidate", candidates)
    levels = levels_of(np.sort(_numbers("calibration", calibration)))
    counts = np.empty(len(values), dtype=np.int64)
    for _ in run_blocks(
        lambda some: count_at_most(levels, values[some], counts[some]), _blocks(len(values))
    ):
        pass
    return counts


def _blocks(n_values: int) -> list[slice]:
    """Cut many candidates into blocks for all cores; a person's few make one."""
    return [slice(start, start + _AT_ONCE) for start in range(0, n_values, _AT_ONCE)]


def smoothed_p_values(
    calibration: ArrayLike, candidates: ArrayLike, uniforms: ArrayLike
) -> NDArray[np.float64]:
    """Break ties at random, so that p-values are exactly uniform where scores are exchangeable.

    ``(#{α < α_new} + u · (#{α = α_new} + 1)) / (l + 1)``: the candidate ties with itself.

    Parameters
    ----------
    calibration, candidates : array-like of float
        Conformity scores.
    uniforms : array-like of float
        For each candidate a random number in (0, 1].

    Examples
    --------
    >>> smoothed_p_values([1.0, 2.0, 2.0], [2.0], [0.5])
    array([0.625])
    """
    values = _numbers("candidate", candidates)
    chances = _numbers("uniform", uniforms)
    if chances.shape != values.shape:
        raise InputError(f"{len(values)} candidates need as many uniforms, not {chances.size}.")
    levels = levels_of(np.sort(_numbers("calibration", calibration)))
    p_values = np.empty(len(values))
    for _ in run_blocks(
        lambda some: smooth(levels, values[some], chances[some], p_values[some]),
        _blocks(len(values)),
    ):
        pass
    return p_values
