import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import surerec as sr
from surerec.measures import MeasureScorer, Query
from surerec.together import (
    AGGREGATIONS,
    Aggregation,
    Company,
    find_aggregation,
    rank_together,
    values_of,
)

a_row = st.tuples(st.integers(0, 7), st.integers(0, 11), st.integers(0, 5))
some_rows = st.lists(a_row, min_size=12, max_size=80)


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SUREREC_THREADS", "1")
        yield


@given(some_rows, st.sampled_from(["order", "strict"]), st.data())
def test_a_group_is_scored_as_if_counted_without_it(rows, ties, data):
    frame = pl.DataFrame(rows, schema=["user", "item", "time"], orient="row")
    interactions = sr.read_interactions(frame)
    people = st.integers(0, interactions.n_users - 1)
    users = data.draw(st.lists(people, min_size=1, max_size=4, unique=True))
    company = Company(tuple(Query.of_user(interactions, user) for user in users))
    counts = sr.count_precedence(interactions, ties=ties)
    others = sr.count_precedence(interactions.without_users(np.array(users)), ties=ties)
    others.popularity = counts.popularity_without(users)
    candidates = counts.items_outside(company.known, users)
    np.testing.assert_array_equal(candidates, others.items_outside(company.known))
    name = data.draw(st.sampled_from(["CM1", "CM4", "CM11", "CM12", "NCM14"]))
    found = company.ranks(MeasureScorer(counts, name), counts, candidates)
    strangers = Company(tuple(Query(known_to(others, q.history)) for q in company.members))
    expected = strangers.ranks(MeasureScorer(others, name), others, candidates)
    np.testing.assert_array_equal(found, expected)
    joint = company.joint_ranks(MeasureScorer(counts, name), counts, candidates)
    history = known_to(others, company.joint().history)
    alone = MeasureScorer(others, name).score(history)[candidates]
    np.testing.assert_array_equal(
        joint[0].argsort(), np.lexsort((others.popularity[candidates], -alone))
    )


def known_to(others, history):
    """What a new user's history comes to: items that nobody consumed are dropped."""
    known = history[others.support[history] > 0]
    return known if len(known) else history


def test_a_joint_profile_goes_by_time_and_has_each_item_once():
    first = Query(np.array([3, 1, 4]), (0,), np.array([10, 30, 50]), 50)
    second = Query(np.array([1, 5]), (2,), np.array([20, 40]), 60)
    joint = Company((first, second)).joint()
    assert joint.history.tolist() == [3, 1, 5, 4]
    assert joint.times.tolist() == [10, 20, 40, 50]
    assert (joint.users, joint.moment) == ((0, 2), 60)
    # Without times everybody's history goes on at the same pace.
    mixed = Company((first, Query(np.array([7, 8])))).joint()
    assert mixed.history.tolist() == [3, 7, 1, 4, 8]
    assert mixed.times is None


RANKS = np.array([[1.0, 2, 3, 4], [4.0, 2, 3, 1]])


@pytest.mark.parametrize(
    ("name", "order"),
    [
        ("average", [1, 0, 3, 2]),  # 2·2 is as good as 1·4: all three tie, then by popularity
        ("least-misery", [1, 2, 0, 3]),
        ("most-pleasure", [0, 3, 1, 2]),
        ("approval", [0, 3, 1, 2]),  # one member each has 0 and 3 as their best tenth, the best one
    ],
)
def test_aggregations_by_hand(name, order):
    popularity = np.array([1, 0, 3, 2])
    _, ranks = rank_together(AGGREGATIONS[name], RANKS, None, popularity)
    assert ranks.argsort().tolist() == order


def test_values_are_logarithms_and_a_joint_profile_is_one_row():
    values, ranks = rank_together(
        find_aggregation("joint-profile"), RANKS, np.array([[2.0, 4, 1, 3]]), np.arange(4)
    )
    assert ranks.tolist() == [2, 4, 1, 3]
    np.testing.assert_allclose(values, values_of(np.array([2.0, 4, 1, 3]), 4))


def test_an_aggregation_of_ones_own():
    class First(Aggregation):
        name = "first"
        words = "what the first member says"

        def score(self, values):
            return values[0]

    assert find_aggregation(First()).name == "first"
    assert rank_together(First(), RANKS, None, np.arange(4))[1].tolist() == [1, 2, 3, 4]
    with pytest.raises(sr.InputError, match="least-misery"):
        find_aggregation("borda")
