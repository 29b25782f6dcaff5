"""Several p-values merged into one, under any dependence between them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from surerec._arguments import check_choice, check_numbers
from surerec.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import ArrayLike, NDArray


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
    """Give the least factor that keeps a harmonic mean of k p-values valid; about log k.

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
