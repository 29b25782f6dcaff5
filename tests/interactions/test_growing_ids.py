"""Ids that grow: one looked for alone is what it is among others."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surerec.errors import InputError
from surerec.interactions import GrowingIds, IdMap

steps = st.lists(st.tuples(st.sampled_from(["add", "remove", "find"]), st.integers(0, 9)))


@given(steps, st.booleans())
def test_one_id_is_found_as_among_others(taken, as_text):
    base = pl.Series([3, 1, 7]) if not as_text else pl.Series(["3", "1", "7"])
    ids, known = GrowingIds(IdMap(base, noun="user")), {"3": 0, "1": 1, "7": 2}
    gone = set()
    for what, number in taken:
        text = str(number)
        if what == "add":
            known.setdefault(text, len(known))
            gone.discard(text)
            assert ids.add(text) == known[text]
        elif what == "remove" and text in known:
            gone.add(text)
            ids.remove(known[text])
        expected = -1 if text in gone else known.get(text, -1)
        for form in (text, number):  # twice, as what was found once is remembered
            assert ids.find(form) == ids.codes([form])[0] == expected


def test_true_is_not_one():
    ids = GrowingIds(IdMap(pl.Series([1, 2]), noun="user"))
    assert (ids.find(1), ids.find("1"), ids.find(True), ids.find("01")) == (0, 0, -1, -1)
    with pytest.raises(InputError):
        ids.add("ann")
