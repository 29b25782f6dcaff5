"""Rows counted when asked for: shared, kept, given up; and what would not fit is refused."""

import gc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import surerec as sr
from surerec.precedence import source
from surerec.precedence._kernels import compress_rows
from surerec.precedence._rows import read_row


@pytest.fixture(scope="module")
def films():
    return sr.datasets.synthetic(200, 300, 6_000, ties=0.3, seed=8)


def bounded(films, n_cached):
    """A store that holds nothing, and keeps so many counted rows."""
    statistics = sr.count_precedence(films, strategy="bounded", memory=0)
    rows = statistics.rows
    cache = 2 * films.n_items * n_cached
    return type(rows)(rows.spans["followers"], rows.spans["predecessors"], rows.held, cache)


def read(rows, n_rows):
    out = np.empty((n_rows, rows.matrix.shape[1]), dtype=np.uint32)
    for place in range(n_rows):
        read_row(rows, place, out[place])
    return out


def test_rows_that_are_read_stay_where_they_are_until_nobody_does(films):
    store, expected = bounded(films, 4), sr.count_precedence(films, strategy="dense").rows
    first = store.source("followers", np.array([0, 1, 2, 3]))
    assert store._cache.n_kept == 4
    second = store.source("predecessors", np.array([4, 5]))  # no room: a matrix of its own
    assert not np.shares_memory(first.counted, second.counted)
    for rows, way, items in ((first, "followers", range(4)), (second, "predecessors", (4, 5))):
        matrix = expected.block(way, np.array(items)).matrix
        np.testing.assert_array_equal(read(rows, len(items)), matrix[list(items)])
    shared = first.counted
    del first, rows
    gc.collect()
    third = store.source("predecessors", np.array([4, 5, 6]))  # now there is room
    assert np.shares_memory(third.counted, shared)
    assert store._cache.n_kept == 4


def test_the_longest_unused_row_leaves_first(films):
    store = bounded(films, 2)
    for item in (0, 1, 0, 2):
        store.followers(item)
    assert list(store._cache._slots) == [("followers", 0), ("followers", 2)]


def test_many_threads_at_once_read_what_one_reads(films):
    expected = sr.count_precedence(films, strategy="dense").rows
    store = bounded(films, 12)  # far fewer than are asked for
    rng = np.random.default_rng(0)
    questions = [rng.choice(films.n_items, 5, replace=False) for _ in range(400)]

    def ask(items):
        way = "followers" if items[0] % 2 else "predecessors"
        found = read(source(store, way, items), len(items))
        return np.array_equal(found, expected.block(way, items).matrix[items])

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(ask, questions))
    gc.collect()
    cache = store._cache
    assert not cache._readers.any()
    assert sorted([*cache._free, *cache._slots.values()]) == list(range(12))


def test_a_profile_longer_than_memory_is_refused_before_the_counting(monkeypatch, films):
    monkeypatch.setattr("surerec.precedence._rows._SURELY_FITS", 0)
    monkeypatch.setattr("surerec.precedence._rows.available_memory", lambda: 5_000)
    for strategy in ("bounded", "on-demand"):
        counts = sr.count_precedence(films, strategy=strategy, memory=0)
        model = sr.InductiveConformal().fit(counts)
        with pytest.raises(sr.InputError, match=r"profile of 20 items need 12\.0 kB, and 5\.0 kB"):
            model.recommend(history=films.items.ids[:40].to_list(), confidence=0.9)


def test_more_interactions_than_can_be_indexed_are_refused_before_the_work(monkeypatch, films):
    monkeypatch.setattr("surerec.precedence._statistics.available_memory", lambda: 100_000)
    with pytest.raises(
        sr.InputError, match=r"Indexing [0-9,]+ interactions needs 19\d\.\d kB, and"
    ):
        sr.count_precedence(films, strategy="bounded", memory=0)


def test_a_catalogue_that_cannot_be_numbered_is_refused_before_the_work(monkeypatch, films):
    monkeypatch.setattr("surerec.precedence._statistics._MOST_ITEMS", 100)
    with pytest.raises(sr.InputError, match=r"300 items is beyond the 100 .* would need 600 bytes"):
        sr.count_precedence(films)


@given(
    st.integers(0, 3), st.integers(1, 70), st.integers(0, 40), st.sampled_from([16, 32]), st.data()
)
def test_rows_are_compressed_as_numpy_would(n_rows, n_items, most, bits, data):
    top = 2**17 if bits == 32 else 2**16 - 1
    count = st.just(0) | st.integers(0, 2) | st.integers(0, top)
    cells = data.draw(st.lists(count, min_size=n_rows * n_items, max_size=n_rows * n_items))
    rows = np.array(cells, dtype=f"uint{bits}").reshape(n_rows, n_items)
    ends, stay, items, counts = compress_rows(rows, most)
    found = [(0, [], [])]
    for row, stays, end in zip(rows, stay, ends, strict=True):
        places = np.flatnonzero(row)
        assert stays == (len(places) > most and row.max() < 2**16)
        kept = [] if stays else places.tolist()
        found.append((found[-1][0] + len(kept), kept, row[kept].tolist()))
        assert end == found[-1][0]
    assert items.tolist() == [item for _, kept, _ in found for item in kept]
    assert counts.tolist() == [count for _, _, values in found for count in values]
