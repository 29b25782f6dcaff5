import math
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import binomtest

import surerec as sr
from tests import oracle_method as paper
from tests.recommenders.small_profiles import SmallCase, as_dict, read

EVERY = [
    sr.PrecedenceMining(),
    sr.TransductiveConformal(),
    sr.InductiveConformal(measure="CM3"),
    sr.InductiveConformal(measure="NCM16"),
    sr.InductiveConformal(measure="CM2", smoothed=True),
]


def lowest_likely(later, support):
    """The lower end of Wilson's 95 % interval, as scipy has it."""
    if not support:
        return 0.0
    return binomtest(later, support).proportion_ci(method="wilson").low


@given(st.sampled_from(EVERY), st.data())
def test_the_counts_are_those_of_the_other_users(model, data):
    case = SmallCase(data)
    assume(case.candidates)
    item = data.draw(st.sampled_from(case.candidates), label="item")
    why = model.fit(case.statistics()).explain(**case.request, item=item)
    assert why.item == item
    rows = {row["item_id"]: row for row in why.to_frame().iter_rows(named=True)}
    whole = isinstance(model, sr.PrecedenceMining)
    compared = case.history if whole else paper.split(case.history)[0]
    assert sorted(rows) == sorted(compared)
    for earlier, row in rows.items():
        assert row["support"] == case.counts.sup[earlier]
        assert row["later"] == case.counts.pc[earlier, item]
        assert row["earlier"] == case.counts.pc[item, earlier]
        share = paper.exact(case.counts.pc[earlier, item], case.counts.sup[earlier])
        assert row["share"] == pytest.approx(float(share), rel=1e-15)
    sure = [lowest_likely(row["later"], row["support"]) for row in rows.values()]
    assert all(first >= second - 1e-9 for first, second in pairwise(sure))
    if whole:
        assert math.isnan(why.p_value)
        assert "p-value" not in str(why)
        return
    frame = model.p_values(**case.request)
    assert why.p_value == as_dict(frame)[item]
    assert why.entry_confidence == as_dict(frame, "entry_confidence")[item]


def test_in_words():
    # Of ann, bob and cid, who had tea, bob and cid had cake later; dan had it before.
    profiles = {"ann": ["tea"], "bob": ["tea", "cake"], "cid": ["tea", "cake"]}
    profiles |= {"dan": ["cake", "tea"], "eve": ["tea", "cake"]}
    rows = [(user, item, t) for user, items in profiles.items() for t, item in enumerate(items)]
    model = sr.InductiveConformal(measure="CM5").fit(read(rows))
    said = str(model.explain(history=["tea"], item="cake"))
    assert "3 of 5 users who consumed tea later consumed cake, 1 had consumed it before" in said
    # Without eve, who asks.
    said = str(model.explain(user="eve", history=["tea"], item="cake"))
    assert "2 of 4 users who consumed tea later consumed cake" in said
