"""Sums in registers are those of one row after the other, to the last bit."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from surerec.measures._medians import aligned_zeros
from surerec.measures._sums import SUM_COLUMNS, sum_rows


@njit
def summed(rows, places, n):
    inside, totals = aligned_zeros(len(rows), SUM_COLUMNS, rows), np.empty(SUM_COLUMNS)
    inside[:] = rows
    sum_rows(inside, places, n, totals)
    return totals


@given(seed=st.integers(0, 2**32), n=st.integers(0, 40))
def test_row_by_row(seed, n):
    random = np.random.default_rng(seed)
    rows = random.random((7, SUM_COLUMNS)) * 10.0 ** random.integers(-9, 9, (7, 1))
    places = random.integers(0, 7, n + 3)  # more than are asked for
    expected = np.zeros(SUM_COLUMNS)
    for place in places[:n]:
        expected += rows[place]
    np.testing.assert_array_equal(summed(rows, places, n), expected)
