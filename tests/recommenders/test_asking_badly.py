"""What people get wrong, and the sentence that tells them."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import surerec as sr
from tests.recommenders.small_profiles import read

NAMES = ["abba", "baba", "caba"]
ROWS = [(user, item, t) for user in ("ann", "bob", "cid") for t, item in enumerate(NAMES)]
NUMBERS = [(user, item, item) for user in range(4) for item in range(5)]
MANY = sr.datasets.synthetic(n_users=60, n_items=30, n_rows=900, seed=5)

EVERY = [sr.PrecedenceMining(), sr.TransductiveConformal(), sr.InductiveConformal()]
CONFORMAL = EVERY[1:]
every_model = pytest.mark.parametrize("model", EVERY, ids=repr)
every_conformal = pytest.mark.parametrize("model", CONFORMAL, ids=repr)


@every_conformal
@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"confidence": 90}, r"did you mean 0\.9\?"),
        ({"significance": 10}, r"did you mean 0\.1\?"),
        ({"confidence": 0}, "between 0 and 1"),
        ({"confidence": 1}, "between 0 and 1"),
        ({"confidence": 200}, "between 0 and 1"),
        ({"confidence": float("nan")}, "between 0 and 1"),
        ({"significance": 1}, "between 0 and 1"),
        ({"confidence": "high"}, "confidence"),
        ({"confidence": True}, "confidence"),
        ({"confidence": 0.9, "significance": 0.1}, "confidence.*significance"),
        ({"confidence": 0.9, "k": 0}, "k"),
        ({"confidence": 0.9, "k": 2.5}, "k"),
    ],
)
def test_how_sure_and_how_many(model, asked, says):
    model.fit(read(ROWS))
    with pytest.raises(sr.InputError, match=says):
        model.recommend(user="ann", history=["abba", "baba"], **asked)
    with pytest.raises(sr.InputError, match=says):
        model.recommend_many(users=["ann"], **asked)


@every_conformal
def test_the_confidence_is_90_percent_unless_another_is_given(model):
    model.fit(read(ROWS))
    plain, asked = (model.recommend("ann", **level) for level in ({}, {"confidence": 0.9}))
    assert plain.confidence == asked.confidence == 0.9
    assert plain.to_frame().equals(asked.to_frame())


def promise(model):
    return {} if isinstance(model, sr.PrecedenceMining) else {"confidence": 0.9}


@every_model
@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"user": "anne"}, "no user 'anne'.*'ann'"),
        ({"user": "anne", "history": ["abba"]}, "no user 'anne'.*'ann'"),
        ({"history": []}, "empty"),
        ({"history": ["abbba"]}, "'abbba'.*near.*'abba'|'abba'.*near.*'abbba'"),
        ({"history": ["zzz", "yyy"]}, "zzz.*yyy"),
        ({"history": "abba"}, "list"),
        ({}, "user.*history"),
    ],
)
def test_who_is_asked_for(model, asked, says):
    model.fit(read(ROWS))
    with pytest.raises(sr.InputError, match=says):
        model.recommend(**asked, **promise(model))
    if not isinstance(model, sr.PrecedenceMining):
        with pytest.raises(sr.InputError, match=says):
            model.p_values(**asked)


@every_model
def test_an_unknown_item_is_refused_with_near_ones(model):
    model.fit(read(ROWS))
    with pytest.raises(sr.InputError, match=r"no item 'abbba'.*'abba'"):
        model.explain(user="ann", item="abbba")
    if not isinstance(model, sr.PrecedenceMining):
        with pytest.raises(sr.InputError, match=r"no item 'abbba'.*'abba'"):
            model.p_values(user="ann", items=["abbba"])


@every_model
def test_ids_given_as_text_are_the_same_ids(model):
    model.fit(read(NUMBERS))
    as_text = model.recommend(user="2", history=["0", "1"], **promise(model))
    as_numbers = model.recommend(user=2, history=[0, 1], **promise(model))
    assert as_text.to_frame().equals(as_numbers.to_frame())


@every_model
def test_given_counts_have_no_users(model):
    counts = [[0, 2, 1], [0, 0, 1], [0, 0, 0]]
    model.fit(sr.PrecedenceStatistics.from_counts(counts, [3, 3, 2], n_users=4))
    for asked in ({"user": 0}, {"user": 0, "history": [0, 1]}):
        with pytest.raises(sr.InputError, match="no users"):
            model.recommend(**asked, **promise(model))
    with pytest.raises(sr.InputError, match="no users"):
        model.recommend_many(**promise(model))


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (sr.InductiveConformal(measure="CM99"), "CM1.*CM12.*NCM17"),
        (sr.InductiveConformal(train_share=0), "train_share"),
        (sr.InductiveConformal(top=0), "top"),
        (sr.InductiveConformal(seed=-1), "seed"),
        (sr.TransductiveConformal(aggregate="mean"), "aggregate.*max.*median"),
        (sr.TransductiveConformal(zeros="none"), "zeros.*exact.*product"),
        (sr.TransductiveConformal(search="fast"), "search.*sorted.*plain"),
        (sr.TransductiveConformal(train_share=2), "train_share"),
        (sr.PrecedenceMining(top=0), "top"),
    ],
)
def test_impossible_settings_are_refused_when_fitting(model, says):
    with pytest.raises(sr.InputError, match=f"(?s){says}"):
        model.fit(read(NUMBERS))


@every_model
@pytest.mark.parametrize("data", [None, 7, "ml-100k", [[0, 1], [1, 0]]])
def test_only_interactions_and_statistics_can_be_fitted(model, data):
    with pytest.raises(sr.InputError, match="Interactions"):
        model.fit(data)


def _fitted():
    return sr.InductiveConformal().fit(read(NUMBERS))


def _wrapped(**settings):
    lists = pl.DataFrame({"user_id": [0, 1], "item_id": [3, 4], "score": [0.5, 0.5]})
    return sr.wrap(lists, **settings).calibrate(read(NUMBERS[:10]), read(NUMBERS[10:]))


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
@pytest.mark.parametrize("values", [["score", "rank"], ["score"], []])
@pytest.mark.parametrize(
    ("name", "ask"),
    [
        ("cut", lambda **given: sr.PopulationConformal(**given).fit(read(NUMBERS))),
        ("lists", lambda **given: sr.PopulationConformal().fit(MANY, **given)),
        ("cut", _wrapped),
        ("covers", _wrapped),
        ("fallback", _wrapped),
        ("together", lambda **given: _fitted().recommend(group=[0, 1], confidence=0.5, **given)),
        ("hits", lambda **given: _fitted().recommend_many(k=1, confidence=0.5, **given)),
        ("leave_out", lambda **given: _fitted().recommend_many(k=1, confidence=0.5, **given)),
    ],
)
def test_a_column_for_one_setting_is_refused_in_one_sentence(make, values, name, ask):
    with pytest.raises(sr.InputError, match=rf"(?s)^{name} is .*; (it must|choose)"):
        ask(**{name: make(values)})


@pytest.mark.parametrize("name", ["exclude", "group"])
def test_an_array_without_a_dimension_is_no_list(name):
    with pytest.raises(sr.InputError, match=rf"^{name} is array\(3\); it must be a list"):
        _fitted().recommend(**{"user": None if name == "group" else 0, name: np.array(3)}, k=1,
                            confidence=0.5)  # fmt: skip
