"""The probability of an item by rank, bin and length of the history."""

import numpy as np
import pytest
from scipy.special import expit

from surerec.calibration import Bins, ItemCurve
from surerec.errors import InputError

BINS = Bins(np.array([1.0, 0.0, 0.0]), np.linspace(-6, -1, 150))
RANKS = np.arange(1, 61)


def users(rng, n, spread=0.0):
    """Draw users whose log odds fall with the rank, rise with the history, and differ by user."""
    n_known = rng.integers(5, 100, n)
    bins = np.sort(rng.integers(0, BINS.n, (n, len(RANKS))), axis=1)[:, ::-1]
    odds = -0.8 * np.log(RANKS) + 0.5 * (np.log(n_known) - 3)[:, None] + 0.01 * bins - 0.5
    rates = expit(odds + spread * rng.normal(size=(n, 1)))
    consumed = rng.random(rates.shape) < rates
    counts, hits = (np.zeros((n, BINS.n), dtype=np.int32) for _ in range(2))
    owners = np.repeat(np.arange(n), len(RANKS))
    np.add.at(counts, (owners, bins.ravel()), 1)
    np.add.at(hits, (owners, bins.ravel()), consumed.ravel())
    return n_known, bins, rates, counts, hits


def curve_of(random_state, n=150, spread=0.0):
    n_known, _, _, counts, hits = users(np.random.default_rng(random_state), n, spread)
    return ItemCurve(BINS, counts, hits, n_known)


def predict(curve, n_known, bins, **how):
    owners = np.repeat(np.arange(len(n_known)), len(RANKS))
    ranks = np.tile(RANKS, len(n_known))
    return curve.predict(bins.ravel(), ranks, n_known, owners, **how)


def test_logistic_rates_are_recovered():
    n_known, bins, rates, *_ = users(np.random.default_rng(1), 400)
    found = predict(curve_of(0, 3000), n_known, bins).probability.reshape(rates.shape)
    assert np.abs(found - rates).mean() < 0.01
    for first, last in ((0, 1), (1, 10), (10, 60)):
        assert abs((found - rates)[:, first:last].mean()) < 0.01


def test_probabilities_never_rise_down_a_list_and_lie_in_their_interval():
    n_known, bins, *_ = users(np.random.default_rng(1), 30)
    found = predict(curve_of(0, 40), n_known, bins)
    assert (np.diff(found.probability.reshape(bins.shape), axis=1) <= 0).all()
    assert (found.low <= found.probability).all()
    assert (found.probability <= found.high).all()


def test_intervals_cover_despite_similar_items_of_a_user():
    """Users differ by far more than their items, so an interval over items would fail."""
    rng = np.random.default_rng(5)
    n_known, bins, rates, *_ = users(rng, 1000, spread=1.5)
    inside = []
    for random_state in range(60):
        found = predict(curve_of(random_state + 100, spread=1.5), n_known, bins)
        low, high = (part.reshape(rates.shape)[:, 2].mean() for part in found[1:])
        inside.append(low <= rates[:, 2].mean() <= high)
    assert np.mean(inside) >= 0.9


def test_a_left_out_user_has_no_effect():
    curve = curve_of(3, 60)
    hits = curve.hits.copy()
    hits[7] = curve.counts[7]
    other = ItemCurve(BINS, curve.counts, hits, curve.n_known)
    n_known, bins, *_ = users(np.random.default_rng(1), 5)
    one, two = (predict(each, n_known, bins, without=7) for each in (curve, other))
    np.testing.assert_allclose(np.stack(one), np.stack(two), rtol=1e-6)
    whole = predict(other, n_known, bins)
    assert not np.allclose(whole.probability, two.probability)


@pytest.mark.parametrize("share", [0, 1])
def test_it_is_finite_if_nothing_or_everything_is_consumed(share):
    curve = curve_of(0, 30)
    curve = ItemCurve(BINS, curve.counts, curve.counts * share, curve.n_known)
    n_known, bins, *_ = users(np.random.default_rng(1), 5)
    found = np.stack(predict(curve, n_known, bins))
    assert np.isfinite(found).all()
    assert np.abs(found[0] - share).max() < 0.05


def test_no_cases_are_rejected():
    nothing = np.zeros((0, BINS.n), dtype=np.int32)
    with pytest.raises(InputError, match="no calibration cases"):
        ItemCurve(BINS, nothing, nothing, np.empty(0, dtype=np.int64))
