"""Wrong types and values raise errors with one-line messages."""

import datetime as dt

import numpy as np
import polars as pl
import pytest

import surerec as sr
from surerec import measures
from surerec._words import shown
from surerec.recommenders import load_all, save_all


@pytest.fixture(scope="module")
def films():
    return sr.datasets.synthetic(n_users=60, n_items=20, n_rows=600, days=300, random_state=1)


@pytest.fixture(scope="module")
def counts(films):
    return sr.count_precedence(films)


@pytest.fixture(scope="module")
def model(counts):
    return sr.PopulationConformal("CM12").fit(counts)


FRAME = pl.DataFrame({"user": [1, 1, 2], "item": [1, 2, 1], "time": [1, 2, 3]})
BEYOND = 10**5000  # Python does not convert so long an integer to text


def refused(call, says=""):
    with pytest.raises(sr.SurerecError, match=says or None) as error:
        call()
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 600


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"history": 5}, "history is 5; it must be a list of item ids"),
        ({"history": [[1], {}, None]}, "No item of the history"),
        ({"user": 1, "exclude": "7"}, "exclude is '7'"),
        ({"user": BEYOND}, "There is no user a value of type int"),
        ({"user": 1, "confidence": BEYOND}, "confidence is a value"),
        ({"query": "x"}, "query is 'x'"),
        ({"query": measures.Query(np.array([99]))}, "has 99; codes must be from 0 to"),
        ({"query": measures.Query(np.array([1]), users=(99,))}, "is 99"),
        ({"query": measures.Query(np.array([1]), allowed=np.array([99]))}, "has 99"),
    ],
)
def test_requests(model, options, says):
    refused(lambda: model.recommend(**{"confidence": 0.8, **options}), says)


@pytest.mark.parametrize(
    "settings",
    [
        {"window": float("nan")},
        {"segments": 10**9},
        {"guarantee": {}},
        {"measure": object()},
    ],
)
def test_settings(films, settings):
    repr(sr.PopulationConformal(**settings))
    refused(lambda: sr.PopulationConformal(**settings).fit(films))
    unchanged = sr.PopulationConformal()
    refused(lambda: unchanged.set_params(**settings))
    assert unchanged.get_params() == sr.PopulationConformal().get_params()


@pytest.mark.parametrize("folder", [5, None, "", "a\x00b", "\ud800", "y" * 300, [1]])
def test_folders(model, folder):
    for call in (
        lambda: model.save(folder),
        lambda: sr.load(folder),
        lambda: load_all(folder),
        lambda: save_all(folder, {"a": model}),
    ):
        refused(call, "it must be a path")


def test_recalibration_and_age(model, films):
    refused(lambda: model.recalibrate(np.arange(5)), "interactions is array")
    other = sr.count_precedence(films.until(2**60))
    refused(lambda: model.recalibrate(films, counts=other), "belongs to other interactions")
    refused(lambda: model.age(dt.datetime(2024, 1, 1)), "time zone")  # noqa: DTZ001
    refused(lambda: sr.PopulationConformal(window=30).fit(films.until(0)), "no interactions")
    refused(lambda: save_all("x", [model]), "a dict")
    refused(lambda: save_all("x", {"a": 5}), "Pass a fitted recommender")
    refused(lambda: model.save("x", name=np.arange(3)), "name is")
    refused(lambda: model.model_.assess(model.model_.query(1), [99]), "candidates has 99")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"offsets": [0, 3, 2], "items": [5, 1, 1]}, "offsets must ascend from 0"),
        ({"offsets": [0, 2], "items": [1, 1]}, "repeats an item"),
        ({"offsets": [0, 1], "items": [-1]}, "items has -1"),
        ({"offsets": [0, 1], "items": [1.5]}, "a list of integers"),
        ({"offsets": [0, 2], "items": [0, 1], "times": [3, 1]}, "times decrease"),
        ({"offsets": [0, 2], "items": [0, 1], "times": [3]}, "times has 1 values; pass 2"),
        ({"offsets": [0, 1], "items": [0], "user_ids": ["a", "b"]}, "user_ids has 2 ids; pass 1"),
        ({"offsets": [0, 2], "items": [0, 1], "item_ids": ["a", "a"]}, "has duplicates"),
        ({"offsets": [0, 2], "items": [0, 5], "item_ids": ["a", "b"]}, "items has 5"),
        ({"offsets": [0, 1], "items": [0], "titles": 5}, "titles is 5"),
        ({"offsets": [0, 1], "items": [2**32 - 2]}, "Number them from 0 without gaps"),
    ],
)
def test_profiles(given, says):
    refused(lambda: sr.Interactions.from_profiles(**given), says)


@pytest.mark.parametrize("users", [[], [1], [1, 2]])
def test_users_left_out_may_be_an_array(counts, users):
    known, array = np.array([0]), np.array(users, dtype=np.int64)
    assert np.array_equal(counts.items_outside(known, array), counts.items_outside(known, users))
    assert counts.without_users(array).n_users == counts.n_users - len(users)


def test_values_in_messages_are_short_and_on_one_line():
    class Odd:
        def __repr__(self):
            raise RuntimeError("no")

    for value in (FRAME, np.arange(10_000), "x\n" * 500, b"x" * 500, BEYOND, Odd()):
        assert len(shown(value)) <= 80
        assert "\n" not in shown(value)
