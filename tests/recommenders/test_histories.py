import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import surerec as sr
from surerec.errors import NotFittedError
from tests.recommenders.small_profiles import is_covered, read, some_rows


@pytest.fixture(scope="module")
def films():
    return sr.datasets.synthetic(70, 60, 1_500, seed=12)


@pytest.fixture(scope="module")
def strangers():
    """More people than one thread is given, whose ids are users' of the data."""
    return sr.datasets.synthetic(300, 60, 4_000, seed=99)


def histories_of(interactions):
    return {
        user: interactions.profile(user)["item_id"].to_list() for user in interactions.users.ids
    }


def one_by_one(model, histories, *, known=(), **asked):
    frames = []
    for person, history in histories.items():
        asked |= {"user": person if person in known else None, "history": history}
        rows = (
            model.recommend(**asked)
            .to_frame()
            .select(
                pl.lit(person, dtype=pl.Int64).alias("user_id"),
                pl.exclude("title"),
                pl.lit(is_covered(model, **asked)).alias("covered"),
                pl.col("^title$"),
            )
        )
        frames.append(rows)
    return pl.concat(frames)


@pytest.mark.parametrize(
    "model",
    [sr.InductiveConformal("CM12"), sr.InductiveConformal("CM3"), sr.PopulationConformal()],
    ids=repr,
)
def test_people_of_the_data_are_left_out_if_asked_for(films, strangers, model):
    model.fit(films)
    some = dict(list(histories_of(strangers).items())[:90])
    known = set(films.users.ids) & some.keys()
    assert 0 < len(known) < len(some)
    many = model.recommend_many(histories=some, leave_out=True, confidence=0.8, k=4)
    alone = one_by_one(model, some, known=known, confidence=0.8, k=4)
    assert_frame_equal(many, alone, check_exact=True)
    newcomers = model.recommend_many(histories=some, confidence=0.8, k=4)
    assert not newcomers.equals(many)


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
        person: history
        for person, history in given_.items()
        if (model.items_.codes(history) >= 0).any()
    }
    if not usable:
        with pytest.raises(sr.InputError, match="Nobody in the data took any item"):
            model.histories(given_)
        return
    found = model.histories(given_, leave_out=leave_out)
    assert found.left_out.to_list() == [person for person in given_ if person not in usable]
    n_unknown = sum(int((model.items_.codes(history) < 0).sum()) for history in given_.values())
    assert len(found.ignored) == n_unknown
    known = set(interactions.users.ids) if leave_out else ()
    many = model.recommend_many(histories=found, confidence=0.6, k=3)
    alone = one_by_one(model, usable, known=known, confidence=0.6, k=3)
    assert_frame_equal(many, alone, check_exact=True)


def test_every_form_of_histories_says_the_same(films, strangers, tmp_path):
    model = sr.InductiveConformal("CM12").fit(films)
    frame = strangers.to_frame()
    frame.write_csv(tmp_path / "people.csv")
    shuffled = frame.sample(fraction=1, shuffle=True, seed=4)
    expected = model.recommend_many(histories=histories_of(strangers), confidence=0.7, k=5)
    for form in (
        strangers,
        frame,
        frame.to_pandas(),
        frame.to_arrow(),
        frame.drop("datetime"),
        frame.drop("datetime").rename({"user_id": "customer_id", "item_id": "asin"}),
        frame.with_columns(pl.col("item_id").cast(pl.String)),
        tmp_path / "people.csv",
    ):
        assert_frame_equal(model.recommend_many(histories=form, confidence=0.7, k=5), expected)
    by_time = model.recommend_many(histories=shuffled, confidence=0.7, k=5)
    assert by_time["user_id"][0] == shuffled["user_id"][0]  # people in the order given
    assert_frame_equal(by_time.sort("user_id", "rank"), expected.sort("user_id", "rank"))


def test_who_is_left_out_is_told(films):
    model = sr.InductiveConformal("CM12").fit(films)
    known = films.items.ids[:3].to_list()
    given_ = pd.DataFrame({"user": ["a", "a", "a", "b", "c"], "item": [*known, 10**9, 10**9 + 1]})
    with pytest.warns(sr.HistoriesWarning, match=r"2 people are left out.*'b', 'c'\."):
        picks = model.recommend_many(histories=given_, confidence=0.9, k=2)
    assert set(picks["user_id"]) == {"a"}
    found = model.histories(given_)  # and without a warning
    assert found.ignored.rows() == [("b", 10**9), ("c", 10**9 + 1)]
    assert model.recommend_many(histories=found, confidence=0.9, k=2).equals(picks)


@pytest.mark.parametrize(
    ("histories", "said"),
    [
        ({1: "film"}, "The history of 1 is a list of item ids, not the text 'film'"),
        ({1: [3], "ann": [4]}, "ids of people are of several types"),
        ({}, "histories of these 0 people"),
        (pl.DataFrame({"who": [1], "item": [2]}), "no user column among 'who', 'item'"),
        (pl.DataFrame({"user": [1], "what": [2]}), "no item column"),
        (7, "not from int"),
    ],
)
def test_histories_that_cannot_be_used(films, histories, said):
    model = sr.InductiveConformal("CM12").fit(films)
    with pytest.raises(sr.InputError, match=said):
        model.recommend_many(histories=histories, confidence=0.5)


def test_asking_for_users_and_histories(films):
    model = sr.InductiveConformal("CM12")
    with pytest.raises(NotFittedError):
        model.histories({1: [2]})
    model.fit(films)
    with pytest.raises(sr.InputError, match="users or histories=, not both"):
        model.recommend_many([1], histories={1: [2]}, confidence=0.5)
    with pytest.raises(sr.InputError, match="leave_out is about histories="):
        model.recommend_many([1], leave_out=True, confidence=0.5)
    with pytest.raises(sr.InputError, match="has no segments"):
        model.recommend(user=films.users.ids[0], segment="DE", confidence=0.5)
