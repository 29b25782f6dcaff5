"""The times of histories and requests reach the scorer."""

import numpy as np
import polars as pl
import pytest

import surerec as sr
from surerec.errors import HistoriesWarning
from surerec.measures import Scorer

DAY = 86_400_000_000
ASSUMED = "assumes a history that ends near the end of the data, because no times were given."


class Clock(Scorer):
    """Scores an item by how near its code is to the day of the question, which all can see."""

    leaves_users_out = True
    uses_times = True

    def __init__(self, counts):
        self.n_items, self.end = counts.n_items, int(counts.interactions.times.max())

    def score_query(self, query):
        then = self.end if query.times is None else int(query.times[-1])
        return -np.abs(np.arange(self.n_items) - then // DAY % self.n_items).astype(float)

    def fold_of(self, users):
        return np.zeros_like(users)


@pytest.fixture(scope="module")
def films():
    return sr.datasets.synthetic(n_users=260, n_items=60, n_rows=6_000, drift=1.0, random_state=8)


@pytest.fixture(scope="module")
def model(films):
    return sr.PopulationConformal(Clock).fit(films)


@pytest.fixture(scope="module")
def history(films):
    return films.items.ids[:8].to_list()


def best_day(picks):
    """The day, modulo the number of items, at which the question was asked."""
    return picks.to_frame()["item_id"][0]


def instant(films, code):
    """A time whose day makes the item of this code the best."""
    days = int(films.times.max()) // DAY
    return int((days - days % films.n_items + code - films.n_items) * DAY)


def iso(time):
    return str(np.datetime64(time, "us"))


def test_times_reach_the_scorer_in_every_request(films, model, history):
    then, item = instant(films, 30), films.items[40]
    times = [iso(then - (7 - place) * DAY) for place in range(8)]
    for given in ({"times": times}, {"at": iso(then)}):
        asked = {"history": history, **given}
        values = model.p_values(**asked)
        lowest = values["item_id"][int(values["entry_confidence"].arg_min())]
        assert lowest == films.items[30]
        assert model.recommend(**asked, k=3).items[0] == films.items[30]
        assert model.explain(**asked, item=item).score == -10
        assert model.model_.query(**asked).times[-1] == then
        assert best_day(model.recommend(**asked, confidence=0.9)) == films.items[30]
    pairs = list(zip(history, times, strict=True))
    timed = model.recommend(history=history, times=times, confidence=0.9)
    assert model.recommend(history=pairs, confidence=0.9).items == timed.items
    end = int(films.times.max()) // DAY % films.n_items
    untimed = model.model_.assess(model.model_.query(history=history))
    assert untimed.candidates[untimed.ordered(None)[0]] == end or end < 8


def test_many_histories_have_their_times(films, model, history):
    whens = {"ann": instant(films, 30), "bob": instant(films, 45)}
    timed = {who: [(item, iso(when)) for item in history] for who, when in whens.items()}
    frame = pl.DataFrame(
        [(who, item, when) for who, pairs in timed.items() for item, when in pairs],
        schema=["user_id", "item_id", "timestamp"],
        orient="row",
    )
    for given in (timed, frame):
        many = model.recommend_many(histories=given, confidence=0.9, k=1)
        assert many["item_id"].to_list() == [films.items[30], films.items[45]]
    untimed = {"ann": history, "bob": history}
    many = model.recommend_many(histories=untimed, at=iso(whens["ann"]), confidence=0.9, k=1)
    assert many["item_id"].to_list() == [films.items[30]] * 2
    read = model.histories(frame.drop("timestamp"), at=whens["bob"] // 10**6)
    many = model.recommend_many(histories=read, k=1, confidence=0.9, hits=True)
    assert many["item_id"].to_list() == [films.items[45]] * 2


def test_groups_have_their_members_times(films, model, history):
    model.calibrate_groups([2])
    then = iso(instant(films, 30))
    pairs = [(item, then) for item in history]
    asked = {"confidence": 0.9, "k": 1}
    timed = model.recommend(group=[pairs, pairs[:6]], **asked)
    assert timed.items == [films.items[30]]
    assert ASSUMED not in str(timed.guarantee)
    for group in ([history, history[:6]], [pairs, history[:6]]):
        assert model.recommend(group=group, at=then, **asked).items == timed.items
        assert ASSUMED in str(model.recommend(group=group, **asked).guarantee)
    found = model.recommend_groups({"a": [history, history[:6]]}, at=then, **asked)
    assert found["item_id"].to_list() == timed.items
    group, item = [history, history[:6]], films.items[40]
    reasons = model.explain_group(group, item=item, at=then).reasons
    assert [reason.score for reason in reasons] == [-10, -10]
    assert model.model_.assess_group(group, at=then)[1].members[0].moment is not None


def test_a_guarantee_says_that_it_assumes_a_recent_history(films, model, history):
    then = iso(instant(films, 30))
    whole = model.recommend(history=history, confidence=0.9)
    assert str(whole.guarantee).endswith(f"It also {ASSUMED}")
    assert ASSUMED in str(model.recommend(history=history, confidence=0.9, k=3).guarantee)
    assert ASSUMED in model.recommend(history=history, k=3).about_hit_probability
    assert ASSUMED not in model.recommend(history=history, k=3, at=then).about_hit_probability
    for given in ({"times": [then] * 8}, {"at": then}):
        assert "assumes" not in str(
            model.recommend(history=history, confidence=0.9, **given).guarantee
        )
    assert "assumes" not in str(model.recommend(films.users[3], confidence=0.9).guarantee)
    formula = sr.PopulationConformal("CM12").fit(films)
    assert "assumes" not in str(formula.recommend(history=history, confidence=0.9).guarantee)
    with pytest.warns(HistoriesWarning, match="The histories have no times. Guarantees assume"):
        model.recommend_many(histories={"ann": history}, confidence=0.9, k=1)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (
            {"user": 1, "at": "2024-05-01"},
            r"at= needs a history: a user of the data has times",
        ),
        ({"user": 1, "times": [1]}, r"times= needs a history"),
        ({"group": [1, 2], "at": 5}, "every member of this group is a user of the data"),
        ({"group": [[1], [2]], "times": [5]}, "each member of a group has a history"),
        ({"group": [[(1, "soon")], [2]]}, r"The history of member 1: times\[0\] is 'soon'"),
        ({"history": [1, 2], "times": [1]}, "times has 1 values and history has 2 items"),
    ],
)
def test_times_need_a_history(model, asked, said):
    with pytest.raises(sr.InputError, match=said):
        model.recommend(confidence=0.9, **asked)


def test_histories_with_wrong_times_are_refused(films, model, history):
    for given, said in (
        ({"histories": {"ann": [(1, 5)], "bob": [2]}}, "of 'bob' has no times, but others have"),
        ({"histories": {"ann": [(1, "soon")]}}, r"The history of 'ann': times\[0\] is 'soon'"),
        ({"histories": {"ann": [(1, 50)]}, "at": 7}, "before the last time of the histories"),
        ({"histories": {"ann": history}, "at": "soon"}, "at is 'soon'"),
        ({"users": films.users.ids[:2].to_list(), "at": 5}, "users of the data have times"),
        (
            {"histories": model.histories({"ann": history}), "at": 5},
            "these histories were read before",
        ),
    ):
        with pytest.raises(sr.InputError, match=said):
            model.recommend_many(confidence=0.9, **given)
    query = model.model_.query(history=history)
    with pytest.raises(sr.InputError, match="query= has times of its own"):
        model.recommend(query=query, at=5, confidence=0.9)
