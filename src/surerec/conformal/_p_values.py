"""p-values from scores, the sets that they define, and rules to merge p-values."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from surerec._arguments import (
    check_choice,
    check_number,
    check_numbers,
    check_whole,
    check_wholes,
    is_number,
)
from surerec._words import shown
from surerec.conformal.kernels import counts_among
from surerec.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import ArrayLike, NDArray

DEFAULT_CONFIDENCE = 0.9
"""The default confidence."""

MOST_LEVELS = 1e15
_BETWEEN = "non-negative, and a significance at most 1"
TOLERANCE = 1e-9
"""For comparisons, as 1 − 0.9 is slightly less than 0.1 in floating point."""


def _numbers(name: str, values: ArrayLike) -> NDArray[np.float64]:
    numbers = check_numbers(f"{name} scores", values)
    if np.isnan(numbers).any():
        raise InputError(
            f"{int(np.isnan(numbers).sum())} of the {name} scores are NaN. Remove them."
        )
    return numbers


def p_value_counts(calibration: ArrayLike, candidates: ArrayLike) -> NDArray[np.int64]:
    """Count the calibration scores that are not above each candidate's, plus its own.

    The p-value is ``count / (l + 1)`` for l calibration scores (paper, Eq. p2). Counts are
    used because integers compare exactly.

    Parameters
    ----------
    calibration, candidates : array-like of float
        Conformity scores, higher for what conforms more (negative nonconformity scores).

    Examples
    --------
    >>> p_value_counts([0.23, 0.3], [0.3, 0.1])
    array([3, 1])
    """
    values = _numbers("candidate", candidates)
    return counts_among(np.sort(_numbers("calibration", calibration)), values)


def smoothed_p_values(
    calibration: ArrayLike, candidates: ArrayLike, uniforms: ArrayLike
) -> NDArray[np.float64]:
    """Return p-values with random tie-breaking, exactly uniform for exchangeable scores.

    ``(#{α < α_new} + u · (#{α = α_new} + 1)) / (l + 1)``: the candidate ties with itself.

    Parameters
    ----------
    calibration, candidates : array-like of float
        Conformity scores.
    uniforms : array-like of float
        A random number in (0, 1] for each candidate.

    Examples
    --------
    >>> smoothed_p_values([1.0, 2.0, 2.0], [2.0], [0.5])
    array([0.625])
    """
    values = _numbers("candidate", candidates)
    numbers = _numbers("uniform", uniforms)
    if numbers.shape != values.shape:
        raise InputError(f"{len(values)} candidates need as many uniforms, not {numbers.size}.")
    ordered = np.sort(_numbers("calibration", calibration))
    below = np.searchsorted(ordered, values)
    ties = counts_among(ordered, values) - below  # including itself
    return np.asarray((below + numbers * ties) / (len(ordered) + 1))


def in_set(counts: ArrayLike, levels: int, significance: float) -> NDArray[np.bool_]:
    """Return which items have a p-value above the significance level ε.

    Parameters
    ----------
    counts : array-like of int
        The p-values as counts: ``p = counts / levels``.
    levels : int
        The number of levels, l + 1.
    significance : float
        ε; the confidence is 1 − ε.

    Examples
    --------
    A p-value of 0.1 is excluded at confidence 0.9, although ``1 - 0.9 < 0.1`` in floating point:

    >>> in_set([1, 2], 10, 1 - 0.9)
    array([False,  True])
    """
    check_number("significance", significance, 0, 1, "between 0 and 1", ends=(True, True))
    threshold = left_out_up_to(significance, check_whole("levels", levels, lowest=0))
    return check_wholes("counts", counts) > threshold


def left_out_up_to(significance: ArrayLike, levels: ArrayLike) -> NDArray[np.int64]:
    """Return the highest count outside the set at ε, ⌊ε · levels⌋ (paper.md 17).

    Examples
    --------
    >>> int(left_out_up_to(1 - 0.9, 10))
    1
    """
    epsilon, of = _flat("significance", significance, 1.0), _flat("levels", levels, MOST_LEVELS)
    if epsilon.ndim and of.ndim and len(epsilon) != len(of):
        raise InputError(f"{len(epsilon):,} significances need as many levels, not {len(of):,}.")
    at = epsilon * of
    return np.floor(at + TOLERANCE).astype(np.int64)


def _flat(name: str, given: ArrayLike, most: float) -> NDArray[np.float64]:
    """Return a number or an array of numbers from 0 to `most`."""
    if is_number(given):
        return np.asarray(check_number(name, given, 0, most, _BETWEEN, ends=(True, True)))
    numbers = check_numbers(name, given)
    if not ((numbers >= 0) & (numbers <= most)).all():
        raise InputError(f"{name} is {shown(given)}; all of it must be {_BETWEEN}.")
    return numbers


def entry_confidence(counts: ArrayLike, levels: int) -> NDArray[np.float64]:
    """Return the confidence above which each item is in the set: 1 − p.

    An item is in the set at every confidence above this one, but not at it, so one result serves
    every confidence. A single division keeps it exact: 0.7 compares correctly with 1 − 3/10.

    Examples
    --------
    >>> entry_confidence([3, 10], 10)
    array([0.7, 0. ])
    """
    of = check_whole("levels", levels)
    return (of - check_wholes("counts", counts)) / of


def highest_confidence(n_calibration: int) -> float:
    """Return the highest confidence at which l calibration items can exclude an item.

    The smallest p-value is ``1/(l + 1)``; above a confidence of ``l/(l + 1)`` every item is
    in the set.

    Examples
    --------
    >>> highest_confidence(9), highest_confidence(0)
    (0.9, 0.0)
    """
    n = check_whole("n_calibration", n_calibration, lowest=0)
    return n / (n + 1)


def significance_of(confidence: float | None, significance: float | None) -> float:
    """Return ε from a confidence or a significance; by default the confidence is 0.9.

    Examples
    --------
    >>> significance_of(None, 0.1), round(significance_of(None, None), 3)
    (0.1, 0.1)
    """
    if confidence is not None and significance is not None:
        raise InputError("Pass confidence or significance (1 − confidence), not both.")
    if significance is None and confidence is None:
        confidence = DEFAULT_CONFIDENCE
    name = "confidence" if significance is None else "significance"
    value = confidence if significance is None else significance
    if not isinstance(value, (int, float, np.integer, np.floating)) or isinstance(value, bool):
        raise InputError(f"{name} is {shown(value)}; it must be a number between 0 and 1.")
    if not abs(value) <= MOST_LEVELS:
        raise InputError(f"{name} is {shown(value)}; it must be between 0 and 1.")
    number = float(value)
    if not 0 < number < 1:
        percent = number / 100
        hint = f"; did you mean {percent:g}?" if 1 < number < 100 else "."  # noqa: PLR2004
        raise InputError(f"{name} is {number:g}; it must be between 0 and 1{hint}")
    return number if name == "significance" else 1 - number


@dataclass(frozen=True)
class Merger:
    """A rule that merges several p-values into one.

    Attributes
    ----------
    name : str
        Its name in :func:`merge_p_values`.
    of : {"everyone", "someone"}
        Whether the result is a p-value of the hypothesis that all hypotheses hold, or that at least
        one does.
    words : str
        A short description.
    """

    name: str
    of: Literal["everyone", "someone"]
    words: str
    _merge: Callable[[NDArray[np.float64]], NDArray[np.float64]]

    def __call__(self, p_values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Merge each column of several rows of p-values; never above 1."""
        return np.minimum(self._merge(p_values), 1.0)


def _mean(p: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(2 * p.mean(axis=0))


def _geometric(p: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.e * np.exp(np.log(p).mean(axis=0)))


def _harmonic(p: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(_harmonic_factor(len(p)) / (1 / p).mean(axis=0))


def _bonferroni(p: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(len(p) * p.min(axis=0))


def _maximum(p: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(p.max(axis=0))


@lru_cache
def _harmonic_factor(k: int) -> float:
    """Return the least factor that keeps a harmonic mean of k p-values valid; about log k.

    Vovk and Wang 2020, Proposition 6: ``(y + k)² / ((y + 1) k)`` where
    ``y² = k ((y + 1) log(y + 1) − y)``, and k itself where k is 1 or 2.
    """
    if k <= 2:  # noqa: PLR2004
        return float(k)
    low, high = 1e-3, 1e9
    for _ in range(200):  # k((y + 1) log(y + 1) − y) − y² is positive below the one root
        y = (low + high) / 2
        below = k * ((y + 1) * np.log1p(y) - y) > y * y
        low, high = (y, high) if below else (low, y)
    return float((low + k) ** 2 / ((low + 1) * k))


MERGERS: Final[Mapping[str, Merger]] = {
    rule.name: rule
    for rule in (
        Merger("mean", "everyone", "twice the mean", _mean),
        Merger("geometric", "everyone", "e times the geometric mean", _geometric),
        Merger("harmonic", "everyone", "the harmonic mean times about log n", _harmonic),
        Merger("bonferroni", "everyone", "n times the smallest (Bonferroni)", _bonferroni),
        Merger("maximum", "someone", "the largest", _maximum),
    )
}
"""All rules by name."""


def merge_p_values(p_values: ArrayLike, rule: str = "mean") -> NDArray[np.float64]:
    """Merge the p-values of each column, valid under any dependence between the rows.

    Each row is the p-value of one hypothesis, such as "this member consumes it". If *all* of them
    hold, ``P(merged ≤ ε) ≤ ε`` by the rules for "everyone" (Vovk and Wang, *Combining p-values via
    averaging*, Biometrika 2020). If an unknown one of them holds, its p-value is valid, and the
    maximum is never below it. The raw mean and the raw minimum are not valid.

    Parameters
    ----------
    p_values : array-like of float, (n, n_columns) or n
        Values in (0, 1], one row per hypothesis.
    rule : {"mean", "geometric", "harmonic", "bonferroni", "maximum"}, default="mean"
        A name of :data:`MERGERS`.

    Examples
    --------
    >>> merge_p_values([[0.01, 0.2], [0.05, 0.4]])
    array([0.06, 0.6 ])
    >>> merge_p_values([0.01, 0.05], "bonferroni"), merge_p_values([0.01, 0.05], "maximum")
    (array([0.02]), array([0.05]))
    """
    merger = MERGERS[check_choice("rule", rule, MERGERS)]
    given = np.asarray(p_values)
    found = check_numbers("p_values", given, n_dimensions=2 if given.ndim > 1 else 1)
    if not len(found):
        raise InputError("There are no p-values to merge. Pass at least one.")
    if not ((found > 0) & (found <= 1)).all():
        raise InputError("Some p-values are outside (0, 1]. Pass p-values above 0 and at most 1.")
    return merger(found.reshape(len(found), -1))
