"""Tie-aware metrics against every order of the tied items, and against scikit-learn."""

from fractions import Fraction
from itertools import pairwise, permutations
from math import inf, isnan, log2, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, ndcg_score, roc_auc_score

from surerec.errors import InputError
from surerec.evaluation import mean_and_error, ranking_metrics

levels = st.sampled_from([-inf, -1.0, 0.0, -0.0, 0.5, 2.0, inf])


@st.composite
def rankings(draw, values=levels, max_size=7):
    scores = draw(st.lists(values, min_size=1, max_size=max_size))
    n = len(scores)
    mask = draw(st.lists(st.booleans(), min_size=n, max_size=n).filter(any))
    return scores, mask


def random_ranking(random_state, n=300, n_relevant=25, n_levels=None):
    random = np.random.default_rng(random_state)
    scores = random.permutation(n) if n_levels is None else random.integers(0, n_levels, n)
    relevant = np.zeros(n, dtype=bool)
    relevant[random.choice(n, n_relevant, replace=False)] = True
    return scores.astype(float), relevant


def of_one_order(relevant, k):
    """Work out everything but NDCG in fractions from the relevance at each rank."""
    ranks = [rank for rank, hit in enumerate(relevant, 1) if hit]
    n_hits, n_others = len(ranks), len(relevant) - len(ranks)
    within = sum(rank <= k for rank in ranks)
    worse = [sum(not hit for hit in relevant[rank:]) for rank in ranks]
    ideal = sum(1 / log2(1 + rank) for rank in range(1, n_hits + 1))
    return (
        sum(Fraction(i, rank) for i, rank in enumerate(ranks, 1)) / n_hits,
        Fraction(sum(worse), n_hits * n_others) if n_others else nan,
        sum(1 / log2(1 + rank) for rank in ranks) / ideal,
        Fraction(1, ranks[0]),
        Fraction(within, k),
        Fraction(within, n_hits),
        Fraction(2 * within, k + n_hits),
    )


def by_enumeration(scores, relevant, k):
    """Average over every order of the items that the scores allow."""
    allowed = [
        [relevant[item] for item in order]
        for order in permutations(range(len(scores)))
        if all(scores[a] >= scores[b] for a, b in pairwise(order))
    ]
    columns = zip(*(of_one_order(order, k) for order in allowed), strict=True)
    return [float(sum(column) / len(allowed)) for column in columns]


@given(rankings(max_size=6), st.integers(1, 9))
def test_the_expectation_is_the_average_over_all_orders(ranking, k):
    scores, relevant = ranking
    expected = by_enumeration(scores, relevant, k)
    np.testing.assert_allclose(ranking_metrics(scores, relevant, k=k), expected, rtol=1e-13)


@pytest.mark.parametrize("n_levels", [None, 1, 2, 7, 60])
def test_as_scikit_learn(n_levels):
    """Its AUC counts ties one half and its NDCG is averaged over them; its AP does neither."""
    scores, relevant = random_ranking(8, n_levels=n_levels)
    ours = ranking_metrics(scores, relevant)
    assert ours.auc == pytest.approx(roc_auc_score(relevant, scores), rel=1e-12)
    assert ours.ndcg == pytest.approx(ndcg_score([relevant], [scores]), rel=1e-12)
    if n_levels is None:
        assert ours.ap == pytest.approx(average_precision_score(relevant, scores), rel=1e-12)


@pytest.mark.parametrize(
    ("scores", "relevant", "k", "message"),
    [
        ([1, 2], [False, False], 1, "No candidate is relevant"),
        ([1, nan, nan], [True, False, False], 1, "2 of the scores are NaN"),
        ([1, 2], [True], 1, "relevant is .*a list of 2 booleans"),
    ],
)
def test_invalid_input_is_rejected(scores, relevant, k, message):
    with pytest.raises(InputError, match=message):
        ranking_metrics(scores, relevant, k=k)


def test_mean_and_standard_error_by_hand():
    # Squares of 1, 1, 3, 3 about 2 sum to 4: s² = 4/3, divided by 4 is 1/3.
    assert mean_and_error([1, 1, 3, 3]) == (2, pytest.approx((1 / 3) ** 0.5))
    assert mean_and_error([0.5]).mean == 0.5
    assert isnan(mean_and_error([0.5]).standard_error)
    assert all(map(isnan, mean_and_error([0.5, nan])))
    with pytest.raises(InputError, match="at least one value"):
        mean_and_error([])
