"""Comparison of algorithms over data sets: average ranks, Friedman and Nemenyi tests.

The tests are those of Demšar (2006), as the paper uses them ("Comparative Analysis").
"""

from __future__ import annotations

from math import inf, sqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import stats

from surerec._arguments import check_number, check_numbers, check_whole
from surerec.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


_MOST = 10_000  # algorithms


class FriedmanResult(NamedTuple):
    """Friedman's test of the hypothesis that all algorithms perform equally.

    Attributes
    ----------
    chi_square : float
        Friedman's statistic, not corrected for ties.
    f_f : float
        The statistic of Iman and Davenport, ``(N − 1) χ² / (N (k − 1) − χ²)``; infinite if all
        data sets rank the algorithms equally, without ties.
    critical_value : float
        The value of F(k − 1, (k − 1)(N − 1)) that is exceeded with probability `alpha`.
    k, n : int
        Number of algorithms, and of data sets.
    p_value : float
        The probability that F exceeds `f_f` if all perform equally.
    """

    chi_square: float
    f_f: float
    critical_value: float
    k: int
    n: int
    p_value: float

    @property
    def rejects(self) -> bool:
        """Whether equal performance is rejected."""
        return self.f_f > self.critical_value


class CriticalDifference(NamedTuple):
    """Nemenyi's critical difference of average ranks, and its quantile q."""

    q: float
    cd: float


def dataset_ranks(table: ArrayLike) -> NDArray[np.float64]:
    """Return the ranks of the algorithms on each data set; 1 is best, ties share a mean rank.

    Parameters
    ----------
    table : array-like of float, data sets × algorithms
        Means of a metric, higher is better.

    Examples
    --------
    >>> dataset_ranks([[0.19, 0.13, 0.19], [0.15, 0.16, 0.2]])
    array([[1.5, 3. , 1.5],
           [3. , 2. , 1. ]])
    """
    means = check_numbers("The table of data sets × algorithms", table, n_dimensions=2)
    if not means.size:
        raise InputError(
            f"The table is empty, of shape {means.shape}. Pass data sets × algorithms."
        )
    if np.isnan(means).any():
        raise InputError(f"{int(np.isnan(means).sum())} of the means are NaN. Remove them.")
    return stats.rankdata(-means, axis=1)


def average_ranks(table: ArrayLike) -> NDArray[np.float64]:
    """Return the average rank of each algorithm over the data sets.

    Parameters
    ----------
    table : array-like of float, data sets × algorithms
        Means of a metric, higher is better.

    Examples
    --------
    >>> average_ranks([[0.19, 0.13, 0.19], [0.15, 0.16, 0.2]])
    array([2.25, 2.5 , 1.25])
    """
    return np.asarray(dataset_ranks(table).mean(axis=0))


def friedman(table: ArrayLike, *, alpha: float = 0.05) -> FriedmanResult:
    """Test whether the algorithms perform equally, by their ranks on each data set.

    The statistic is ``χ² = 12 N / (k (k + 1)) · (Σ_j R_j² − k (k + 1)² / 4)`` for average ranks
    R_j, without the tie correction of `scipy.stats.friedmanchisquare`.

    Parameters
    ----------
    table : array-like of float, data sets × algorithms
        Means of a metric, or ranks on each data set, in either direction.
    alpha : float
        Level of the test.

    Raises
    ------
    InputError
        If there are fewer than two data sets or two algorithms.

    Examples
    --------
    >>> result = friedman([[0.9, 0.8, 0.7], [0.6, 0.5, 0.4], [0.7, 0.8, 0.6]])
    >>> round(result.chi_square, 4), round(result.f_f, 4), round(result.critical_value, 4)
    (4.6667, 7.0, 6.9443)
    >>> result.rejects
    True
    """
    check_number("alpha", alpha, 0, 1, "between 0 and 1")
    ranks = dataset_ranks(table)
    n, k = ranks.shape
    check_whole("The number of data sets", n, lowest=2)
    check_whole("The number of algorithms", k, lowest=2)
    # Twice the sums of ranks are whole numbers, so the divisions have exact operands.
    twice = [int(total) for total in 2 * ranks.sum(axis=0)]
    above = 3 * sum(total * total for total in twice) - 3 * n * n * k * (k + 1) ** 2
    below = n * k * (k + 1)
    rest = n * (k - 1) * below - above
    f_f = (n - 1) * above / rest if rest else inf
    freedom = k - 1, (k - 1) * (n - 1)
    return FriedmanResult(
        chi_square=above / below,
        f_f=f_f,
        critical_value=float(stats.f.isf(alpha, *freedom)),
        k=k,
        n=n,
        p_value=float(stats.f.sf(f_f, *freedom)),
    )


def nemenyi_critical_difference(k: int, n: int, alpha: float = 0.05) -> CriticalDifference:
    """Return the smallest significant difference of average ranks.

    ``CD = q · √(k (k + 1) / (6 N))``, where q is the quantile of the studentized range of k means
    with infinite degrees of freedom, divided by √2.

    Parameters
    ----------
    k, n : int
        Number of algorithms, and of data sets.
    alpha : float
        Level of the test, over all pairs.

    Examples
    --------
    The paper's twenty algorithms and seven data sets:

    >>> q, cd = nemenyi_critical_difference(20, 7)
    >>> round(q, 4), round(cd, 4)
    (3.5438, 11.2065)
    """
    check_number("alpha", alpha, 0, 1, "between 0 and 1")
    check_whole("k", k, lowest=2, highest=_MOST)
    check_whole("n", n, lowest=2)
    q = float(stats.studentized_range.ppf(1 - alpha, k, inf)) / sqrt(2)
    return CriticalDifference(q, q * sqrt(k * (k + 1) / (6 * n)))
