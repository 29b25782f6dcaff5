"""p-values from scores, the sets they make, and several p-values merged into one."""

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
"""The confidence where none is given."""

MOST_LEVELS = 1e15
_BETWEEN = "numbers that are not negative, and a significance at most 1"
TOLERANCE = 1e-9
"""1 − 0.9 is a little less than 0.1 in floats."""


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
    return counts_among(np.sort(_numbers("calibration", calibration)), values)


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
    probabilities = _numbers("uniform", uniforms)
    if probabilities.shape != values.shape:
        raise InputError(
            f"{len(values)} candidates need as many uniforms, not {probabilities.size}."
        )
    ordered = np.sort(_numbers("calibration", calibration))
    below = np.searchsorted(ordered, values)
    ties = counts_among(ordered, values) - below  # itself among them
    return np.asarray((below + probabilities * ties) / (len(ordered) + 1))


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
    A p-value of 0.1 is out at confidence 0.9, though ``1 - 0.9 < 0.1`` in floats:

    >>> in_set([1, 2], 10, 1 - 0.9)
    array([False,  True])
    """
    check_number("significance", significance, 0, 1, "between 0 and 1", ends=(True, True))
    border = left_out_up_to(significance, check_whole("levels", levels, lowest=0))
    return check_wholes("counts", counts) > border


def left_out_up_to(significance: ArrayLike, levels: ArrayLike) -> NDArray[np.int64]:
    """Return the highest count that ε leaves out, ⌊ε · levels⌋: every set's border (paper.md 17).

    Examples
    --------
    >>> int(left_out_up_to(1 - 0.9, 10))
    1
    """
    epsilon, of = _flat("significance", significance, 1.0), _flat("levels", levels, MOST_LEVELS)
    if epsilon.ndim and of.ndim and len(epsilon) != len(of):
        raise InputError(f"{len(epsilon):,} significances and {len(of):,} levels do not match.")
    at = epsilon * of
    return np.floor(at + TOLERANCE).astype(np.int64)


def _flat(name: str, given: ArrayLike, most: float) -> NDArray[np.float64]:
    """Return a number, or a list of them, of 0 to `most`."""
    if is_number(given):
        return np.asarray(check_number(name, given, 0, most, _BETWEEN, ends=(True, True)))
    numbers = check_numbers(name, given)
    if not ((numbers >= 0) & (numbers <= most)).all():
        raise InputError(f"{name} is {shown(given)}; all of it must be {_BETWEEN}.")
    return numbers


def entry_confidence(counts: ArrayLike, levels: int) -> NDArray[np.float64]:
    """Return the confidence above which each item is in the set: 1 − p.

    An item is in the set at every confidence above this one, and not at it, so one answer serves
    every confidence that may be asked for later. One division keeps it exact to the last digit: a
    confidence written as 0.7 compares rightly with 1 − 3/10.

    Examples
    --------
    >>> entry_confidence([3, 10], 10)
    array([0.7, 0. ])
    """
    of = check_whole("levels", levels)
    return (of - check_wholes("counts", counts)) / of


def highest_confidence(n_calibration: int) -> float:
    """Return the highest confidence at which l calibration items can still leave anything out.

    The smallest p-value is ``1/(l + 1)``; above a confidence of ``l/(l + 1)`` everything is in.

    Examples
    --------
    >>> highest_confidence(9), highest_confidence(0)
    (0.9, 0.0)
    """
    n = check_whole("n_calibration", n_calibration, lowest=0)
    return n / (n + 1)


def significance_of(confidence: float | None, significance: float | None) -> float:
    """Return ε from either of the two ways to state it; by default the confidence is 0.9.

    Examples
    --------
    >>> significance_of(None, 0.1), round(significance_of(None, None), 3)
    (0.1, 0.1)
    """
    if confidence is not None and significance is not None:
        raise InputError("Give confidence or significance (1 − confidence), not both.")
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
    """A rule that makes one p-value of several.

    Attributes
    ----------
    name : str
        As :func:`merge_p_values` has it.
    of : {"everyone", "someone"}
        Of which hypothesis the result is a p-value: that all of the hypotheses hold, or that at
        least one of them does.
    words : str
        What it does, in words.
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
"""The rules by name; a row more is a rule more."""


def merge_p_values(p_values: ArrayLike, rule: str = "mean") -> NDArray[np.float64]:
    """Merge p-values into one for each column, valid whatever the dependence between the rows.

    Of n hypotheses, such as "this member takes it", each with a p-value. If *all* of them hold, all
    p-values are valid, and ``P(merged ≤ ε) ≤ ε`` by the rules for "everyone" (Vovk and Wang,
    *Combining p-values via averaging*, Biometrika 2020). If *some* hypothesis holds, its p-value is
    valid, and nobody knows which it is: the maximum is never below it. The raw mean and the raw
    minimum are not valid.

    Parameters
    ----------
    p_values : array-like of float, (n, n_columns) or n
        In (0, 1], a row for each hypothesis.
    rule : {"mean", "geometric", "harmonic", "bonferroni", "maximum"}, default="mean"
        Which of :data:`MERGERS`.

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
        raise InputError("There are no p-values to merge: give at least one.")
    if not ((found > 0) & (found <= 1)).all():
        raise InputError("p-values are above 0 and at most 1; these are not all so.")
    return merger(found.reshape(len(found), -1))
