"""A promise from outside: a class and a row in the table, and every room knows it."""

import numpy as np
import pytest

import surerec as sr
from surerec.audit import audit
from surerec.calibration import PROMISES, MissRate, Promise, find_promise, observe, profile_cases
from surerec.conformal import RiskCurve
from surerec.evaluation import coverage_over_splits
from surerec.measures import MeasureScorer
from surerec.recommenders import make_recommender, recommender_names


class AtLeastHalf(Promise):
    """With probability at least 1 − ε, at least half of what a person takes next is in the set."""

    name = "half"
    prefix = "half"
    horizon = 4
    kind = "half"

    def curve(self, entries, owners, n_users):
        """Lose all until the item comes in with which half of the person's future is there."""
        middle = [np.sort(entries[owners == user]) for user in range(n_users)]
        at = np.array([theirs[(len(theirs) + 1) // 2 - 1] for theirs in middle])
        return RiskCurve(at, np.ones(n_users), np.arange(n_users), n_users)

    def sentence(self, significance, future, people):
        chance = f"with probability at least {1 - significance:.4g}, over {people}"
        return f"At least half of {future} is in this set {chance}"

    def title(self, future):
        return f"half of the {future}"


@pytest.fixture(scope="module")
def films():
    return sr.datasets.synthetic(n_users=500, n_items=80, n_rows=11_000, seed=2)


@pytest.fixture
def toy(monkeypatch):
    monkeypatch.setitem(PROMISES, "half", AtLeastHalf())


@pytest.mark.usefixtures("toy")
def test_a_row_in_the_table_makes_it_known_everywhere(films, tmp_path):
    assert "half-cm12" in recommender_names()
    model = make_recommender("half-cm12").fit(films)
    assert model.default_name() == "half-cm12"
    history = films.items.ids[:8].to_list()
    picks = model.recommend(history=history, confidence=0.8)
    assert str(picks.guarantee).startswith(
        "At least half of the next 4 items new to the user is in this set with probability at "
        "least 0.8, over users. Assumes users exchangeable with"
    )
    model.save(tmp_path / "films")
    back = sr.load(tmp_path / "films")
    assert back.recommend(history=history, confidence=0.8).to_frame().equals(picks.to_frame())
    found = audit(films, "CM12", n_users=120, window=120)
    names = dict(found.coverage.select("kind", "name").iter_rows())
    assert names["half-rank"] == "User-level half of the next 4, cut by rank"


@pytest.mark.parametrize("cut", ["rank", "score"])
def test_it_is_kept_on_people_who_did_not_calibrate(films, cut):
    counts = sr.count_precedence(films)
    scorer = MeasureScorer(counts, "CM12")
    outcomes = observe(scorer, counts, profile_cases(films, 4), keep_candidates=True)
    found = coverage_over_splits(outcomes, cut, AtLeastHalf(), epsilons=(0.1, 0.3), n_splits=40)
    assert (found["loss"] - found["epsilon"]).is_between(-0.035, 0.015).all()


def test_the_object_itself_will_do(films):
    model = sr.PopulationConformal("CM12", promise=AtLeastHalf(), horizon=4, cut="rank").fit(films)
    easier = sr.PopulationConformal("CM12", promise="hit", horizon=4, cut="rank").fit(films)
    history = films.items.ids[:8].to_list()
    half, one = (len(m.recommend(history=history, confidence=0.8)) for m in (model, easier))
    assert half > one > 0


def test_a_promise_that_is_not_in_the_table_is_not_loaded(films, tmp_path):
    model = sr.PopulationConformal("CM12", promise=AtLeastHalf(), horizon=4).fit(films)
    model.save(tmp_path / "films")
    with pytest.raises(sr.InputError, match="promise is 'half'; choose one of miss-rate, hit"):
        sr.load(tmp_path / "films")


def test_a_loss_that_may_grow_is_not_risk_controlled(films):
    class Wavering(MissRate):
        monotone = False

    with pytest.raises(sr.InputError, match="a person's loss may grow with the set"):
        sr.PopulationConformal("CM12", promise=Wavering()).fit(films)


@pytest.mark.parametrize("name", [name for name in PROMISES if name != "precision"])
def test_losses_never_grow_with_the_set(name):
    random = np.random.default_rng(3)
    owners = np.sort(np.concatenate((np.arange(30), random.integers(0, 30, 60))))
    entries = random.integers(1, 20, len(owners)).astype(float)
    curve = find_promise(name).curve(entries, owners, 30)
    levels = curve.levels(np.arange(21.0))
    assert (np.diff(levels) <= 0).all()
    assert find_promise(name).monotone


def test_precision_is_tested_and_has_no_risk_curve():
    precision = find_promise("precision")
    assert (precision.monotone, precision.tested) == (False, True)
    with pytest.raises(sr.InputError, match="has no risk curve"):
        precision.curve(np.ones(1), np.zeros(1, int), 1)
