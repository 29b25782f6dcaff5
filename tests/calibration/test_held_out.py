import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import surerec as sr
from surerec.calibration import check_horizon, profile_cases, window_cases
from surerec.errors import InputError

profiles = st.lists(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 40)), min_size=1, max_size=12),
    min_size=1,
    max_size=6,
)


def read(rows):
    flat = [(user, *row) for user, consumed in enumerate(rows) for row in consumed]
    frame = pl.DataFrame(flat, schema=["user", "item", "time"], orient="row")
    return sr.read_interactions(frame, time_format="us")


@given(profiles, st.sampled_from([0.2, 0.4, 0.9, 1, 2, 5]), st.integers(1, 3))
def test_history_and_future_make_up_the_profile(rows, horizon, min_history):
    consumed = read(rows)
    lengths = np.diff(consumed.offsets)
    n_future = (
        np.maximum(1, np.floor(horizon * lengths + 0.5)).astype(int)
        if isinstance(horizon, float)
        else np.full(len(lengths), horizon)
    )
    expected = [u for u in range(consumed.n_users) if lengths[u] - n_future[u] >= min_history]
    if not expected:
        with pytest.raises(InputError, match=f"with horizon={horizon} no user"):
            profile_cases(consumed, horizon, min_history=min_history)
        return
    cases = profile_cases(consumed, horizon, min_history=min_history)
    assert cases.users.tolist() == expected
    for case, user in enumerate(expected):
        whole = consumed.item_codes[consumed.offsets[user] : consumed.offsets[user + 1]].tolist()
        assert [*cases.known(case), *cases.future(case)] == whole
        assert len(cases.future(case)) == n_future[user]


@given(profiles, st.integers(0, 40), st.integers(1, 20), st.sampled_from([0.4, 1, 3]))
def test_a_window_holds_out_its_interactions(rows, begin, length, horizon):
    consumed = read(rows)
    expected = {}
    for user in range(consumed.n_users):
        where = slice(consumed.offsets[user], consumed.offsets[user + 1])
        items, times = consumed.item_codes[where], consumed.times[where]
        future = items[(times >= begin) & (times < begin + length)].tolist()
        if not isinstance(horizon, float):
            future = future[:horizon]
        known = items[times < begin].tolist()
        if known and future:
            expected[user] = known, future
    if not expected:
        with pytest.raises(InputError, match="no user with 1 known items consumed an item"):
            window_cases(consumed, begin, begin + length, horizon, min_history=1)
        return
    cases = window_cases(consumed, begin, begin + length, horizon, min_history=1)
    found = {
        int(user): (cases.known(case).tolist(), cases.future(case).tolist())
        for case, user in enumerate(cases.users)
    }
    assert found == expected
    first, last = cases.period()
    assert begin <= first <= last < begin + length


@pytest.mark.parametrize("wrong", [0, -1, 1.0, 0.0, 1.5, True, "5", None])
def test_an_invalid_horizon_is_rejected(wrong):
    with pytest.raises(InputError, match="horizon is"):
        check_horizon(wrong)


def test_a_sample_depends_on_the_random_state():
    films = sr.datasets.synthetic(n_users=80, n_items=40, n_rows=1200, random_state=3)
    cases = profile_cases(films, 0.4)
    assert cases.sample(10, 1).users.tolist() == cases.sample(10, 1).users.tolist()
    assert cases.sample(10, 1).users.tolist() != cases.sample(10, 2).users.tolist()
    assert cases.sample(10_000, 1).users.tolist() == cases.users.tolist()


@given(profiles, st.integers(0, 40))
def test_until_drops_later_interactions_and_keeps_codes(rows, time):
    consumed = read(rows)
    past = consumed.until(time)
    assert past.users is consumed.users
    assert past.items is consumed.items
    for user in range(consumed.n_users):
        where = slice(consumed.offsets[user], consumed.offsets[user + 1])
        kept = consumed.item_codes[where][consumed.times[where] < time].tolist()
        assert past.item_codes[past.offsets[user] : past.offsets[user + 1]].tolist() == kept
