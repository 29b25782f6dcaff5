"""The radix sort agrees with a comparison sort."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from surerec._kernels import best_first

numbers = st.floats(allow_nan=False) | st.sampled_from([0.0, -0.0, 1.0, np.inf, -np.inf])


@given(arrays(np.float64, st.integers(0, 60), elements=numbers), st.integers(0, 2**32))
def test_the_order_agrees_with_lexsort(scores, random_state):
    popularity = np.random.default_rng(random_state).permutation(len(scores))
    np.testing.assert_array_equal(best_first(scores), np.lexsort((np.arange(len(scores)), -scores)))
    np.testing.assert_array_equal(best_first(scores, popularity), np.lexsort((popularity, -scores)))


def test_strided_arrays_are_sorted():
    scores = np.arange(40.0).reshape(8, 5)[:, 1]
    assert best_first(scores).tolist() == [7, 6, 5, 4, 3, 2, 1, 0]
