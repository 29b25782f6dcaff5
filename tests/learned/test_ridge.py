import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import surerec as sr
from surerec.measures.learned import _ridge
from surerec.measures.learned._ridge import Ridge
from tests.learned.people import some_people


def by_definition(interactions, strength, n_items=None):
    """``(XᵀX + λI)⁻¹`` from a matrix of who took what."""
    taken = np.zeros((interactions.n_users, interactions.n_items))
    owners = np.repeat(np.arange(interactions.n_users), np.diff(interactions.offsets))
    taken[owners, interactions.items_taken] = 1
    taken = taken[:, :n_items]
    return np.linalg.inv(taken.T @ taken + strength * np.eye(taken.shape[1]))


@pytest.fixture(scope="module")
def films():
    return sr.datasets.synthetic(n_users=80, n_items=50, n_rows=1500, seed=2)


def test_it_is_the_inverse_of_the_definition(films):
    inverse = Ridge.fit(films, strength=0.3).inverse
    np.testing.assert_allclose(inverse, by_definition(films, 0.3 * 80), rtol=1e-9, atol=1e-12)


@given(
    users=st.sets(st.integers(0, 79), max_size=4),
    seed=st.integers(0, 99),
    strength=st.sampled_from([0.01, 0.3, 2.0]),
)
def test_leaving_users_out_is_fitting_without_them(films, users, seed, strength):
    chance = np.random.default_rng(seed)
    history = chance.permutation(films.n_items)[: chance.integers(1, 20)]
    weights = chance.random((3, len(history)))
    own = [films.taken(user).astype(np.int64) for user in users]
    columns = np.arange(films.n_items)
    found = Ridge.fit(films, strength).score(history, weights, own, columns)
    left_out = np.isin(np.arange(films.n_users), list(users))
    # λ is of the number of users, not of what they took: it stays.
    inverse = by_definition(films.without_users(np.flatnonzero(left_out)), strength * films.n_users)
    expected = -(weights @ inverse[history]) / inverse.diagonal()
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-10)
    few = columns[::9]
    some = Ridge.fit(films, strength).score(history, weights, [taken[:3] for taken in own], few)
    all_of_them = Ridge.fit(films, strength).score(
        history, weights, [taken[:3] for taken in own], columns
    )
    np.testing.assert_allclose(some, all_of_them[:, few], rtol=1e-9, atol=1e-12)


@given(n_known=st.sampled_from([20, 50]), seed=st.integers(0, 99), data=st.data())
def test_all_items_are_scored_as_some_to_the_last_bit(films, n_known, seed, data):
    ridge, chance = Ridge.fit(films, 0.3, most_items=n_known), np.random.default_rng(seed)
    profile = films.taken(seed % films.n_users).astype(np.int64)
    history = data.draw(
        st.sampled_from([profile, profile[: len(profile) // 2], chance.permutation(50)[:9]])
    )
    own = data.draw(st.sampled_from([[], [np.sort(profile)], [np.sort(profile), np.arange(3)]]))
    weights = chance.random((4, len(history)))
    weights[0] = 1.0
    expected = ridge.score(history, weights, own, np.arange(films.n_items))
    found = ridge.score_all(history, weights, own, films.n_items)
    np.testing.assert_array_equal(found, expected)
    n_known = ridge.n_items
    one_by_one = np.zeros((4, n_known))
    for item, weight in sorted(zip(history.tolist(), weights.T, strict=True), key=lambda w: w[0]):
        if item < n_known:
            one_by_one += weight[:, None] * ridge.inverse[item]
    if not own:
        np.testing.assert_array_equal(found[:, :n_known], -one_by_one / ridge.inverse.diagonal())


@given(
    n_known=st.sampled_from([20, 32, 47, 50]), n_people=st.integers(1, 5), seed=st.integers(0, 99)
)
def test_many_people_are_scored_as_one_by_one_to_the_last_bit(films, n_known, n_people, seed):
    ridge, chance = Ridge.fit(films, 0.3, most_items=n_known), np.random.default_rng(seed)
    people = [
        person._replace(own=[np.sort(own) for own in person.own])
        for person in some_people(films, chance, n_people)
    ]
    expected = [ridge.score_all(*person, films.n_items) for person in people]
    np.testing.assert_array_equal(ridge.score_many(people, films.n_items), expected)


def test_it_keeps_to_the_most_popular_items(films):
    ridge = Ridge.fit(films, 0.3, most_items=20)
    n_known = ridge.n_items
    support = np.bincount(films.items_taken)
    assert 10 < n_known <= 20
    assert support[n_known] < support[n_known - 1]  # all items of one support, or none
    history, own = np.array([3, 40, 8]), films.items_taken[: films.offsets[1]].astype(np.int64)
    found = ridge.score(history, np.ones((1, 3)), [own], np.arange(films.n_items))
    assert (found[0, n_known:] == 0).all()
    left_out = np.arange(films.n_users) == 0
    inverse = by_definition(films.without_users(np.flatnonzero(left_out)), 0.3 * 80, n_known)
    expected = -inverse[[3, 8]].sum(axis=0) / inverse.diagonal()
    np.testing.assert_allclose(found[0, :n_known], expected, rtol=1e-8)


def test_it_takes_no_more_memory_than_is_free(films, monkeypatch):
    monkeypatch.setattr(_ridge, "available_memory", lambda: 32 * 25 * 25)
    assert 15 < Ridge.fit(films).n_items <= 25
    assert f"{Ridge.fit(films).n_items} items" in repr(Ridge.fit(films))
