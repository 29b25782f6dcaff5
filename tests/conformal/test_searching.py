import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from surerec.conformal._searching import places_among

numbers = st.lists(st.sampled_from([-np.inf, -2.0, -0.0, 0.0, 0.5, 0.5, 3.0, 7.0, np.inf]))


@given(numbers, numbers, st.booleans())
def test_places_are_those_of_a_sorted_search(ordered, wanted, ascending):
    here = np.array(sorted(ordered), dtype=np.float64)
    there = np.array(sorted(wanted) if ascending else wanted, dtype=np.float64)
    np.testing.assert_array_equal(places_among(here, there), np.searchsorted(here, there))


def test_many_numbers_are_found_from_one_another():
    chance = np.random.default_rng(1)
    ordered = np.sort(np.round(chance.normal(size=5000), 2))
    wanted = np.sort(np.round(chance.normal(size=700), 2))
    for each in (wanted, wanted[::-1].copy(), chance.permutation(wanted)):
        np.testing.assert_array_equal(places_among(ordered, each), np.searchsorted(ordered, each))
