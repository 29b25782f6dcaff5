import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression

from surerec.conformal import UserCurve, isotonic_rates
from surerec.errors import InputError

BINS = st.lists(st.integers(0, 6).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))),
                min_size=1, max_size=12)  # fmt: skip


@given(BINS)
def test_rates_are_those_of_isotonic_regression(bins):
    counts, hits = np.array(bins).T
    found = isotonic_rates(counts, hits)
    some = counts > 0
    if not some.any():
        assert np.isnan(found).all()
        return
    slow = isotonic_regression(hits[some] / counts[some], weights=counts[some]).x
    np.testing.assert_allclose(found[some], slow, atol=1e-12)
    assert (np.diff(found) >= -1e-12).all()


def test_a_bin_without_cases_takes_the_rate_below():
    found = isotonic_rates([0, 2, 0, 2, 0], [0, 0, 0, 2, 0])
    assert found.tolist() == [0, 0, 0, 1, 1]


@given(st.integers(0, 2**32), st.integers(2, 8))
def test_leaving_a_user_out_is_fitting_the_others(seed, n_users):
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 5, (n_users, 4)) + 1
    hits = rng.binomial(counts, 0.4)
    without = int(rng.integers(n_users))
    others = np.arange(n_users) != without
    found = UserCurve(counts, hits).probability(without=without)
    np.testing.assert_allclose(found, UserCurve(counts[others], hits[others]).probability())


def test_the_interval_of_the_others_knows_nothing_of_who_is_left_out():
    rng = np.random.default_rng(3)
    counts = np.full((60, 3), 10)
    hits = rng.binomial(counts, [0.1, 0.3, 0.6])
    other = hits.copy()
    other[7] = 10 - other[7]
    one, two = (UserCurve(counts, some).with_interval(without=7) for some in (hits, other))
    np.testing.assert_allclose(np.stack(one), np.stack(two))


def coverage(draw_users, truth, n=200):
    """Give how often the interval holds the truth of the highest bin."""
    inside = 0
    for seed in range(n):
        counts, hits = draw_users(np.random.default_rng(seed))
        found = UserCurve(counts, hits, seed).with_interval()
        inside += found.low[-1] <= truth <= found.high[-1]
    return inside / n


def test_the_interval_holds_though_a_users_cases_are_alike():
    # Some take nearly all they are shown and others hardly anything: an interval over pairs
    # would be a fifth as wide.
    def users(rng):
        likes = rng.beta(0.5, 0.5, 150)[:, None]
        counts = np.tile([30, 30], (150, 1))
        return counts, rng.binomial(counts, np.hstack([0.2 * likes, likes]))

    assert coverage(users, 0.5) >= 0.9


def test_without_cases_there_is_no_curve():
    with pytest.raises(InputError, match="no calibration cases"):
        UserCurve(np.empty((0, 3), int), np.empty((0, 3), int))
