import numpy as np
import pytest
from crepes.martingales import SimpleJumper, semi_online_p_values
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from surerec.audit._items import (
    PValues,
    among_themselves,
    drift_rows,
    log_martingale,
    online_p_values,
)
from surerec.conformal import smoothed_p_values

unit = st.floats(0.001, 1)


@given(st.lists(unit, min_size=1, max_size=200))
def test_the_martingale_is_that_of_crepes(p_values):
    theirs = SimpleJumper().apply(np.array(p_values))
    assert np.exp(log_martingale(p_values)) == pytest.approx(theirs)


def test_the_martingale_goes_on_where_numbers_end():
    assert log_martingale(np.full(20_000, 0.01))[-1] > 2000  # far above what a float holds


@given(st.lists(st.integers(0, 5), min_size=1, max_size=60), st.integers(0, 1000))
def test_online_p_values_are_those_of_crepes(scores, seed):
    found = np.empty(len(scores))
    uniforms = np.random.RandomState(seed).rand(len(scores))
    online_p_values(np.array(scores, dtype=float), uniforms, found)
    assert found == pytest.approx(semi_online_p_values(-np.array(scores), seed=seed))


@given(st.lists(st.integers(0, 5), min_size=1, max_size=30))
def test_among_themselves_is_each_against_the_others(scores):
    values = np.array(scores, dtype=float)
    uniforms = np.linspace(0.1, 1, len(values))
    by_hand = [
        smoothed_p_values(np.delete(values, n), values[n : n + 1], uniforms[n : n + 1])[0]
        for n in range(len(values))
    ]
    assert among_themselves(values, uniforms) == pytest.approx(by_hand)


def made_up(later):
    rng = np.random.default_rng(3)
    owners = np.repeat(np.arange(500), 4)
    return PValues(rng.random(2000), owners, later, owners, later)


def test_drift_is_found_where_it_is_and_not_where_it_is_not():
    uniform = np.random.default_rng(1).random(2000)
    assert not any(row["drift"] for row in drift_rows("in time order", made_up(uniform)))
    assert all(row["drift"] for row in drift_rows("in time order", made_up(uniform**1.6)))


def test_the_tests_take_one_item_of_each_person():
    """Copies of one value for each person carry no more evidence than one."""
    owners = np.repeat(np.arange(50), 40)
    values = np.random.default_rng(2).random(50)
    rows = drift_rows("", PValues(values[owners], owners, values[owners], owners, values[owners]))
    assert rows[1]["n"] == 50
    assert rows[1]["p_value"] == pytest.approx(stats.kstest(values, "uniform").pvalue)
