from threading import Event, Thread
from time import perf_counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import surerec as sr
from surerec.measures.learned import _ridge, _sequence
from surerec.measures.learned._ridge import ForwardRidge, Ridge, RidgeQuery, invert
from surerec.measures.learned._sequence import LONG, SHORT, Decay, SequentialRidge


def ease(interactions, penalty, history, weights, n_items=None):
    """``−P[i, j] / P[j, j]`` of ``P = (XᵀX + λI)⁻¹``, from a binary matrix of users and items."""
    consumed = np.zeros((interactions.n_users, interactions.n_items))
    owners = np.repeat(np.arange(interactions.n_users), np.diff(interactions.offsets))
    consumed[owners, interactions.item_codes] = 1
    consumed = consumed[:, :n_items]
    inverse = np.linalg.inv(consumed.T @ consumed + penalty * np.eye(consumed.shape[1]))
    return -(weights @ inverse[history]) / inverse.diagonal()


def forward(interactions, penalty, history, weights, n_items=None):
    """``(XᵀX + λI)⁻¹ Xᵀ Y`` from binary matrices of both halves."""
    before, after = np.zeros((2, interactions.n_users, interactions.n_items))
    for user in range(interactions.n_users):
        profile = interactions.consumed(user)
        middle = max(len(profile) // 2, 1)
        before[user, profile[:middle]] = 1
        after[user, profile[middle:]] = 1
    before, after = before[:, :n_items], after[:, :n_items]
    gram = before.T @ before + penalty * np.eye(before.shape[1])
    return weights @ np.linalg.solve(gram, before.T @ after)[history]


def sequential(interactions, penalty, history, weights, n_items=None, decay=SHORT):
    """``(XᵀX + λI)⁻¹ Xᵀ Y`` with a row for each position, from its past and what follows."""
    before, after = [], []
    for user in range(interactions.n_users):
        profile = interactions.consumed(user)
        for row in range(max(len(profile) - _sequence._MOST_ROWS, 1), len(profile)):
            past, ahead = np.zeros((2, interactions.n_items))
            for age, item in enumerate(profile[:row][::-1][: decay.n_past]):
                past[item] = np.exp(-age / decay.past)
            for distance, item in enumerate(profile[row:][: decay.n_ahead]):
                ahead[item] = np.exp(-distance / decay.ahead)
            before.append(past)
            after.append(ahead)
    before, after = np.array(before)[:, :n_items], np.array(after)[:, :n_items]
    gram = before.T @ before + penalty * np.eye(before.shape[1])
    return weights @ np.linalg.solve(gram, before.T @ after)[history]


both = pytest.mark.parametrize(
    ("ridge", "by_definition", "rounding"),
    [(Ridge, ease, 1e-10), (ForwardRidge, forward, 1e-10), (SequentialRidge, sequential, 1e-5)],
)


@pytest.fixture(scope="module")
def films():
    return sr.datasets.synthetic(n_users=80, n_items=50, n_rows=1500, random_state=2)


@both
@given(
    users=st.sets(st.integers(0, 79), max_size=4),
    random_state=st.integers(0, 99),
    strength=st.sampled_from([0.05, 0.5, 2.0]),
)
def test_leaving_users_out_is_fitting_without_them(
    films, ridge, by_definition, rounding, users, random_state, strength
):
    rng = np.random.default_rng(random_state)
    history = rng.permutation(films.n_items)[: rng.integers(1, 20)]
    weights = rng.random((3, len(history)))
    left_out = RidgeQuery(history, weights, [films.consumed(user).astype(int) for user in users])
    queries = [left_out, RidgeQuery(history[:1], weights[:2, :1], [])]  # scored together
    fitted = ridge.fit(films, strength)
    both = fitted.score(queries, films.n_items)
    found = both[0]
    np.testing.assert_allclose(both[1], fitted.score(queries[1:], films.n_items)[0], rtol=1e-12)
    others = films.without_users(np.array(sorted(users), dtype=np.int64))
    # λ depends on the number of users in the fit, and stays.
    expected = by_definition(others, strength * films.n_users, history, weights)
    np.testing.assert_allclose(found, expected, rtol=100 * rounding, atol=rounding)
    for columns in (np.arange(films.n_items)[::9], np.arange(films.n_items)[::2]):
        for k in range(2):
            some = fitted.score(queries[k : k + 1], films.n_items, columns)[0]
            np.testing.assert_allclose(some, both[k][:, columns], rtol=1e-9, atol=1e-12)


@both
def test_a_ridge_holds_the_most_popular_items(films, ridge, by_definition, rounding):
    fitted = ridge.fit(films, 0.3, most_items=20)
    n_known = fitted.n_items
    support = np.bincount(films.item_codes)
    assert 10 < n_known <= 20
    assert support[n_known] < support[n_known - 1]  # all items of one support, or none
    weights = np.ones((1, 3))
    query = RidgeQuery(np.array([3, 40, 8]), weights, [films.consumed(0).astype(int)])
    found = fitted.score([query], films.n_items)[0]
    assert (found[0, n_known:] == 0).all()
    others = films.without_users(np.array([0]))
    expected = by_definition(others, 0.3 * 80, np.array([3, 8]), weights[:, :2], n_known)
    np.testing.assert_allclose(found[:, :n_known], expected, rtol=100 * rounding, atol=rounding)


@pytest.mark.parametrize("decay", [SHORT, LONG, Decay(2.0, 3, 5.0, 6), Decay(1.0, 1, 1.0, 1)])
@pytest.mark.parametrize("most_rows", [200, 7])
def test_any_decay_and_number_of_rows_can_be_left_out(films, monkeypatch, decay, most_rows):
    monkeypatch.setattr(_sequence, "_MOST_ROWS", most_rows)
    fitted = SequentialRidge.fit(films, 0.1, decay=decay)
    history, users = np.array([3, 40, 8]), [5, 9]
    weights = decay.of_past(np.arange(3)[::-1])[None]
    query = RidgeQuery(history, weights, [films.consumed(user).astype(int) for user in users])
    others = films.without_users(np.array(users))
    expected = sequential(others, 0.1 * 80, history, weights, decay=decay)
    found = fitted.score([query], films.n_items)[0]
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(
    ("ridge", "module", "n_bytes"),
    [(Ridge, _ridge, 32), (ForwardRidge, _ridge, 48), (SequentialRidge, _sequence, 24)],
)
def test_a_ridge_fits_in_free_memory(films, monkeypatch, ridge, module, n_bytes):
    monkeypatch.setattr(module, "available_memory", lambda: n_bytes * 25 * 25)
    fitted = ridge.fit(films)
    assert 15 < fitted.n_items <= 25
    assert f"{fitted.n_items} items" in repr(fitted)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_other_threads_run_while_a_matrix_is_inverted(dtype):
    """With scipy's functions none did, so that no clock of a progress bar moved."""
    rows = np.random.default_rng(0).random((1500, 1500))
    gram = (rows @ rows.T + 1500 * np.eye(1500)).astype(dtype)
    expected, done, ticks = np.linalg.inv(gram), Event(), []

    def tick():
        while not done.wait(0.001):
            ticks.append(perf_counter())

    thread = Thread(target=tick, daemon=True)
    thread.start()
    begin = perf_counter()
    inverse = invert(gram)
    end = perf_counter()
    done.set()
    thread.join()
    np.testing.assert_allclose(inverse, expected, atol=1e-6)
    assert sum(begin < each < end for each in ticks) >= 10  # at most 3 where it holds the GIL
