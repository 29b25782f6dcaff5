"""A user's own data have no part in the user's scores; planted leaks are found."""

import numpy as np
import polars as pl
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

import surerec as sr
from surerec._words import DAY
from surerec.measures.als import AlsSettings, Factorisation
from surerec.measures.learned import LearnedModel, _ridge, _sequence
from surerec.measures.learned import _features as features_module
from surerec.measures.learned import _training as training
from surerec.measures.learned._features import EXTRAS, Features
from surerec.measures.learned._ridge import ForwardRidge, Ridge, RidgeQuery
from surerec.measures.learned._sequence import SHORT, STRENGTHS, SequentialRidge

USER, CUT = 7, 8
HOW = AlsSettings(folds=3, random_state=0)


@pytest.fixture(scope="module")
def films():
    return sr.datasets.synthetic(n_users=120, n_items=60, n_rows=3000, days=400, random_state=5)


@pytest.fixture(scope="module")
def goods():
    """Return random profiles of 16 of 900 items, so that nothing can be predicted."""
    rng = np.random.default_rng(3)
    consumed = np.concatenate([rng.permutation(900)[:16] for _ in range(240)])
    return sr.Interactions.from_profiles(np.arange(0, len(consumed) + 1, 16), consumed)


def other_future(films, user, split):
    """Return the same data with other and later items of one user after a split."""
    where = np.arange(films.offsets[user] + split, films.offsets[user + 1])
    items, times = films.item_codes.copy(), films.times.copy()
    free = np.setdiff1d(np.arange(films.n_items), films.consumed(user)[:split])
    items[where] = np.random.default_rng(1).permutation(free)[: len(where)]
    times[where] += 40 * DAY
    return sr.Interactions(films.users, films.items, films.offsets, items, times)


def leaks(films, features_of):
    """Return whether a user's features change with what the user consumed after the split."""
    history = films.consumed(USER)[:CUT].astype(int)
    both = [
        features_of(Features(sr.count_precedence(data), extras=tuple(EXTRAS)), data, history)
        for data in (films, other_future(films, USER, CUT))
    ]
    return not np.allclose(*both, rtol=1e-5, atol=1e-6)


def test_no_feature_depends_on_held_out_items_of_the_user(films):
    assert not leaks(films, lambda features, _, history: features.of(history, without=(USER,)))


def rare_items(n_users=60):
    """Return films of which a third have one consumer, and few have many."""
    rng = np.random.default_rng(2)
    popular = sr.datasets.synthetic(
        n_users=n_users, n_items=50, n_rows=700, random_state=2
    ).to_frame()
    own = pl.DataFrame(
        {
            "user_id": rng.permutation(np.repeat(popular["user_id"].unique().to_numpy(), 2)),
            "item_id": np.concatenate((1000 + np.arange(40), 1000 + rng.integers(40, 70, 80))),
            "datetime": rng.permutation(popular["datetime"].to_numpy())[:120],
        }
    )
    columns = ["user_id", "item_id", "datetime"]
    return sr.read_interactions(pl.concat([popular.select(columns), own.select(columns)]))


def hold_at_most(monkeypatch, ridge, most_items):
    """Fit a ridge regression on at most so many items by default."""
    fit = ridge.fit.__func__.__wrapped__
    strength, _, *others = fit.__defaults__
    monkeypatch.setattr(fit, "__defaults__", (strength, most_items, *others))


@pytest.mark.parametrize("most_items", [10_000, 45])
def test_leaving_out_equals_a_fit_without_the_user(monkeypatch, most_items):
    """Zeros are equal too; ridge regressions may hold a part of the items only."""
    data = rare_items()
    for ridge in (Ridge, ForwardRidge, SequentialRidge):
        hold_at_most(monkeypatch, ridge, most_items)
    statistics = sr.count_precedence(data)
    extras = tuple(EXTRAS)
    features = Features(statistics, extras=extras)
    compared = 0
    for user in range(0, data.n_users, 4):
        profile = data.consumed(user).astype(np.int64)
        others = data.only(np.repeat(np.arange(data.n_users) != user, np.diff(data.offsets)))
        never = Features(sr.count_precedence(others), extras=extras)
        codes = others.items.codes(data.items.ids)
        known = statistics.items_outside(np.empty(0, np.int64), (user,))
        np.testing.assert_array_equal(known, np.flatnonzero(codes >= 0))
        history = profile[: len(profile) // 2]
        history = history[codes[history] >= 0]
        if not len(history):
            continue
        here = features.of(history, without=(user,))[:, known]
        there = never.of(codes[history])[:, codes[known]]
        if most_items > data.n_items:
            # λ depends on the number of users, which is one less.
            scale = np.abs(there).max(axis=1, keepdims=True) + 1e-9
            assert (np.abs(here - there) / scale).max() < 0.03
        rare = statistics.without_user(user).support[known] <= 3
        np.testing.assert_array_equal((here == 0)[:, rare], (there == 0)[:, rare])
        compared += int(rare.sum())
    assert compared > 100


def leak_auc(goods, features_of):
    """Return the AUC of trees that predict held-out items among items of equal support.

    Without a leak it is 0.5, as profiles are random. Trees are tested on other users and other
    items than in training, so that they cannot memorise items.
    """
    statistics = sr.count_precedence(goods)
    features = Features(statistics, extras=tuple(EXTRAS))
    rows, consumed, owners, items = [], [], [], []
    rng = np.random.default_rng(0)
    for user in range(goods.n_users):
        profile = goods.consumed(user).astype(np.int64)
        found = features_of(features, profile[:9], user)
        support = statistics.without_user(user).support
        mine = profile[9:][support[profile[9:]] > 0]
        others = statistics.items_outside(profile, (user,))
        for item in mine:
            alike = rng.permutation(others[support[others] == support[item]])[:5]
            some = np.append(alike, item)
            rows.append(found[:, some].T)
            consumed.append(some == item)
            owners.append(np.full(len(some), user))
            items.append(some)
    rows, consumed, owners, items = map(np.concatenate, (rows, consumed, owners, items))
    learn, test = ((owners % 2 == half) & (items % 2 == half) for half in (0, 1))
    trees = HistGradientBoostingClassifier(max_iter=60, random_state=0)
    trees.fit(rows[learn], consumed[learn])
    return roc_auc_score(consumed[test], trees.predict_proba(rows[test])[:, 1])


def left_out(features, history, user):
    return features.of(history, without=(user,))


def test_features_do_not_reveal_what_a_left_out_user_consumed(goods, monkeypatch):
    assert abs(leak_auc(goods, left_out) - 0.5) < 0.04
    for ridge in (ForwardRidge, SequentialRidge):
        hold_at_most(monkeypatch, ridge, 400)
    assert abs(leak_auc(goods, left_out) - 0.5) < 0.04


@pytest.mark.parametrize("ridge", [ForwardRidge, SequentialRidge])
def test_a_planted_cut_of_the_catalogue_is_found(goods, monkeypatch, ridge):
    """Fit a ridge regression on 400 items, regardless of equal support."""
    hold_at_most(monkeypatch, ridge, 400)
    for module in (_ridge, _sequence):
        monkeypatch.setattr(module, "whole_classes", lambda data, most: min(most, data.n_items))
    monkeypatch.setattr(Features, "_least_support", lambda *_: 0)
    assert leak_auc(goods, left_out) > 0.55


def test_planted_rounding_of_a_ridge_is_found(goods, monkeypatch):
    """Items of the left-out user only score about 1e-17 instead of 0."""
    monkeypatch.setattr(features_module, "_ROUNDING", 0.0)
    statistics = sr.count_precedence(goods)
    features = Features(statistics)
    ridge = slice(-4, None)
    own, residue = 0, 0
    for user in range(goods.n_users):
        profile = goods.consumed(user).astype(np.int64)
        only = np.intersect1d(statistics.unknown_without((user,)), profile[9:])
        found = features.of(profile[:9], without=(user,))[ridge][:, only]
        own, residue = own + len(only), residue + int((found != 0).any(axis=0).sum())
    assert own > 5
    assert residue > 0
    monkeypatch.undo()
    for user in range(goods.n_users):
        profile = goods.consumed(user).astype(np.int64)
        only = np.intersect1d(statistics.unknown_without((user,)), profile[9:])
        assert not features.of(profile[:9], without=(user,))[ridge][:, only].any()


def test_planted_counts_of_the_user_are_found(goods):
    assert leak_auc(goods, lambda features, history, _: features.of(history)) > 0.7


def test_a_forward_ridge_fitted_on_the_user_is_found(films):
    def expected(data, history, own):
        query = RidgeQuery(history, np.ones((1, len(history))), own)
        return ForwardRidge.fit(data).score([query], data.n_items)[0]

    def planted(_, data, history, without=()):
        return expected(data, history, [data.consumed(user).astype(int) for user in without])

    def half_left_out(_, data, history):
        """Leave out the first half only: its followers are still in the weights."""
        own = data.consumed(USER).astype(int)
        return expected(data, history, [own[: len(own) // 2]])

    assert leaks(films, planted)
    assert leaks(films, half_left_out)
    assert not leaks(films, lambda *case: planted(*case, without=(USER,)))


def test_a_sequential_ridge_fitted_on_the_user_is_found(films):
    def expected(data, history, own):
        query = RidgeQuery(history, SHORT.of_past(np.arange(len(history))[::-1])[None], own)
        return SequentialRidge.fit(data).score([query], data.n_items)[0]

    def left_out(_, data, history):
        return expected(data, history, [data.consumed(USER).astype(int)])

    def half_left_out(_, data, history):
        """Leave out the rows before the split only."""
        return expected(data, history, [history])

    assert leaks(films, lambda _, data, history: expected(data, history, []))
    assert leaks(films, half_left_out)
    assert not leaks(films, left_out)


def test_items_that_only_the_left_out_user_consumed_next_score_exactly_zero(monkeypatch):
    """Others consumed item 5 first, so that it follows nothing without user 0."""
    profiles = [[0, 1, 5, 2], [5, 1, 0, 3], [5, 2, 3, 4], [1, 0, 3, 2]]
    data = sr.Interactions.from_profiles(np.arange(0, 17, 4), np.concatenate(profiles))
    own = data.consumed(0).astype(int)
    item = own[2]
    query = RidgeQuery(own[:2], np.ones((1, 2)), [own])
    others = data.without_users(np.array([0]))
    codes = others.items.codes(data.items.ids)
    without = RidgeQuery(codes[own[:2]], np.ones((1, 2)), [])
    assert SequentialRidge.fit(others).score([without], others.n_items)[0][0, codes[item]] == 0
    fitted = SequentialRidge.fit(data)
    assert fitted.score([query], data.n_items)[0][0, item] == 0
    monkeypatch.setitem(vars(fitted), "outputs", fitted.outputs + 1)
    found = fitted.score([query], data.n_items)[0][0, item]
    assert 0 < abs(found) < 1e-6  # a rounding error, which would reveal the item


def test_factors_trained_on_the_user_are_found(films):
    def by_fold_of(user):
        def score(features, _, history):
            factors = Factorisation.train(features.statistics, HOW)
            return factors.score(factors.fold_for((user,), history), history)

        return score

    folds = Factorisation.train(sr.count_precedence(films), HOW).fold_of
    other = int(np.flatnonzero(folds != folds[USER])[0])
    assert leaks(films, by_fold_of(other))
    assert not leaks(films, by_fold_of(USER))


def test_no_feature_depends_on_held_out_items_with_factors(films):
    def of(features, _, history):
        factors = Factorisation.train(features.statistics, HOW)
        every = Features(features.statistics, extras=tuple(EXTRAS), factors=factors)
        found = every.of(history, without=(USER,))
        assert np.abs(found[-1]).max() > 0
        return found

    assert not leaks(films, of)


@pytest.mark.parametrize(
    ("learns", "call"),
    [
        (Ridge, "fit"),
        (ForwardRidge, "fit"),
        (SequentialRidge, "fit"),
        (Factorisation, "train_whole"),
    ],
)
def test_features_of_examples_are_computed_without_their_users(films, monkeypatch, learns, call):
    """For each pair of folds, models are fitted on the users of the others."""
    seen = []
    real = getattr(learns, call).__func__

    def watched(cls, data, *rest, **named):
        interactions = getattr(data, "interactions", data)
        seen.append({*interactions.users.ids.to_list()})
        return real(cls, data, *rest, **named)

    monkeypatch.setattr(learns, call, classmethod(watched))
    horizon = 1 if learns is SequentialRidge else 0.4
    statistics = sr.count_precedence(films)
    learned = LearnedModel.train(statistics, horizon=horizon, n_users=60, n_folds=3)
    members = [
        {films.users.ids[int(u)] for u in np.flatnonzero(learned.fold_of == fold)}
        for fold in range(3)
    ]
    n_fits = len(STRENGTHS) if learns is SequentialRidge else 1
    assert seen == [members[fold] for fold in (2, 1, 0) for _ in range(n_fits)]


def test_the_components_of_a_fold_do_not_depend_on_its_users(films, monkeypatch):
    monkeypatch.setattr(training, "_FEWEST_VALIDATION", 5)
    learned = LearnedModel.train(sr.count_precedence(films), n_users=60, n_folds=3)
    changed = other_future(films, USER, CUT)
    again = LearnedModel.train(sr.count_precedence(changed), n_users=60, n_folds=3)
    fold = learned.fold_for((USER,), films.consumed(USER))
    assert again.params["components"][fold] == learned.params["components"][fold]
    assert again.params["components"] != learned.params["components"]
