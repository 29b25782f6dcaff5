"""What is asked for in absurd sizes takes no more memory than what is there."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surerec.calibration import LengthGroups
from surerec.calibration.kernels import rank_among

COUNTS = st.one_of(st.integers(0, 50), st.integers(2**20 - 2, 2**20 + 2), st.just(2**32 - 1))


@given(st.lists(COUNTS, min_size=1), st.lists(COUNTS))
def test_ranks_among_huge_counts_are_searched(thresholds, values):
    ordered = np.sort(np.array(thresholds, dtype=np.uint32))
    wanted = np.array(values, dtype=np.uint32)
    ranks = np.empty(len(wanted), dtype=np.int32)
    rank_among(ordered, wanted, ranks)
    assert ranks.tolist() == [sum(count <= value for count in thresholds) for value in values]


@given(st.lists(st.integers(1, 30), min_size=1, max_size=12))
def test_more_groups_than_people_are_as_many_as_people(lengths):
    known = np.array(lengths)
    found = [LengthGroups.equal(known, n).edges.tolist() for n in (len(lengths), 500, 10**9)]
    shares = np.arange(1, 500) / 500
    edges = np.unique(np.quantile(known, shares, method="higher"))
    assert found == [edges[edges > known.min()].tolist()] * 3


def test_a_billion_groups_take_no_time():
    assert LengthGroups.equal(np.arange(5), 10**9).n == pytest.approx(5)
