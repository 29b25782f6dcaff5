"""Profiles built from coded rows, against sorting in plain Python."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from surerec.interactions import build_profiles
from tests import oracle

few, wide = st.integers(0, 3), st.integers(-(2**63), 2**63 - 1)
times = st.one_of(few, few.map(lambda t: t * 1_000_000 - 7), wide)
some_rows = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4), times), min_size=1)


@given(some_rows)
def test_profiles_agree_with_sorting_in_plain_python(rows):
    users, items, times = map(np.array, zip(*rows, strict=True))
    found = build_profiles(users.astype(np.uint32), items.astype(np.uint32), times, 7, 5)
    pairs = list(zip(found.items_kept[found.items].tolist(), found.times.tolist(), strict=True))
    ends = zip(found.offsets, found.offsets[1:], strict=False)
    profiles = {
        user: pairs[start:stop]
        for user, (start, stop) in zip(found.users_kept.tolist(), ends, strict=True)
    }
    assert profiles == oracle.profiles(rows)
    assert found.n_repeats == len(rows) - len(pairs)
