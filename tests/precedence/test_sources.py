"""Parts of rows are what the rows have there, wherever these are held."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from surerec.precedence.kernels import load, pick
from tests.rows import scattered


@st.composite
def rows_of_counts(draw):
    """Rows that are empty here and there, or nowhere; some counts may need 32 bits."""
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    n_rows, n_items = draw(st.integers(1, 8)), draw(st.integers(1, 60))
    most = draw(st.sampled_from([1, 60_000, 100_000]))
    rows = random.integers(0, most + 1, (n_rows, n_items))
    rows[random.random(rows.shape) < draw(st.sampled_from([0.0, 0.02, 0.7]))] = 0
    return rows, scattered(rows, random)


@given(rows_of_counts(), st.data())
def test_columns_of_rows_are_read_wherever_they_are(given_, data):
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
