import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from surerec.conformal._risk import places_among, places_in_parts, sums_from_places

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


@given(st.lists(numbers, max_size=5), st.lists(st.tuples(st.integers(-1, 4), st.floats(-9, 9))))
def test_places_and_sums_in_parts_are_those_of_each_part(lists, asked):
    """One part may be empty, and be asked for; nothing is found of part −1."""
    parts = [np.array(sorted(each), dtype=np.float64) for each in lists]
    offsets = np.cumsum([0, *map(len, parts)])
    flat = np.concatenate([np.zeros(0), *parts])
    which = np.array([part for part, _ in asked if part < len(parts)], dtype=np.int64)
    wanted = np.array([value for part, value in asked if part < len(parts)], dtype=np.float64)
    right = [
        0 if part < 0 else np.searchsorted(parts[part], value)
        for part, value in zip(which, wanted, strict=True)
    ]
    np.testing.assert_array_equal(places_in_parts(flat, offsets, which, wanted), right)
    weights = np.arange(1.0, len(flat) + 1)
    sums = sums_from_places(weights, offsets)
    for part, (start, stop) in enumerate(itertools.pairwise(offsets)):
        for place in range(stop - start + 1):
            assert sums[start + part + place] == weights[start + place : stop].sum()
