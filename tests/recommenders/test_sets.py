"""Results: sets, how they are cut, ordered, copied and shown, in Python, JSON and notebooks."""

import json
from itertools import pairwise

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import surerec as sr
from tests.recommenders.small_profiles import UNKNOWN_ITEMS, SmallCase, as_dict, read

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
    return sr.datasets.synthetic(80, 60, 2_000, random_state=11)


@given(models, st.integers(1, 99), st.data())
def test_the_set_holds_what_lies_above_the_significance(model, percent, data):
    case = SmallCase(data)
    model.fit(case.statistics())
    p_values = as_dict(model.p_values(**case.request))
    picks = model.recommend(**case.request, significance=percent / 100)
    inside = {item for item, p in p_values.items() if p > percent / 100 + 1e-9}
    assert set(picks.to_frame()["item_id"]) == inside
    assert len(picks) == picks.full_size == len(inside)
    by_confidence = model.recommend(**case.request, confidence=(100 - percent) / 100)
    assert by_confidence.to_frame().equals(picks.to_frame())
    assert picks.everything_qualifies == ("very item qualifies" in str(picks.guarantee))
    if picks.everything_qualifies:
        assert picks.full_size == len(case.candidates)
    unseen = [item for item in case.request.get("history", []) if item in UNKNOWN_ITEMS]
    assert list(picks.ignored) == list(dict.fromkeys(unseen))
    assert list(picks.used) == case.history


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
    assert model.recommend(history=history, confidence=0.91).everything_qualifies
    # An empty set is a normal answer.
    empty = model.recommend(history=history, confidence=0.8)
    assert len(empty) == empty.full_size == 0
    assert empty.to_frame().columns == picks.to_frame().columns
    assert empty.guarantee


@every_model
def test_sets_are_ordered_by_p_value_then_by_score(films, model):
    frame = model.fit(films).recommend(user=films.users.ids[2], confidence=0.99).to_frame()
    assert frame.columns[:5] == ["item_id", "rank", "score", "p_value", "entry_confidence"]
    keys = frame.select("p_value", "score").rows()
    assert keys == sorted(keys, reverse=True)
    assert frame["rank"].to_list() == list(range(1, len(frame) + 1))
    codes = films.items.codes(frame["item_id"])
    for (key, code), (next_key, next_code) in pairwise(zip(keys, codes, strict=True)):
        assert key != next_key or code < next_code  # the stable key: by popularity, as codes are


@every_model
def test_cutting_and_excluding_keep_the_ranking_and_the_full_size(films, model):
    user = films.users.ids[0]
    full = model.fit(films).recommend(user=user, confidence=0.8)
    threshold = model.recommend(user=user, confidence=0.8, k=3)
    assert threshold.to_frame().equals(full.to_frame().head(3))
    assert f"truncated from {len(full)}" in repr(threshold)
    assert len(model.recommend(user=user, confidence=0.8, k=10_000)) == len(full)
    first, second, *rest = full.items
    without = model.recommend(user=user, confidence=0.8, exclude=[second])
    assert without.items == [first, *rest]
    assert without.to_frame()["rank"].to_list() == list(range(1, len(rest) + 2))
    for some in (threshold, without):
        assert some.full_size == len(full)
        assert some.guarantee.full == full.guarantee


def test_titles_are_shown_where_they_are_known(titled):
    untitled = sr.InductiveConformal().fit(read([(1, 2, 3)]))
    assert "title" not in untitled.recommend(1, k=1).to_frame()
    frame = sr.InductiveConformal().fit(titled).recommend(7, k=9).to_frame()
    expected = ["<b>x</b>" if item == 1 else "y" for item in frame["item_id"]]
    assert frame["title"].to_list() == expected


TITLES = pl.DataFrame({"item_id": list(range(1, 61)), "title": ["<b>x</b>"] + ["y"] * 59})


@pytest.fixture(scope="module")
def titled():
    consumed = sr.datasets.synthetic(n_users=120, n_items=60, n_rows=2_400, random_state=1)
    return sr.read_interactions(consumed.to_frame(), titles=TITLES)


@pytest.fixture(scope="module")
def model(titled):
    return sr.PopulationConformal("CM12").fit(titled)


@pytest.mark.parametrize("make", [sr.InductiveConformal, sr.PopulationConformal])
def test_a_set_has_the_rows_of_its_frame(titled, make):
    picks = make("CM12").fit(titled).recommend(7, confidence=0.8)
    result = picks.to_dict()
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    assert [row["item_id"] for row in result["items"]] == picks.items
    frame = picks.to_frame()
    assert set(result["items"][0]) == {*frame.columns, "title"}
    for name in set(frame.columns) - {"score"}:
        assert [row[name] for row in result["items"]] == frame[name].to_list()
    assert (result["confidence"], result["significance"]) == (0.8, 0.2)
    assert result["guarantee"] == picks.guarantee.to_dict()
    assert picks.to_dict(3) == {**result, "items": result["items"][:3]}
    assert picks.to_dict(0) == {**result, "items": []}


def test_a_ranking_has_no_confidence_and_numbers_that_json_lacks_are_none(titled):
    result = sr.PrecedenceMining().fit(titled).recommend(7).to_dict()
    assert (result["confidence"], result["significance"]) == (None, None)
    assert "p_value" not in result["items"][0]
    assert all(row["entry_confidence"] is None for row in result["items"])
    json.dumps(result, allow_nan=False)


def test_a_groups_set_says_how_it_serves_each_member(model):
    picks = model.calibrate_groups([2]).recommend(group=[7, 9], confidence=0.8)
    result = picks.to_dict(2)
    assert [row["member_ranks"] for row in result["items"]] == picks.member_ranks[:, :2].T.tolist()
    assert [row["member_values"] for row in result["items"]] == picks.values[:, :2].T.tolist()
    served = [{"member": 7}, {"member": 9}]
    for each, share in zip(served, picks.satisfaction, strict=True):
        each["satisfaction"] = share
    assert (result["members"], result["least_served"]) == (served, picks.least_served)
    why = model.explain_group([7, 9], item=picks.items[0])
    assert [each["because"] for each in why.to_dict(1)["members"]] == [
        reason.to_frame().head(1).to_dicts() for reason in why.reasons
    ]


def test_an_explanation_lists_earlier_items_and_ignored_ones(model, titled):
    history = [*titled.items.ids[:4].to_list(), 10**9]
    why = model.explain(history=history, item=titled.items.ids[20])
    result = why.to_dict(2)
    assert result["ignored"] == [10**9]
    assert result["p_value"] is None
    assert result["sentences"] == why.sentences(2)
    assert len(result["because"]) == 2
    assert len(why.to_dict()["because"]) == len(why.to_frame())


def test_notebooks_show_a_table_with_bars_and_the_guarantee(model, titled):
    picks = model.recommend(titled.users[0], confidence=0.8)
    page = picks._repr_html_()
    head = f"{len(picks)} of {picks.n_candidates} items at confidence 0.8, by recall-cm12"
    for part in (head, str(picks.guarantee).split(",")[0], "probability", "width:"):
        assert part in page
    assert page.count("<tr>") == 1 + min(len(picks), 10)
    assert "nan" not in page.lower()
    assert "<b>x</b>" not in page  # titles are text, whatever they hold
    why = model.explain(titled.users[0], item=picks.items[0])
    assert repr(why).startswith(f"Explanation({picks.items[0]}, entry_confidence=")
    assert "consumers of" in why._repr_html_()
    paper = sr.InductiveConformal("CM12").fit(titled).explain(titled.users[0], item=picks.items[0])
    assert "p_value=" in repr(paper)
