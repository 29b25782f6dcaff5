"""Every operation, options over HTTP and compared with the Python API."""

import numpy as np
import polars as pl
import pytest

import surerec as sr
from surerec.conformal import MERGERS
from surerec.recommenders import GROUP_GUARANTEE_KINDS
from surerec.storage import read_card
from tests.serving.serving_server import ACCENT, NASTY, problem


def rows(frame):
    """Return the rows of a frame as in JSON, with null for NaN and infinities."""
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
    """Users with histories of medium length."""
    lengths = np.diff(films.data.offsets)
    return [films.data.users[int(u)] for u in np.flatnonzero((lengths >= 10) & (lengths < 30))]


@pytest.fixture(scope="module")
def items(films):
    return films.data.items.ids.to_list()


SOME = slice(None, None, 2)
REQUESTS = [
    ("icrs12", {"confidence": 0.8}),
    ("ranking", {}),
    ("sets", {"confidence": 0.8}),
    ("sets", {"confidence": 0.8, "item_list": "some"}),
    ("sets", {"confidence": 0.8, "items": SOME, "min_probability": 0.3}),
    ("sets", {"k": 4, "exclude": slice(0, 1)}),
    ("sets", {"k": 101}),
    ("precise", {"precision": 0.2}),
    ("sets", {"history": slice(3, 33), "significance": 0.2, "k": 3}),
    ("learned", {"history": slice(0, 8), "at": "2020-04-01"}),
    ("learned", {"history": slice(0, 3), "times": [1585699202, 1585699201, 1585699200]}),
    ("icrs12", {"user": 7, "history": slice(3, 33), "k": 5}),
    ("apart", {"history": slice(0, 6), "segment": "DE", "confidence": 0.8}),
    ("apart", {"history": slice(0, 6), "segment": "FR", "confidence": 0.8}),
]


@pytest.mark.parametrize(("name", "options"), REQUESTS)
def test_sets_equal_those_of_the_library(client, films, users, items, name, options):
    options = {
        key: items[each] if isinstance(each, slice) else each for key, each in options.items()
    }
    options = options if "history" in options else {"user": users[0], **options}
    picks = films.models[name].recommend(**options)
    for limit in (10_000, 2, 0):  # shortens the response, not the set
        answer = post(client, "recommendations", **options, recommender=name, limit=limit)
        assert answer == {**picks.to_dict(limit), "recommender": name}
    assert picks.to_dict()["items"] == rows(picks.to_frame())


def test_p_values_and_explanations(client, films, users, items):
    model, user = films.models["sets"], users[0]
    for whom in ({"user": user}, {"history": items[:8], "at": "2020-04-01"}):
        some = model.recommend(**whom, confidence=0.8).items[:3]
        answer = post(client, "p-values", **whom, items=some)["items"]
        expected = rows(model.p_values(**whom, items=some))
        assert [{k: v for k, v in row.items() if k != "title"} for row in answer] == expected
        answer = post(client, "explanations", **whom, item=some[0], limit=4)
        expected = model.explain(**whom, item=some[0]).to_dict(4)
        assert answer == {**expected, "recommender": "sets"}


def test_batches_equal_recommend_many_and_list_unknown_users(client, films, users):
    model, some = films.models["sets"], users[:7]
    options = {"users": [*some, "nobody", some[0]], "k": 4}
    answer = post(client, "recommendations/batch", **options, confidence=0.7)
    assert answer["items"] == rows(model.recommend_many(some, confidence=0.7, k=4))
    assert answer["unknown_users"] == ["nobody"]
    assert answer["guarantee"]["reason"].startswith("the set was truncated")
    assert (answer["confidence"], answer["significance"]) == (0.7, 0.3)
    answer = post(client, "recommendations/batch", **options, item_list="some")
    assert (answer["confidence"], answer["significance"]) == (None, None)  # a short list
    assert answer["items"] == rows(model.recommend_many(some, k=4, item_list="some"))


def test_unknown_items_of_a_history_are_reported(client, items):
    history = [*items[:4], "nowhere", 10**9, "nowhere", 2**64]
    for path, more in (
        ("recommendations", {}),
        ("entry-confidences", {}),
        ("p-values", {"items": [items[9]]}),
        ("explanations", {"item": items[9]}),
    ):
        assert post(client, path, history=history, **more)["ignored"] == [
            "nowhere",
            10**9,
            str(2**64),
        ]


@pytest.mark.parametrize("path", ["recommendations", "p-values", "recommendations/batch"])
def test_unknown_items_of_a_list_are_skipped_and_reported(client, films, users, path):
    items = films.models["sets"].recommend(users[0], confidence=0.8).items[:3]
    whom = {"users": users[:1], "k": 3} if path.endswith("batch") else {"user": users[0]}
    expected = post(client, path, **whom, items=items)
    unknown = [f"sku-{n}" for n in range(4)]
    answer = post(client, path, **whom, items=[*items, unknown[0]])
    assert answer == {**expected, "unknown_items": unknown[:1]}
    mostly = {**whom, "items": [*items, *unknown]}
    assert "4 of 7 items are unknown" in problem(client.post(f"v1/{path}", json=mostly), 422)
    answer = post(client, path, **mostly, unknown="skip")
    assert answer == {**expected, "unknown_items": unknown}


@pytest.mark.parametrize("whom", ["icrs12", "sets", "group"])
def test_entry_confidences_give_the_set_at_every_confidence(client, films, users, items, whom):
    name = "sets" if whom == "group" else whom
    options, model, n = {"user": users[0]}, films.models[name], films.data.n_items
    mine = dict(options)
    if whom == "group":
        mine = {"group": [users[0], items[5:12]], "group_guarantee": "all"}
        options = {
            "group": [{"user": users[0]}, {"history": items[5:12]}],
            "group_guarantee": "all",
        }
    answer = post(client, "entry-confidences", **options, recommender=name, limit=n)
    assert answer["n_candidates"] == len(answer["items"]["item_id"])
    if whom == "group":
        assert answer["members"] == [users[0], "member 2"]
        assert len(answer["items"]["member_values"]) == answer["n_candidates"]
        assert sorted(answer["history"]["item_id"]) == sorted(items[5:12])
    else:
        assert answer["history_length"] == len(answer["history"]["item_id"])
    entries, sizes = (np.array(answer["curve"][name]) for name in ("entry_confidence", "size"))
    ids, entered = (np.array(answer["items"][name]) for name in ("item_id", "entry_confidence"))
    for confidence in (0.5, 2 / 3, 0.8, 0.95, *(each for each in entries if 0 < each < 1)):
        picks = model.recommend(**mine, confidence=confidence)
        assert ids[entered < confidence - 1e-9].tolist() == picks.items
        assert [0, *sizes][(entries < confidence - 1e-9).sum()] == len(picks)
    few = post(client, "entry-confidences", **options, recommender=name, limit=3)
    assert few["curve"] == answer["curve"]
    assert few["items"]["item_id"] == answer["items"]["item_id"][:3]


def test_rankings_and_precision_guarantees_have_no_confidence(client, users):
    options = {"user": users[0], "limit": 5}
    answer = post(client, "entry-confidences", **options, recommender="ranking")
    assert answer["gives_confidence"] is False
    assert answer["curve"] == {"entry_confidence": [], "size": []}
    assert "p_value" not in answer["items"]
    answer = post(client, "entry-confidences", **options, recommender="precise")
    assert (answer["gives_confidence"], answer["guarantees_precision"]) == (False, True)
    assert all(0 <= p <= 1 for p in answer["items"]["probability"])


def test_titles_are_found_without_case_accents_or_order(client):
    def found(**options):
        return client.get("v1/items", params=options).json()["items"]

    for words in ("amelie", "AMÉLIE", "plage ame"):
        assert [item["title"] for item in found(q=words)] == [ACCENT]
    assert found(q="onerror")[0]["title"] == NASTY
    supports = [item["support"] for item in found(limit=5)]
    assert supports == sorted(supports, reverse=True)
    assert found(q="no such title") == []


def test_the_model_card_contains_no_private_data(client, films):
    response = client.get("v1/model")
    answer, card = response.json(), read_card(films.folder)
    assert answer["data"] == "made-up"
    for name in ("counts", "settings", "format_version"):
        assert answer[name] == card[name]
    served = {each["name"]: each for each in answer["recommenders"]}
    assert list(served) == list(card["recommenders"])
    assert all(each["guarantee"]["sentence"] for each in served.values())
    assert [served[name]["item_lists"] for name in ("sets", "precise")] == [["some"], []]
    assert [served[name]["guarantees_precision"] for name in ("sets", "precise")] == [False, True]
    assert served["sets"]["group_sizes"] == [2, 3]
    assert "worst" in served["sets"]["group_guarantee"]
    assert served["icrs12"]["group_guarantee"][0] == "mean"
    assert served["ranking"]["group_guarantee"] == []
    described = client.get("/openapi.json").json()["components"]["schemas"]
    named = described["RecommendRequest"]["properties"]["group_guarantee"]["anyOf"][0]["enum"]
    assert named == [*GROUP_GUARANTEE_KINDS, *MERGERS]
    assert response.headers["surerec-model"] == answer["model"]
    assert "secret.csv" not in response.text
    assert sr.__version__ not in response.text


def test_members_of_a_group_have_times(client, films, items):
    early = int(np.quantile(films.data.times, 0.2)) // 10**6
    parts, options = (items[:8], items[:5]), {"recommender": "learned", "confidence": 0.9}
    timed = [{"history": part, "times": [early] * len(part)} for part in parts]
    pairs = [[(item, early) for item in part] for part in parts]
    expected = films.models["learned"].recommend(group=pairs, confidence=0.9)
    answer = post(client, "recommendations", group=timed, **options)
    assert [each["item_id"] for each in answer["items"]] == expected.items
    untimed = {"group": [{"history": part} for part in parts], "at": early}
    assert post(client, "recommendations", **untimed, **options)["items"] == answer["items"]


def test_group_sets_equal_those_of_the_library(client, films, users, items):
    model, history = films.models["sets"], items[5:12]
    members = [{"user": users[0]}, {"user": users[1]}, {"history": history, "name": "Eve"}]
    group = {users[0]: users[0], users[1]: users[1], "Eve": history}
    for options in ({"confidence": 0.8}, {"k": 3}):
        expected = {**model.recommend(group=group, **options).to_dict(), "recommender": "sets"}
        assert post(client, "recommendations", group=members, **options) == expected
        answer = post(client, "recommendations", group=members, **options, limit=0)
        assert answer == {**expected, "items": []}


def test_group_explanations_and_merged_p_values(client, films, users):
    model, members = films.models["sets"], [{"user": user} for user in users[:5]]
    item = model.recommend(group=users[:2], confidence=0.8).items[0]
    answer = post(client, "explanations", group=members[:2], item=item, limit=3)
    expected = model.explain_group(users[:2], item=item).to_dict(3)
    assert answer == {**expected, "recommender": "sets"}
    options = {"recommender": "icrs12", "group_guarantee": "maximum", "confidence": 0.6}
    answer = post(client, "recommendations", group=members, **options)  # any size
    assert "some member of this group" in answer["guarantee"]["sentence"]
    assert answer["items"][0]["p_value"] > 0.4


def group(*members):
    return {"group": [{"user": each} for each in members]}


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        ({"user": 7, "precision": 0.2}, 409, "guarantees recall, not precision"),
        ({"user": 7, "recommender": "precise", "precision": 0.995}, 409, "cannot be guaranteed"),
        ({"user": 7, "item_list": "none"}, 409, "There is no item list 'none'. Use one of 'some'."),
        ({"history": [1, 2], "times": [5]}, 422, "times has 1 values and history"),
        ({"history": [1], "times": ["soon"]}, 422, "times[0] is 'soon'; it must be"),
        ({"history": [1], "times": [5] * 5001}, 422, "times is too long. Send at most 5000"),
        ({"history": [1], "at": "soon"}, 422, "at is 'soon'; it must be a date"),
        ({"user": 1, "at": 5}, 422, "at needs a history"),
        (group(1, 1), 409, "is in the group twice"),
        (group(1, 99_999), 404, "There is no such user."),
        ({**group(1, 2), "group_guarantee": "mean"}, 422, "choose one of any, most"),
        (group(1), 422, "group"),
        ({"group": [{"user": 1}, {"user": 1, "history": [1]}]}, 422, "A member needs exactly one"),
    ],
)  # fmt: skip
def test_unsupported_options_are_refused(client, options, status, message):
    assert message in problem(client.post("v1/recommendations", json=options), status)


def test_a_group_has_no_p_values(client):
    options = {**group(1, 2), "items": [1]}
    assert "no p-values" in problem(client.post("/v1/p-values", json=options), 409)
