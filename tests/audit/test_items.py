import numpy as np
import pytest
from crepes.martingales import SimpleJumper, semi_online_p_values
from hypothesis import given
from hypothesis import strategies as st

from surerec.audit import log_martingale
from surerec.audit._items import online_p_values

unit = st.floats(0.001, 1)


@given(st.lists(unit, min_size=1, max_size=200))
def test_the_martingale_equals_that_of_crepes(p_values):
    expected = SimpleJumper().apply(np.array(p_values))
    assert np.exp(log_martingale(p_values)) == pytest.approx(expected)


def test_the_martingale_does_not_overflow():
    assert log_martingale(np.full(20_000, 0.01))[-1] > 2000  # far above what a float holds


@given(st.lists(st.integers(0, 5), min_size=1, max_size=60), st.integers(0, 1000))
def test_online_p_values_equal_those_of_crepes(scores, random_state):
    found = np.empty(len(scores))
    uniforms = np.random.RandomState(random_state).rand(len(scores))
    online_p_values(np.array(scores, dtype=float), uniforms, found)
    assert found == pytest.approx(semi_online_p_values(-np.array(scores), seed=random_state))
