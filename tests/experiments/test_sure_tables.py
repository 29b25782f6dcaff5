"""The tables of precision and of named lists, on small data."""

import numpy as np
import pytest

import surerec as sr
from surerec.calibration import Bins, observe, profile_cases
from surerec.evaluation import Calendar
from surerec.evaluation._precision import binned
from surerec.experiments.guarantees import (
    lists_table,
    observe_all,
    precision_calendar_table,
    precision_table,
)
from surerec.measures import as_recipe


@pytest.fixture(scope="module")
def films():
    return sr.datasets.synthetic(n_users=400, n_items=80, n_rows=12_000, days=400, seed=3)


def test_a_promised_precision_is_mostly_kept(films):
    found = precision_table(observe_all(films, ["CM12"]), n_splits=6)
    low = found.filter(precision=0.3).row(0, named=True)
    assert low["promised"] + low["refused"] == 6
    assert low["kept"] >= 4
    assert low["delivered"] >= 0.3
    assert 0 < low["served"] <= 1


def test_a_precision_is_followed_over_the_calendar(films):
    found = precision_calendar_table(films, "CM12", Calendar(80, min_known=3), n_windows=1)
    assert (found["promised"] + found["refused"] == 1).all()


def test_listed_items_are_missed_as_promised(films):
    found = lists_table(films, ["CM12"], n_splits=4)
    assert len(found) == 4
    assert (np.abs(found["miss rate_0.2"] - 0.2) < 0.05).all()


def test_candidates_are_binned_from_shares_as_they_are_when_observed(films):
    counts = sr.count_precedence(films)
    scorer, cases = as_recipe("CM12").fit(counts), profile_cases(films, 0.4).sample(30, 0)
    bins = Bins(np.array([1.0, 0.25, 1.0]), np.linspace(-6, 1, 20))
    one = observe(scorer, counts, cases, bins=bins)
    two = binned(observe(scorer, counts, cases, keep_candidates=True), bins)
    np.testing.assert_array_equal(one.counts, two[0])
    np.testing.assert_array_equal(one.hits, two[1])
