"""Tie-aware ranking metrics, and means over users."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from surerec._arguments import check_mask, check_numbers, check_whole
from surerec.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


class RankingMetrics(NamedTuple):
    """The metrics of one user's ranking of all candidates, with binary relevance.

    Attributes
    ----------
    ap : float
        Average precision: the mean over the relevant items of the precision at their rank.
    auc : float
        Share of correctly ranked pairs of a relevant and another item, with 1/2 for a tie; nan if
        every candidate is relevant.
    ndcg : float
        ``Σ 1/log2(1 + rank)`` over the relevant items, divided by its largest value.
    rr : float
        The reciprocal rank of the first relevant item.
    precision, recall, f1 : float
        Of the first k: hits/k, hits/R and 2·hits/(k + R) for R relevant items. The divisor is k
        even with fewer candidates, as in trec_eval.
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


def ranking_metrics(scores: ArrayLike, relevant: ArrayLike, *, k: int = 10) -> RankingMetrics:
    """Compute ranking metrics, exact in expectation over random orders of tied items.

    A group of t tied items with r relevant ones behind s items, R₀ of them relevant, adds to the
    sum of precisions ``r/t · Σ_j (R₀ + 1 + (j − 1)(r − 1)/(t − 1)) / (s + j)`` for j = 1 … t, and
    the other metrics have similar closed forms, so nothing is sampled.

    Parameters
    ----------
    scores : array-like of float
        One per candidate, higher ranks first; infinities are allowed, and equal scores are ties.
    relevant : array-like of bool
        Which candidates are relevant, at least one.
    k : int
        List length of precision, recall and F1; it may exceed the number of candidates.

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
    k = check_whole("k", k)
    values = check_numbers("scores", scores)
    mask = check_mask("relevant", relevant, len(values))
    if np.isnan(values).any():
        raise InputError(f"{int(np.isnan(values).sum())} of the scores are NaN. Remove them.")
    if not mask.any():
        raise InputError("No candidate is relevant, so no metric is defined. Skip this user.")
    # Groups of tied items, best first. Every order within a group is equally likely: at each of
    # its ranks an item is relevant with probability hits / size.
    _, worst_first, sizes = np.unique(values, return_inverse=True, return_counts=True)
    hits = np.bincount(worst_first[mask], minlength=len(sizes))[::-1]
    sizes, above = sizes[::-1], np.cumsum(hits) - hits
    group = np.repeat(np.arange(len(sizes)), sizes)  # at each rank
    place = np.arange(1, len(values) + 1) - (np.cumsum(sizes) - sizes)[group]  # in the group
    ranks, n_relevant = np.arange(1, len(group) + 1), int(hits.sum())
    n_others = len(group) - n_relevant
    probability = hits[group] / sizes[group]
    also = ((hits - 1) / np.maximum(sizes - 1, 1))[
        group
    ]  # given that another rank of the group is relevant
    precisions = (above[group] + 1 + (place - 1) * also) / ranks
    discounts = 1 / np.log2(1.0 + ranks)
    # Won pairs count two and tied pairs one, which keeps the sum exact.
    tied = sizes - hits
    beaten = n_others - np.cumsum(tied)
    half_wins = int((hits * (2 * beaten + tied)).sum())
    # The first relevant item is at place j of its group with C(size − j, hits − 1) / C(size, hits).
    first = int(np.argmax(hits > 0))
    size, hit = int(sizes[first]), int(hits[first])
    later = np.arange(1, size - hit + 1)
    at = hit / size * np.cumprod(np.append(1.0, (size - hit - later + 1) / (size - later)))
    before = int(sizes[:first].sum())
    last = min(k, len(group)) - 1
    n_hits = float(above[group[last]] + hits[group[last]] * place[last] / sizes[group[last]])
    return RankingMetrics(
        ap=float(probability @ precisions) / n_relevant,
        auc=half_wins / (2 * n_relevant * n_others) if n_others else np.nan,
        ndcg=float(probability @ discounts / discounts[:n_relevant].sum()),
        rr=float((at / np.arange(before + 1, before + 1 + len(at))).sum()),
        precision=n_hits / k,
        recall=n_hits / n_relevant,
        f1=2 * n_hits / (k + n_relevant),
    )


def mean_and_error(values: ArrayLike) -> MeanAndError:
    """Return the mean over users and its standard error, s/√n with n − 1 degrees of freedom.

    The error of a single value is nan. A nan among the values makes both nan, so that an undefined
    metric is noticed. Leave such users out first.

    Examples
    --------
    >>> mean_and_error([0.1, 0.2, 0.3, 0.4])
    MeanAndError(mean=0.25, standard_error=0.0645...)
    """
    sample = check_numbers("values", values)
    if not sample.size:
        raise InputError("values is empty. Pass at least one value.")
    mean = float(sample.mean())
    if sample.size == 1:
        return MeanAndError(mean, float("nan"))
    return MeanAndError(mean, float(sample.std(ddof=1)) / sample.size**0.5)
