import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

import surerec as sr
from surerec.interactions import IdMap
from surerec.precedence import places_without


def profiles():
    """Ann consumed item 1 and then item 2, Bob item 2; item 0 has no consumers."""
    return sr.Interactions(
        IdMap(pl.Series(["ann", "bob"]), noun="user"),
        IdMap(pl.Series([10, 20, 30]), noun="item"),
        np.array([0, 2, 3]),
        np.array([1, 2, 2], dtype=np.uint32),
        np.array([5, 6, 4]),
    )


def test_popularity_follows_support_under_other_codes():
    consumed = profiles()
    assert sr.count_precedence(consumed).popularity.tolist() == [2, 1, 0]
    # A subset of the rows has its own ranks.
    assert sr.count_precedence(consumed.until(5)).popularity[2] == 0
    assert sr.count_precedence(consumed).without_user(1).popularity[0] == 2


def test_items_without_another_consumer_are_not_candidates():
    counts = sr.count_precedence(profiles())
    assert counts.items_outside(np.array([], dtype=int)).tolist() == [1, 2]
    assert counts.items_outside(np.array([2]), (0,)).tolist() == []
    assert counts.items_outside(np.array([1]), (1,)).tolist() == [2]
    assert counts.unknown_without((0, 1)).tolist() == [0, 1, 2]


def test_only_does_not_leak_other_rows():
    consumed = sr.Interactions.from_profiles([0, 3, 6, 8], [0, 1, 2, 0, 1, 3, 3, 4])
    some = consumed.only(np.array([True, True, False, False, True, False, False, False]))
    assert (some.n_users, some.n_items, some.n_rows) == (2, 2, 3)
    assert some.users.ids.to_list() == [0, 1]
    assert some.items[0] == consumed.items[int(consumed.consumed(0)[1])]  # two users consumed it


@given(st.lists(st.integers(1, 5), min_size=1, max_size=30), st.data())
def test_without_a_user_items_move_to_their_reduced_support(support, data):
    support = np.sort(np.array(support))[::-1]
    own = data.draw(st.lists(st.sampled_from(range(len(support))), unique=True))
    counts = sr.PrecedenceStatistics.from_counts(
        np.zeros((len(support),) * 2, dtype=int), support, n_users=int(support.max())
    )
    places = places_without(counts.popularity, support, np.array(own, dtype=np.int64))
    assert sorted(places.tolist()) == list(range(len(support)))
    left = support.copy()
    left[own] -= 1
    assert (np.diff(left[np.argsort(places)]) <= 0).all()
    others = np.setdiff1d(np.arange(len(support)), own)
    assert (np.diff(places[others]) > 0).all()  # the others keep their order


def test_without_a_user_ties_do_not_leak_the_history():
    """Among items of equal support, those that the user consumed come first as often as last."""
    support = np.repeat([3, 2], [200, 200])
    own = np.random.default_rng(0).permutation(200)[:100]
    places = places_without(np.arange(400), support, own)
    middle = places[own].mean() - 100  # they and the 200 below them fill places 100 to 399
    assert abs(middle - 150) < 3 * 300 / np.sqrt(12 * 100)
