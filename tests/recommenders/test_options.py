"""Invalid requests and their messages."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import surerec as sr
from tests.recommenders.small_profiles import read

NAMES = ["abba", "baba", "caba"]
ROWS = [(user, item, t) for user in ("ann", "bob", "cid") for t, item in enumerate(NAMES)]


NUMBERS = [(user, item, item) for user in range(4) for item in range(5)]
EVERY = [sr.PrecedenceMining(), sr.TransductiveConformal(), sr.InductiveConformal()]
every_model = pytest.mark.parametrize("model", EVERY, ids=repr)


@pytest.mark.parametrize("model", EVERY[1:], ids=repr)
@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"confidence": 90}, r"did you mean 0\.9\?"),
        ({"significance": 10}, r"did you mean 0\.1\?"),
        ({"confidence": 1}, "between 0 and 1"),
        ({"confidence": float("nan")}, "between 0 and 1"),
        ({"confidence": "high"}, "confidence"),
        ({"confidence": 0.9, "significance": 0.1}, "confidence.*significance"),
        ({"confidence": 0.9, "k": 0}, "k"),
        ({"segment": "DE"}, "has no segments"),
    ],
)
def test_invalid_options(model, asked, says):
    model.fit(read(ROWS))
    with pytest.raises(sr.InputError, match=says):
        model.recommend(user="ann", **asked)
    if "segment" not in asked:
        with pytest.raises(sr.InputError, match=says):
            model.recommend_many(users=["ann"], **asked)


@every_model
@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"user": "anne", "history": ["abba"]}, "no user 'anne'.*'ann'"),
        ({"history": []}, "empty"),
        ({"history": ["abbba"]}, "'abbba'.*Did you mean 'abba'"),
        ({"history": ["zzz", "yyy"]}, "zzz.*yyy"),
        ({"history": "abba"}, "list"),
        ({}, "user.*history"),
        ({"user": "ann", "item": "abbba"}, r"no item 'abbba'.*'abba'"),
    ],
)
def test_unknown_users_and_items(model, asked, says):
    model.fit(read(ROWS))
    with pytest.raises(sr.InputError, match=says):
        (model.explain if "item" in asked else model.recommend)(**asked)


def test_an_option_that_is_not_there_is_named():
    with pytest.raises(TypeError, match="There is no option 'colour'"):
        sr.InductiveConformal().fit(read(ROWS)).recommend("ann", colour="red")


def test_the_confidence_is_90_percent_unless_another_is_given():
    model = sr.InductiveConformal().fit(read(ROWS))
    plain, asked = (model.recommend("ann", **level) for level in ({}, {"confidence": 0.9}))
    assert plain.confidence == asked.confidence == 0.9
    assert plain.to_frame().equals(asked.to_frame())


@every_model
def test_given_counts_have_no_users(model):
    counts = [[0, 2, 1], [0, 0, 1], [0, 0, 0]]
    model.fit(sr.PrecedenceStatistics.from_counts(counts, [3, 3, 2], n_users=4))
    for ask in (lambda: model.recommend(0), lambda: model.recommend(0, history=[0, 1]),
                model.recommend_many):  # fmt: skip
        with pytest.raises(sr.InputError, match="no users"):
            ask()


def _fitted():
    return sr.InductiveConformal().fit(read(NUMBERS))


COLUMNS = [np.array, pl.Series, pd.Series, pd.Index, tuple, set, iter]
"""Ways to give several values; comparing most of them with () or a word raises."""


@pytest.mark.parametrize("make", COLUMNS)
def test_items_to_leave_out_come_in_any_column(make):
    model = _fitted()
    asked = {"history": [0, 1, 2], "confidence": 0.5}
    alone = model.recommend(**asked, exclude=[3])
    assert model.recommend(**asked, exclude=make([3])).items == alone.items
    assert model.recommend(**asked, exclude=make([])).items == model.recommend(**asked).items


@pytest.mark.parametrize("make", COLUMNS[:4])
@pytest.mark.parametrize("values", [["score"], []])
@pytest.mark.parametrize(
    ("name", "ask"),
    [
        ("threshold", lambda **given: sr.PopulationConformal(**given).fit(read(NUMBERS))),
        (
            "group_guarantee",
            lambda **given: _fitted().recommend(group=[0, 1], confidence=0.5, **given),
        ),
        ("hits", lambda **given: _fitted().recommend_many(k=1, confidence=0.5, **given)),
    ],
)
def test_a_column_for_one_setting_is_refused_in_one_sentence(make, values, name, ask):
    with pytest.raises(sr.InputError, match=rf"(?s)^{name} is .*(; (it must|choose)|Pass)"):
        ask(**{name: make(values)})
