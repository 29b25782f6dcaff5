import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from implicit.cpu.als import AlternatingLeastSquares
from scipy import sparse

import surerec as sr
from surerec.calibration import observe, profile_cases
from surerec.errors import InputError
from surerec.evaluation import measure_sets
from surerec.measures import Query, als, as_measure
from surerec.measures.als import AlsMeasure, AlsScorer, AlsSettings, Factorisation
from surerec.recommenders import make_recommender, recommender_names

SMALL = AlsSettings(factors=12, iterations=8, folds=3)


@pytest.fixture(scope="module")
def films():
    return sr.datasets.synthetic(n_users=400, n_items=150, n_rows=10_000, random_state=5)


@pytest.fixture(scope="module")
def statistics(films):
    return sr.count_precedence(films)


@pytest.fixture(scope="module")
def factors(statistics):
    return Factorisation.train(statistics, SMALL)


@pytest.fixture(scope="module")
def scorer(statistics, factors):
    return AlsScorer(statistics, factors)


def without_implicit(monkeypatch):
    monkeypatch.setitem(sys.modules, "implicit.cpu.als", None)


def test_every_user_has_a_fold_and_new_users_are_spread_over_all(films, factors, scorer):
    assert np.bincount(factors.fold_of).tolist() == [134, 133, 133]
    folds = [factors.fold_for((), np.array([first, 2])) for first in range(films.n_items)]
    assert np.bincount(folds, minlength=3).min() > films.n_items / 6
    history = np.array([1, 2, 3])
    fold = factors.fold_for((), history)
    assert fold == factors.fold_for((films.n_users + 5,), history)
    first, second = (
        int(np.flatnonzero(factors.fold_of == each)[0]) for each in (fold, (fold + 1) % 3)
    )
    new = scorer.score(history)
    np.testing.assert_array_equal(new, scorer.score(history, without_user=first))
    assert not np.array_equal(new, scorer.score(history, without_user=second))


def test_factors_depend_on_the_random_state_not_on_threads(statistics, monkeypatch):
    found = []
    for threads, random_state in (("1", 3), ("2", 3), ("2", 4)):
        monkeypatch.setenv("SUREREC_THREADS", threads)
        settings = AlsSettings(factors=16, iterations=5, folds=2, random_state=random_state)
        found.append(Factorisation.train(statistics, settings).items)
    np.testing.assert_array_equal(found[0], found[1])
    assert not np.array_equal(found[1], found[2])


def test_contributions_add_up_to_the_score(films, scorer):
    history = films.consumed(3)[:9].astype(np.int64)
    for users in ((), (3,)):
        found = scorer.contributions(Query(history, users), 20)
        assert {each.feature for each in found} == {
            f"similarity to {films.title(code)}" for code in history
        }
        moved = [abs(each.by) for each in found]
        assert moved == sorted(moved, reverse=True)
        score = scorer.score(history, without_user=users[0] if users else None)[20]
        assert sum(each.by for each in found) == pytest.approx(score, rel=1e-9, abs=1e-12)
        assert all(each.by == (1 + SMALL.alpha) * each.value for each in found)


def test_training_without_implicit_names_the_extra(statistics, monkeypatch):
    without_implicit(monkeypatch)
    with pytest.raises(InputError, match=r"pip install 'surerec\[als\]'"):
        Factorisation.train(statistics)


@pytest.mark.parametrize("kind", [sr.InductiveConformal, sr.PopulationConformal])
def test_a_saved_model_recommends_without_implicit(films, kind, tmp_path, monkeypatch):
    model = kind(AlsMeasure(SMALL)).fit(films)
    model.save(tmp_path / "films")
    without_implicit(monkeypatch)
    opened = sr.load(tmp_path / "films")
    assert opened.name_ == model.name_
    for user in films.users.ids[:4]:
        here, there = (m.recommend(user, confidence=0.8) for m in (model, opened))
        assert here.to_frame().equals(there.to_frame())
    user = films.users[7]
    why = opened.explain(user, item=opened.recommend(user, confidence=0.8).items[0])
    assert "Largest effects on its preference: similarity to " in str(why)


def test_recalibration_trains_with_the_same_settings(films):
    middle = int(np.quantile(films.times, 0.7))
    frame = films.to_frame()
    past = sr.read_interactions(frame.filter(frame["datetime"].to_physical() < middle))
    model = sr.PopulationConformal(AlsMeasure(SMALL)).fit(past)
    newer = sr.read_interactions(frame.sort("item_id"))
    model.recalibrate(newer)
    assert model.scorer_.factors.settings == SMALL
    assert model.scorer_.factors.items.shape == (3, 12, newer.n_items)
    expected = AlsMeasure(SMALL).fit(sr.count_precedence(newer)).factors.items
    np.testing.assert_array_equal(model.scorer_.factors.items, expected)


def test_the_guarantee_holds(films, scorer, statistics):
    outcomes = observe(scorer, statistics, profile_cases(films, 0.4), keep_candidates=True)
    for unit in ("rank", "score"):
        epsilons = (0.1, 0.2, 0.3)
        found = measure_sets(outcomes, unit, epsilons=epsilons, n_splits=20)
        assert np.abs(found.losses.mean(axis=1) - epsilons).max() < 0.03


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"factors": 0}, "factors is 0; it must be an integer of at least 1"),
        ({"regularization": 0}, "regularization is 0; it must be a number above 0"),
        ({"alpha": -0.5}, r"alpha is -0.5; it must be a number of at least 0"),
    ],
)
def test_invalid_settings_are_refused(settings, sentence):
    with pytest.raises(InputError, match=sentence):
        AlsSettings(**settings)


def test_too_few_users_or_items_are_refused(films, factors):
    few = sr.datasets.synthetic(n_users=15, n_items=30, n_rows=300, random_state=1)
    with pytest.raises(InputError, match="users with at least 2 items are left to train on"):
        Factorisation.train(sr.count_precedence(few))
    counts = sr.PrecedenceStatistics.from_counts([[0, 2], [1, 0]], [3, 3], n_users=3)
    with pytest.raises(InputError, match="no users: the measure 'als' needs profiles"):
        Factorisation.train(counts)
    with pytest.raises(InputError, match="factors are of 150 items and the data have 30"):
        AlsScorer(sr.count_precedence(few), factors)
    with pytest.raises(InputError, match="n_folds is 400"):
        Factorisation.train(sr.count_precedence(films), AlsSettings(folds=400))


def test_the_measure_has_a_name():
    assert {"icrs-als", "recall-als", "hit-als"} <= set(recommender_names())
    assert make_recommender("ICRS-ALS").measure == "als"
    assert as_measure("als", random_state=3).settings == AlsSettings(random_state=3)
    assert sr.InductiveConformal("als")._default_name() == "icrs-als"
    with pytest.raises(InputError, match="'learned' and 'als'"):
        as_measure("asl")


@st.composite
def folded(draw):
    """Draw item factors, some of them 0 and two of them equal, a history, λ and α."""
    n_factors, n_items = draw(st.integers(1, 7)), draw(st.integers(1, 400))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    items = random.normal(0, 0.3, (n_factors, n_items)).astype(np.float32)
    items[:, random.random(n_items) < 0.2] = 0.0
    items[:, -1] = items[:, 0]
    history = random.permutation(n_items)[: draw(st.integers(0, 12))]
    return items, history, draw(st.floats(0.01, 50)), draw(st.floats(0, 40))


def slow_user_factors(items, history, regularization, alpha):
    """Return the solution of Eq. 4 of Hu, Koren and Volinsky, with full matrices."""
    wide = items.T.astype(np.float64)
    consumed = np.zeros(len(wide))
    consumed[history] = 1.0
    confidence = np.diag(1 + alpha * consumed)
    left = wide.T @ confidence @ wide + regularization * np.eye(wide.shape[1])
    return np.linalg.solve(left, wide.T @ confidence @ consumed)


@given(folded())
def test_users_are_folded_in_by_the_equation(drawn):
    items, history, regularization, alpha = drawn
    settings = AlsSettings(regularization=regularization, alpha=alpha)
    wide = items.astype(np.float64)
    factors = Factorisation(items[None], (wide @ wide.T)[None], np.zeros(1, np.int8), settings)
    expected = slow_user_factors(items, history, regularization, alpha)
    np.testing.assert_allclose(factors.user_factors(0, history), expected, rtol=1e-6, atol=1e-9)
    scores = factors.score(0, history)
    np.testing.assert_allclose(scores, factors.user_factors(0, history) @ wide, atol=1e-12)
    assert scores[0] == scores[-1]  # equal items tie to the last bit


@pytest.mark.parametrize("wrong", [np.nan, -1.0, 0.0])
def test_a_matrix_without_a_cholesky_factor_is_reported(wrong):
    matrix = np.eye(3)
    matrix[1, 1] = wrong
    assert not als.factor(matrix)


@pytest.mark.parametrize("alpha", [0.0, 5.0])
@pytest.mark.filterwarnings("ignore:OpenBLAS is configured")
def test_users_are_folded_in_as_by_implicit(films, factors, alpha):
    settings = AlsSettings(factors=12, folds=3, alpha=alpha, regularization=7.0)
    theirs = AlternatingLeastSquares(
        factors=12, regularization=7.0, alpha=1 + alpha, num_threads=1, dtype=np.float64
    )
    theirs.item_factors = np.ascontiguousarray(factors.items[1].T, dtype=np.float64)
    ours = Factorisation(factors.items, factors.grams, factors.fold_of, settings)
    for user in range(0, 60, 7):
        history = films.consumed(user).astype(np.int64)
        row = np.zeros((1, films.n_items), np.float32)
        row[0, history] = 1.0
        expected = theirs.recalculate_user(0, sparse.csr_matrix(row))
        np.testing.assert_allclose(ours.user_factors(1, history), expected, rtol=1e-5, atol=1e-7)
