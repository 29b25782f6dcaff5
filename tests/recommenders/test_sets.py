import copy
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

import surerec as sr
from tests.recommenders.small_profiles import NOBODY_SAW, Person, as_dict, read

CONFORMAL = [
    sr.InductiveConformal(measure="CM2"),
    sr.InductiveConformal(measure="CM3"),
    sr.InductiveConformal(measure="CM12"),
    sr.InductiveConformal(measure="NCM16"),
    sr.InductiveConformal(measure="CM4", smoothed=True),
    sr.TransductiveConformal(aggregate="max"),
    sr.TransductiveConformal(aggregate="median"),
]
models = st.sampled_from(CONFORMAL)
every_model = pytest.mark.parametrize("model", CONFORMAL, ids=repr)


@pytest.fixture(scope="module")
def films():
    return sr.datasets.synthetic(80, 60, 2_000, seed=11)


@given(models, st.integers(1, 99), st.data())
def test_the_set_holds_what_lies_above_the_significance(model, percent, data):
    person = Person(data)
    model.fit(person.statistics())
    p_values = as_dict(model.p_values(**person.asked))
    by_significance = model.recommend(**person.asked, significance=percent / 100)
    inside = {item for item, p in p_values.items() if p > percent / 100 + 1e-9}
    assert set(by_significance.to_frame()["item_id"]) == inside
    assert len(by_significance) == by_significance.full_size == len(inside)
    by_confidence = model.recommend(**person.asked, confidence=(100 - percent) / 100)
    assert by_confidence.to_frame().equals(by_significance.to_frame())


@given(models, st.integers(1, 99), st.data())
def test_everything_qualifies_only_where_it_does(model, percent, data):
    person = Person(data)
    model.fit(person.statistics())
    picks = model.recommend(**person.asked, significance=percent / 100)
    if picks.everything_qualifies:
        assert picks.full_size == len(person.candidates)
        assert "very item qualifies" in str(picks.guarantee)
    else:
        assert "very item qualifies" not in str(picks.guarantee)


def test_a_tenth_is_out_at_nine_tenths():
    # l = 9: one candidate conforms less than all calibration items, so p = 1/10; another ties
    # with one of them, so p = 2/10. CM5 over T = {t}: counts PC(t, ·).
    followers = {f"c{n}": n + 1 for n in range(1, 10)} | {"worst": 1, "second": 2}
    rows, user = [], 0
    for item, times in followers.items():
        for _ in range(times):
            rows += [(user, "t", 0), (user, item, 1)]
            user += 1
    model = sr.InductiveConformal(measure="CM5", train_share=0.1).fit(read(rows))
    history = ["t", *(f"c{n}" for n in range(1, 10))]
    assert as_dict(model.p_values(history=history)) == {"worst": 0.1, "second": 0.2}
    for asked in ({"confidence": 0.9}, {"significance": 0.1}, {"significance": 1 - 0.9}):
        picks = model.recommend(history=history, **asked)
        assert picks.to_frame()["item_id"].to_list() == ["second"]
        assert not picks.everything_qualifies
        assert picks.highest_confidence == 0.9
    assert len(model.recommend(history=history, confidence=0.91)) == 2
    assert model.recommend(history=history, confidence=0.91).everything_qualifies
    # An empty set is a normal answer.
    empty = model.recommend(history=history, confidence=0.8)
    assert len(empty) == empty.full_size == 0
    assert empty.to_frame().columns == picks.to_frame().columns
    assert empty.guarantee


@every_model
def test_people_see_the_highest_p_value_first_then_the_highest_score(films, model):
    frame = model.fit(films).recommend(user=films.users.ids[2], confidence=0.99).to_frame()
    assert frame.columns[:5] == ["item_id", "rank", "score", "p_value", "entry_confidence"]
    keys = frame.select("p_value", "score").rows()
    assert keys == sorted(keys, reverse=True)
    assert frame["rank"].to_list() == list(range(1, len(frame) + 1))
    codes = films.items.codes(frame["item_id"])
    for (key, code), (next_key, next_code) in pairwise(zip(keys, codes, strict=True)):
        assert key != next_key or code < next_code  # the stable key: by popularity, as codes are


@every_model
def test_cutting_keeps_the_ranking_and_the_full_size(films, model):
    user = films.users.ids[0]
    full = model.fit(films).recommend(user=user, confidence=0.8)
    cut = model.recommend(user=user, confidence=0.8, k=3)
    assert cut.to_frame().equals(full.to_frame().head(3))
    assert (len(cut), cut.full_size) == (3, len(full))
    assert cut.guarantee != full.guarantee
    assert cut.guarantee.full is not None
    assert f"cut from {len(full)}" in repr(cut)
    assert len(model.recommend(user=user, confidence=0.8, k=10_000)) == len(full)


@every_model
def test_excluding_keeps_the_ranking_and_the_full_size(films, model):
    user = films.users.ids[0]
    full = model.fit(films).recommend(user=user, confidence=0.8)
    first, second, *rest = full.to_frame()["item_id"]
    without = model.recommend(user=user, confidence=0.8, exclude=[second])
    assert without.to_frame()["item_id"].to_list() == [first, *rest]
    assert without.to_frame()["rank"].to_list() == list(range(1, len(rest) + 2))
    assert without.full_size == len(full)
    assert without.guarantee.full is not None


@given(models, st.data())
def test_used_and_ignored_items_are_named(model, data):
    person = Person(data)
    picks = model.fit(person.statistics()).recommend(**person.asked, confidence=0.5)
    unseen = [item for item in person.asked.get("history", []) if item in NOBODY_SAW]
    assert list(picks.ignored) == list(dict.fromkeys(unseen))
    assert list(picks.used) == person.history


def test_titles_are_shown_where_they_are_known():
    rows = [(user, item, item) for user in range(4) for item in range(5)]
    plain = read(rows)
    assert (
        "title"
        not in sr.InductiveConformal()
        .fit(plain)
        .recommend(user=1, history=[0, 1], confidence=0.5)
        .to_frame()
    )
    titles = plain.items.ids.to_frame("item_id").with_columns(title=plain.items.ids.cast(str) + "!")
    named = sr.Interactions(
        plain.users, plain.items, plain.offsets, plain.items_taken, plain.times, titles=titles
    )
    frame = sr.InductiveConformal().fit(named).recommend(history=[0], confidence=0.5).to_frame()
    assert frame["title"].to_list() == [f"{item}!" for item in frame["item_id"]]


def test_a_copy_of_a_set_has_its_columns(films):
    picks = sr.InductiveConformal("CM12").fit(films).recommend(5, confidence=0.8, k=7)
    twin = copy.deepcopy(picks)
    assert twin.to_frame().equals(picks.to_frame())
    assert len(twin) == len(picks) == len(picks.columns["item_id"])
