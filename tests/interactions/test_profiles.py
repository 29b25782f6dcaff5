"""Profiles built from coded rows, against sorting in plain Python."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from surerec.interactions import build_profiles

SECOND = 1_000_000
few, wide = st.integers(0, 3), st.integers(-(2**63), 2**63 - 1)
instants = st.one_of(few, few.map(lambda t: t * SECOND - 7), wide)
some_rows = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4), instants), min_size=1)


def slow_profiles(rows):
    """Sort by user and time, which is stable, and keep what a user has not taken before."""
    profiles = {}
    for user, item, time in sorted(rows, key=lambda row: (row[0], row[2])):
        consumed = profiles.setdefault(user, [])
        if item not in [earlier for earlier, _ in consumed]:
            consumed.append((item, time))
    return profiles


@given(some_rows)
def test_profiles_are_those_of_sorting_in_plain_python(rows):
    users, items, times = zip(*rows, strict=True)
    found = build_profiles(
        np.array(users, dtype=np.uint32),
        np.array(items, dtype=np.uint32),
        np.array(times, dtype=np.int64),
        7,
        5,
    )
    given_items = found.items_kept[found.items].tolist()
    pairs = list(zip(given_items, found.times.tolist(), strict=True))
    ends = found.offsets.tolist()
    profiles = {
        user: pairs[start:stop]
        for user, start, stop in zip(
            found.users_kept.tolist(), ends[:-1], ends[1:], strict=True
        )
    }  # fmt: skip
    assert profiles == slow_profiles(rows)
    assert found.n_repeats == len(rows) - len(pairs)
