"""Friedman and Nemenyi against scipy, scikit-posthocs and numbers worked out by hand."""

import numpy as np
import pytest
import scikit_posthocs
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from surerec.errors import InputError
from surerec.evaluation import (
    average_ranks,
    friedman,
    nemenyi_critical_difference,
)

shapes = array_shapes(min_dims=2, max_dims=2, min_side=2, max_side=8)
tables = arrays(float, shapes, elements=st.integers(0, 5).map(float))


@given(tables)
def test_the_statistic_as_its_definition(table):
    n, k = table.shape
    ranks = average_ranks(table)
    expected = 12 * n / (k * (k + 1)) * (sum(ranks**2) - k * (k + 1) ** 2 / 4)
    result = friedman(table)
    assert result.chi_square == pytest.approx(expected, abs=1e-11)
    if n * (k - 1) - expected > 1e-9:
        f_f = (n - 1) * expected / (n * (k - 1) - expected)
        assert result.f_f == pytest.approx(f_f, rel=1e-9, abs=1e-11)
    assert result.rejects == (result.p_value < 0.05)


@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.1])
@pytest.mark.parametrize("spread", [0.1, 0.4, 1.5])
def test_nemenyi_decides_as_scikit_posthocs(alpha, spread):
    table = np.arange(8) + np.random.default_rng(5).normal(scale=8 * spread, size=(10, 8))
    p_values = scikit_posthocs.posthoc_nemenyi_friedman(table).to_numpy()
    ranks = average_ranks(table)
    differ = np.abs(ranks[:, None] - ranks) >= nemenyi_critical_difference(8, 10, alpha).cd
    np.testing.assert_array_equal(differ, p_values < alpha)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([[0.1, 0.2, 0.3]], "number of data sets is 1"),
        ([[0.1], [0.2]], "number of algorithms is 1"),
        ([[0.1, np.nan], [0.2, 0.3]], "1 of the means are NaN"),
        ([[]], r"of shape \(1, 0\). Pass data sets × algorithms"),
    ],
)
def test_invalid_tables_are_rejected(table, message):
    with pytest.raises(InputError, match=message):
        friedman(table)
