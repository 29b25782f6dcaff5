import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import surerec as sr
from surerec.measures.learned import _near
from surerec.measures.learned._near import WINDOWS, Near
from surerec.precedence import spans


def slow(following, last, parts, own_ends, n_items):
    """Add each user's part, one after the other."""
    found = np.zeros((len(WINDOWS), n_items), np.float32)
    for item, part in zip(last.tolist(), parts, strict=True):
        for span in range(*following.offsets[item : item + 2]):
            start, stop = int(following.starts[span]), int(following.stops[span])
            if stop in own_ends:
                continue
            for place in range(start, min(stop, start + WINDOWS[-1])):
                window = int(np.searchsorted(WINDOWS, place - start, side="right"))
                found[window, following.items[place]] += part
    return found


@pytest.fixture(scope="module")
def films():
    return sr.datasets.synthetic(n_users=150, n_items=130, n_rows=6000, ties=0.2, seed=4)


@given(
    seed=st.integers(0, 10**6),
    room=st.sampled_from([0, 20_000, 1 << 26]),
    n_out=st.integers(0, 2),
    ties=st.sampled_from(["order", "strict"]),
)
def test_shares_are_added_up_user_by_user(films, seed, room, n_out, ties):
    chance, following = np.random.default_rng(seed), spans(films, "followers", ties)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_near, "_MOST_BYTES", room)
        near = Near(following)
    for _ in range(2):  # counted, and counted before
        last = chance.permutation(films.n_items)[: chance.integers(1, 6)]
        parts = chance.random(len(last)).astype(np.float32)
        ends = films.offsets[1:][chance.permutation(films.n_users)[:n_out]]
        expected = slow(following, last, parts, ends, films.n_items + 3)
        found = near.shares(last, parts, ends, None, films.n_items + 3)
        np.testing.assert_array_equal(found, expected)
        columns = chance.integers(0, films.n_items + 3, chance.integers(0, 90))
        some = near.shares(last, parts, ends, columns, films.n_items + 3)
        np.testing.assert_array_equal(some, expected[:, columns])


def test_what_more_took_than_16_bits_hold_is_not_kept(films, monkeypatch):
    following, last = spans(films, "followers", "order"), np.array([2, 0])
    parts, nobody = np.array([0.1, 0.3], np.float32), np.empty(0, np.int64)
    monkeypatch.setattr(_near, "_MOST_TAKERS", 3)
    near, columns = Near(following), np.array([5, 1])
    expected = slow(following, last, parts, nobody, films.n_items)
    found = near.shares(last, parts, nobody, columns, films.n_items)
    np.testing.assert_array_equal(found, expected[:, columns])
    assert not near._is_there.any()
