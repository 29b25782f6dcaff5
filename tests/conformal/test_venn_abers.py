import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression
from sklearn.isotonic import IsotonicRegression

from surerec.conformal import isotonic_rates, venn_abers
from surerec.errors import InputError

CASES = st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=1, max_size=25)


def by_refitting(scores, happened, new):
    """Refit with the new case and each outcome, as in the definition."""
    found = []
    for outcome in (0.0, 1.0):
        fitted = IsotonicRegression().fit([*scores, new], [*happened, outcome])
        found.append(fitted.predict([new])[0])
    return found


@given(CASES, st.sampled_from([-1.0, 0.0, 2.0, 2.5, 6.0, 7.0]))
def test_both_bounds_equal_those_of_refits(cases, new):
    scores, happened = zip(*cases, strict=True)
    found = venn_abers(scores, happened, [new])
    low, high = by_refitting(scores, [float(h) for h in happened], new)
    assert found.low[0] == pytest.approx(low, abs=1e-9)
    assert found.high[0] == pytest.approx(high, abs=1e-9)
    assert low - 1e-9 <= found.probability[0] <= high + 1e-9


def test_probabilities_are_calibrated_where_scores_are_not():
    rng = np.random.default_rng(0)
    scores = rng.random(4_000)
    happened = rng.random(4_000) < scores**3
    new = rng.random(1_000)
    found = venn_abers(scores, happened, new)
    for low in np.arange(0, 1, 0.2):
        some = (found.probability >= low) & (found.probability < low + 0.2)
        if some.sum() > 50:
            assert found.probability[some].mean() == pytest.approx(
                (new[some] ** 3).mean(), abs=0.04
            )


def test_invalid_scores_are_rejected():
    with pytest.raises(InputError, match="no calibration cases"):
        venn_abers([], [], [1.0])
    with pytest.raises(InputError, match="score is NaN"):
        venn_abers([1.0], [True], [np.nan])


BINS = st.lists(st.integers(0, 6).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))),
                min_size=1, max_size=12)  # fmt: skip


@given(BINS)
def test_rates_equal_those_of_isotonic_regression(bins):
    counts, hits = np.array(bins).T
    found = isotonic_rates(counts, hits)
    some = counts > 0
    if not some.any():
        assert np.isnan(found).all()
        return
    slow = isotonic_regression(hits[some] / counts[some], weights=counts[some]).x
    np.testing.assert_allclose(found[some], slow, atol=1e-12)
    assert (np.diff(found) >= -1e-12).all()
    assert isotonic_rates([0, 2, 0, 2, 0], [0, 0, 0, 2, 0]).tolist() == [0, 0, 0, 1, 1]
