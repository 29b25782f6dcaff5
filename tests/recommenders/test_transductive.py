from fractions import Fraction

import polars as pl
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import surerec as sr
from tests import oracle_method as paper
from tests.recommenders.small_profiles import Person, as_dict, read

aggregates = st.sampled_from(["max", "median"])
zeros_rules = st.sampled_from(["exact", "product"])


@given(aggregates, zeros_rules, st.sampled_from(["sorted", "plain"]), st.data())
def test_p_values_are_exact(aggregate, zeros, search, data):
    person = Person(data)
    model = sr.TransductiveConformal(aggregate=aggregate, zeros=zeros, search=search)
    assert person.p_values(model) == person.expected(
        lambda item: paper.crs(
            person.counts, person.history, item, aggregate=aggregate, zeros=zeros
        )
    )


# Dense enough that many a c has no zero factor.
crowded_rows = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 4), st.integers(0, 9)), min_size=40, max_size=120
)


@given(crowded_rows, st.permutations(range(5)))
def test_without_zeros_the_search_equals_the_papers_product(rows, items):
    # What paper.md 9 claims, on the oracle alone.
    counts = paper.count(rows)
    *train, c, new = items
    assume(counts.sup[c] and all(counts.pc[h, c] for h in train))
    assert paper.crs_by_search(counts, train, new, c) == paper.crs_by_product(counts, train, new, c)


def test_with_a_zero_the_papers_product_collapses():
    # Nobody took t2 before c, so every score of c is 0 but the one without t2, which never is o's.
    counts = paper.Counts(
        9, paper.Counter(c=6), paper.Counter({("t1", "c"): 4, ("t2", "c"): 0, ("o", "c"): 1})
    )
    assert paper.crs_by_product(counts, ["t1", "t2"], "o", "c") == 1
    assert paper.crs_by_search(counts, ["t1", "t2"], "o", "c") == Fraction(2, 3)


@pytest.mark.parametrize("zeros", ["exact", "product"])
def test_a_witness_whom_nobody_else_took_is_skipped(zeros):
    # T = {a, b}, C = {c, ann's own}. Of c: PC(a), PC(b), PC(x) = 2, 1, 1, so p = (1 + 1) / 3.
    rows = [("ann", item, t) for t, item in enumerate(["a", "b", "c", "only ann's"])]
    rows += [("bob", item, t) for t, item in enumerate("abc")]
    rows += [("cid", item, t) for t, item in enumerate("axc")]
    for aggregate in ("max", "median"):
        model = sr.TransductiveConformal(aggregate=aggregate, zeros=zeros).fit(read(rows))
        assert as_dict(model.p_values(user="ann")) == {"x": 2 / 3}


def test_a_median_between_two_levels_is_compared_exactly():
    # PC of a, b, c and x before v: 1, 1, 1 and 1, so p = 4/4; before w: 2, 1, 1 and 1, so p = 3/4.
    profiles = ["abcvw", "av", "bv", "cv", "xv", "abw", "cw", "aw", "xw"]
    rows = [(f"u{u}", item, t) for u, taken in enumerate(profiles) for t, item in enumerate(taken)]
    model = sr.TransductiveConformal(aggregate="median").fit(read(rows))
    frame = model.p_values(user="u0")
    assert as_dict(frame) == {"x": 7 / 8}
    assert frame["entry_confidence"].to_list() == [1 / 8]
    assert len(model.recommend(user="u0", confidence=0.125)) == 0
    assert len(model.recommend(user="u0", confidence=0.126)) == 1


def test_the_highest_confidence_comes_from_the_items_trained_on():
    # Here T is what the new item is compared with: m = 3 of 5, so m / (m + 1).
    rows = [(user, item, item) for user in range(4) for item in range(7)]
    for aggregate in ("max", "median"):
        model = sr.TransductiveConformal(aggregate=aggregate).fit(read(rows))
        picks = model.recommend(history=[0, 1, 2, 3, 4], confidence=0.8)
        assert picks.highest_confidence == 3 / 4
        assert picks.everything_qualifies
        assert len(picks) == 2


@pytest.mark.parametrize("aggregate", ["max", "median"])
def test_without_any_witness_no_confidence_is_supported(aggregate):
    # Nobody but ann took c or d, so nothing she took later says anything, and nothing is left out.
    rows = [("ann", item, t) for t, item in enumerate("abcd")]
    rows += [("bob", item, t) for t, item in enumerate("abxy")]
    model = sr.TransductiveConformal(aggregate=aggregate).fit(read(rows))
    assert as_dict(model.p_values(user="ann")) == {"x": 1.0, "y": 1.0}
    picks = model.recommend(user="ann", confidence=0.5)
    assert picks.highest_confidence == 0
    assert picks.everything_qualifies


def test_a_set_is_ordered_by_p_value_where_that_falls_as_the_mean_rises():
    rows = [
        "000",
        "010",
        "020",
        "030",
        "100",
        "130",
        "300",
        "200",
        "210",
        "230",
        "240",
        "500",
        "541",
        "550",
    ]
    columns = zip(*(map(int, row) for row in rows), strict=True)
    data = pl.DataFrame(dict(zip(("user_id", "item_id", "time"), columns, strict=True)))
    model = sr.TransductiveConformal().fit(sr.read_interactions(data, time="time"))
    p_values = model.recommend(2, confidence=0.5).to_frame()["p_value"].to_list()
    assert p_values == sorted(p_values, reverse=True)
    assert len(set(p_values)) > 1
