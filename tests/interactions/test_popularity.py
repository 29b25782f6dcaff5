import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

import surerec as sr
from surerec.interactions import IdMap
from surerec.precedence import places_without


def profiles():
    """Ann consumed item 1 and then item 2, Bob item 2; nobody consumed item 0."""
    return sr.Interactions(
        IdMap(pl.Series(["ann", "bob"]), noun="user"),
        IdMap(pl.Series([10, 20, 30]), noun="item"),
        np.array([0, 2, 3]),
        np.array([1, 2, 2], dtype=np.uint32),
        np.array([5, 6, 4]),
    )


def test_readers_number_items_by_popularity():
    consumed = sr.Interactions.from_profiles([0, 2, 3], [1, 0, 1])
    assert sr.count_precedence(consumed).popularity.tolist() == [0, 1]
    assert np.diff(np.bincount(consumed.item_codes)).max() <= 0


def test_popularity_follows_support_under_other_codes():
    consumed = profiles()
    assert sr.count_precedence(consumed).popularity.tolist() == [2, 1, 0]
    # Of some rows, by these rows alone.
    assert sr.count_precedence(consumed.until(5)).popularity[2] == 0
    assert sr.count_precedence(consumed).without_user(1).popularity[0] == 2


def test_nobody_is_recommended_what_nobody_else_consumed():
    counts = sr.count_precedence(profiles())
    assert counts.items_outside(np.array([], dtype=int)).tolist() == [1, 2]
    assert counts.items_outside(np.array([2]), (0,)).tolist() == []
    assert counts.items_outside(np.array([1]), (1,)).tolist() == [2]
    assert counts.unknown_without((0, 1)).tolist() == [0, 1, 2]


def test_only_forgets_what_the_other_rows_tell():
    consumed = sr.Interactions.from_profiles([0, 3, 6, 8], [0, 1, 2, 0, 1, 3, 3, 4])
    some = consumed.only(np.array([True, True, False, False, True, False, False, False]))
    assert (some.n_users, some.n_items, some.n_rows) == (2, 2, 3)
    assert some.users.ids.to_list() == [0, 1]
    assert some.items[0] == consumed.items[int(consumed.consumed(0)[1])]  # two users consumed it


@given(st.lists(st.integers(1, 5), min_size=1, max_size=30), st.data())
def test_a_left_out_user_moves_items_to_those_of_smaller_support(support, data):
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


def test_a_left_out_user_leaves_no_mark_on_the_order_of_ties():
    """Among items of equal support, those that the user consumed come first as often as last."""
    support = np.repeat([3, 2], [200, 200])
    own = np.random.default_rng(0).permutation(200)[:100]
    places = places_without(np.arange(400), support, own)
    middle = places[own].mean() - 100  # they and the 200 below them fill places 100 to 399
    assert abs(middle - 150) < 3 * 300 / np.sqrt(12 * 100)


def test_given_counts_are_in_the_order_of_their_codes():
    counts = sr.PrecedenceStatistics.from_counts(np.zeros((3, 3), dtype=int), [1, 2, 3], n_users=3)
    assert counts.popularity.tolist() == [0, 1, 2]
