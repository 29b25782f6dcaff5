"""Medians in vector registers are those of sorting."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surerec.measures._kernels import OfCounts, aggregate_columns
from surerec.measures._tiles import COUNT, HIGH, LOW, MIDDLE, TOTAL, Aggregates, LeftOut
from surerec.measures._vectors import STRIP_BYTES, aligned_zeros, middles_of_counts
from surerec.precedence import Source

kinds = st.sampled_from([np.uint16, np.uint32])


def by_sorting(counts):
    ordered = np.sort(counts, axis=0).astype(float)
    return ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]


def by_bits(counts):
    strip = STRIP_BYTES // counts.itemsize
    n_rows, n_columns = counts.shape
    rows = aligned_zeros(n_rows, -(-n_columns // strip) * strip, counts)
    rows[:, :n_columns] = counts
    found = np.empty(n_columns)
    middles_of_counts(rows, np.empty((2, strip), counts.dtype), found)
    return found


@given(kinds, st.integers(1, 40), st.integers(1, 80), st.integers(0, 2**32), st.data())
def test_middles_are_those_of_sorting(kind, n_rows, n_columns, seed, data):
    """Columns of very different sizes side by side: a guess from the strip before may be wrong."""
    random = np.random.default_rng(seed)
    bits = 8 * np.dtype(kind).itemsize
    most = data.draw(st.lists(st.integers(0, bits), min_size=1, max_size=5))
    highs = 2.0 ** random.choice(most, n_columns)
    counts = (random.random((n_rows, n_columns)) * highs).astype(kind)
    np.testing.assert_array_equal(by_bits(counts), by_sorting(counts))


@pytest.mark.parametrize("kind", [np.uint16, np.uint32])
@pytest.mark.parametrize("n_rows", [1, 2, 65_535])
def test_the_largest_counts_and_the_most_rows(kind, n_rows):
    counts = np.full((n_rows, 3), np.iinfo(kind).max, kind)
    counts[: n_rows // 2, 1] = 0
    counts[: n_rows // 2 + 1, 2] = 0
    np.testing.assert_array_equal(by_bits(counts), by_sorting(counts))


def test_rows_begin_with_a_cache_line():
    rows = aligned_zeros(3, 96, np.empty(0, np.uint16))
    assert rows.ctypes.data % STRIP_BYTES == 0
    assert rows.shape == (3, 96)
    assert not rows.any()


def test_more_rows_than_narrow_counts_can_count():
    matrix = np.array([[1, 60_000, 0], [3, 2, 0], [7, 9, 65_535]], np.uint16)
    places = np.random.default_rng(0).integers(0, 3, 70_001)
    nobody = np.empty(0, np.int64)
    rows = Source(
        matrix,
        matrix[:0],
        np.zeros(1, np.int64),
        nobody.astype(np.uint32),
        matrix[:0].ravel(),
        places,
    )
    out = LeftOut(
        nobody.astype(np.uint32), nobody, np.full(len(places), -1), np.full(len(places), 9)
    )
    found = [np.empty(3) for _ in range(4)]
    aggregate_columns(
        0,
        3,
        OfCounts(COUNT),
        LOW | MIDDLE | TOTAL | HIGH,
        True,
        rows,
        rows,
        out,
        Aggregates(*found),
    )
    taken = matrix[places]
    for result, expected in zip(
        found, (taken.min(0), by_sorting(taken), taken.sum(0), taken.max(0)), strict=True
    ):
        np.testing.assert_array_equal(result, expected)


@given(st.integers(1, 60), st.integers(32, 1200), st.integers(0, 2**32), st.data())
def test_middles_of_rows_leave_a_user_out(n_rows, n_columns, seed, data):
    """Against sorting, one count less wherever the user took the column's item after the row's."""
    random = np.random.default_rng(seed)
    matrix = random.integers(1, 2 ** random.integers(1, 17), (n_rows, n_columns + 5))
    places = random.permutation(n_rows)
    items = random.permutation(n_columns)[: data.draw(st.integers(0, 40))]
    instants = np.sort(random.integers(0, 30, len(items)))
    of_rows = random.integers(-1, 30, n_rows)
    first = data.draw(st.integers(0, n_columns - 32))
    last = data.draw(st.integers(first + 32, n_columns))
    when = np.full(n_columns, -1)
    when[items] = instants
    own = (of_rows[:, None] >= 0) & (when > of_rows[:, None])
    expected = by_sorting(matrix[places, :n_columns] - own)
    narrow = matrix.astype(np.uint16)
    none = np.empty(0, np.uint32)
    rows = Source(narrow, narrow[:0], np.zeros(1, np.int64), none, narrow[:0].ravel(), places)
    out = LeftOut(items.astype(np.uint32), instants, of_rows, np.full(n_rows, 9))
    found = Aggregates(*(np.full(n_columns, -1.0) for _ in range(4)))
    aggregate_columns(first, last, OfCounts(COUNT), MIDDLE, True, rows, rows, out, found)
    np.testing.assert_array_equal(found.middle[first:last], expected[first:last])
    assert (found.middle[:first] == -1).all()
    assert (found.middle[last:] == -1).all()
