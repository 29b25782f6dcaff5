import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import surerec as sr
from tests import oracle_method as paper
from tests.recommenders.small_profiles import is_covered, read, some_rows

EVERY = [
    *(sr.InductiveConformal(measure=name) for name in paper.NAMES),
    sr.InductiveConformal(measure="CM8", literal=True),
    sr.InductiveConformal(measure="CM1", top=3),
    sr.InductiveConformal(measure="CM2", smoothed=True, seed=5),
    sr.TransductiveConformal(aggregate="max"),
    sr.TransductiveConformal(aggregate="median"),
    sr.TransductiveConformal(zeros="product"),
    sr.PrecedenceMining(),
    sr.PrecedenceMining(top=1),
]


@pytest.fixture(scope="module")
def films():
    return sr.datasets.synthetic(70, 60, 1_500, seed=12)


def promise(model):
    return {} if isinstance(model, sr.PrecedenceMining) else {"confidence": 0.8}


def one_by_one(model, users, **asked):
    frames = [
        model.recommend(user=user, **asked)
        .to_frame()
        .select(
            pl.lit(user, dtype=users.dtype).alias("user_id"),
            pl.exclude("title"),
            pl.lit(is_covered(model, user=user, **asked)).alias("covered"),
            pl.col("^title$"),
        )
        for user in users
    ]
    return pl.concat(frames)


@given(st.sampled_from(EVERY), some_rows, st.sampled_from(["dense", "on-demand"]))
@settings(max_examples=40)
def test_many_users_with_small_profiles_are_users_one_by_one(model, rows, strategy):
    interactions = read(rows)
    model.fit(sr.count_precedence(interactions, strategy=strategy))
    many = model.recommend_many(**promise(model))
    assert_frame_equal(
        many, one_by_one(model, interactions.users.ids, **promise(model)), check_exact=True
    )


@pytest.mark.parametrize("settings", [{}, {"cut": "rank"}, {"groups": 2}, {"promise": "precision"}])
@pytest.mark.parametrize("k", [None, 3])
def test_many_users_are_told_who_is_covered(settings, k):
    few = sr.datasets.synthetic(n_users=300, n_items=60, n_rows=3_000, seed=1)
    model = sr.PopulationConformal("CM12", **settings).fit(few)
    asked = {"precision": 0.1} if "promise" in settings else {"confidence": 0.9}
    rows = model.recommend_many(**asked, k=k)
    covered = dict(rows.select("user_id", "covered").iter_rows())
    assert len(set(covered.values())) == 2
    for user in list(covered)[::11]:
        assert covered[user] == is_covered(model, user=user, **asked)
    said = model.guarantee_to_all(model.options(**asked, k=k))
    assert said.holds == (k is None)
    assert (said.full or said).holds


@pytest.fixture(scope="module")
def crowd():
    """More users than any thread takes at once."""
    return sr.datasets.synthetic(600, 40, 6_000, seed=13)


@pytest.mark.parametrize(
    ("model", "strategy"),
    [
        (sr.InductiveConformal(measure="CM3"), "dense"),
        (sr.InductiveConformal(measure="CM12", smoothed=True), "dense"),
        (sr.InductiveConformal(measure="CM12"), "on-demand"),
        (sr.TransductiveConformal(aggregate="median"), "dense"),
        (sr.PrecedenceMining(), "on-demand"),
    ],
    ids=repr,
)
def test_threads_change_nothing(crowd, model, strategy, monkeypatch):
    answers = []
    for threads in ("1", "2", "7"):
        monkeypatch.setenv("SUREREC_THREADS", threads)
        model.fit(sr.count_precedence(crowd, strategy=strategy))
        answers.append(model.recommend_many(**promise(model)))
    assert answers[0]["user_id"].unique(maintain_order=True).to_list() == [
        user for user in crowd.users.ids if user in set(answers[0]["user_id"])
    ]
    assert_frame_equal(answers[0], answers[1], check_exact=True)
    assert_frame_equal(answers[0], answers[2], check_exact=True)


def test_an_unknown_user_among_many_is_named(films):
    model = sr.InductiveConformal().fit(films)
    known = films.users.ids[:2].to_list()
    with pytest.warns(sr.LeftOutWarning, match=r"^1 of 3 users is unknown and was skipped: 12345"):
        some = model.recommend_many(users=[known[0], 12345, known[1]], confidence=0.9)
    assert some.equals(model.recommend_many(users=known, confidence=0.9))
    with pytest.raises(sr.InputError, match=r"^There is no user 12345"):
        model.recommend_many(users=[12345], confidence=0.9)


def test_ids_may_be_the_floats_of_pandas(films):
    model = sr.InductiveConformal().fit(films)
    users = films.users.ids[:3].to_list()
    expected = model.recommend_many(users, confidence=0.8)
    floats = pd.Series(users, dtype=float)
    assert model.recommend_many(floats, confidence=0.8).equals(expected)
    assert model.recommend(floats[0], confidence=0.8).items == (
        model.recommend(users[0], confidence=0.8).items
    )
    history = films.items.ids[:6].to_list()
    asked = {"confidence": 0.8, "items": films.items.ids[6:].to_list()}
    new = model.recommend_many(histories={1.0: history, 2.0: history}, **asked)
    as_floats = {"confidence": 0.8, "items": pd.Series(asked["items"], dtype=float)}
    found = model.recommend_many(
        histories={1: pd.Series(history, dtype=float), 2: history}, **as_floats
    )
    assert new.equals(found)
