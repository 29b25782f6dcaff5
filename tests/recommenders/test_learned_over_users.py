import numpy as np
import pytest

import surerec as sr
from surerec.calibration import observe, profile_cases
from surerec.evaluation import coverage_over_splits
from surerec.measures import State
from surerec.measures.learned import LearnedScorer


@pytest.fixture(scope="module")
def films():
    return sr.datasets.synthetic(n_users=260, n_items=60, n_rows=6_000, drift=0.3, seed=8)


@pytest.fixture(scope="module")
def model(films):
    return sr.PopulationConformal("learned").fit(films)


def test_what_was_learned_is_opened_and_not_learned_again(films, model, tmp_path, monkeypatch):
    model.save(tmp_path / "films")
    monkeypatch.setattr("surerec.measures.learned.LearnedMeasure.train", None)
    opened = sr.load(tmp_path / "films")
    assert opened.default_name() == "population-learned"
    for user in films.users.ids[:4]:
        here, there = (m.recommend(user, confidence=0.8) for m in (model, opened))
        assert here.items == there.items
        assert here.to_frame().equals(there.to_frame())
    why = opened.explain(
        films.users[0], item=opened.recommend(films.users[0], confidence=0.8).items[0]
    )
    assert len(why.contributions) > 5
    assert "log-odds" in str(why)


def test_the_inductive_method_stores_what_it_learned_too(films, tmp_path):
    counts = sr.count_precedence(films)
    model = sr.InductiveConformal("learned").fit(counts)
    model.save(tmp_path / "films")
    opened = sr.load(tmp_path / "films")
    user = films.users[7]
    assert (
        opened.recommend(user, confidence=0.7).items == model.recommend(user, confidence=0.7).items
    )


def test_parts_of_another_model_are_refused(films, model):
    spec = model.to_spec()
    arrays = spec.state.arrays
    short = {"scorer_fold_of": arrays["scorer_fold_of"][:-1]}
    large = {"scorer_ridge": np.zeros((films.n_items + 1,) * 2)}
    for wrong in (short, large):
        with pytest.raises(ValueError, match="of a learned measure"):
            sr.PopulationConformal("learned").restore(model.statistics_, spec.state | State(wrong))
    with pytest.raises(KeyError):
        sr.PopulationConformal("learned").restore(model.statistics_, State(arrays))


def test_recalibrating_keeps_the_trees_and_everybody_in_their_fold(films):
    middle = int(np.quantile(films.times, 0.7))
    frame = films.to_frame()
    past = sr.read_interactions(frame.filter(frame["datetime"].to_physical() < middle))
    model = sr.PopulationConformal("learned").fit(past)
    before = dict(zip(past.users.ids, model.scorer_.learned.fold_of.tolist(), strict=True))
    trees = model.scorer_.learned.folds
    newer = sr.read_interactions(frame.sort("item_id"))
    model.recalibrate(newer)
    assert model.scorer_.learned.folds == trees
    after = dict(zip(newer.users.ids, model.scorer_.learned.fold_of.tolist(), strict=True))
    assert {user: fold for user, fold in after.items() if fold >= 0} == before
    model.recommend(newer.users[0], confidence=0.8)


def test_a_promise_by_a_learned_measure_is_kept(films, model):
    """Everybody is scored by trees that never saw them, so random halves may be compared."""
    scorer = model.scorer_
    assert isinstance(scorer, LearnedScorer)
    cases = profile_cases(films, 0.4)
    learned = observe(scorer, model.statistics_, cases, keep_candidates=True)
    for cut in ("rank", "score"):
        found = coverage_over_splits(learned, cut, epsilons=(0.1, 0.2, 0.3))
        assert (found["loss"] - found["epsilon"]).abs().max() < 0.03
