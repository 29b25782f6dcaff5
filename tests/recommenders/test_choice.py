"""The choice of a measure by measure="auto"."""

import sys

import numpy as np
import pytest

import surerec as sr
from surerec.calibration import profile_cases
from surerec.errors import InputError
from surerec.recommenders import _choice
from tests.served import served_cases

HARDLY = 1e-9  # seconds, after which only CM12 has been tried


@pytest.fixture
def no_lightgbm(monkeypatch):
    """Only CM12 and als are tried, as trees take seconds to train."""
    monkeypatch.setitem(sys.modules, "lightgbm", None)


@pytest.fixture(scope="module")
def films():
    return sr.datasets.synthetic(n_users=300, n_items=60, n_rows=6000, drift=0.4, random_state=1)


def profiles(items):
    return sr.Interactions.from_profiles(np.arange(len(items) + 1) * 12, np.concatenate(items))


def chains():
    """Return users who walk through the items in order, which ALS does not see."""
    starts = np.random.default_rng(0).integers(60, size=160)
    return profiles([(start + np.arange(12)) % 60 for start in starts])


def genres():
    """Return users of one of three large genres, in which few users share any two items."""
    rng = np.random.default_rng(0)
    return profiles([rng.permutation(100)[:12] + 100 * (user % 3) for user in range(160)])


def assert_same_scores(*models):
    best = [each.recommend(7, k=20).to_frame()["score"].to_list() for each in models]
    assert best[0] == best[1]


@pytest.mark.parametrize(("data", "kept"), [(chains, "CM12"), (genres, "als")])
@pytest.mark.usefixtures("no_lightgbm")
def test_the_measure_with_clearly_smaller_sets_is_kept(data, kept, tmp_path):
    model = sr.PopulationConformal("auto", threshold="rank").fit(data())
    formula, als, learned = model.choice_
    assert model.measure_ == kept == min(formula, als, key=lambda each: each.mean_size).measure
    assert model.name_ == f"recall-{kept.lower()}"
    assert str(learned) == "learned: not tried, as lightgbm is not installed"
    model.save(tmp_path / "model")
    loaded = sr.load(tmp_path / "model")
    assert (loaded.measure, loaded.measure_) == (kept, kept)
    assert loaded.recommend(0, confidence=0.8).items == model.recommend(0, confidence=0.8).items


def test_trees_are_tried_and_the_kept_scorer_is_that_of_the_measure(films):
    model = sr.PopulationConformal("auto").fit(films)
    assert [len(each.sizes) for each in model.choice_] == [4, 4, 4]
    assert min(each.seconds for each in model.choice_) > 0
    assert_same_scores(model, sr.PopulationConformal(model.measure_).fit(films))


def test_max_seconds_stops_and_says_so(films):
    model = sr.PopulationConformal("auto", max_seconds=HARDLY).fit(films)
    notes = [each.note for each in model.choice_]
    assert notes == ["", *["not tried, as max_seconds=1e-09 had passed"] * 2]
    with pytest.raises(InputError, match="max_seconds is -1"):
        sr.PopulationConformal("auto", max_seconds=-1).fit(films)


def test_choosing_users_calibrate_neither_users_nor_lists_nor_groups(films, tmp_path):
    cases = profile_cases(films, 0.4)
    expected = len(cases) - len(cases) // 4
    model = sr.PopulationConformal("auto", max_seconds=HARDLY, segments=2)
    model.fit(films, item_lists={"some": range(1, 50)}).save(tmp_path / "model")
    for each in (model, sr.load(tmp_path / "model")):
        assert len(each.calibration_) == expected
        (listed,) = each.model_.item_lists.values()
        assert np.isin(listed.users.users, each.calibration_.users).all()
        members = each.calibrate_groups(2).group_calibrations_[0].outcomes.users
        assert len(members) > 50
        assert np.isin(members, each.calibration_.users).all()


def test_many_users_are_sampled_to_choose_and_all_are_fitted(monkeypatch):
    monkeypatch.setattr(_choice, "_FITTED", (2000, 200_000))
    films = sr.datasets.synthetic(n_users=2500, n_items=200, n_rows=210_000, random_state=1)
    counts, seen = sr.count_precedence(films), []
    for measure, seconds in (("auto", HARDLY), ("CM12", None)):
        model = sr.PopulationConformal(measure, max_seconds=seconds, n_calibration=10_000)
        seen.append(model.fit(counts))
    assert len(seen[0].calibration_) == len(seen[1].calibration_) - 500
    assert_same_scores(*seen)


def test_too_few_users_are_refused_or_left_to_a_formula(films):
    users = profile_cases(films, 0.4).users
    few = films.without_users(np.setdiff1d(np.arange(films.n_users), users[:9]))
    model = sr.PopulationConformal("auto", min_history=1).fit(few)
    assert model.measure_ == "CM12"
    assert "users with at least" in model.choice_[1].note
    with pytest.raises(InputError, match="needs at least 8 users with held-out items"):
        sr.PopulationConformal("auto").fit(few.without_users(users[:3]))


def test_a_temporal_split_chooses_and_is_recalibrated(films):
    middle = int(np.quantile(films.times, 0.7))
    model = sr.PopulationConformal("auto", max_seconds=HARDLY, window=200)
    model.fit(films.until(middle))
    given = sr.PopulationConformal("CM12", window=200).fit(films.until(middle))
    n = len(given.calibration_)
    assert len(model.calibration_) == n - n // 4
    later = [each.recalibrate(films).recommend(7, confidence=0.8) for each in (model, given)]
    assert later[0].items == later[1].items


@pytest.mark.usefixtures("no_lightgbm")
def test_the_guarantee_holds_for_users_who_neither_chose_nor_calibrated(films):
    """A bias of 0.05 would fail."""
    cases, losses = profile_cases(films, 0.4), []
    for random_state in range(5):
        served = cases.sample(100, random_state)
        model = sr.PopulationConformal("auto", random_state=random_state)
        model.fit(films.without_users(served.users))
        losses += [lost for _, lost in served_cases(model, served, "history", significance=0.2)]
    assert 0.2 - 0.045 < np.mean(losses) < 0.2 + 0.03
