"""Sixteen rows in one walk give what counting pair by pair gives, however wide counts are."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import surerec as sr
from surerec.precedence import _lanes, lanes


@st.composite
def some_profiles(draw):
    """Profiles of distinct items and their instants, over a catalogue of a few groups."""
    n_items = draw(st.integers(1, 90))
    item = st.integers(0, n_items - 1)
    found = draw(st.lists(st.lists(item, max_size=40, unique=True), min_size=1, max_size=12))
    # The last item is taken by somebody, so that the catalogue is as long as it was drawn.
    profiles = [*found, [n_items - 1]]
    times = [np.sort(np.array(draw(_instants(len(p))), dtype=np.int64)) for p in profiles]
    offsets = np.concatenate(([0], np.cumsum([len(p) for p in profiles])))
    items = np.concatenate([np.array(p, dtype=np.uint32) for p in profiles])
    return sr.Interactions.from_profiles(offsets, items, np.concatenate(times))


def _instants(length):
    return st.lists(st.integers(0, 9), min_size=length, max_size=length)


def slowly(data, ties):
    """Counts pair by pair."""
    counts = np.zeros((data.n_items, data.n_items), dtype=int)
    for user in range(data.n_users):
        items, times = data.taken(user), data.times_of(user)
        for i in range(len(items)):
            for j in range(i + 1, len(items)):
                counts[items[i], items[j]] += ties == "order" or times[i] < times[j]
    return counts


def both(statistics):
    items = range(statistics.n_items)
    rows = statistics.rows
    return (
        np.array([rows.followers(i) for i in items]),
        np.array([rows.predecessors(i) for i in items]).T,
    )


def with_most(monkeypatch, most):
    """Take `most` for what 16 bits hold."""
    monkeypatch.setattr("surerec.precedence._lanes._MOST_IN_16_BITS", most)
    monkeypatch.setattr("surerec.precedence._spans._MOST_IN_16_BITS", most)


@given(some_profiles(), st.sampled_from(["order", "strict"]))
def test_both_directions_are_counted_as_pair_by_pair(data, ties):
    expected = slowly(data, ties)
    for counts in both(sr.count_precedence(data, ties=ties, strategy="dense")):
        assert counts.dtype == np.uint16
        np.testing.assert_array_equal(counts, expected)
    np.testing.assert_array_equal(lanes(data, ties).count_all(lambda _: None), expected)


@pytest.mark.parametrize("ties", ["order", "strict"])
@pytest.mark.parametrize(("most", "wide"), [(40, True), (90, False)])
def test_counts_that_pass_what_16_bits_hold_are_counted_once_and_wider(
    monkeypatch, ties, most, wide
):
    data = sr.datasets.synthetic(150, 130, 6_000, ties=0.3, sequels=0.0, seed=3)
    expected = slowly(data, ties)
    assert expected.max() in range(41, 90)
    assert (np.bincount(data.items_taken) > 90).sum() > 1
    with_most(monkeypatch, most)
    for counts in both(sr.count_precedence(data, ties=ties)):
        assert counts.dtype == (np.uint32 if wide else np.uint16)
        np.testing.assert_array_equal(counts, expected)


def test_the_look_at_popular_items_ends_with_the_first_that_is_too_large(monkeypatch):
    data = sr.datasets.synthetic(150, 400, 20_000, seed=3)
    with_most(monkeypatch, 20)
    monkeypatch.setenv("SUREREC_THREADS", "1")
    index = lanes(data, "order")
    popular = index.count_popular()
    assert popular.counter == np.uint32
    assert list(popular.counted) == [0]
    assert np.unique(np.flatnonzero(index.support > 20) // _lanes._ITEMS).size > 1


def test_wide_counts_beyond_the_budget_are_held_as_far_as_it_goes(monkeypatch):
    data = sr.datasets.synthetic(150, 130, 6_000, seed=3)
    narrow = 2 * 2 * data.n_items**2
    assert sr.count_precedence(data, memory=narrow).rows.kind == "dense"
    with_most(monkeypatch, 40)
    assert sr.count_precedence(data, memory=narrow).rows.kind == "bounded"
    assert sr.count_precedence(data, memory=2 * narrow).rows.kind == "dense"


def test_nobody_and_nothing_is_counted():
    assert both(sr.count_precedence(sr.Interactions.from_profiles([0, 0], [])))[0].size == 0
