"""Every operation, asked over HTTP and compared with the Python API."""

import numpy as np
import polars as pl
import pytest

import surerec as sr
from surerec.conformal import MERGERS
from surerec.recommenders import GROUP_GUARANTEE_KINDS
from surerec.storage import read_card
from tests.serving.serving_server import ACCENT, NASTY, problem


def rows(frame):
    """Rows as JSON has them: NaN and infinities are null."""
    numbers = pl.selectors.float()
    finite = pl.when(numbers.is_finite()).then(numbers)
    return frame.with_columns(finite).to_dicts()


def post(client, path, **body):
    answer = client.post(f"v1/{path}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.fixture(scope="module")
def client(films):
    return films.client


@pytest.fixture(scope="module")
def users(films):
    """Users of whom enough is known, and not too much."""
    lengths = np.diff(films.data.offsets)
    return [films.data.users[int(u)] for u in np.flatnonzero((lengths >= 10) & (lengths < 30))]


@pytest.fixture(scope="module")
def items(films):
    return films.data.items.ids.to_list()


SOME = slice(None, None, 2)
ASKED = [
    ("icrs12", {"confidence": 0.8}),
    ("ranking", {}),
    ("sets", {"confidence": 0.8}),
    ("sets", {"confidence": 0.8, "item_list": "some"}),
    ("sets", {"confidence": 0.8, "items": SOME, "min_probability": 0.3}),
    ("sets", {"k": 4, "exclude": slice(0, 1)}),
    ("sets", {"k": 101}),
    ("precise", {"precision": 0.2}),
    ("sets", {"history": slice(3, 33), "significance": 0.2, "k": 3}),
    ("icrs12", {"user": 7, "history": slice(3, 33), "k": 5}),
    ("apart", {"history": slice(0, 6), "segment": "DE", "confidence": 0.8}),
    ("apart", {"history": slice(0, 6), "segment": "FR", "confidence": 0.8}),
]


@pytest.mark.parametrize(("name", "asked"), ASKED)
def test_a_set_is_the_librarys(client, films, users, items, name, asked):
    asked = {key: items[each] if isinstance(each, slice) else each for key, each in asked.items()}
    asked = asked if "history" in asked else {"user": users[0], **asked}
    picks = films.models[name].recommend(**asked)
    for limit in (10_000, 2, 0):  # shortens the answer and not the set
        told = post(client, "recommendations", **asked, recommender=name, limit=limit)
        assert told == {**picks.to_dict(limit), "recommender": name}
    assert picks.to_dict()["items"] == rows(picks.to_frame())


def test_p_values_and_explanations(client, films, users):
    model, user = films.models["sets"], users[0]
    some = model.recommend(user, confidence=0.8).items[:3]
    told = post(client, "p-values", user=user, items=some)["items"]
    expected = rows(model.p_values(user, items=some))
    assert [{k: v for k, v in row.items() if k != "title"} for row in told] == expected
    told = post(client, "explanations", user=user, item=some[0], limit=4)
    assert told == {**model.explain(user, item=some[0]).to_dict(4), "recommender": "sets"}


def test_a_batch_is_recommend_many_and_names_who_is_unknown(client, films, users):
    model, some = films.models["sets"], users[:7]
    asked = {"users": [*some, "nobody", some[0]], "k": 4}
    told = post(client, "recommendations/batch", **asked, confidence=0.7)
    assert told["items"] == rows(model.recommend_many(some, confidence=0.7, k=4))
    assert told["unknown_users"] == ["nobody"]
    assert told["guarantee"]["reason"].startswith("the set was truncated")
    assert (told["confidence"], told["significance"]) == (0.7, 0.3)
    told = post(client, "recommendations/batch", **asked, item_list="some")
    assert (told["confidence"], told["significance"]) == (None, None)  # a short list
    assert told["items"] == rows(model.recommend_many(some, k=4, item_list="some"))


def test_unknown_items_of_a_history_are_named_and_the_others_answer(client, items):
    history = [*items[:4], "nowhere", 10**9, "nowhere"]
    for path, more in (
        ("recommendations", {}),
        ("entry-confidences", {}),
        ("p-values", {"items": [items[9]]}),
        ("explanations", {"item": items[9]}),
    ):
        assert post(client, path, history=history, **more)["ignored"] == ["nowhere", 10**9]


@pytest.mark.parametrize("path", ["recommendations", "p-values", "recommendations/batch"])
def test_unknown_items_of_a_list_are_skipped_and_named(client, films, users, path):
    items = films.models["sets"].recommend(users[0], confidence=0.8).items[:3]
    whom = {"users": users[:1], "k": 3} if path.endswith("batch") else {"user": users[0]}
    expected = post(client, path, **whom, items=items)
    unknown = [f"sku-{n}" for n in range(4)]
    told = post(client, path, **whom, items=[*items, unknown[0]])
    assert told == {**expected, "unknown_items": unknown[:1]}
    mostly = {**whom, "items": [*items, *unknown]}
    assert "4 of 7 items are unknown" in problem(client.post(f"v1/{path}", json=mostly), 422)
    told = post(client, path, **mostly, unknown="skip")
    assert told == {**expected, "unknown_items": unknown}


@pytest.mark.parametrize("whom", ["icrs12", "sets", "group"])
def test_one_answer_serves_every_confidence(client, films, users, items, whom):
    name = "sets" if whom == "group" else whom
    asked, model, n = {"user": users[0]}, films.models[name], films.data.n_items
    mine = dict(asked)
    if whom == "group":
        mine = {"group": [users[0], items[5:12]], "group_guarantee": "all"}
        asked = {"group": [{"user": users[0]}, {"history": items[5:12]}], "group_guarantee": "all"}
    told = post(client, "entry-confidences", **asked, recommender=name, limit=n)
    assert told["n_candidates"] == len(told["items"]["item_id"])
    if whom == "group":
        assert told["members"] == [users[0], "member 2"]
        assert len(told["items"]["member_values"]) == told["n_candidates"]
        assert sorted(told["history"]["item_id"]) == sorted(items[5:12])
    else:
        assert told["history_length"] == len(told["history"]["item_id"])
    entries, sizes = (np.array(told["curve"][name]) for name in ("entry_confidence", "size"))
    ids, entered = (np.array(told["items"][name]) for name in ("item_id", "entry_confidence"))
    for confidence in (0.5, 2 / 3, 0.8, 0.95, *(each for each in entries if 0 < each < 1)):
        picks = model.recommend(**mine, confidence=confidence)
        assert ids[entered < confidence - 1e-9].tolist() == picks.items
        assert [0, *sizes][(entries < confidence - 1e-9).sum()] == len(picks)
    few = post(client, "entry-confidences", **asked, recommender=name, limit=3)
    assert few["curve"] == told["curve"]
    assert few["items"]["item_id"] == told["items"]["item_id"][:3]


def test_a_ranking_has_no_curve_and_a_precise_list_no_slider(client, users):
    asked = {"user": users[0], "limit": 5}
    told = post(client, "entry-confidences", **asked, recommender="ranking")
    assert told["gives_confidence"] is False
    assert told["curve"] == {"entry_confidence": [], "size": []}
    assert "p_value" not in told["items"]
    told = post(client, "entry-confidences", **asked, recommender="precise")
    assert (told["gives_confidence"], told["guarantees_precision"]) == (False, True)
    assert all(0 <= p <= 1 for p in told["items"]["probability"])


def test_titles_are_found_without_case_accents_or_order(client):
    def found(**asked):
        return client.get("v1/items", params=asked).json()["items"]

    for words in ("amelie", "AMÉLIE", "plage ame"):
        assert [item["title"] for item in found(q=words)] == [ACCENT]
    assert found(q="onerror")[0]["title"] == NASTY
    supports = [item["support"] for item in found(limit=5)]
    assert supports == sorted(supports, reverse=True)
    assert found(q="no such title") == []


def test_the_card_tells_what_is_served_and_nothing_of_the_machine(client, films):
    answer = client.get("v1/model")
    told, card = answer.json(), read_card(films.folder)
    assert told["data"] == "made-up"
    for name in ("counts", "settings", "format_version"):
        assert told[name] == card[name]
    served = {each["name"]: each for each in told["recommenders"]}
    assert list(served) == list(card["recommenders"])
    assert all(each["guarantee"]["sentence"] for each in served.values())
    assert [served[name]["lists"] for name in ("sets", "precise")] == [["some"], []]
    assert [served[name]["guarantees_precision"] for name in ("sets", "precise")] == [False, True]
    assert served["sets"]["group_sizes"] == [2, 3]
    assert "worst" in served["sets"]["group_guarantee"]
    assert served["icrs12"]["group_guarantee"][0] == "mean"
    assert served["ranking"]["group_guarantee"] == []
    described = client.get("/openapi.json").json()["components"]["schemas"]
    named = described["RecommendRequest"]["properties"]["group_guarantee"]["anyOf"][0]["enum"]
    assert named == [*GROUP_GUARANTEE_KINDS, *MERGERS]
    assert answer.headers["surerec-model"] == told["model"]
    assert "secret.csv" not in answer.text
    assert sr.__version__ not in answer.text


def test_times_and_a_moment_are_those_of_python(client, films, items):
    early, model = int(np.quantile(films.data.times, 0.2)) // 10**6, films.models["learned"]
    iso, item = str(np.datetime64(early, "s")), items[40]
    turned = [early + 7 - place for place in range(8)]  # they sort the history
    for times in (
        {},
        {"at": early},
        {"at": iso},
        {"times": [early] * 8},
        {"times": [iso] * 8},
        {"times": turned},
    ):
        asked = {"history": items[:8], **times}
        told = post(client, "recommendations", **asked, confidence=0.9, recommender="learned")
        expected = model.recommend(**asked, confidence=0.9).to_dict()
        assert told == {**expected, "recommender": "learned"}
        told = post(client, "explanations", **asked, item=item, recommender="learned")
        assert told["score"] == pytest.approx(model.explain(**asked, item=item).score)
        told = post(client, "p-values", **asked, items=[item], recommender="learned")["items"][0]
        entered = model.p_values(**asked, items=[item])["entry_confidence"][0]
        assert told["entry_confidence"] == pytest.approx(entered)
        told = post(client, "entry-confidences", **asked, recommender="learned")
        assert told["items"]["score"][0] == pytest.approx(expected["items"][0]["score"])


def test_members_of_a_group_have_their_times(client, films, items):
    early = int(np.quantile(films.data.times, 0.2)) // 10**6
    parts, asked = (items[:8], items[:5]), {"recommender": "learned", "confidence": 0.9}
    timed = [{"history": part, "times": [early] * len(part)} for part in parts]
    pairs = [[(item, early) for item in part] for part in parts]
    expected = films.models["learned"].recommend(group=pairs, confidence=0.9)
    told = post(client, "recommendations", group=timed, **asked)
    assert [each["item_id"] for each in told["items"]] == expected.items
    untimed = {"group": [{"history": part} for part in parts], "at": early}
    assert post(client, "recommendations", **untimed, **asked)["items"] == told["items"]


def test_a_set_for_a_group_is_the_librarys(client, films, users, items):
    model, history = films.models["sets"], items[5:12]
    members = [{"user": users[0]}, {"user": users[1]}, {"history": history, "name": "Eve"}]
    group = {users[0]: users[0], users[1]: users[1], "Eve": history}
    for asked in ({"confidence": 0.8}, {"k": 3}):
        expected = {**model.recommend(group=group, **asked).to_dict(), "recommender": "sets"}
        assert post(client, "recommendations", group=members, **asked) == expected
        told = post(client, "recommendations", group=members, **asked, limit=0)
        assert told == {**expected, "items": []}


def test_reasons_by_member_and_merged_p_values(client, films, users):
    model, members = films.models["sets"], [{"user": user} for user in users[:5]]
    item = model.recommend(group=users[:2], confidence=0.8).items[0]
    told = post(client, "explanations", group=members[:2], item=item, limit=3)
    expected = model.explain_group(users[:2], item=item).to_dict(3)
    assert told == {**expected, "recommender": "sets"}
    asked = {"recommender": "icrs12", "group_guarantee": "maximum", "confidence": 0.6}
    told = post(client, "recommendations", group=members, **asked)  # any size
    assert "someone of this group" in told["guarantee"]["sentence"]
    assert told["items"][0]["p_value"] > 0.4


def group(*members):
    return {"group": [{"user": each} for each in members]}


@pytest.mark.parametrize(
    ("asked", "status", "says"),
    [
        ({"user": 7, "precision": 0.2}, 409, "guarantees recall, not precision"),
        ({"user": 7, "recommender": "precise", "precision": 0.995}, 409, "cannot be guaranteed"),
        ({"user": 7, "recommender": "precise"}, 409, "This recommender promises precision"),
        ({"user": 7, "item_list": "none"}, 409, "There is no item list 'none'. Use one of 'some'."),
        ({"history": [1, 2], "segment": "DE"}, 409, "segment"),
        ({"history": [1, 2], "times": [5]}, 422, "times has 1 values and history"),
        ({"history": [1], "times": ["soon"]}, 422, "times[0] is 'soon'; it must be"),
        ({"history": [1, 2], "times": [5, "2024-05-01"]}, 422, "a list of dates, or"),
        ({"history": [1], "times": [None]}, 422, "times[0] is None"),
        ({"history": [1], "times": [-5]}, 422, "times[0] is -5"),
        ({"history": [1], "times": []}, 422, "times is empty"),
        ({"history": [1], "times": [5] * 5001}, 422, "at most 5000 are taken"),
        ({"history": [1], "times": ["9" * 41]}, 422, "times[0] is"),
        ({"history": [1], "at": "soon"}, 422, "at is 'soon'; it must be a date"),
        ({"history": [1], "at": True}, 422, "at is True"),
        ({"history": [1], "times": [9], "at": 5}, 422, "before the last time of"),
        ({"user": 1, "times": [5]}, 422, "history has 0 items"),
        ({"user": 1, "at": 5}, 422, "at is about a history"),
        ({**group(1, 2), "at": 5}, 422, "at is about a"),
        ({"group": [{"user": 1}, {"history": [1, 2], "times": [5]}]}, 422, "times has 1 values"),
        (group(1, 1), 409, "is in the group twice"),
        (group(1, 99_999), 404, "There is no such user."),
        (group(1, 2, 3, 4), 409, "not calibrated for groups of 4"),
        ({**group(1, 2, 3), "group_guarantee": "all"}, 409, "up to 2"),
        ({**group(1, 2), "group_guarantee": "some"}, 422, "group_guarantee"),
        ({**group(1, 2), "group_guarantee": "mean"}, 422, "choose one of any, most"),
        ({**group(1, 2), "recommender": "ranking"}, 409, "no sets for groups"),
        (group(1), 422, "group"),
        ({"group": [{"user": 1}, {"user": 1, "history": [1]}]}, 422, "A member is a user"),
        ({"group": [{"user": 1}, {"name": "Eve"}]}, 422, "A member is a user, or a new user"),
    ],
)  # fmt: skip
def test_what_is_not_offered_is_refused_in_a_sentence(client, asked, status, says):
    assert says in problem(client.post("v1/recommendations", json=asked), status)


def test_a_group_has_no_p_values(client):
    asked = {**group(1, 2), "items": [1]}
    assert "no p-values" in problem(client.post("/v1/p-values", json=asked), 409)
