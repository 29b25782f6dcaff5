import re
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import surerec as sr
from surerec._words import DAY
from surerec.errors import InputError
from surerec.evaluation import choose_users, split_user
from surerec.measures import MeasureScorer, Query
from surerec.measures.learned import (
    COMPONENTS,
    FEATURES,
    LearnedMeasure,
    LearnedModel,
    LearnedScorer,
)
from surerec.measures.learned import _training as training
from surerec.measures.learned._examples import TrainingHorizon
from surerec.measures.learned._features import describe_features, extras_of
from surerec.measures.learned._trees import read_trees


@pytest.fixture(scope="module")
def films():
    return sr.datasets.synthetic(n_users=400, n_items=150, n_rows=10_000, random_state=5)


@pytest.fixture(scope="module")
def statistics(films):
    return sr.count_precedence(films)


@pytest.fixture(scope="module")
def learned(statistics):
    return LearnedModel.train(statistics)


@pytest.fixture(scope="module")
def scorer(statistics, learned):
    return LearnedScorer(statistics, learned)


@pytest.fixture(scope="module")
def model(statistics, learned):
    return sr.InductiveConformal(learned).fit(statistics)


def test_held_out_items_rank_better_than_by_the_best_formula(films, statistics, scorer):
    def precision(measured):
        found = []
        for user in choose_users(films, 200, random_state=1):
            split = split_user(films, int(user))
            scores = measured.score(split.known, without_user=split.user)
            scores[split.known] = -np.inf
            found.append(np.isin(np.argsort(-scores)[:10], split.test).mean())
        return np.mean(found)

    assert precision(scorer) > 1.05 * precision(MeasureScorer(statistics, "CM12"))


def test_values_are_calibrated_probabilities(films, scorer):
    expected = consumed = 0.0
    for user in range(films.n_users):
        split = split_user(films, user)
        if len(split.known) < 3:
            continue
        scores = scorer.score(split.known, without_user=user)
        candidates = np.setdiff1d(np.arange(films.n_items), split.known)
        expected += scorer.value(scores[candidates], len(split.known), films.n_users).sum()
        consumed += len(split.test)
    assert expected == pytest.approx(consumed, rel=0.1)


def test_contributions_add_up_to_the_score(scorer):
    history = np.array([5, 1, 9])
    for user in (None, 3):
        query = Query(history, () if user is None else (user,))
        found, other = (scorer.contributions(query, item) for item in (20, 30))
        used = describe_features(extras_of(scorer.learned.feature_names))
        assert {text for text, _, _ in found} == set(used.values()) >= set(FEATURES.values())
        moved = [abs(by) for _, _, by in found]
        assert moved == sorted(moved, reverse=True)
        assert moved[0] > 0
        score = scorer.score(history, without_user=user)
        difference = sum(by for *_, by in found) - sum(by for *_, by in other)
        assert difference == pytest.approx(score[20] - score[30], abs=1e-6)


def test_scoring_needs_no_lightgbm_but_training_and_explaining_do(
    statistics, learned, scorer, monkeypatch
):
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    assert np.isfinite(LearnedScorer(statistics, learned).score(np.array([1]))).all()
    with pytest.raises(InputError, match=r"surerec\[learn\]"):
        LearnedModel.train(statistics)
    with pytest.raises(InputError, match=r"surerec\[learn\]"):
        scorer.contributions(Query(np.array([1])), 2)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"horizon": 1.0}, "horizon"),
        ({"n_folds": 2}, "n_folds"),
        ({"n_folds": 200}, "n_folds"),
        (
            {"components": ["trees"]},
            "'trees', which is no component .* sequence, past to future, matrix",
        ),
    ],
)
def test_invalid_settings_are_refused(statistics, settings, sentence):
    with pytest.raises(InputError, match=sentence):
        LearnedModel.train(statistics, **settings)


def test_too_few_users_are_refused():
    few = sr.datasets.synthetic(n_users=15, n_items=30, n_rows=300, random_state=1)
    with pytest.raises(InputError, match="users with at least 5 items are left to train on"):
        LearnedModel.train(sr.count_precedence(few))
    counts = sr.PrecedenceStatistics.from_counts([[0, 2], [1, 0]], [3, 3], n_users=3)
    with pytest.raises(InputError, match="no users: the learned measure needs profiles"):
        LearnedModel.train(counts)


@pytest.mark.parametrize(
    "settings", [{"horizon": 3}, {"window": 60.0}, {"horizon": 2, "window": 60}]
)
def test_trees_are_trained_for_the_horizon_of_the_guarantee(settings):
    films = sr.datasets.synthetic(n_users=300, n_items=60, n_rows=6000, days=400, random_state=1)
    model = sr.PopulationConformal("learned", **settings).fit(films)
    params = model.scorer_.learned.params
    assert params["horizon"] == settings.get("horizon", 0.4)
    assert params["window"] == settings.get("window")
    if "window" not in settings:
        assert params["n_next"] == [3, 3, 3, 3]
    # The predicted number of consumed items is right on average over calibration users.
    users, probabilities = model.calibration_, model.model_.calibration.probabilities
    observed = probabilities.hits[:80].sum()
    predicted = []
    for user, known in zip(users.users[:80], users.n_known[:80], strict=True):
        query = Query(films.consumed(int(user))[:known].astype(int), (int(user),))
        values = model.scorer_.value(model.scorer_.score_query(query), 1, 1)
        predicted.append(values[model.statistics_.items_outside(query.history)].sum())
    assert 0.5 < sum(predicted) / observed < 2


def slow_length(times, length, horizon, window):
    """Return the number of items within the horizon, item by item."""
    later = list(range(length, len(times)))
    if window is None and isinstance(horizon, float) and length < round(0.6 * len(times)):
        later = later[: max(round(length * horizon / (1 - horizon)), 1)]
    if window is not None:
        later = [at for at in later if times[at] < times[length] + window * DAY]
    return len(later) if isinstance(horizon, float) else min(len(later), horizon)


@given(
    st.lists(st.integers(0, 30), min_size=2, max_size=12).map(sorted),
    st.sampled_from([0.4, 1, 3]),
    st.sampled_from([None, 2, 10]),
    st.data(),
)
def test_a_horizon_holds_the_right_items(days, horizon, window, data):
    times = np.array(days) * DAY
    target = TrainingHorizon(horizon, window)
    length = data.draw(st.integers(1, len(days) - 1))
    assert target.stop(times, length) - length == slow_length(times, length, horizon, window)
    assert 1 <= target.longest_past(times) < len(times)


def test_components_are_selected_by_validation_users(statistics, learned, model, monkeypatch):
    for fold in learned.params["components"]:
        assert set(fold["gains"]) == set(COMPONENTS) - {"sequence"}
        assert all(fold["gains"][name] > 0 for name in fold["selected"])
    why = str(model.explain(user=7, item=model.recommend(user=7, confidence=0.8).items[0]))
    assert "Optional components were compared on validation users, by set size" in why
    assert re.search(r"larger trees \((not )?selected: [\d.]+% (better|worse)\)", why)
    # Components that gain are selected, stored, and computed for scoring.
    monkeypatch.setattr(training, "_gain", lambda *_: (0.5, 0.1))
    every = LearnedModel.train(statistics, n_users=200, n_folds=3)
    tried = [each for each in COMPONENTS if each != "sequence"]
    assert [fold["selected"] for fold in every.params["components"]] == [tried] * 3
    assert every.feature_names == [*describe_features(tried[:-1])]
    assert {len(tree.leaf_values) for tree in read_trees(every.folds[0])} - {*range(16)}
    scorer = LearnedScorer(statistics, every)
    back = LearnedMeasure().from_state(statistics, scorer.state())
    query = Query(np.array([5, 1, 9]), (3,), np.array([1, 2, 400 * DAY]))
    np.testing.assert_array_equal(back.score_query(query), scorer.score_query(query))
    assert len(scorer.contributions(query, 20)) == len(every.feature_names)
    # On newer data, factors have other folds; users who share both folds may be left out together.
    earlier = np.concatenate((np.arange(5, statistics.n_users), np.full(5, -1)))
    newer = LearnedMeasure().update(scorer, statistics, earlier)
    folds = newer.fold_of(np.arange(statistics.n_users))
    assert folds.min() >= 0
    for fold in np.unique(folds):
        assert len(np.unique(newer.learned.fold_of[folds == fold])) == 1


def test_given_components_are_not_compared(statistics, monkeypatch):
    monkeypatch.setattr(training, "_gain", None)
    given = LearnedModel.train(
        statistics, n_users=200, n_folds=3, components=["larger trees", "past to future"]
    )
    selected = [{"selected": ["past to future", "larger trees"], "gains": {}}] * 3
    assert given.params["components"] == selected
    assert given.feature_names == [*describe_features(["past to future"])]
    assert max(len(tree.leaf_values) for tree in read_trees(given.folds[0])) > 15
    assert given.about(0) == "The trees were trained with past to future, larger trees."
    with pytest.raises(InputError, match="Train the model again"):
        LearnedScorer(statistics, replace(given, feature_names=["count"]))
    usual = LearnedModel.train(statistics, n_users=200, n_folds=3, components=[])
    assert usual.about(1) == "The trees were trained with the basic features."
    assert usual.feature_names == [*FEATURES]
    back = LearnedMeasure().from_state(statistics, LearnedScorer(statistics, given).state())
    assert back.learned.params == given.params


def slow_sizes(shares, consumed):
    """Return the mean set size at miss rates of 10%, 30% and 50%, threshold by threshold."""
    thresholds = np.sort(np.concatenate(consumed))
    found = []
    for rate in (0.1, 0.3, 0.5):
        for threshold in thresholds:
            sizes = [np.sum(each >= threshold) for each in shares]
            lost = np.mean([np.mean(each <= threshold) for each in consumed])
            if lost >= rate - 1e-12:
                break
        found.append(np.mean(sizes))
    return found


@given(st.integers(0, 2**32 - 1))
def test_set_sizes_equal_those_of_a_search_over_all_thresholds(random_state):
    rng = np.random.default_rng(random_state)
    shares = [np.sort(rng.random(rng.integers(3, 9)).astype(np.float32)) for _ in range(4)]
    consumed = [rng.permutation(each)[: rng.integers(1, 4)] for each in shares]
    draws = np.array([[1, 1, 1, 1], [2, 0, 1, 1], [0, 0, 3, 1]])
    found = training._ValidationRanks(shares, consumed).sizes(draws)
    for row, draw in enumerate(draws):
        users = np.repeat(np.arange(4), draw)
        expected = slow_sizes([shares[k] for k in users], [consumed[k] for k in users])
        np.testing.assert_allclose(found[row], expected)


def test_next_items_have_fixed_components(statistics, monkeypatch):
    monkeypatch.setattr(training, "_gain", None)
    learned = LearnedModel.train(statistics, n_users=200, n_folds=3, horizon=2)
    selected = ["sequence", "matrix factorisation", "larger trees"]
    assert learned.params["components"] == [{"selected": selected, "gains": {}}] * 3
    assert learned.feature_names == [*describe_features(selected[:-1])]


@pytest.mark.parametrize("horizon", [0.4, 2])
def test_without_implicit_no_factors_are_used(statistics, monkeypatch, horizon):
    monkeypatch.setitem(sys.modules, "implicit.cpu.als", None)
    learned = LearnedModel.train(statistics, n_users=200, n_folds=3, horizon=horizon)
    assert "preference" not in learned.feature_names
    for fold in learned.params["components"]:
        assert fold["gains"].get("matrix factorisation", 0) == 0
        assert "matrix factorisation" not in fold["selected"]
    LearnedScorer(statistics, learned)  # without factors to train


def with_profile(films, user, items):
    """Return the same data with another profile of one user."""
    changed = films.item_codes.copy()
    changed[films.offsets[user] : films.offsets[user + 1]] = items
    return sr.Interactions(films.users, films.items, films.offsets, changed, films.times)


def test_no_user_is_scored_by_trees_trained_on_that_user(films, statistics):
    learned = LearnedModel.train(statistics, n_users=60)
    user = 11
    own = films.item_codes[films.offsets[user] : films.offsets[user + 1]]
    others = np.random.default_rng(4).permutation(films.n_items)[: len(own)]
    changed = sr.count_precedence(with_profile(films, user, others))
    again = LearnedModel.train(changed, n_users=60)
    fold = learned.fold_for((user,), np.array([2, 40]))
    assert again.folds[fold] == learned.folds[fold]  # those trees never saw the user
    assert any(a != b for a, b in zip(again.folds, learned.folds, strict=True))
    history = np.array([2, 40, 17, 5])
    before = LearnedScorer(statistics, learned).score(history, without_user=user)
    after = LearnedScorer(changed, again).score(history, without_user=user)
    np.testing.assert_allclose(after, before, rtol=0, atol=1e-9)
