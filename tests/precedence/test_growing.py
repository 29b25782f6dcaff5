"""Growing statistics are identical to a count of all events."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import surerec as sr
from surerec.errors import InputError, UnknownIdError
from surerec.interactions import Interactions
from surerec.measures import MEASURES, FormulaMeasure, PrecedenceMeasure, Query
from surerec.precedence import GrowingStatistics, PrecedenceStatistics

_IDS = st.integers(0, 7)
_EVENTS = st.lists(st.tuples(_IDS, st.integers(100, 111), st.integers(0, 9)), max_size=60)
_STEPS = st.lists(
    st.one_of(
        st.tuples(_IDS, st.integers(98, 114), st.integers(0, 9)),
        st.integers(0, 7),  # forget this user
    ),
    max_size=40,
)


def frame(events):
    columns = ["user", "item", "time"]
    return pl.DataFrame(events, schema=dict.fromkeys(columns, pl.Int64), orient="row")


def read(events):
    return sr.read_interactions(frame(events))


def add(growing, event):
    user, item, seconds = event
    return growing.add(user, item, seconds * 1_000_000)


def by_id(array, mine, theirs):
    """Return an array by the codes of one map in the order of another's ids."""
    return array[mine.codes(theirs.ids.to_list())]


def assert_same(growing: PrecedenceStatistics, counted: PrecedenceStatistics, n_users=8):
    assert growing.n_users == counted.n_users
    mine, theirs = growing.interactions.items, counted.interactions.items
    assert sorted(mine.ids.gather(growing.items_outside(np.array([], int)))) == sorted(theirs.ids)
    assert by_id(growing.support, mine, theirs).tolist() == counted.support.tolist()
    for code, item in enumerate(theirs.ids):
        own = mine.code(item)
        for name in ("followers", "predecessors"):
            row = by_id(getattr(growing, name)(own), mine, theirs)
            assert row.tolist() == getattr(counted, name)(code).tolist()
    measures = [FormulaMeasure(name) for name in MEASURES]
    measures += [FormulaMeasure("CM1", top=3), PrecedenceMeasure(None)]
    for measure in measures:
        grown, fitted = measure.fit(growing), measure.fit(counted)
        for code, user in enumerate(counted.interactions.users.ids[:n_users]):
            own = growing.interactions.users.code(user)
            mine_scores = grown.score_query(Query.of_user(growing.interactions, own))
            scores = fitted.score_query(Query.of_user(counted.interactions, code))
            np.testing.assert_array_equal(by_id(mine_scores, mine, theirs), scores)


def read_all(growing, random_state):
    some = np.random.default_rng(random_state).permutation(growing.n_items)[:5]
    for direction in ("followers", "predecessors"):
        found = growing.rows.source(direction, some)
        rows = growing.rows.block(direction, some)
        for place, slot in enumerate(found.places):
            row = found.matrix[slot]
            assert row[: growing.n_items].tolist() == rows[place].tolist()
            assert not row[growing.n_items :].any()


@pytest.fixture(params=["all rows", "six rows"])
def _current_rows(request, monkeypatch):
    if request.param == "six rows":
        place = "surerec.precedence._growing"
        monkeypatch.setattr(f"{place}.available_memory", lambda: 0)
        monkeypatch.setattr(f"{place}._LEAST_CURRENT", 6 * 80 * 2)


@pytest.mark.usefixtures("_current_rows")
@pytest.mark.parametrize("strategy", ["dense", "bounded"])
@pytest.mark.parametrize("ties", ["order", "strict"])
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(events=_EVENTS.filter(bool), steps=_STEPS)
def test_base_and_events_equal_one_count(ties, strategy, events, steps):
    base = sr.count_precedence(read(events), ties=ties, strategy=strategy)
    before = base.support.copy(), [base.followers(item).copy() for item in range(base.n_items)]
    growing, log = GrowingStatistics(base), list(events)
    for number, step in enumerate(steps):
        if number % 3 == 0:  # rows that were read before are kept up to date
            read_all(growing, number)
        if isinstance(step, tuple):
            add(growing, step)
            log.append(step)
        elif any(user == step for user, _, _ in log):
            growing.forget(step)
            log = [event for event in log if event[0] != step]
    if log:
        counted = sr.count_precedence(read(log), ties=ties)
        assert_same(growing, counted)
        settled = growing.settled()
        assert_same(settled, counted)
        assert set(settled.interactions.users.ids) == set(counted.interactions.users.ids)
        order = np.argsort(growing.popularity)
        there = [int(item) for item in order if growing.support[item]]
        assert settled.interactions.items.ids.to_list() == [
            growing.interactions.items[item] for item in there
        ]
    assert growing.interactions.n_rows == len({(user, item) for user, item, _ in log})
    assert base.support.tolist() == before[0].tolist()
    for item, row in enumerate(before[1]):
        assert base.followers(item).tolist() == row.tolist()


def test_concatenated_profiles_include_new_events():
    films = sr.datasets.synthetic(n_users=60, n_items=30, n_rows=700, random_state=2)
    growing = GrowingStatistics(sr.count_precedence(films))
    growing.add(5, "900", int(films.times.max()) + 1)
    profiles = growing.interactions
    assert profiles.item_codes[profiles.offsets[1] : profiles.offsets[2]].tolist() == (
        profiles.consumed(1).tolist()
    )
    assert profiles.n_rows == len(profiles.times) == films.n_rows + 1
    assert profiles.until(int(films.times.max()) + 1).n_rows == films.n_rows
    assert profiles.profile(5)["item_id"].to_list()[-1] == 900
    assert films.n_rows == 700 or films.n_items < growing.n_items


@pytest.mark.parametrize("ties", ["order", "strict"])
def test_memory_grows_with_the_length_of_a_profile_of_new_items(ties):
    films = sr.datasets.synthetic(n_users=60, n_items=30, n_rows=700, random_state=2)
    growing, n_bytes = GrowingStatistics(sr.count_precedence(films, ties=ties)), []
    later = int(films.times.max()) + 1_000_000
    for place in range(400):
        growing.add(5, 1_000 + place, later + place // 2 * 1_000_000)
        n_bytes.append(growing.rows.nbytes)
    first, second = n_bytes[199] - n_bytes[0], n_bytes[399] - n_bytes[199]
    assert second < 1.2 * first  # 3 times as much if every pair of new items were kept
    counted = growing.settled()
    assert counted.ties == ties
    for item in (1_000, 1_001, 1_200, 1_399):
        mine, theirs = (each.interactions.items for each in (growing, counted))
        for name in ("followers", "predecessors"):
            row = getattr(growing, name)(mine.code(item))
            expected = getattr(counted, name)(theirs.code(item))
            assert by_id(row, mine, theirs).tolist() == expected.tolist()


def test_titles_of_new_items_are_unknown():
    titles = pl.DataFrame(
        {"item_id": [0, 1], "title": ["Alien", "Brazil"], "genres": [None, "War"]}
    )
    films = Interactions.from_profiles([0, 2], [0, 1], titles=titles)
    growing = GrowingStatistics(sr.count_precedence(films))
    growing.add(0, 7, 9)
    assert growing.interactions.titles.to_list() == ["Alien", "Brazil", None]
    assert growing.interactions.title(2) == "7"
    assert growing.interactions.genres.to_list() == [None, "War", None]
    settled = growing.settled().interactions
    assert settled.titles.to_list() == ["Alien", "Brazil", None]
    assert settled.genres.to_list() == [None, "War", None]


def test_counts_beyond_16_bits_are_counted_wide():
    n = 2**16 + 5
    base = sr.count_precedence(
        Interactions.from_profiles(np.arange(0, 2 * n - 9, 2), np.tile([0, 1], n - 5))
    )
    assert base.followers(0)[1] == 2**16 == n - 5
    narrow = sr.count_precedence(
        Interactions.from_profiles(np.arange(0, 2 * n - 15, 2), np.tile([0, 1], n - 8))
    )
    growing = GrowingStatistics(narrow)
    for user in range(n - 8, n):
        growing.add(user, 0, 0)
        growing.add(user, 1, 1)
    assert growing.followers(0).tolist() == [0, n]


def test_ids_of_another_type_are_refused_without_changes():
    growing = GrowingStatistics(sr.count_precedence(Interactions.from_profiles([0, 2], [0, 1])))
    with pytest.raises(InputError, match="Item ids of this model are integers"):
        growing.add(99, "Alien", 3)
    assert growing.n_users == 1
    assert 99 not in growing.interactions.users
    with pytest.raises(InputError, match="time"):
        growing.add(99, 1, 2**63)
    with pytest.raises(UnknownIdError):
        growing.forget(99)
    with pytest.raises(InputError, match="built from counts cannot grow"):
        GrowingStatistics(PrecedenceStatistics.from_counts([[0, 2], [1, 0]], [3, 3], n_users=3))


def test_text_ids():
    rows = [("ann", "alien", 1), ("ann", "brazil", 2), ("bob", "Ödipus", 1)]
    more = [("bob", "alien", 3), ("Zoë", "alien", 1), ("Zoë", "casablanca", 2), ("7", "8", 3)]
    schema = {"user": pl.String, "item": pl.String, "time": pl.Int64}

    def counted(events):
        frame = pl.DataFrame(events, schema=schema, orient="row")
        return sr.count_precedence(sr.read_interactions(frame))

    growing = GrowingStatistics(counted(rows))
    for event in more:
        add(growing, event)
    assert_same(growing, counted(rows + more))
    growing.add(7, 8, 4_000_000)  # a number is the text of its digits
    assert growing.interactions.n_rows == len(rows + more)
    growing.forget("Zoë")
    assert "Zoë" not in growing.interactions.users
    assert_same(growing, counted([row for row in rows + more if row[0] != "Zoë"]))
    with pytest.raises(InputError, match="is not a valid id"):
        growing.add("", "alien", 1)
