import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from surerec.measures.learned._recency import RECENCY, SPANS, Recency

import surerec as sr
from surerec._calendar import DAY

N_ITEMS = 5
profiles = st.lists(
    st.lists(
        st.tuples(st.integers(0, N_ITEMS - 1), st.integers(0, 500)),
        min_size=1,
        max_size=4,
        unique_by=lambda row: row[0],
    ).map(lambda rows: sorted(rows, key=lambda row: row[1])),
    min_size=1,
    max_size=6,
)


def slow(taken, item, day):
    """Look at every row of the others."""
    rows = [row for profile in taken for row in profile if row[1] < day]

    def share(since):
        here = [when for what, when in rows if what == item and when >= since]
        of = [when for _, when in rows if when >= since]
        return math.log((len(here) + 0.5) * N_ITEMS / (len(of) + 50))

    lately = [share(day - span) for span in SPANS]
    until = share(-math.inf)
    days = [when for what, when in rows if what == item]
    age = math.log1p(day - min(days)) if days else -1
    return [*lately, until, lately[1] - until, lately[0] - lately[2], age]


@given(profiles, st.integers(0, 520), st.data())
def test_takers_are_counted_by_day_without_some_users(taken, day, data):
    films = sr.Interactions(
        sr.interactions.IdMap(list(range(len(taken)))),
        sr.interactions.IdMap(list(range(N_ITEMS))),
        np.cumsum([0, *map(len, taken)]),
        np.array([what for rows in taken for what, _ in rows], dtype=np.uint32),
        np.array([when * DAY + 17 for rows in taken for _, when in rows]),
    )
    users = data.draw(st.sets(st.integers(0, len(taken) - 1)))
    own = [np.arange(*films.offsets[user : user + 2]) for user in sorted(users)]
    others = [rows for code, rows in enumerate(taken) if code not in users]
    lately, mine = Recency.of(films), np.concatenate([np.empty(0, dtype=np.int64), *own])
    found = lately.features(day, np.arange(N_ITEMS), mine)
    assert found.shape == (len(RECENCY), N_ITEMS)
    more = lately.features(day, np.arange(N_ITEMS + 2), mine)  # items that came since
    np.testing.assert_array_equal(lately.features_of_all(day, N_ITEMS, mine), found)
    np.testing.assert_array_equal(lately.features_of_all(day, N_ITEMS + 2, mine), more)
    for item in range(N_ITEMS):
        np.testing.assert_allclose(found[:, item], slow(others, item, day), rtol=1e-5, atol=1e-5)
