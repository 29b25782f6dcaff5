"""Metrics of one user's ranking, exact in expectation over ties, and means over users."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from surerec._arguments import check_mask, check_number, check_numbers, check_seed
from surerec._checks import check_whole
from surerec.errors import InputError
from surerec.evaluation._kernels import expected_hits, expected_metrics, tied_groups

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

_MOST = 10_000_000  # numbers that are made at the most


class RankingMetrics(NamedTuple):
    """The metrics of one user's ranking of all candidates, with binary relevance.

    Attributes
    ----------
    ap : float
        Average precision: the mean over the relevant items of the precision at their rank.
    auc : float
        The share of pairs of a relevant and another item that rank rightly, a tie counting one
        half; nan where every candidate is relevant, for then there is no pair.
    ndcg : float
        ``Σ 1/log2(1 + rank)`` over the relevant items, divided by the best that can be had.
    rr : float
        The reciprocal rank of the first relevant item.
    precision, recall, f1 : float
        Of the first k: hits/k, hits/R and 2·hits/(k + R) for R relevant items. The divisor stays k
        where there are fewer candidates than that, as in trec_eval.
    """

    ap: float
    auc: float
    ndcg: float
    rr: float
    precision: float
    recall: float
    f1: float


class MeanAndError(NamedTuple):
    """A mean and its standard error."""

    mean: float
    standard_error: float


class _Groups(NamedTuple):
    """The groups of tied items that hold a relevant one, as the kernels take them."""

    before: NDArray[np.int64]
    sizes: NDArray[np.int64]
    hits: NDArray[np.int64]


def _find_groups(scores: ArrayLike, relevant: ArrayLike) -> tuple[_Groups, int, int]:
    """Check the input; give the groups, the number of candidates and of relevant ones."""
    values = check_numbers("scores", scores)
    mask = check_mask("relevant", relevant, len(values))
    ordered = np.sort(values)
    if ordered.size and np.isnan(ordered[-1]):  # sorting puts them last
        raise InputError(f"Of the scores {int(np.isnan(ordered).sum())} are not numbers.")
    chosen = np.sort(values[mask]) if mask.size else values
    if not chosen.size:
        raise InputError("No candidate is relevant, so that no metric is defined; leave this out.")
    places = np.empty((3, chosen.size), dtype=np.int64)
    found = tied_groups(ordered, chosen, places[0], places[1], places[2])
    return _Groups(*places[:, :found]), values.size, chosen.size


@cache
def _discounts(size: int) -> NDArray[np.float64]:
    discounts: NDArray[np.float64] = 1 / np.log2(np.arange(2.0, size + 2.0))
    return discounts


def _hits(groups: _Groups, k: int) -> NDArray[np.float64]:
    curve = np.empty(k)
    expected_hits(*groups, curve)
    return curve


def ranking_metrics(scores: ArrayLike, relevant: ArrayLike, *, k: int = 10) -> RankingMetrics:
    """Measure a ranking by scores, exactly in expectation over random orders of tied items.

    A group of t tied items with r relevant ones behind s items, R₀ of them relevant, adds to the
    sum of precisions ``r/t · Σ_j (R₀ + 1 + (j − 1)(r − 1)/(t − 1)) / (s + j)`` for j = 1 … t, and
    the other metrics have closed forms of the same kind: nothing is drawn. That is one sort and a
    pass over the candidates.

    Parameters
    ----------
    scores : array-like of float
        One for each candidate, higher ranks first; infinities are scores like others, and equal
        scores are ties.
    relevant : array-like of bool
        Which candidates are relevant, at least one.
    k : int
        Where precision, recall and F1 are cut; it may exceed the number of candidates.

    Raises
    ------
    InputError
        If no candidate is relevant, a score is nan, or the two arrays do not match.

    Examples
    --------
    >>> metrics = ranking_metrics([0.9, 0.5, 0.5, 0.1], [False, True, False, False], k=2)
    >>> round(metrics.ap, 4), round(metrics.auc, 4)  # (1/2 + 1/3) / 2, and (1 + 1/2) / 3
    (0.4167, 0.5)
    >>> metrics.precision, metrics.recall
    (0.25, 0.5)
    """
    cut = check_whole("k", k)
    groups, n_candidates, n_relevant = _find_groups(scores, relevant)
    # Tables of a few sizes serve all users: logarithms would cost as much as the sort.
    discounts = _discounts(1 << (n_candidates - 1).bit_length())
    hits = float(_hits(groups, min(cut, n_candidates))[-1])
    return RankingMetrics(
        *expected_metrics(*groups, n_candidates, discounts),
        precision=hits / cut,
        recall=hits / n_relevant,
        f1=2 * hits / (cut + n_relevant),
    )


def hits_curve(scores: ArrayLike, relevant: ArrayLike, k_max: int = 50) -> NDArray[np.float64]:
    """Give the expected number of relevant items among the first k, for k = 1 … `k_max`.

    Precision is ``hits / k``, recall ``hits / R`` and F1 ``2 · hits / (k + R)``.

    Parameters
    ----------
    scores, relevant : array-like
        As for `ranking_metrics`.
    k_max : int
        The last k; from the number of candidates on the curve stays at R.

    Examples
    --------
    >>> hits_curve([0.9, 0.5, 0.5, 0.1], [False, True, False, False], k_max=5)
    array([0. , 0.5, 1. , 1. , 1. ])
    """
    k_last = check_whole("k_max", k_max, highest=_MOST)
    return _hits(_find_groups(scores, relevant)[0], k_last)


def _sample(values: ArrayLike) -> NDArray[np.float64]:
    sample = check_numbers("values", values)
    if not sample.size:
        raise InputError("A mean needs a list of at least one value.")
    return sample


def mean_and_error(values: ArrayLike) -> MeanAndError:
    """Give the mean over users and its standard error, s/√n with n − 1 degrees of freedom.

    The error of a single value is nan. A nan among the values makes both nan, so that an undefined
    metric does not pass unseen: leave such users out first.

    Examples
    --------
    >>> mean_and_error([0.1, 0.2, 0.3, 0.4])
    MeanAndError(mean=0.25, standard_error=0.0645...)
    """
    sample = _sample(values)
    mean = float(sample.mean())
    if sample.size == 1:
        return MeanAndError(mean, float("nan"))
    return MeanAndError(mean, float(sample.std(ddof=1)) / sample.size**0.5)


def bootstrap_interval(
    values: ArrayLike, *, level: float = 0.95, n: int = 2000, seed: int = 0
) -> tuple[float, float]:
    """Give the percentile bootstrap interval of the mean over users.

    Parameters
    ----------
    values : array-like of float
        One for each user; a nan among them makes the interval nan.
    level : float
        The share of resampled means inside, between 0 and 1.
    n : int
        How many times users are drawn anew.
    seed : int
        The same seed gives the same interval.

    Examples
    --------
    >>> low, high = bootstrap_interval([0.1, 0.2, 0.3, 0.4])
    >>> 0.1 <= low < 0.25 < high <= 0.4
    True
    """
    inside = check_number("level", level, 0, 1, "between 0 and 1")
    sample = _sample(values)
    random = np.random.default_rng(check_seed(seed))
    means = np.empty(check_whole("n", n, highest=_MOST))
    for row in range(means.size):  # one at a time: all at once would need n numbers a user
        means[row] = sample[random.integers(0, sample.size, sample.size)].mean()
    low, high = np.quantile(means, [(1 - inside) / 2, (1 + inside) / 2])
    return float(low), float(high)
