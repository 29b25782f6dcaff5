"""Rough means of ratios are as near to the exact ones as is said, and exact ones are exact."""

import math
from functools import reduce
from operator import add

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from surerec.measures._rough import ROUGH, rough_ratios, total_ratios_of
from surerec.measures._tiles import LeftOut
from surerec.precedence import Source


def rows_of(matrix, places):
    none = np.empty(0, np.uint32)
    return Source(matrix, matrix[:0], np.zeros(1, np.int64), none, matrix[:0].ravel(), places)


@st.composite
def profiles(draw):
    """Rows of counts in both directions, and what somebody who took some of them contributed."""
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    n_rows, n_items = draw(st.integers(1, 150)), draw(st.sampled_from([40, 300, 5200]))
    most = draw(st.sampled_from([1, 3, 200, 60_000]))
    matrices = random.integers(0, most + 1, (2, n_rows, n_items)).astype(np.uint16)
    support = random.integers(0, 2, n_rows) * (2 * most + random.integers(0, 2**20, n_rows))
    own = random.permutation(n_items)[: draw(st.integers(0, 30))].astype(np.uint32)
    instants = np.arange(len(own))
    of_rows = random.integers(-1, max(len(own), 1), n_rows) if len(own) else np.full(n_rows, -1)
    forth, back = (rows_of(matrix, random.permutation(n_rows)) for matrix in matrices)
    return forth, back, LeftOut(own, instants, of_rows, support)


def ratios(forth, back, out, item, instant):
    """Give the ratios of an item in the order of the rows."""
    for k, support in enumerate(out.support.tolist()):
        if support:
            at = int(out.of_rows[k])
            count = int(forth.matrix[forth.places[k], item]) - (0 <= at < instant)
            free = support - int(back.matrix[back.places[k], item]) + (0 <= instant < at)
            yield count / max(free, 1)


@settings(max_examples=40)
@given(profiles())
def test_rough_totals_are_near_and_totals_of_some_exact(given_):
    forth, back, out = given_
    n_items, items = forth.matrix.shape[1], out.items.astype(np.int64)
    rough, beside, alone = np.empty(n_items), np.empty(len(items)), np.empty(len(items))
    rough_ratios(forth, back, out, items, out.instants, beside, rough)
    total_ratios_of(forth, back, out, items, out.instants, alone)
    exact = [
        reduce(add, ratios(forth, back, out, item, instant), 0.0)
        for item, instant in zip(items.tolist(), out.instants.tolist(), strict=True)
    ]
    assert beside.tolist() == alone.tolist() == exact
    for item in np.random.default_rng(0).choice(n_items, 12, replace=False).tolist():
        true = math.fsum(ratios(forth, back, out, item, -1))
        assert abs(rough[item] - true) <= true * 0.501 * ROUGH
