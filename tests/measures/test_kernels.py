"""Kernels of measures against references."""

from functools import reduce
from operator import add

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surerec.measures import kernels
from surerec.measures.kernels import HIGH, LOW, MIDDLE, TOTAL, LeftOutUser
from surerec.precedence import of_matrix
from tests.rows import scattered

kinds = st.sampled_from([np.uint16, np.uint32])


def by_sorting(counts):
    ordered = np.sort(counts, axis=0).astype(float)
    return ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]


AGGREGATES = {
    LOW: lambda counts: counts.min(axis=0),
    MIDDLE: by_sorting,
    TOTAL: lambda counts: counts.sum(axis=0),
    HIGH: lambda counts: counts.max(axis=0),
}


def by_bits(counts):
    strip = kernels.STRIP_BYTES // counts.itemsize
    n_rows, n_columns = counts.shape
    rows = kernels.aligned_zeros(n_rows, -(-n_columns // strip) * strip, counts)
    assert rows.ctypes.data % kernels.STRIP_BYTES == 0
    rows[:, :n_columns] = counts
    found = np.empty(n_columns)
    buffer = np.empty((2, strip), counts.dtype)
    kernels.double_medians(rows, buffer, 8 * counts.itemsize, found)
    return found


@given(kinds, st.integers(1, 40), st.integers(1, 80), st.integers(0, 2**32), st.data())
def test_medians_equal_those_of_sorting(kind, n_rows, n_columns, random_state, data):
    """Neighbouring columns differ in size, so that guesses from the strip before are wrong."""
    random = np.random.default_rng(random_state)
    bits = 8 * np.dtype(kind).itemsize
    most = data.draw(st.lists(st.integers(0, bits), min_size=1, max_size=5))
    highs = 2.0 ** random.choice(most, n_columns)
    counts = (random.random((n_rows, n_columns)) * highs).astype(kind)
    np.testing.assert_array_equal(by_bits(counts), by_sorting(counts))


@pytest.mark.parametrize("kind", [np.uint16, np.uint32])
@pytest.mark.parametrize("n_rows", [1, 2, 65_535])
def test_medians_of_the_largest_counts_and_the_most_rows(kind, n_rows):
    counts = np.full((n_rows, 3), np.iinfo(kind).max, kind)
    counts[: n_rows // 2, 1] = 0
    counts[: n_rows // 2 + 1, 2] = 0
    np.testing.assert_array_equal(by_bits(counts), by_sorting(counts))


def aggregate_counts(aggregate, rows, out, first, last, n_columns):
    found = np.full(n_columns, -1.0)
    task = kernels.Task(kernels.OfCounts(kernels.COUNT), aggregate, True, rows, rows, out)
    kernels.aggregate_columns(first, last, task, found)
    return found


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_more_rows_than_narrow_counts_can_count(aggregate):
    matrix = np.array([[1, 60_000, 0], [3, 2, 0], [7, 9, 65_535]], np.uint16)
    places = np.random.default_rng(0).integers(0, 3, 70_001)
    none, never = np.empty(0, np.int64), np.full(len(places), -1)
    out = LeftOutUser(none.astype(np.uint32), none, never, np.full(len(places), 9))
    found = aggregate_counts(aggregate, of_matrix(matrix, places), out, 0, 3, 3)
    np.testing.assert_array_equal(found, AGGREGATES[aggregate](matrix[places]))


@pytest.mark.parametrize("aggregate", AGGREGATES)
@given(st.integers(1, 60), st.integers(1, 1200), st.integers(0, 2**32), st.data())
def test_aggregates_of_counts_leave_a_user_out(aggregate, n_rows, n_columns, random_state, data):
    """Compare with numpy, less one where the user consumed the column's item after the row's."""
    random = np.random.default_rng(random_state)
    matrix = random.integers(1, 2 ** random.integers(1, 17), (n_rows, n_columns + 5))
    items = random.permutation(n_columns)[: data.draw(st.integers(0, 40))]
    instants = np.sort(random.integers(0, 30, len(items)))
    of_rows = random.integers(-1, 30, n_rows)
    first = data.draw(st.integers(0, n_columns - 1))
    last = data.draw(st.integers(first + 1, n_columns))
    when = np.full(n_columns, -1)
    when[items] = instants
    own = (of_rows[:, None] >= 0) & (when > of_rows[:, None])
    rows = scattered(matrix, random, data.draw(st.integers(1, 3)))
    out = LeftOutUser(items.astype(np.uint32), instants, of_rows, np.full(n_rows, 9))
    found = aggregate_counts(aggregate, rows, out, first, last, n_columns)
    expected = AGGREGATES[aggregate](matrix[:, :n_columns] - own)
    np.testing.assert_array_equal(found[first:last], expected[first:last])
    assert (np.delete(found, np.s_[first:last]) == -1).all()


@st.composite
def profiles(draw):
    """Draw rows of counts in both directions, and a user to leave out."""
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    n_rows, n_items = draw(st.integers(1, 150)), draw(st.sampled_from([40, 300, 5200]))
    most = draw(st.sampled_from([1, 3, 200, 60_000]))
    rows = random.integers(0, most + 1, (2, n_rows, n_items))
    rows[:, random.random(n_rows) < draw(st.sampled_from([0.0, 0.1])), 0] = 2**17
    support = random.integers(0, 2, n_rows) * (2**18 + 2 * most + random.integers(0, 2**20, n_rows))
    own = random.permutation(n_items)[: draw(st.integers(0, 30))].astype(np.uint32)
    instants = np.arange(len(own))
    of_rows = random.integers(-1, max(len(own), 1), n_rows) if len(own) else np.full(n_rows, -1)
    n_kinds = draw(st.integers(1, 3))
    sources = [scattered(each, random, n_kinds) for each in rows]
    return rows, sources, LeftOutUser(own, instants, of_rows, support)


def ratios(rows, out, item, instant):
    """Return the ratios of an item in the order of the rows."""
    forward, back = rows[:, :, item].tolist()
    for k, support in enumerate(out.support.tolist()):
        if support:
            at = int(out.of_rows[k])
            count = forward[k] - (0 <= at < instant)
            free = support - back[k] + (0 <= instant < at)
            yield count / max(free, 1)


@settings(max_examples=60)
@given(profiles())
def test_totals_of_some_items_are_exact(given_):
    rows, (forward, back), out = given_
    items = out.items.astype(np.int64)
    found = np.empty(len(items))
    kernels.total_ratios_of(forward, back, out, items, out.instants, found)
    assert found.tolist() == [
        reduce(add, ratios(rows, out, item, instant), 0.0)
        for item, instant in zip(items.tolist(), out.instants.tolist(), strict=True)
    ]
