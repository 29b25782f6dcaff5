"""Rows are the same wherever they are stored; what does not fit in memory is refused."""

import gc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import surerec as sr
from surerec.precedence import rows_from
from surerec.precedence.kernels import compress_rows, load, pick, read_rows
from tests.rows import scattered

FILMS = sr.datasets.synthetic(n_users=60, n_items=200, n_rows=700, random_state=5)
KINDS = ["dense", "bounded"]


@pytest.fixture(scope="module")
def films():
    return sr.datasets.synthetic(200, 300, 6_000, ties=0.3, random_state=8)


def bounded(films, n_cached):
    """A store without stored rows that caches `n_cached` rows."""
    statistics = sr.count_precedence(films, strategy="bounded", memory=0)
    rows = statistics.rows
    cache = 2 * films.n_items * n_cached
    return type(rows)(rows.spans["followers"], rows.spans["predecessors"], rows.held, cache)


def read(rows, n_rows):
    out = np.empty((n_rows, rows.n_columns), dtype=np.uint32)
    read_rows(rows, rows.n_columns, out)
    return out


def test_rows_in_use_are_not_replaced(films):
    store, expected = bounded(films, 4), sr.count_precedence(films, strategy="dense").rows
    first = store.source("followers", np.array([0, 1, 2, 3]))
    assert store._cache.n_kept == 4
    second = store.source("predecessors", np.array([4, 5]))  # no free row: a separate matrix
    assert not np.shares_memory(first.counted, second.counted)
    for rows, way, items in ((first, "followers", range(4)), (second, "predecessors", (4, 5))):
        matrix = expected.block(way, np.array(items))
        np.testing.assert_array_equal(read(rows, len(items)), matrix)
    shared = first.counted
    del first, rows
    gc.collect()
    third = store.source("predecessors", np.array([4, 5, 6]))  # now rows are free
    assert np.shares_memory(third.counted, shared)
    assert store._cache.n_kept == 4


def test_many_threads_read_correct_rows(films):
    expected = sr.count_precedence(films, strategy="dense").rows
    store = bounded(films, 12)  # far fewer than requested
    rng = np.random.default_rng(0)
    requests = [rng.choice(films.n_items, 5, replace=False) for _ in range(400)]

    def check(items):
        way = "followers" if items[0] % 2 else "predecessors"
        found = read(store.source(way, items), len(items))
        return np.array_equal(found, expected.block(way, items))

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(check, requests))
    gc.collect()
    cache = store._cache
    assert not cache._readers.any()
    assert sorted([*cache._free, *cache._slots.values()]) == list(range(12))


def test_a_history_that_does_not_fit_in_memory_is_refused(monkeypatch, films):
    monkeypatch.setattr("surerec.precedence._rows._SURELY_FITS", 0)
    monkeypatch.setattr("surerec.precedence._rows.available_memory", lambda: 5_000)
    counts = sr.count_precedence(films, strategy="bounded", memory=0)
    model = sr.InductiveConformal().fit(counts)
    with pytest.raises(sr.InputError, match=r"history of 20 items needs 12\.0 kB, and 5\.0 kB"):
        model.recommend(history=films.items.ids[:40].to_list(), confidence=0.9)


def test_too_many_interactions_are_refused_before_the_work(monkeypatch, films):
    monkeypatch.setattr("surerec.precedence._statistics.available_memory", lambda: 100_000)
    with pytest.raises(
        sr.InputError, match=r"Indexing [0-9,]+ interactions needs 19\d\.\d kB, and"
    ):
        sr.count_precedence(films, strategy="bounded", memory=0)


def test_too_many_items_are_refused_before_the_work(monkeypatch, films):
    monkeypatch.setattr("surerec.precedence._statistics._MOST_ITEMS", 100)
    with pytest.raises(
        sr.InputError, match=r"300 items are more than the limit of 100; .* would need 600 bytes"
    ):
        sr.count_precedence(films)


@given(
    st.integers(0, 3), st.integers(1, 70), st.integers(0, 40), st.sampled_from([16, 32]), st.data()
)
def test_compressed_rows_agree_with_numpy(n_rows, n_items, most, bits, data):
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


@pytest.fixture(params=KINDS)
def statistics(request):
    memory = 2_000 if request.param == "bounded" else None
    return sr.count_precedence(FILMS, strategy=request.param, memory=memory)


def test_a_store_without_one_of_its_users_has_no_kind(statistics):
    rows = statistics.without_user(0).rows
    assert (rows.kind, rows.holds_all, rows.arrays()) == (None, False, {})


def test_rows_on_demand_need_their_profiles():
    rows = sr.count_precedence(FILMS, strategy="bounded").rows
    with pytest.raises(ValueError, match="a span is out of range"):
        rows_from(rows.kind, rows.arrays(), sr.Interactions.no_users(FILMS.n_items))


@pytest.mark.parametrize("value", [0, FILMS.n_items - 1, FILMS.n_items, 2**32 - 1])
def test_damaged_items_of_stored_rows_never_write_out_of_bounds(value):
    rows = sr.count_precedence(FILMS, strategy="bounded", memory=200_000).rows
    arrays = {name: array.copy() for name, array in rows.arrays().items()}
    arrays["followers_held_items"][:] = value
    damaged = rows_from("bounded", arrays, FILMS)
    for item in range(FILMS.n_items):
        assert len(damaged.followers(item)) == FILMS.n_items
        tile = np.zeros(3, dtype=np.uint16)
        load(damaged.source("followers", np.array([item])), 0, FILMS.n_items - 3, tile)


@st.composite
def rows_of_counts(draw):
    """Rows with or without zeros; some counts may need 32 bits."""
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    n_rows, n_items = draw(st.integers(1, 8)), draw(st.integers(1, 60))
    most = draw(st.sampled_from([1, 60_000, 100_000]))
    rows = random.integers(0, most + 1, (n_rows, n_items))
    rows[random.random(rows.shape) < draw(st.sampled_from([0.0, 0.02, 0.7]))] = 0
    return rows, scattered(rows, random)


@given(rows_of_counts(), st.data())
def test_columns_are_read_from_all_forms_of_rows(given_, data):
    rows, source = given_
    n_items = rows.shape[1]
    left = data.draw(st.integers(0, n_items))
    right = data.draw(st.integers(left, n_items))
    some = np.array(data.draw(st.lists(st.integers(0, n_items - 1))), np.int64)
    for k, row in enumerate(rows):
        tile = np.full(right - left, 7, np.uint32)
        load(source, k, left, tile)
        np.testing.assert_array_equal(tile, row[left:right])
        picked = np.full(len(some), 7, np.int32)
        pick(source, k, some, picked)
        np.testing.assert_array_equal(picked, row[some])
