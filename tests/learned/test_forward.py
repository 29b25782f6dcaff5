import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import surerec as sr
from surerec.measures.learned import _forward
from surerec.measures.learned._forward import ForwardRidge, halves
from tests.learned.people import some_people


def by_definition(interactions, strength, n_items=None):
    """``(XᵀX + λI)⁻¹ Xᵀ Y`` from matrices of who took what in which half."""
    before, after = np.zeros((2, interactions.n_users, interactions.n_items))
    for user in range(interactions.n_users):
        profile = interactions.taken(user)
        cut = max(len(profile) // 2, 1)
        before[user, profile[:cut]] = 1
        after[user, profile[cut:]] = 1
    before, after = before[:, :n_items], after[:, :n_items]
    gram = before.T @ before + strength * np.eye(before.shape[1])
    return np.linalg.solve(gram, before.T @ after)


@pytest.fixture(scope="module")
def films():
    return sr.datasets.synthetic(n_users=80, n_items=50, n_rows=1500, seed=2)


def test_halves_are_in_time_order():
    first, second = halves(np.array([9], dtype=np.uint32))
    assert (first.tolist(), second.tolist()) == ([9], [])
    first, second = halves(np.array([4, 1, 3, 2, 0], dtype=np.uint32))
    assert (first.tolist(), second.tolist()) == ([4, 1], [3, 2, 0])


@given(
    users=st.sets(st.integers(0, 79), max_size=4),
    seed=st.integers(0, 99),
    strength=st.sampled_from([0.05, 0.5, 2.0]),
)
def test_leaving_users_out_is_fitting_without_them(films, users, seed, strength):
    chance = np.random.default_rng(seed)
    history = chance.permutation(films.n_items)[: chance.integers(1, 20)]
    weights = chance.random((3, len(history)))
    own = [films.taken(user) for user in users]
    columns = np.arange(films.n_items)
    ridge = ForwardRidge.fit(films, strength)
    found = ridge.score(history, weights, own, columns)
    left_out = np.isin(np.arange(films.n_users), list(users))
    # λ is of the number of users, not of what they took: it stays.
    expected = by_definition(
        films.without_users(np.flatnonzero(left_out)), strength * films.n_users
    )
    np.testing.assert_allclose(found, weights @ expected[history], rtol=1e-7, atol=1e-10)
    few = columns[::9]
    some = ridge.score(history, weights, own, few)
    np.testing.assert_allclose(some, found[:, few], rtol=1e-9, atol=1e-12)


@given(n_known=st.sampled_from([20, 50]), seed=st.integers(0, 99), data=st.data())
def test_all_items_are_scored_as_some_to_the_last_bit(films, n_known, seed, data):
    ridge, chance = ForwardRidge.fit(films, 0.3, most_items=n_known), np.random.default_rng(seed)
    profile = films.taken(seed % films.n_users)
    history = data.draw(st.sampled_from([profile, profile[:4], chance.permutation(50)[:9]]))
    own = data.draw(st.sampled_from([[], [profile], [profile, np.arange(3)]]))
    weights = chance.random((4, len(history)))
    both = history.astype(np.int64), weights
    expected = ridge.score(*both, own, np.arange(films.n_items))
    np.testing.assert_array_equal(ridge.score_all(*both, own, films.n_items), expected)


@given(
    n_known=st.sampled_from([20, 32, 47, 50]), n_people=st.integers(1, 5), seed=st.integers(0, 99)
)
def test_many_people_are_scored_as_one_by_one_to_the_last_bit(films, n_known, n_people, seed):
    ridge, chance = ForwardRidge.fit(films, 0.3, most_items=n_known), np.random.default_rng(seed)
    people = list(some_people(films, chance, n_people))
    expected = [ridge.score_all(*person, films.n_items) for person in people]
    np.testing.assert_array_equal(ridge.score_many(people, films.n_items), expected)


def test_it_keeps_to_the_most_popular_items(films):
    ridge = ForwardRidge.fit(films, 0.3, most_items=20)
    n_known = ridge.n_items
    support = np.bincount(films.items_taken)
    assert 10 < n_known <= 20
    assert support[n_known] < support[n_known - 1]  # all items of one support, or none
    history = np.array([3, 40, 8])
    found = ridge.score(history, np.ones((1, 3)), [films.taken(0)], np.arange(films.n_items))
    assert (found[0, n_known:] == 0).all()
    left_out = np.arange(films.n_users) == 0
    expected = by_definition(films.without_users(np.flatnonzero(left_out)), 0.3 * 80, n_known)
    np.testing.assert_allclose(found[0, :n_known], expected[[3, 8]].sum(axis=0), rtol=1e-8)


def test_it_takes_no_more_memory_than_is_free(films, monkeypatch):
    monkeypatch.setattr(_forward, "available_memory", lambda: 48 * 25 * 25)
    assert 15 < ForwardRidge.fit(films).n_items <= 25
    assert f"{ForwardRidge.fit(films).n_items} items" in repr(ForwardRidge.fit(films))
