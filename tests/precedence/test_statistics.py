import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import surerec as sr
from surerec.errors import NoUsersError
from tests import oracle
from tests.golden.test_examples import COUNTS, SUPPORT

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


def test_leaving_a_user_out_does_not_touch_the_others_counts():
    interactions = read([(0, 0, 0), (0, 1, 1), (1, 0, 0), (1, 1, 1)])
    statistics = sr.count_precedence(interactions)
    statistics.without_user(0).followers(0)
    assert statistics.followers(0).tolist() == [0, 2]
    assert statistics.support.tolist() == [2, 2]
    with pytest.raises(ValueError, match="read-only"):
        statistics.followers(0)[0] = 9


def test_threads_change_nothing(monkeypatch):
    interactions, found = sr.datasets.synthetic(2_000, 150, 80_000, random_state=2), []
    for threads in ("1", "2", "7"):
        monkeypatch.setenv("SUREREC_THREADS", threads)
        found.append(np.stack(matrices(sr.count_precedence(interactions))))
    assert (found[0] == found[1]).all()
    assert (found[0] == found[2]).all()


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
    interactions = sr.datasets.synthetic(200, 300, 6_000, ties=0.3, random_state=8)
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
            matrix = rows.block(direction, some)
            expected = reference[place][some] if place == 0 else reference[place].T[some]
            np.testing.assert_array_equal(matrix, expected)
    assert held == sorted(held)
    assert held[0] == 0
    assert (rows.held["followers"].slots >= 0).all()
    assert len(rows.held["followers"].dense)
    assert len(rows.held["followers"].items)


def test_a_budget_below_one_row_is_refused_before_the_work():
    with pytest.raises(sr.InputError, match="less than one row of 2 items"):
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
        consumed = int(np.count_nonzero(np.arange(n_users) % 8 == item - 2))
        assert statistics.followers(1)[item] == statistics.predecessors(item)[1] == consumed


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
        np.testing.assert_array_equal(block, matrix[asked])


@st.composite
def some_profiles(draw):
    """Profiles of distinct items and their instants, over a catalogue of a few groups."""
    n_items = draw(st.integers(1, 90))
    item = st.integers(0, n_items - 1)
    found = draw(st.lists(st.lists(item, max_size=40, unique=True), min_size=1, max_size=12))
    # The last item is taken by somebody, so that the catalogue is as long as it was drawn.
    profiles = [*found, [n_items - 1]]
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    times = [np.sort(random.integers(0, 10, len(p))) for p in profiles]
    offsets = np.concatenate(([0], np.cumsum([len(p) for p in profiles])))
    items = np.concatenate([np.array(p, dtype=np.uint32) for p in profiles])
    return sr.Interactions.from_profiles(offsets, items, np.concatenate(times))


def slowly(data, ties):
    """Counts pair by pair."""
    counts = np.zeros((data.n_items, data.n_items), dtype=int)
    for user in range(data.n_users):
        items, times = data.consumed(user), data.times_of(user)
        for i in range(len(items)):
            for j in range(i + 1, len(items)):
                counts[items[i], items[j]] += ties == "order" or times[i] < times[j]
    return counts


def with_most(monkeypatch, most):
    """Take `most` for what 16 bits hold."""
    monkeypatch.setattr("surerec.precedence._lanes._MOST_IN_16_BITS", most)
    monkeypatch.setattr("surerec.precedence._spans._MOST_IN_16_BITS", most)


@given(some_profiles(), st.sampled_from(["order", "strict"]))
def test_both_directions_are_counted_as_pair_by_pair(data, ties):
    expected = slowly(data, ties)
    for counts in matrices(sr.count_precedence(data, ties=ties, strategy="dense")):
        np.testing.assert_array_equal(counts, expected)


@pytest.mark.parametrize("ties", ["order", "strict"])
@pytest.mark.parametrize(("most", "wide"), [(40, True), (90, False)])
def test_counts_that_pass_what_16_bits_hold_are_counted_once_and_wider(
    monkeypatch, ties, most, wide
):
    data = sr.datasets.synthetic(150, 130, 6_000, ties=0.3, sequels=0.0, random_state=3)
    expected = slowly(data, ties)
    assert expected.max() in range(41, 90)
    assert (np.bincount(data.item_codes) > 90).sum() > 1
    with_most(monkeypatch, most)
    statistics = sr.count_precedence(data, ties=ties)
    assert statistics.rows.followers(0).dtype == (np.uint32 if wide else np.uint16)
    for counts in matrices(statistics):
        np.testing.assert_array_equal(counts, expected)


def test_wide_counts_beyond_the_budget_are_held_as_far_as_it_goes(monkeypatch):
    data = sr.datasets.synthetic(150, 130, 6_000, random_state=3)
    narrow = 2 * 2 * data.n_items**2
    assert sr.count_precedence(data, memory=narrow).rows.kind == "dense"
    with_most(monkeypatch, 40)
    assert sr.count_precedence(data, memory=narrow).rows.kind == "bounded"
    assert sr.count_precedence(data, memory=2 * narrow).rows.kind == "dense"


def test_nobody_and_nothing_is_counted():
    assert matrices(sr.count_precedence(sr.Interactions.from_profiles([0, 0], [])))[0].size == 0


def test_the_papers_example_can_be_given_as_counts():
    statistics = sr.PrecedenceStatistics.from_counts(COUNTS, SUPPORT, n_users=30)
    o2, o9 = 1, 8
    assert statistics.followers(o9)[o2] == 11
    assert statistics.predecessors(o2).tolist() == [row[o2] for row in COUNTS]
    # Example 3: Score(o2) = 25/30 · 9/25 · 8/25 · 9/25 · 6/25 · 11/25 over o1, o3, o5, o7, o9
    profile = [0, 2, 4, 6, 8]
    shares = statistics.predecessors(o2)[profile] / statistics.support[o2]
    assert round(statistics.support[o2] / 30 * np.prod(shares), 4) == 0.0036


def test_given_counts_have_profiles_of_no_users():
    statistics = sr.PrecedenceStatistics.from_counts(COUNTS, SUPPORT, n_users=30)
    profiles = statistics.interactions
    assert (statistics.n_users, statistics.has_profiles) == (30, False)
    assert (profiles.n_users, profiles.n_rows, profiles.titles) == (0, 0, None)
    assert profiles.items.ids.to_list() == list(range(10))
    with pytest.raises(NoUsersError, match="have no users: nobody can be asked"):
        statistics.require_profiles("nobody can be asked")


def test_given_counts_cannot_leave_a_user_out():
    statistics = sr.PrecedenceStatistics.from_counts(COUNTS, SUPPORT, n_users=30)
    for leave_out in (statistics.without_user, statistics.consumed_by, statistics.profile_of):
        with pytest.raises(NoUsersError, match="no user can be left out"):
            leave_out(0)


@pytest.mark.parametrize(
    ("counts", "support", "says"),
    [
        ([[0, 1]], [1, 1], r"counts has shape \(1, 2\)"),
        ([[0, -1], [0, 0]], [1, 1], "negative value or a nonzero diagonal"),
        ([[1, 0], [0, 0]], [1, 1], "no item precedes itself"),
        ([[0, 2], [0, 0]], [1, 2], "counts exceed support"),
        ([[0, 1], [0, 0]], [9, 1], "counts exceed support"),
    ],
)
def test_impossible_counts_are_refused(counts, support, says):
    with pytest.raises(sr.InputError, match=says):
        sr.PrecedenceStatistics.from_counts(counts, support, n_users=3)
