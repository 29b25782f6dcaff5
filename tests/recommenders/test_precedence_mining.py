import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

import surerec as sr
from tests import oracle_method as paper
from tests.recommenders.small_profiles import Person, read


@given(st.none() | st.integers(1, 4), st.data())
def test_scores_and_their_order_are_the_papers(top, data):
    person = Person(data)
    model = sr.PrecedenceMining(top=top).fit(person.statistics())
    frame = model.recommend(**person.asked).to_frame()
    assert sorted(frame["item_id"]) == sorted(person.candidates)
    assert frame["rank"].to_list() == list(range(1, len(frame) + 1))
    exact = [paper.score(person.counts, person.history, item, top) for item in frame["item_id"]]
    for score, expected in zip(frame["score"].to_list(), exact, strict=True):
        if expected == 0:
            assert score == -math.inf
        else:
            assert math.exp(score) == pytest.approx(float(expected), rel=1e-9)
    for better, worse in pairwise(exact):
        assert float(better) >= float(worse) * (1 - 1e-9)


def test_long_profiles_do_not_underflow():
    # 400 items, each before x in 1 of x's 2 users and before y in 2 of y's 3: 2^−400 and (2/3)^400
    # times the shares 2/5 and 3/5 of 5 users. In floats both products are 0 long before (400 · 3).
    n = 1_200
    profile = [f"item {place}" for place in range(n)]
    rows = [(1, item, t) for t, item in enumerate([*profile, "x", "y"])]
    rows += [(2, item, t) for t, item in enumerate([*profile, "y"])]
    rows += [(3, "x", 1), (4, "y", 1), (5, "item 0", 1)]
    model = sr.PrecedenceMining().fit(read(rows))
    frame = model.recommend(history=profile).to_frame()
    assert frame["item_id"].to_list() == ["y", "x"]
    expected = [math.log(3 / 5) + n * math.log(2 / 3), math.log(2 / 5) + n * math.log(1 / 2)]
    assert frame["score"].to_list() == pytest.approx(expected, rel=1e-9)


def test_one_zero_makes_the_product_zero_but_not_the_top():
    # PC(a, x), PC(b, x) = 2, 0 of Sup(x) = 2 and PC(a, y), PC(b, y) = 1, 1 of Sup(y) = 2; 5 users.
    rows = [(1, "a", 1), (1, "x", 2), (2, "a", 1), (2, "x", 2)]
    rows += [(3, "a", 1), (3, "y", 2), (4, "b", 1), (4, "y", 2), (5, "a", 1)]
    history = ["a", "b"]
    plain = sr.PrecedenceMining().fit(read(rows)).recommend(history=history).to_frame()
    assert plain["item_id"].to_list() == ["y", "x"]
    assert plain["score"].to_list() == [pytest.approx(math.log(2 / 5 / 4)), -math.inf]
    top = sr.PrecedenceMining(top=1).fit(read(rows)).recommend(history=history).to_frame()
    assert top["item_id"].to_list() == ["x", "y"]


def test_the_whole_known_profile_counts():
    # T and C together (paper.md 3): b, the later half of the history, decides.
    rows = [(1, "a", 1), (1, "b", 2), (1, "x", 3), (2, "a", 1), (2, "y", 2)]
    frame = sr.PrecedenceMining().fit(read(rows)).recommend(history=["a", "b"]).to_frame()
    assert frame["item_id"].to_list() == ["x", "y"]
    assert frame["score"].to_list() == [pytest.approx(math.log(1 / 2)), -math.inf]
