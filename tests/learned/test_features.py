import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import surerec as sr
from surerec.errors import InputError
from surerec.measures.learned import FEATURES, Ridge
from surerec.measures.learned._features import Features, describe_features
from tests.learned.slow_features import SlowFeatures

N_ITEMS = 12
SECOND = 1_000_000
DATES = 900_000_000 * SECOND

a_profile = st.lists(st.integers(0, N_ITEMS - 1), min_size=1, max_size=N_ITEMS, unique=True)


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SUREREC_THREADS", "1")
        yield


class Case:
    """Random profiles with ties in time, a history, and up to three users to leave out."""

    def __init__(self, data):
        consumed = data.draw(st.lists(a_profile, min_size=2, max_size=8), label="profiles")
        self.ties = data.draw(st.sampled_from(["order", "strict"]), label="ties")
        self.strategy = data.draw(st.sampled_from(["dense", "bounded"]))
        gaps = st.sampled_from([0, 0, 1, 90_000])
        times = []
        for profile in consumed:
            steps = [data.draw(gaps) for _ in profile]
            times.append((DATES + SECOND * np.cumsum(steps)).tolist())
        self.interactions = sr.Interactions.from_profiles(
            np.cumsum([0, *map(len, consumed)]),
            np.concatenate(consumed),
            np.concatenate(times),
            item_ids=range(N_ITEMS),
        )
        users = st.lists(st.integers(0, len(consumed) - 1), max_size=3, unique=True)
        self.users = tuple(data.draw(users, label="left out"))
        items = st.integers(0, self.interactions.n_items - 1)
        self.history = data.draw(st.lists(items, min_size=1, max_size=N_ITEMS, unique=True))
        self.ridge = Ridge.fit(self.interactions)
        self.cache = data.draw(st.sampled_from([0, 1 << 26]), label="bytes of cached counts")

    def features(self):
        statistics = sr.count_precedence(
            self.interactions, ties=self.ties, strategy=self.strategy, memory=None
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("surerec.measures.learned._items._MOST_BYTES", self.cache)
            return Features(statistics, self.ridge, ["sequence"])

    def slow(self):
        """Return the reference without the users."""
        data = self.interactions
        profiles = []
        for user, (a, b) in enumerate(zip(data.offsets[:-1], data.offsets[1:], strict=True)):
            rows = zip(data.item_codes[a:b].tolist(), data.times[a:b].tolist(), strict=True)
            if user not in self.users:
                profiles.append(list(rows))
        return SlowFeatures(profiles, data.n_items, self.ties, 1.5 * data.n_users)


@given(st.data())
def test_features_equal_the_reference_without_the_users(data):
    case = Case(data)
    slow = case.slow()
    found = case.features().of(np.array(case.history), without=case.users)
    assert found.dtype == np.float32
    for item in set(range(case.interactions.n_items)) - set(case.history):
        expected = slow.of(case.history, item)
        ridges = "sequence", "long_sequence"  # they are in test_ridges.py
        names = [*describe_features(["sequence"])]
        assert list(expected) == [name for name in names if name not in ridges]
        # Half a minute in days: what 32 bits leave of a date.
        values = np.delete(found[:, item], [names.index(name) for name in ridges])
        np.testing.assert_allclose(values, list(expected.values()), rtol=3e-5, atol=3e-5)


@given(st.data())
def test_some_columns_equal_those_of_all(data):
    case = Case(data)
    features = case.features()
    columns = np.array(
        data.draw(st.lists(st.integers(0, case.interactions.n_items - 1), min_size=1))
    )
    history = np.array(case.history)
    every = features.of(history, without=case.users)
    some = features.of(history, without=case.users, columns=columns)
    np.testing.assert_allclose(some, every[:, columns], rtol=1e-6, atol=1e-6)
    exact = [row for row, name in enumerate(FEATURES) if "ridge" not in name]
    np.testing.assert_array_equal(some[exact], every[np.ix_(exact, columns)])


@pytest.mark.parametrize("ties", ["order", "strict"])
def test_features_do_not_depend_on_the_storage_of_rows(ties):
    """In a large catalogue most rows are compressed, and most columns are empty."""
    goods = sr.datasets.synthetic(n_users=150, n_items=1500, n_rows=7500, ties=0.3, random_state=8)
    ridge = Ridge.fit(goods, most_items=50)
    dense, bounded, few = (
        Features(sr.count_precedence(goods, ties=ties, **how), ridge)
        for how in ({"strategy": "dense"}, {"strategy": "bounded"}, {"memory": 300_000})
    )
    held = bounded.statistics.rows.held["followers"]
    assert len(held.offsets) > 500  # compressed, and some of them are not
    assert len(held.dense) > 10
    rng = np.random.default_rng(1)
    for user in np.argsort(-np.diff(goods.offsets))[[0, 1, 40, 100]].tolist():
        history = goods.consumed(user).astype(np.int64)[:60]
        for without in ((), (user,), (user, 3)):
            for n_columns in (None, 20, 1000):
                columns = None if n_columns is None else rng.permutation(goods.n_items)[:n_columns]
                expected = dense.of(history, without=without, columns=columns)
                for other in (bounded, few):
                    found = other.of(history, without=without, columns=columns)
                    np.testing.assert_array_equal(found, expected)


def test_an_empty_history_is_refused():
    films = sr.datasets.synthetic(n_users=20, n_items=10, n_rows=100, random_state=3)
    with pytest.raises(InputError, match="history is empty"):
        Features(sr.count_precedence(films)).of(np.empty(0, dtype=np.int64))
