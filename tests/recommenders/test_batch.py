"""Batches of users or histories equal single requests."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import surerec as sr
from surerec.interactions import IdMap
from tests import oracle_method as paper
from tests.recommenders.small_profiles import is_covered, one_by_one, read, some_rows

EVERY = [
    *(sr.InductiveConformal(measure=name) for name in paper.NAMES),
    sr.InductiveConformal(measure="CM8", literal=True),
    sr.InductiveConformal(measure="CM1", top=3),
    sr.InductiveConformal(measure="CM2", smoothed=True, random_state=5),
    sr.TransductiveConformal(aggregate="max"),
    sr.TransductiveConformal(aggregate="median"),
    sr.TransductiveConformal(zeros="product"),
    sr.PrecedenceMining(),
    sr.PrecedenceMining(top=1),
]


@pytest.fixture(scope="module")
def films():
    return sr.datasets.synthetic(70, 60, 1_500, random_state=12)


def guarantee(model):
    return {} if isinstance(model, sr.PrecedenceMining) else {"confidence": 0.8}


@given(
    st.sampled_from(EVERY),
    some_rows,
    st.sampled_from(["dense", "bounded"]),
    st.sampled_from(["order", "strict"]),
    st.none() | st.integers(1, 14),
)
@settings(max_examples=80)
def test_many_users_are_users_one_by_one(model, rows, strategy, ties, k):
    interactions = read(rows)
    model.fit(sr.count_precedence(interactions, ties=ties, strategy=strategy))
    asked = {"k": k, **guarantee(model)}
    alone = one_by_one(model, {user: {"user": user} for user in interactions.users.ids}, **asked)
    assert_frame_equal(model.recommend_many(**asked), alone, check_exact=True)


@pytest.mark.parametrize(
    "settings", [{}, {"threshold": "rank"}, {"segments": 2}, {"guarantee": "precision"}]
)
@pytest.mark.parametrize("k", [None, 3])
def test_batches_state_who_is_covered(settings, k):
    few = sr.datasets.synthetic(n_users=300, n_items=60, n_rows=3_000, random_state=1)
    model = sr.PopulationConformal("CM12", **settings).fit(few)
    asked = {"precision": 0.1} if "guarantee" in settings else {"confidence": 0.9}
    rows = model.recommend_many(**asked, k=k)
    covered = dict(rows.select("user_id", "covered").iter_rows())
    assert len(set(covered.values())) == 2
    for user in list(covered)[::11]:
        assert covered[user] == is_covered(model, user=user, **asked)
    said = model.model_.guarantee_to_all(model.model_.options(**asked, k=k))
    assert said.holds == (k is None)
    assert (said.full or said).holds


@pytest.mark.parametrize(
    "model",
    [sr.InductiveConformal("CM12"), sr.TransductiveConformal("median"), sr.PrecedenceMining()],
    ids=repr,
)
def test_threads_change_nothing(model, monkeypatch):
    crowd = sr.datasets.synthetic(600, 40, 6_000, random_state=13)  # more than one batch per thread
    model.fit(crowd)
    answers = []
    for threads in ("1", "2", "7"):
        monkeypatch.setenv("SUREREC_THREADS", threads)
        answers.append(model.recommend_many(**guarantee(model)))
    served = answers[0]["user_id"].unique(maintain_order=True)
    assert served.to_list() == [user for user in crowd.users.ids if user in set(served)]
    for answer in answers[1:]:
        assert_frame_equal(answers[0], answer, check_exact=True)


def test_unknown_users_among_many_are_skipped_and_named(films):
    model = sr.InductiveConformal().fit(films)
    known = films.users.ids[:2].to_list()
    with pytest.warns(sr.LeftOutWarning, match=r"^1 of 3 users is unknown and was skipped: 12345"):
        some = model.recommend_many(users=[known[0], 12345, known[1]], confidence=0.9)
    assert some.equals(model.recommend_many(users=known, confidence=0.9))


MODELS = {
    "CM2": sr.InductiveConformal("CM2"),  # a minimum: most items tie
    "CM12": sr.InductiveConformal("CM12"),
    "rank": sr.PopulationConformal("CM2", threshold="rank"),
    "crs": sr.TransductiveConformal("max"),
    "mining": sr.PrecedenceMining(),
}


@pytest.fixture(scope="module")
def tied():
    return sr.datasets.synthetic(n_users=120, n_items=90, n_rows=2_500, ties=0.3, random_state=6)


@pytest.fixture(scope="module")
def shuffled(tied):
    """The same data under other codes, which are not in the order of popularity."""
    new = np.random.default_rng(1).permutation(tied.n_items)  # the new code of each old one
    old = np.argsort(new)
    consumed = sr.Interactions(
        tied.users,
        IdMap(tied.items.ids.gather(old), noun="item"),
        tied.offsets,
        new[tied.item_codes].astype(np.uint32),
        tied.times,
    )
    counts = sr.count_precedence(consumed)
    counts.popularity = old  # old codes were the places by popularity, ties included
    return counts


@pytest.mark.parametrize("name", MODELS)
def test_equal_scores_come_by_popularity_whatever_the_codes(tied, shuffled, name):
    model = MODELS[name]
    has_levels = name != "mining"
    level = {"confidence": 0.8} if has_levels else {}
    answers = []
    for counts in (sr.count_precedence(tied), shuffled):
        fitted, data = type(model)(**model.get_params()).fit(counts), counts.interactions
        frames = [fitted.recommend_many(k=k, **level) for k in (None, 7)]
        if has_levels:
            frames.append(fitted.p_values(data.users[0]))
        answers.append([frame.select(pl.exclude("title")) for frame in frames])
    for here, there in zip(*answers, strict=True):
        assert_frame_equal(here, there, rel_tol=1e-9)  # sums are rounded in another order
    assert not np.array_equal(shuffled.popularity, np.arange(shuffled.n_items))


@pytest.fixture(scope="module")
def strangers():
    """More users than one batch, with ids of users of the data."""
    return sr.datasets.synthetic(300, 60, 4_000, random_state=99)


@given(
    st.sampled_from(["CM12", "CM1", "NCM15"]),
    some_rows,
    st.dictionaries(
        st.integers(0, 5), st.lists(st.integers(0, 6), min_size=1, max_size=9), min_size=1
    ),
    st.booleans(),
)
@settings(max_examples=60)
def test_small_histories_with_unknown_items_and_repeats(measure, rows, given_, leave_out):
    interactions = read(rows)
    model = sr.InductiveConformal(measure).fit(interactions)
    usable = {
        user: history
        for user, history in given_.items()
        if (model.items_.codes(history) >= 0).any()
    }
    if not usable:
        with pytest.raises(sr.InputError, match="No item in the histories of these"):
            model.histories(given_)
        return
    found = model.histories(given_, leave_out=leave_out)
    assert found.left_out.to_list() == [user for user in given_ if user not in usable]
    n_unknown = sum(int((model.items_.codes(history) < 0).sum()) for history in given_.values())
    assert len(found.ignored) == n_unknown
    known = set(interactions.users.ids) if leave_out else ()
    requests = {
        user: {"user": user if user in known else None, "history": history}
        for user, history in usable.items()
    }
    many = model.recommend_many(histories=found, confidence=0.6, k=3)
    alone = one_by_one(model, requests, confidence=0.6, k=3)
    assert_frame_equal(many, alone, check_exact=True)


def test_every_form_of_histories_says_the_same(films, strangers, tmp_path):
    model = sr.InductiveConformal("CM12").fit(films)
    frame = strangers.to_frame()
    frame.write_csv(tmp_path / "users.csv")
    shuffled = frame.sample(fraction=1, shuffle=True, seed=4)
    histories = dict(frame.group_by("user_id", maintain_order=True).agg("item_id").iter_rows())
    expected = model.recommend_many(histories=histories, confidence=0.7, k=5)
    for form in (
        strangers,
        frame,
        frame.drop("datetime").rename({"user_id": "customer_id", "item_id": "asin"}),
        tmp_path / "users.csv",
    ):
        assert_frame_equal(model.recommend_many(histories=form, confidence=0.7, k=5), expected)
    by_time = model.recommend_many(histories=shuffled, confidence=0.7, k=5)
    assert by_time["user_id"][0] == shuffled["user_id"][0]  # users in the given order
    assert_frame_equal(by_time.sort("user_id", "rank"), expected.sort("user_id", "rank"))


def test_users_who_are_left_out_are_named(films):
    model = sr.InductiveConformal("CM12").fit(films)
    known = films.items.ids[:3].to_list()
    given_ = pd.DataFrame({"user": ["a", "a", "a", "b", "c"], "item": [*known, 10**9, 10**9 + 1]})
    with pytest.warns(sr.HistoriesWarning, match=r"2 users are left out.*'b', 'c'\)\."):
        picks = model.recommend_many(histories=given_, confidence=0.9, k=2)
    assert set(picks["user_id"]) == {"a"}
    found = model.histories(given_)  # and without a warning
    assert found.ignored.rows() == [("b", 10**9), ("c", 10**9 + 1)]
    assert model.recommend_many(histories=found, confidence=0.9, k=2).equals(picks)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"histories": {1: "film"}}, "The history of 1 is 'film'. Pass a list of item ids"),
        ({"histories": {1: [3], "ann": [4]}}, "user ids in histories= have several types"),
        ({"histories": {}}, "histories of these 0 users"),
        (
            {"histories": pl.DataFrame({"who": [1], "item": [2]})},
            "no user column among 'who', 'item'",
        ),
        ({"histories": pl.DataFrame({"user": [1], "what": [2]})}, "no item column"),
        ({"histories": 7}, "cannot be read from int. Pass a path"),
        ({"users": [1], "histories": {1: [2]}}, "Both users and histories="),
        ({"users": [1], "leave_out": True}, "leave_out= needs histories="),
        ({"users": [12345]}, "^There is no user 12345"),
        ({"users": []}, "users is empty"),
    ],
)
def test_invalid_batch_requests(films, asked, said):
    model = sr.InductiveConformal("CM12").fit(films)
    with pytest.raises(sr.InputError, match=said):
        model.recommend_many(**asked, confidence=0.5)
