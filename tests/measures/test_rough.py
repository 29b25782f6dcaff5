"""Rough means of ratios are as near to the exact ones as is said, and exact ones are exact."""

import math
from functools import reduce
from itertools import pairwise
from operator import add

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from surerec.measures._rough import ROUGH, rough_ratios, total_ratios_of
from surerec.measures._tiles import LeftOut
from tests.rows import scattered


@st.composite
def profiles(draw):
    """Rows of counts in both directions, and what somebody who took some of them contributed."""
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    n_rows, n_items = draw(st.integers(1, 150)), draw(st.sampled_from([40, 300, 5200]))
    most = draw(st.sampled_from([1, 3, 200, 60_000]))
    rows = random.integers(0, most + 1, (2, n_rows, n_items))
    rows[:, random.random(n_rows) < draw(st.sampled_from([0.0, 0.1])), 0] = 2**17
    support = random.integers(0, 2, n_rows) * (2**18 + 2 * most + random.integers(0, 2**20, n_rows))
    own = random.permutation(n_items)[: draw(st.integers(0, 30))].astype(np.uint32)
    instants = np.arange(len(own))
    of_rows = random.integers(-1, max(len(own), 1), n_rows) if len(own) else np.full(n_rows, -1)
    n_kinds = draw(st.integers(1, 3))
    sources = [scattered(each, random, n_kinds) for each in rows]
    return rows, sources, LeftOut(own, instants, of_rows, support)


def ratios(rows, out, item, instant):
    """Give the ratios of an item in the order of the rows."""
    forth, back = rows[:, :, item].tolist()
    for k, support in enumerate(out.support.tolist()):
        if support:
            at = int(out.of_rows[k])
            count = forth[k] - (0 <= at < instant)
            free = support - back[k] + (0 <= instant < at)
            yield count / max(free, 1)


@settings(max_examples=60)
@given(profiles(), st.integers(1, 3))
def test_rough_totals_are_near_and_totals_of_some_exact(given_, n_blocks):
    rows, (forth, back), out = given_
    n_items, items = rows.shape[2], out.items.astype(np.int64)
    rough, beside, alone = np.empty(n_items), np.empty(len(items)), np.empty(len(items))
    borders = np.linspace(0, n_items, n_blocks + 1).astype(int).tolist()
    for first, last in pairwise(borders):
        rough_ratios(first, last, forth, back, out, items, out.instants, beside, rough)
    total_ratios_of(forth, back, out, items, out.instants, alone)
    exact = [
        reduce(add, ratios(rows, out, item, instant), 0.0)
        for item, instant in zip(items.tolist(), out.instants.tolist(), strict=True)
    ]
    assert beside.tolist() == alone.tolist() == exact
    for item in np.random.default_rng(0).choice(n_items, 12, replace=False).tolist():
        true = math.fsum(ratios(rows, out, item, -1))
        assert abs(rough[item] - true) <= true * 0.501 * ROUGH
