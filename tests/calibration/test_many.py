"""Sets of many people at once are those that each gets alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import surerec as sr
from surerec.calibration import UserCalibration
from surerec.conformal import RiskCurve


@pytest.fixture(scope="module")
def films():
    return sr.datasets.synthetic(n_users=300, n_items=90, n_rows=6000, seed=3)


@pytest.fixture(scope="module")
def statistics(films):
    return sr.count_precedence(films)


SETTINGS = [
    {"measure": "CM12", "cut": "score"},
    {"measure": "CM12", "cut": "rank"},
    {"measure": "CM12", "cut": "score", "groups": 3},
    {"measure": "CM3", "cut": "score", "promise": "hit", "horizon": 5},
    {"measure": "NCM14", "cut": "score"},  # values below 0 are shifted
    {"measure": "CM4", "cut": "score", "n_calibration": 15},  # without probabilities
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("k", [1, 20, 70, None])  # kept in order as found, and sorted
@pytest.mark.parametrize("confidence", [0.5, 0.9])
def test_as_one_by_one(statistics, monkeypatch, settings, k, confidence):
    model = sr.PopulationConformal(**settings).fit(statistics)
    fast = model.recommend_many(confidence=confidence, k=k)
    new = {"ann": model.items_.ids[:6].to_list(), "bob": model.items_.ids[30:33].to_list()}
    fast_new = model.recommend_many(histories=new, confidence=confidence, k=k)
    monkeypatch.setattr(UserCalibration, "best_of_many", lambda *_: None)
    assert fast.equals(model.recommend_many(confidence=confidence, k=k))
    assert fast_new.equals(model.recommend_many(histories=new, confidence=confidence, k=k))
    assert fast.height
    assert fast["user_id"].n_unique() > 100


@given(st.integers(0, 2**32), st.integers(0, 40))
def test_levels_of_many_are_those_of_each(seed, n):
    random = np.random.default_rng(seed)
    owners = np.repeat(np.arange(6), 3)
    curve = RiskCurve.of_shares(random.integers(1, 9, len(owners)).astype(float), owners, 6)
    without = np.sort(random.integers(-1, 6, n))
    entries = random.integers(0, 11, n).astype(float)
    expected = [
        curve.levels([entry], without=None if one < 0 else int(one))[0]
        for entry, one in zip(entries, without, strict=True)
    ]
    np.testing.assert_array_equal(curve.levels(entries, without=without), expected)
