"""Every operation, asked over HTTP and compared with the Python API."""

import numpy as np
import polars as pl
import pytest

import surerec as sr
from surerec.conformal import MERGERS
from surerec.recommenders import GROUP_PROMISES, save_all
from surerec.storage import read_card
from tests.serving.serving_server import ACCENT, NASTY, made_up, problem


def rows(frame):
    """Rows as JSON has them: NaN and infinities are null."""
    numbers = pl.selectors.float()
    finite = pl.when(numbers.is_finite()).then(numbers)
    return frame.with_columns(finite).to_dicts()


def post(client, path, **body):
    answer = client.post(f"v1/{path}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("name", ["icrs12", "icrs3", "crs-max", "precedence-mining"])
def test_a_set_is_the_librarys(client, model_folder, known, name):
    model, user = sr.load(model_folder, name), known[1]
    level = {"confidence": 0.8} if "confidence" in model.model_.features else {}
    picks = model.recommend(user, **level)
    told = post(client, "recommendations", user=user, recommender=name, **level)
    assert told == picks.to_dict()
    assert told["items"] == rows(picks.to_frame())
    for limit in (0, 2):  # shortens the answer and not the set
        told = post(client, "recommendations", user=user, recommender=name, limit=limit, **level)
        assert told == picks.to_dict(limit)


def test_history_k_exclude_and_significance_mean_what_they_mean_in_python(client, known):
    model, user = known
    history = model.items_.ids[3:33].to_list()
    first = model.recommend(history=history, significance=0.2).items[0]
    for asked in (
        {"history": history, "significance": 0.2, "k": 3, "exclude": [first]},
        {"user": user, "history": history, "k": 5},
    ):
        told = post(client, "recommendations", **asked)
        assert told == model.recommend(**asked).to_dict()
        assert not told["guarantee"]["holds"]


def test_unknown_items_of_a_history_are_named_and_the_others_answer(client, known):
    model, _ = known
    history = [*model.items_.ids[:4].to_list(), "nowhere", 10**9, "nowhere"]
    for path, more in (
        ("recommendations", {}),
        ("entry-confidences", {}),
        ("p-values", {"items": [model.items_[9]]}),
        ("explanations", {"item": model.items_[9]}),
    ):
        assert post(client, path, history=history, **more)["ignored"] == ["nowhere", 10**9]


def test_one_answer_serves_every_confidence(client, known):
    model, user = known
    told = post(client, "entry-confidences", user=user, limit=10_000)
    assert told["n_candidates"] == len(told["items"]["item_id"])
    assert told["history_length"] == len(told["history"]["item_id"])
    entries, sizes = (np.array(told["curve"][name]) for name in ("entry_confidence", "size"))
    ids, entered = (np.array(told["items"][name]) for name in ("item_id", "entry_confidence"))
    levels = [0.5, 0.6, 2 / 3, 0.75, 0.8, 0.9, 0.95, 0.99, *entries]
    for confidence in [level for level in levels if 0 < level < 1]:
        picks = model.recommend(user, confidence=confidence)
        assert ids[entered < confidence - 1e-9].tolist() == picks.items
        assert [0, *sizes][(entries < confidence - 1e-9).sum()] == len(picks)
    few = post(client, "entry-confidences", user=user, limit=3)
    assert few["curve"] == told["curve"]
    assert few["items"]["item_id"] == told["items"]["item_id"][:3]


def test_a_ranking_has_no_curve_and_no_p_values(client, known):
    asked = {"user": known[1], "recommender": "precedence-mining", "limit": 5}
    told = post(client, "entry-confidences", **asked)
    assert told["gives_confidence"] is False
    assert told["curve"] == {"entry_confidence": [], "size": []}
    assert "p_value" not in told["items"]


def test_p_values_and_explanations(client, known):
    model, user = known
    items = model.recommend(user, confidence=0.8).items[:3]
    told = post(client, "p-values", user=user, items=items)["items"]
    expected = rows(model.p_values(user, items=items))
    assert [{k: v for k, v in row.items() if k != "title"} for row in told] == expected
    told = post(client, "explanations", user=user, item=items[0], limit=4)
    assert told == model.explain(user, item=items[0]).to_dict(4)


def test_a_batch_is_recommend_many_and_names_who_is_unknown(client, known):
    model, _ = known
    users = model.statistics_.interactions.users.ids[:7].to_list()
    asked = {"users": [*users, "nobody", users[0]], "k": 4}
    told = post(client, "recommendations/batch", **asked, confidence=0.7)
    assert told["items"] == rows(model.recommend_many(users, confidence=0.7, k=4))
    assert told["unknown_users"] == ["nobody"]
    assert told["guarantee"]["reason"].startswith("the set was truncated")
    assert (told["confidence"], told["significance"]) == (0.7, 0.3)
    told = post(client, "recommendations/batch", **asked)
    assert (told["confidence"], told["significance"]) == (None, None)  # a short list
    assert told["items"] == rows(model.recommend_many(users, k=4))


@pytest.mark.parametrize("path", ["recommendations", "p-values", "recommendations/batch"])
def test_unknown_items_of_a_list_are_skipped_and_named(client, known, path):
    model, user = known
    items = model.recommend(user, confidence=0.8).items[:3]
    whom = {"users": [user], "k": 3} if path.endswith("batch") else {"user": user}
    expected = post(client, path, **whom, items=items)
    told = post(client, path, **whom, items=[*items, "sku-1"])
    assert told == {**expected, "unknown_items": ["sku-1"]}
    unknown = [f"sku-{n}" for n in range(4)]
    mostly = {**whom, "items": [*items, *unknown]}
    assert "4 of 7 items are unknown" in problem(client.post(f"v1/{path}", json=mostly), 422)
    told = post(client, path, **mostly, unknown="skip")
    assert told == {**expected, "unknown_items": unknown}


def test_titles_are_found_without_case_accents_or_order(client):
    def found(**asked):
        return client.get("v1/items", params=asked).json()["items"]

    for words in ("amelie", "AMÉLIE", "plage ame"):
        assert [item["title"] for item in found(q=words)] == [ACCENT]
    assert found(q="onerror")[0]["title"] == NASTY
    supports = [item["support"] for item in found(limit=5)]
    assert supports == sorted(supports, reverse=True)
    assert found(q="no such title") == []


def test_the_card_tells_what_is_served_and_nothing_of_the_machine(client, model_folder):
    answer = client.get("v1/model")
    told, card = answer.json(), read_card(model_folder)
    assert told["data"] == "made-up"
    for name in ("counts", "settings", "format_version"):
        assert told[name] == card[name]
    assert [each["name"] for each in told["recommenders"]] == list(card["recommenders"])
    assert all(each["guarantee"]["sentence"] for each in told["recommenders"])
    assert answer.headers["surerec-model"] == told["model"]
    assert "secret.csv" not in answer.text
    assert sr.__version__ not in answer.text


def test_a_new_user_has_a_segment(in_process, tmp_path):
    films = sr.datasets.synthetic(n_users=120, n_items=40, n_rows=2_400, seed=1)
    country = {user: "DE" if user % 2 else "AT" for user in films.users.ids}
    model = sr.PopulationConformal("CM12", groups="country").fit(films, user_groups=country)
    save_all(
        tmp_path / "apart",
        {"apart": model, "icrs12": sr.InductiveConformal().fit(model.statistics_)},
    )
    client, history = in_process(tmp_path / "apart"), films.items.ids[:6].to_list()
    for segment in ("DE", "AT", "FR", None):
        asked = {"history": history, "segment": segment, "confidence": 0.8}
        told = post(client, "recommendations", **asked)
        assert told == {**model.recommend(**asked).to_dict(), "recommender": "apart"}
    asked = {"history": history, "segment": "DE", "recommender": "icrs12"}
    problem(client.post("v1/recommendations", json=asked), 409)


@pytest.fixture(scope="module")
def listed():
    films = sr.datasets.synthetic(n_users=300, n_items=60, n_rows=9000, seed=1)
    counts, some = sr.count_precedence(films), films.items.ids.to_list()[::2]
    model = sr.PopulationConformal("CM12").fit(counts, lists={"some": some})
    return model, sr.PopulationConformal("CM12", promise="precision").fit(counts), some


@pytest.fixture(scope="module")
def lists_client(listed, in_process, tmp_path_factory):
    folder = tmp_path_factory.mktemp("lists") / "model"
    save_all(folder, {"sets": listed[0], "lists": listed[1]})
    return in_process(folder)


def test_options_mean_what_they_mean_in_python(lists_client, listed):
    model, precise, some = listed
    for asked in (
        {"confidence": 0.8, "item_list": "some"},
        {"confidence": 0.8, "items": some, "min_probability": 0.3},
        {"k": 4},
        {"k": 4, "exclude": [some[0]]},
        {"k": 101},
        {"confidence": 0.8},
    ):
        told = post(lists_client, "recommendations", user=7, **asked)
        assert told == {**model.recommend(7, **asked).to_dict(), "recommender": "sets"}
    told = post(lists_client, "recommendations", user=7, recommender="lists", precision=0.2)
    assert told == {**precise.recommend(7, precision=0.2).to_dict(), "recommender": "lists"}
    told = post(lists_client, "entry-confidences", user=7, recommender="lists", limit=5)
    assert (told["gives_confidence"], told["promises_precision"]) == (False, True)
    assert all(0 <= p <= 1 for p in told["items"]["probability"])
    asked = {"users": [7, 9], "k": 3, "item_list": "some", "confidence": 0.8}
    found = post(lists_client, "recommendations/batch", **asked)["items"]
    assert {row["item_id"] for row in found} <= set(some)
    card = lists_client.get("v1/model").json()["recommenders"]
    assert [each["lists"] for each in card] == [["some"], []]
    assert [each["promises_precision"] for each in card] == [False, True]


@pytest.mark.parametrize(
    ("asked", "status", "says"),
    [
        ({"precision": 0.2}, 409, "promises miss-rate, not precision"),
        ({"recommender": "lists", "precision": 0.995}, 422, "cannot be promised"),
        ({"recommender": "lists"}, 422, "This recommender promises precision"),
        ({"item_list": "none"}, 409, "There is no list 'none'; there is 'some'."),
    ],
)
def test_what_is_not_offered_is_refused(lists_client, asked, status, says):
    answer = lists_client.post("v1/recommendations", json={"user": 7, **asked})
    assert answer.status_code in (409, 422)
    assert says in problem(answer, answer.status_code), status


@pytest.fixture(scope="module")
def timed_films():
    return sr.datasets.synthetic(n_users=260, n_items=60, n_rows=6_000, drift=1.0, seed=8)


@pytest.fixture(scope="module")
def timed_model(timed_films):
    return sr.PopulationConformal("learned").fit(timed_films).calibrate_groups([2])


@pytest.fixture(scope="module")
def timed_client(timed_model, in_process, tmp_path_factory):
    folder = tmp_path_factory.mktemp("times") / "films"
    timed_model.save(folder)
    return in_process(folder)


@pytest.fixture(scope="module")
def history(timed_films):
    return timed_films.items.ids[:8].to_list()


@pytest.fixture(scope="module")
def early(timed_films):
    return int(np.quantile(timed_films.times, 0.2)) // 10**6


def test_times_and_a_moment_are_those_of_python(
    timed_client, timed_model, timed_films, history, early
):
    iso = str(np.datetime64(early, "s"))
    turned = [early + 7 - place for place in range(8)]  # they sort the history
    for times in (
        {},
        {"at": early},
        {"at": iso},
        {"times": [early] * 8},
        {"times": [iso] * 8},
        {"times": turned},
    ):
        asked, item = {"history": history, **times}, timed_films.items[40]
        picks = timed_model.recommend(**asked, confidence=0.9)
        told = post(timed_client, "recommendations", **asked, confidence=0.9)
        assert [row["item_id"] for row in told["items"]] == picks.items
        assert told["guarantee"] == picks.guarantee.to_dict()
        told = post(timed_client, "explanations", **asked, item=item)
        assert told["score"] == pytest.approx(timed_model.explain(**asked, item=item).score)
        told = post(timed_client, "p-values", **asked, items=[item])["items"][0]
        expected = timed_model.p_values(**asked, items=[item])["entry_confidence"][0]
        assert told["entry_confidence"] == pytest.approx(expected)
        told = post(timed_client, "entry-confidences", **asked)
        assert told["items"]["score"][0] == pytest.approx(picks.to_frame()["score"][0])


def test_members_of_a_group_have_their_times(timed_client, timed_model, history, early):
    parts = (history, history[:5])
    timed = [{"history": part, "times": [early] * len(part)} for part in parts]
    pairs = [[(item, early) for item in part] for part in parts]
    expected = timed_model.recommend(group=pairs, confidence=0.9)
    told = post(timed_client, "recommendations", group=timed)
    assert [each["item_id"] for each in told["items"]] == expected.items
    untimed = {"group": [{"history": part} for part in parts], "at": early}
    assert post(timed_client, "recommendations", **untimed)["items"] == told["items"]
    post(timed_client, "entry-confidences", **untimed)
    post(timed_client, "explanations", **untimed, item=expected.items[0])


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"history": [1, 2], "times": [5]}, "times has 1 values and history"),
        ({"history": [1], "times": ["soon"]}, "times[0] is 'soon'; it must be"),
        ({"history": [1, 2], "times": [5, "2024-05-01"]}, "a list of dates, or"),
        ({"history": [1], "times": [None]}, "times[0] is None"),
        ({"history": [1], "times": [-5]}, "times[0] is -5"),
        ({"history": [1], "times": []}, "times is empty"),
        ({"history": [1], "times": [5] * 5001}, "at most 5000 are taken"),
        ({"history": [1], "times": ["9" * 41]}, "times[0] is"),
        ({"history": [1], "at": "soon"}, "at is 'soon'; it must be a date"),
        ({"history": [1], "at": True}, "at is True"),
        ({"history": [1], "times": [9], "at": 5}, "before the last time of"),
        ({"user": 1, "times": [5]}, "history has 0 items"),
        ({"user": 1, "at": 5}, "at is about a history"),
        ({"group": [{"user": 1}, {"user": 2}], "at": 5}, "at is about a"),
        ({"group": [{"user": 1}, {"history": [1, 2], "times": [5]}]}, "times has 1 values"),
    ],
)
def test_wrong_times_are_refused_in_a_sentence(timed_client, asked, says):
    assert says in problem(timed_client.post("v1/recommendations", json=asked), 422)


@pytest.fixture(scope="module")
def group_model():
    return sr.PopulationConformal("CM12").fit(made_up()).calibrate_groups([2, 3])


@pytest.fixture(scope="module")
def group_client(group_model, in_process, tmp_path_factory):
    folder, counts = tmp_path_factory.mktemp("groups") / "films", group_model.statistics_
    by_items, ranking = sr.InductiveConformal("CM12"), sr.PrecedenceMining()
    others = {"icrs12": by_items.fit(counts), "ranking": ranking.fit(counts)}
    save_all(folder, {"over-users": group_model, **others})
    return in_process(folder)


@pytest.fixture(scope="module")
def users(group_model):
    """Users of whom enough is known, and not too much."""
    data = group_model.statistics_.interactions
    lengths = np.diff(data.offsets)
    return [data.users[int(u)] for u in np.flatnonzero((lengths >= 10) & (lengths < 30))]


def test_a_set_for_a_group_is_the_librarys(group_client, group_model, users):
    history = group_model.items_.ids[5:12].to_list()
    members = [{"user": users[0]}, {"user": users[1]}, {"history": history, "name": "Eve"}]
    group = {users[0]: users[0], users[1]: users[1], "Eve": history}
    for asked in ({"confidence": 0.8}, {"k": 3}):
        expected = {**group_model.recommend(group=group, **asked).to_dict()}
        told = post(group_client, "recommendations", group=members, **asked)
        assert told == {**expected, "recommender": "over-users"}
        told = post(group_client, "recommendations", group=members, **asked, limit=0)
        assert told == {**expected, "recommender": "over-users", "items": []}


def test_one_answer_to_a_group_serves_every_confidence(group_client, group_model, users):
    members = [{"user": users[0]}, {"history": group_model.items_.ids[5:12].to_list()}]
    told = post(group_client, "entry-confidences", group=members, together="all", limit=20)
    assert told["members"] == [users[0], "member 2"]
    assert len(told["items"]["member_values"]) == 20
    assert sorted(told["history"]["item_id"]) == sorted(members[1]["history"])
    group = [users[0], members[1]["history"]]
    for confidence in (0.6, 0.85):
        picks = group_model.recommend(group=group, together="all", confidence=confidence)
        inside = np.array(told["curve"]["entry_confidence"]) < confidence - 1e-9
        assert [0, *told["curve"]["size"]][int(inside.sum())] == len(picks)
        n = min(20, len(picks))
        assert told["items"]["item_id"][:n] == picks.items[:n]


def test_reasons_by_member_and_merged_p_values(group_client, group_model, users):
    item = group_model.recommend(group=users[:2], confidence=0.8).items[0]
    members = [{"user": user} for user in users[:5]]
    told = post(group_client, "explanations", group=members[:2], item=item, limit=3)
    expected = group_model.explain_group(users[:2], item=item).to_dict(3)
    assert told == {**expected, "recommender": "over-users"}
    asked = {"recommender": "icrs12", "together": "maximum", "confidence": 0.6}
    told = post(group_client, "recommendations", group=members, **asked)  # any size
    assert "someone of this group" in told["guarantee"]["sentence"]
    assert told["items"][0]["p_value"] > 0.4


def test_the_card_and_the_description_have_the_kinds_of_guarantees(group_client):
    over_users, by_items, ranking = group_client.get("/v1/model").json()["recommenders"]
    assert over_users["group_sizes"] == [2, 3]
    assert "worst" in over_users["together"]
    assert by_items["together"][0] == "mean"
    assert ranking["together"] == []
    described = group_client.get("/openapi.json").json()["components"]["schemas"]
    named = described["RecommendRequest"]["properties"]["together"]["anyOf"][0]["enum"]
    assert named == [*GROUP_PROMISES, *MERGERS]


@pytest.mark.parametrize(
    ("members", "more", "status", "says"),
    [
        ([0, 0], {}, 409, "is in the group twice"),
        ([0, 99_999], {}, 404, "There is no such user."),
        ([0, 1, 2, 3], {}, 409, "not calibrated for groups of 4"),
        ([0, 1, 2], {"together": "all"}, 409, "up to 2"),
        ([0, 1], {"together": "some"}, 422, "together"),
        ([0, 1], {"together": "mean"}, 422, "choose one of any, most"),
        ([0, 1], {"recommender": "ranking"}, 409, "no sets for groups"),
        ([0], {}, 422, "group"),
    ],
)
def test_refusals_are_one_sentence(group_client, users, members, more, status, says):
    group = [{"user": users[place] if place < 1000 else place} for place in members]
    answer = group_client.post("/v1/recommendations", json={"group": group, **more})
    assert says in problem(answer, status)


def test_a_member_is_a_user_or_a_history(group_client, users):
    for member in ({"user": users[0], "history": [1]}, {}, {"name": "Eve"}):
        asked = {"group": [{"user": users[1]}, member]}
        told = problem(group_client.post("/v1/recommendations", json=asked), 422)
        assert "A member is a user, or a new user with a history" in told
    asked = {"group": [{"user": user} for user in users[:2]], "items": [1]}
    assert "no p-values" in problem(group_client.post("/v1/p-values", json=asked), 409)
