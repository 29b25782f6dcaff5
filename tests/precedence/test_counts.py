import duckdb
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import surerec as sr
from tests import oracle

some_rows = st.lists(
    st.tuples(st.integers(0, 6), st.integers(0, 9), st.integers(0, 4)), min_size=1, max_size=60
)
ties_rules = st.sampled_from(["order", "strict"])
strategies = st.sampled_from(["dense", "bounded", "on-demand"])


def read(rows):
    return sr.read_interactions(pl.DataFrame(rows, schema=["user", "item", "time"], orient="row"))


def matrices(statistics):
    """Both directions as matrices, laid so that both should be PC."""
    items = range(statistics.n_items)
    following = np.array([statistics.followers(i) for i in items])
    preceding = np.array([statistics.predecessors(i) for i in items])
    return following, preceding.T


def by_id(interactions, counts):
    """PC of the oracle, with ids, as a matrix by code."""
    matrix = np.zeros((interactions.n_items, interactions.n_items), dtype=int)
    for (first, second), count in counts.items():
        matrix[interactions.items.code(first), interactions.items.code(second)] = count
    return matrix


@given(some_rows, ties_rules, strategies)
def test_counts_agree_with_the_oracle(rows, ties, strategy):
    interactions = read(rows)
    statistics = sr.count_precedence(interactions, ties=ties, strategy=strategy)
    users = oracle.profiles(rows)
    expected = by_id(interactions, oracle.precedence(users, ties))
    for direction in matrices(statistics):
        np.testing.assert_array_equal(direction, expected)
    assert statistics.n_users == len(users)
    support = oracle.support(users)
    assert [support[i] for i in interactions.items.ids] == statistics.support.tolist()


@given(some_rows, ties_rules, strategies, st.data())
def test_leaving_a_user_out_is_counting_without_them(rows, ties, strategy, data):
    interactions = read(rows)
    user = data.draw(st.sampled_from(interactions.users.ids.to_list()))
    rest = [row for row in rows if row[0] != user]
    left = sr.count_precedence(interactions, ties=ties, strategy=strategy).without_user(
        interactions.users.code(user)
    )
    expected = by_id(interactions, oracle.precedence(oracle.profiles(rest), ties))
    for direction in matrices(left):
        np.testing.assert_array_equal(direction, expected)
    support = oracle.support(oracle.profiles(rest))
    assert [support[i] for i in interactions.items.ids] == left.support.tolist()
    assert left.n_users == len({row[0] for row in rest})


def test_leaving_a_user_out_does_not_touch_the_others_counts():
    interactions = read([(0, 0, 0), (0, 1, 1), (1, 0, 0), (1, 1, 1)])
    statistics = sr.count_precedence(interactions)
    statistics.without_user(0).followers(0)
    assert statistics.followers(0).tolist() == [0, 2]
    assert statistics.support.tolist() == [2, 2]
    with pytest.raises(ValueError, match="read-only"):
        statistics.followers(0)[0] = 9


@pytest.mark.parametrize("ties", ["order", "strict"])
def test_counts_agree_with_a_duckdb_self_join(ties):
    interactions = sr.datasets.synthetic(300, 80, 6_000, ties=0.4, seed=5)
    rows = interactions.to_frame().with_row_index("place")  # noqa: F841  # duckdb finds it by name
    before = "a.place < b.place" if ties == "order" else "a.datetime < b.datetime"
    joined = duckdb.sql(
        f"""SELECT a.item_id, b.item_id, count(*) FROM rows a JOIN rows b
            ON a.user_id = b.user_id AND {before} GROUP BY ALL"""  # noqa: S608
    ).fetchall()
    expected = by_id(interactions, {(a, b): n for a, b, n in joined})
    for direction in matrices(sr.count_precedence(interactions, ties=ties)):
        np.testing.assert_array_equal(direction, expected)


@pytest.mark.parametrize("threads", ["1", "2", "7"])
def test_threads_change_nothing(monkeypatch, threads):
    interactions = sr.datasets.synthetic(2_000, 150, 80_000, seed=2)
    reference = matrices(sr.count_precedence(interactions))
    monkeypatch.setenv("SUREREC_THREADS", threads)
    again = matrices(sr.count_precedence(interactions))
    for old, new in zip(reference, again, strict=True):
        np.testing.assert_array_equal(old, new)


def test_renaming_ids_changes_nothing():
    rows = [(u, i, t) for t, (u, i) in enumerate((k % 7, k * k % 11) for k in range(80))]
    renamed = [(f"user {9 - u}", f"item {99 - i}", t) for u, i, t in rows]
    for old, new in zip(
        matrices(sr.count_precedence(read(rows))),
        matrices(sr.count_precedence(read(renamed))),
        strict=True,
    ):
        np.testing.assert_array_equal(old, new)


def test_one_item_profiles_precede_nothing():
    statistics = sr.count_precedence(read([(1, 5, 1), (2, 6, 1)]))
    assert not np.concatenate(matrices(statistics)).any()
    assert statistics.support.tolist() == [1, 1]


def test_the_automatic_strategy_keeps_to_a_budget_where_dense_rows_do_not_fit(monkeypatch):
    interactions = read([(1, i, i) for i in range(50)])
    monkeypatch.setattr("surerec.precedence._statistics.available_memory", lambda: 15_000)
    statistics = sr.count_precedence(interactions)
    assert type(statistics.rows).__name__ == "BoundedRows"
    monkeypatch.setattr("surerec.precedence._statistics.available_memory", lambda: 9_000)
    with pytest.raises(sr.InputError, match=r"50 items need 10.0 kB, and 9.0 kB is free"):
        sr.count_precedence(interactions, strategy="dense")


def test_unknown_settings_are_refused():
    interactions = read([(1, 1, 1)])
    with pytest.raises(sr.InputError, match="ties is 'loose'; choose one of order, strict"):
        sr.count_precedence(interactions, ties="loose")
    with pytest.raises(sr.InputError, match="strategy is 'sparse'"):
        sr.count_precedence(interactions, strategy="sparse")


def test_the_strongest_pair_is_the_one_whose_order_is_most_certain():
    rows = [(user, item, time) for user in range(9) for time, item in enumerate("ab")]
    rows += [(9, "b", 0), (9, "a", 1), (10, "a", 0), (10, "c", 1)]
    interactions = read(rows)
    best = sr.strongest_pairs(sr.count_precedence(interactions), 1)[0]
    names = interactions.items.ids
    assert (names[best.first], names[best.second]) == ("a", "b")
    assert (best.support, best.forward, best.backward) == (11, 9, 1)


@given(rows=some_rows, ties=ties_rules, n_pairs=st.integers(1, 12), in_one_order=st.booleans())
def test_the_strongest_pairs_are_those_of_all(rows, ties, n_pairs, in_one_order):
    if in_one_order:  # then z² is as large as it can be: those who took both
        rows = [(user, item, item) for user, item, _ in rows]
    statistics = sr.count_precedence(read(rows), ties=ties)
    forward = np.array(matrices(statistics)[0], dtype=np.float64)
    z = (forward - forward.T) / np.sqrt(np.maximum(forward + forward.T, 1))
    order = np.argsort(-z, axis=None, kind="stable")
    expected = [np.unravel_index(k, z.shape) for k in order if z.flat[k] > 0][:n_pairs]
    found = sr.strongest_pairs(statistics, n_pairs)
    assert [(pair.first, pair.second) for pair in found] == expected


@pytest.mark.parametrize("ties", ["order", "strict"])
def test_the_budget_changes_speed_and_never_results(ties):
    interactions = sr.datasets.synthetic(200, 300, 6_000, ties=0.3, seed=8)
    row = 2 * interactions.n_items
    reference = matrices(sr.count_precedence(interactions, ties=ties, strategy="dense"))
    held = []
    for memory in (0, row, 8 * row, 40 * row, 400 * row, 10**9):
        statistics = sr.count_precedence(interactions, ties=ties, strategy="bounded", memory=memory)
        rows = statistics.rows
        held.append(sum(kept.nbytes for kept in rows.held.values()))
        assert held[-1] + rows.cache_bytes <= memory
        for _ in range(2):  # counted, then from the cache
            for old, new in zip(reference, matrices(statistics), strict=True):
                np.testing.assert_array_equal(old, new)
        assert 2 * interactions.n_items * rows._cache.n_kept <= rows.cache_bytes
        some = np.array([5, 0, 299 % interactions.n_items])
        for place, direction in enumerate(("followers", "predecessors")):
            matrix, picks = rows.block(direction, some)
            expected = reference[place][some] if place == 0 else reference[place].T[some]
            np.testing.assert_array_equal(matrix[picks], expected)
    assert held == sorted(held)
    assert held[0] == 0
    assert (rows.held["followers"].slots >= 0).all()
    assert len(rows.held["followers"].dense)
    assert len(rows.held["followers"].items)


def test_a_budget_below_one_row_is_refused_before_the_work():
    with pytest.raises(sr.InputError, match="less than one row of 2 items takes"):
        sr.count_precedence(read([(1, 1, 1), (1, 2, 2)]), memory=3)
    with pytest.raises(sr.InputError, match="memory is -1"):
        sr.count_precedence(read([(1, 1, 1)]), memory=-1)


def crowd_of(n_users):
    """So many users, who all took items 0 and 1 in this order and one of 2 … 9 later."""
    users = np.arange(n_users)
    items = np.column_stack([np.zeros_like(users), np.ones_like(users), 2 + users % 8])
    return sr.Interactions.from_profiles(np.arange(0, 3 * n_users + 1, 3), items.ravel())


@pytest.mark.parametrize("strategy", ["dense", "bounded", "on-demand"])
@pytest.mark.parametrize(("n_users", "bits"), [(2**16 - 1, 16), (2**16, 32)])
def test_counts_are_as_wide_as_they_must_be(n_users, bits, strategy):
    statistics = sr.count_precedence(crowd_of(n_users), strategy=strategy, memory=10**6)
    assert statistics.rows.followers(0).dtype == f"uint{bits}"
    assert statistics.rows.predecessors(1).dtype == f"uint{bits}"
    assert statistics.followers(0)[1] == statistics.predecessors(1)[0] == n_users
    assert statistics.followers(0).dtype == np.uint32
    for item in range(2, 10):
        taken = int(np.count_nonzero(np.arange(n_users) % 8 == item - 2))
        assert statistics.followers(1)[item] == statistics.predecessors(item)[1] == taken


def test_many_takers_alone_need_no_wide_counts():
    # Items 0 and 1 have 70,000 takers each, but nobody took both more than 60,000 times in order.
    users = np.arange(70_000)
    first = (users % 2).repeat(2)
    first[1::2] = 1 - first[::2]
    data = sr.Interactions.from_profiles(np.arange(0, 140_001, 2), first)
    statistics = sr.count_precedence(data)
    assert statistics.rows.followers(0).dtype == np.uint16
    assert statistics.followers(0).tolist() == [0, 35_000]
    assert statistics.predecessors(0).tolist() == [0, 35_000]


@given(some_rows, ties_rules, strategies, st.data())
def test_leaving_a_group_out_is_counting_without_it(rows, ties, strategy, data):
    interactions = read(rows)
    everybody = st.sampled_from(interactions.users.ids.to_list())
    group = data.draw(st.lists(everybody, max_size=5))  # some of them twice, or nobody
    rest = oracle.profiles([row for row in rows if row[0] not in group])
    counts = sr.count_precedence(interactions, ties=ties, strategy=strategy)
    left = counts.without_users([interactions.users.code(user) for user in group])
    expected = by_id(interactions, oracle.precedence(rest, ties))
    for direction in matrices(left):
        np.testing.assert_array_equal(direction, expected)
    support = oracle.support(rest)
    assert [support[i] for i in interactions.items.ids] == left.support.tolist()
    assert left.n_users == len(rest)
    asked = data.draw(st.lists(st.integers(0, interactions.n_items - 1), min_size=1))
    for direction, matrix in (("followers", expected), ("predecessors", expected.T)):
        block = left.rows.block(direction, np.array(asked))
        np.testing.assert_array_equal(block.matrix[block.picks], matrix[asked])
