import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import surerec as sr
from surerec.errors import NoUsersError
from tests.golden.test_examples import COUNTS, SUPPORT
from tests.recommenders.small_profiles import read

ties_rules = st.sampled_from(["order", "strict"])
strategies = st.sampled_from(["dense", "bounded"])


def matrices(statistics):
    """Both directions as matrices, both of which should be PC."""
    items = range(statistics.n_items)
    following = np.array([statistics.followers(i) for i in items])
    preceding = np.array([statistics.predecessors(i) for i in items])
    return following, preceding.T


def test_leaving_a_user_out_does_not_change_the_original():
    interactions = read([(0, 0, 0), (0, 1, 1), (1, 0, 0), (1, 1, 1)])
    statistics = sr.count_precedence(interactions)
    statistics.without_user(0).followers(0)
    assert statistics.followers(0).tolist() == [0, 2]
    assert statistics.support.tolist() == [2, 2]
    with pytest.raises(ValueError, match="read-only"):
        statistics.followers(0)[0] = 9


def test_results_do_not_depend_on_threads(monkeypatch):
    interactions, found = sr.datasets.synthetic(2_000, 150, 80_000, random_state=2), []
    for threads in ("1", "2", "7"):
        monkeypatch.setenv("SUREREC_THREADS", threads)
        found.append(np.stack(matrices(sr.count_precedence(interactions))))
    assert (found[0] == found[1]).all()
    assert (found[0] == found[2]).all()


def test_the_automatic_strategy_is_bounded_if_dense_rows_do_not_fit(monkeypatch):
    interactions = read([(1, i, i) for i in range(50)])
    monkeypatch.setattr("surerec.precedence._statistics.available_memory", lambda: 15_000)
    statistics = sr.count_precedence(interactions)
    assert type(statistics.rows).__name__ == "BoundedRows"
    monkeypatch.setattr("surerec.precedence._statistics.available_memory", lambda: 9_000)
    with pytest.raises(sr.InputError, match=r"50 items need 10.0 kB, and 9.0 kB is free"):
        sr.count_precedence(interactions, strategy="dense")


def test_unknown_options_are_refused():
    interactions = read([(1, 1, 1)])
    with pytest.raises(sr.InputError, match="ties is 'loose'; choose one of order, strict"):
        sr.count_precedence(interactions, ties="loose")
    with pytest.raises(sr.InputError, match="strategy is 'sparse'"):
        sr.count_precedence(interactions, strategy="sparse")


@pytest.mark.parametrize("ties", ["order", "strict"])
def test_results_do_not_depend_on_the_budget(ties):
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
    """Users who all consumed items 0 and 1 in this order, and then one of 2 … 9."""
    users = np.arange(n_users)
    items = np.column_stack([np.zeros_like(users), np.ones_like(users), 2 + users % 8])
    return sr.Interactions.from_profiles(np.arange(0, 3 * n_users + 1, 3), items.ravel())


@pytest.mark.parametrize("strategy", ["dense", "bounded"])
@pytest.mark.parametrize(("n_users", "bits"), [(2**16 - 1, 16), (2**16, 32)])
def test_counts_have_the_narrowest_type(n_users, bits, strategy):
    statistics = sr.count_precedence(crowd_of(n_users), strategy=strategy, memory=10**6)
    assert statistics.rows.followers(0).dtype == f"uint{bits}"
    assert statistics.rows.predecessors(1).dtype == f"uint{bits}"
    assert statistics.followers(0)[1] == statistics.predecessors(1)[0] == n_users
    assert statistics.followers(0).dtype == np.uint32
    for item in range(2, 10):
        consumed = int(np.count_nonzero(np.arange(n_users) % 8 == item - 2))
        assert statistics.followers(1)[item] == statistics.predecessors(item)[1] == consumed


@st.composite
def some_profiles(draw):
    """Profiles of distinct items with times, over a catalogue of a few groups of 16."""
    n_items = draw(st.integers(1, 90))
    item = st.integers(0, n_items - 1)
    found = draw(st.lists(st.lists(item, max_size=40, unique=True), min_size=1, max_size=12))
    # One user consumes the last item, so that the catalogue has the drawn length.
    profiles = [*found, [n_items - 1]]
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    times = [np.sort(random.integers(0, 10, len(p))) for p in profiles]
    offsets = np.concatenate(([0], np.cumsum([len(p) for p in profiles])))
    items = np.concatenate([np.array(p, dtype=np.uint32) for p in profiles])
    return sr.Interactions.from_profiles(offsets, items, np.concatenate(times))


def slowly(data, ties):
    """Count pair by pair."""
    counts = np.zeros((data.n_items, data.n_items), dtype=int)
    for user in range(data.n_users):
        items, times = data.consumed(user), data.times_of(user)
        for i in range(len(items)):
            for j in range(i + 1, len(items)):
                counts[items[i], items[j]] += ties == "order" or times[i] < times[j]
    return counts


def with_most(monkeypatch, most):
    """Pretend that 16 bits hold at most `most`."""
    monkeypatch.setattr("surerec.precedence._lanes._MOST_IN_16_BITS", most)
    monkeypatch.setattr("surerec.precedence._spans._MOST_IN_16_BITS", most)


@given(some_profiles(), ties_rules, strategies)
def test_counts_agree_with_counting_pair_by_pair(data, ties, strategy):
    statistics, expected = (
        sr.count_precedence(data, ties=ties, strategy=strategy),
        slowly(data, ties),
    )
    for counts in matrices(statistics):
        np.testing.assert_array_equal(counts, expected)
    assert statistics.n_users == data.n_users
    assert statistics.support.tolist() == np.bincount(data.item_codes).tolist()


@given(some_profiles(), ties_rules, strategies, st.data())
def test_leaving_users_out_is_counting_without_them(data, ties, strategy, draw):
    users = draw.draw(st.lists(st.integers(0, data.n_users - 1), max_size=5))  # with repeats
    rest = data.without_users(np.array(users, dtype=np.int64))
    left = sr.count_precedence(data, ties=ties, strategy=strategy).without_users(users)
    expected = slowly(rest, ties)
    for counts in matrices(left):
        np.testing.assert_array_equal(counts, expected)
    support = np.bincount(rest.item_codes, minlength=data.n_items)
    assert left.support.tolist() == support.tolist()
    assert left.n_users == data.n_users - len(set(users))
    some = draw.draw(st.lists(st.integers(0, data.n_items - 1), min_size=1))
    for direction, matrix in (("followers", expected), ("predecessors", expected.T)):
        np.testing.assert_array_equal(left.rows.block(direction, np.array(some)), matrix[some])


@pytest.mark.parametrize("ties", ["order", "strict"])
@pytest.mark.parametrize(("most", "wide"), [(40, True), (90, False)])
def test_counts_beyond_16_bits_are_wide(monkeypatch, ties, most, wide):
    data = sr.datasets.synthetic(150, 130, 6_000, ties=0.3, sequels=0.0, random_state=3)
    expected = slowly(data, ties)
    assert expected.max() in range(41, 90)
    assert (np.bincount(data.item_codes) > 90).sum() > 1
    with_most(monkeypatch, most)
    statistics = sr.count_precedence(data, ties=ties)
    assert statistics.rows.followers(0).dtype == (np.uint32 if wide else np.uint16)
    for counts in matrices(statistics):
        np.testing.assert_array_equal(counts, expected)


def test_wide_counts_beyond_the_budget_are_bounded(monkeypatch):
    data = sr.datasets.synthetic(150, 130, 6_000, random_state=3)
    narrow = 2 * 2 * data.n_items**2
    assert sr.count_precedence(data, memory=narrow).rows.kind == "dense"
    with_most(monkeypatch, 40)
    assert sr.count_precedence(data, memory=narrow).rows.kind == "bounded"
    assert sr.count_precedence(data, memory=2 * narrow).rows.kind == "dense"


def test_no_users_have_no_counts():
    assert matrices(sr.count_precedence(sr.Interactions.from_profiles([0, 0], [])))[0].size == 0


def test_known_counts_have_no_profiles():
    statistics = sr.PrecedenceStatistics.from_counts(COUNTS, SUPPORT, n_users=30)
    profiles = statistics.interactions
    assert (statistics.n_users, statistics.has_profiles) == (30, False)
    assert (profiles.n_users, profiles.n_rows, profiles.titles) == (0, 0, None)
    assert profiles.items.ids.to_list() == list(range(10))
    with pytest.raises(NoUsersError, match="have no users: no user can be scored"):
        statistics.require_profiles("no user can be scored")


def test_known_counts_cannot_leave_a_user_out():
    statistics = sr.PrecedenceStatistics.from_counts(COUNTS, SUPPORT, n_users=30)
    for leave_out in (statistics.without_user, statistics.consumed_by, statistics.profile_of):
        with pytest.raises(NoUsersError, match="no user can be left out"):
            leave_out(0)


@pytest.mark.parametrize(
    ("counts", "support", "says"),
    [
        ([[0, 1]], [1, 1], r"counts has shape \(1, 2\)"),
        ([[0, -1], [0, 0]], [1, 1], "counts has a negative value"),
        ([[1, 0], [0, 0]], [1, 1], "an item that precedes itself"),
        ([[0, 2], [0, 0]], [1, 2], "counts must not exceed support"),
        ([[0, 1], [0, 0]], [9, 1], "counts must not exceed support"),
    ],
)
def test_impossible_counts_are_refused(counts, support, says):
    with pytest.raises(sr.InputError, match=says):
        sr.PrecedenceStatistics.from_counts(counts, support, n_users=3)
