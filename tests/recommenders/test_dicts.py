"""``to_dict()``: what HTTP and the command line's JSON have, as plain values."""

import json

import pytest

import surerec as sr


@pytest.fixture(scope="module")
def films():
    return sr.datasets.synthetic(n_users=200, n_items=40, n_rows=4_000, seed=3)


@pytest.fixture(scope="module")
def over_users(films):
    return sr.PopulationConformal("CM12").fit(films)


@pytest.mark.parametrize("make", [sr.InductiveConformal, sr.PopulationConformal])
def test_a_set_has_the_rows_of_its_frame(films, make):
    picks = make("CM12").fit(films).recommend(7, confidence=0.8)
    told = picks.to_dict()
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    assert [row["item_id"] for row in told["items"]] == picks.items
    frame = picks.to_frame()
    assert set(told["items"][0]) == {*frame.columns, "title"}
    for name in set(frame.columns) - {"score"}:
        assert [row[name] for row in told["items"]] == frame[name].to_list()
    assert (told["confidence"], told["significance"]) == (0.8, 0.2)
    assert told["guarantee"] == picks.guarantee.to_dict()
    assert picks.to_dict(3) == {**told, "items": told["items"][:3]}
    assert picks.to_dict(0) == {**told, "items": []}


def test_a_ranking_has_no_confidence_and_numbers_that_json_lacks_are_none(films):
    told = sr.PrecedenceMining().fit(films).recommend(7).to_dict()
    assert (told["confidence"], told["significance"]) == (None, None)
    assert "p_value" not in told["items"][0]
    assert all(row["entry_confidence"] is None for row in told["items"])
    json.dumps(told, allow_nan=False)


def test_a_groups_set_says_how_it_serves_each_member(over_users):
    picks = over_users.calibrate_groups([2]).recommend(group=[7, 9], confidence=0.8)
    told = picks.to_dict(2)
    assert [row["member_ranks"] for row in told["items"]] == picks.member_ranks[:, :2].T.tolist()
    assert [row["member_values"] for row in told["items"]] == picks.values[:, :2].T.tolist()
    served = [{"member": 7}, {"member": 9}]
    for each, share in zip(served, picks.satisfaction, strict=True):
        each["satisfaction"] = share
    assert (told["members"], told["least_served"]) == (served, picks.least_served)
    why = over_users.explain_group([7, 9], item=picks.items[0])
    assert [each["because"] for each in why.to_dict(1)["members"]] == [
        reason.to_frame().head(1).to_dicts() for reason in why.reasons
    ]


def test_an_explanation_lists_earlier_items_and_ignored_ones(over_users, films):
    history = [*films.items.ids[:4].to_list(), 10**9]
    why = over_users.explain(history=history, item=films.items.ids[20])
    told = why.to_dict(2)
    assert told["ignored"] == [10**9]
    assert told["p_value"] is None
    assert told["sentences"] == why.sentences(2)
    assert len(told["because"]) == 2
    assert len(why.to_dict()["because"]) == len(why.to_frame())
