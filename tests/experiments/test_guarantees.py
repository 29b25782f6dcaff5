import numpy as np
import pytest

import surerec as sr
from surerec.calibration import profile_cases
from surerec.experiments.guarantees import (
    hits_table,
    misses_table,
    observe_all,
    per_user_sizes,
    reliability,
    sizes_table,
    slate_reliability,
)
from surerec.experiments.guarantees._observed import Popularity


@pytest.fixture(scope="module")
def films():
    return sr.datasets.synthetic(n_users=700, n_items=90, n_rows=18_000, drift=0.3, seed=7)


@pytest.fixture(scope="module")
def observed(films):
    return list(observe_all(films, ["CM12", "CM3", "NCM16"]))


def test_every_measure_keeps_its_promise_with_both_cuts(observed):
    """Over 20 random halves; a calibration biased by 0.05 either way would fail."""
    found = misses_table(observed)
    assert len(found) == 3 * 2 * 5
    off = (found["loss"] - found["epsilon"]).to_numpy()
    assert off.max() < 0.015
    assert off.min() > -0.03


def test_sets_of_equal_miss_rate_are_compared(films, observed):
    sizes = sizes_table(observed)
    assert (sizes["at 0.1"] > sizes["at 0.3"]).all()
    assert (sizes["at 0.3"] > sizes["at 0.5"]).all()
    paper = per_user_sizes(profile_cases(films, 0.4), "CM12")
    assert paper["at 0.1"] > paper["at 0.3"] > paper["at 0.5"]
    assert 0 < paper["precision@10"] < 1


def test_hits_are_promised_and_lists_are_shorter_than_by_popularity(films):
    found = hits_table(observe_all(films, ["CM12", "popularity"], horizon=5))
    off = found["hit_rate"] - (1 - found["epsilon"])
    assert off.abs().max() < 0.03
    assert set(found["scorer"]) == {"CM12", "popularity"}


def test_popularity_leaves_the_user_out(films):
    counts = sr.count_precedence(films)
    user = 5
    others = counts.without_user(user).support
    assert Popularity(counts).score(np.array([1]), without_user=user).tolist() == others.tolist()


def test_slates_say_what_happens(films):
    (one,) = observe_all(films, ["CM12"], horizon=5)
    found = slate_reliability(one.outcomes, k=5)
    assert found.bins["n"].sum() == len(one.outcomes) - len(one.outcomes) // 2
    assert found.calibration_error < 0.08


def test_the_calibration_error_is_the_mean_gap():
    said = np.array([0.05, 0.05, 0.55, 0.55])
    happened = np.array([False, False, True, False])
    found = reliability(said, happened)
    assert found.calibration_error == pytest.approx((0.05 * 2 + 0.05 * 2) / 4)
    assert found.bins["n"].to_list() == [2, 2]
