import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression

from surerec.conformal import isotonic_rates

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
