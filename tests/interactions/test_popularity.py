import numpy as np
import polars as pl
import pytest

import surerec as sr
from surerec.interactions import IdMap
from surerec.storage import save_model

BY_CODE = [0, 1, 2]


def profiles(popularity=None):
    """Ann took item 1 and then item 2, Bob item 2; nobody took item 0."""
    return sr.Interactions(
        IdMap(pl.Series(["ann", "bob"]), noun="user"),
        IdMap(pl.Series([10, 20, 30]), noun="item"),
        np.array([0, 2, 3]),
        np.array([1, 2, 2], dtype=np.uint32),
        np.array([5, 6, 4]),
        popularity=popularity,
    )


def test_readers_number_items_by_popularity():
    taken = sr.Interactions.from_profiles([0, 2, 3], [1, 0, 1])
    assert taken.popularity.tolist() == [0, 1]
    assert np.diff(np.bincount(taken.items_taken)).max() <= 0
    assert profiles().popularity.tolist() == BY_CODE


def test_a_given_order_is_carried_along():
    taken = profiles(np.array([2, 1, 0]))
    statistics = sr.count_precedence(taken)
    for derived in (taken, taken.until(6), statistics, statistics.without_user(0)):
        assert derived.popularity.tolist() == [2, 1, 0]
    assert statistics.items_outside(np.array([1])).tolist() == [0, 2]  # by code all the same


def test_given_counts_are_in_the_order_of_their_codes():
    counts = sr.PrecedenceStatistics.from_counts(np.zeros((3, 3), dtype=int), [1, 2, 3], n_users=3)
    assert counts.popularity.tolist() == BY_CODE


@pytest.mark.parametrize("wrong", [[0, 1], [0, 1, 1], [1, 2, 3], [0.0, 1.0, 2.0]])
def test_what_is_no_order_is_refused(wrong):
    with pytest.raises(sr.InputError, match="its own place"):
        profiles(np.array(wrong))


def test_a_model_folder_refuses_an_order_that_it_cannot_keep(tmp_path):
    with pytest.raises(sr.InputError, match="numbered by popularity"):
        save_model(tmp_path / "model", sr.count_precedence(profiles(np.array([2, 1, 0]))), {})
    save_model(tmp_path / "model", sr.count_precedence(profiles(np.array(BY_CODE))), {})


def test_a_profile_is_cut_out_by_code():
    taken = profiles()
    assert [taken.taken(user).tolist() for user in (0, 1)] == [[1, 2], [2]]
    assert [taken.times_of(user).tolist() for user in (0, 1)] == [[5, 6], [4]]
