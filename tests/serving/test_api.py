"""Every operation, asked over HTTP and compared with the Python API."""

import re

import polars as pl
import pytest

import surerec as sr
from surerec.storage import read_card
from tests.serving.serving_server import ACCENT, NASTY, someone


@pytest.fixture(scope="module")
def known(model_folder):
    return someone(model_folder)


def rows(frame):
    """Rows as JSON has them: NaN and infinities are null."""
    numbers = pl.selectors.float()
    finite = pl.when(numbers.is_finite()).then(numbers)
    return frame.with_columns(finite).to_dicts()


def test_a_set_for_a_user_is_the_librarys(client, known):
    model, user = known
    picks = model.recommend(user, confidence=0.8)
    answer = client.post("v1/recommendations", json={"user": user, "confidence": 0.8})
    assert answer.status_code == 200
    assert answer.json() == picks.to_dict()
    assert picks.to_dict()["items"] == rows(picks.to_frame())


@pytest.mark.parametrize("name", ["icrs3", "crs-max", "precedence-mining"])
def test_every_recommender_of_the_folder_answers(client, model_folder, known, name):
    model, user = sr.load(model_folder, name), known[1]
    level = {"confidence": 0.7} if "confidence" in model.model_.features else {}
    body = {"user": user, "recommender": name, **level}
    told = client.post("v1/recommendations", json=body).json()
    picks = model.recommend(user, **level)
    assert told == picks.to_dict()
    assert told["confidence"] == level.get("confidence")


def test_history_k_exclude_and_significance_mean_what_they_mean_in_python(client, known):
    model, user = known
    history = model.items_.ids[3:33].to_list()
    first = model.recommend(history=history, significance=0.2).items[0]
    body = {"history": history, "significance": 0.2, "k": 3, "exclude": [first]}
    told = client.post("v1/recommendations", json=body).json()
    picks = model.recommend(history=history, significance=0.2, k=3, exclude=[first])
    assert [row["item_id"] for row in told["items"]] == picks.items
    assert told["full_size"] == picks.full_size > 3
    assert told["guarantee"] == picks.guarantee.to_dict()
    assert not told["guarantee"]["holds"]
    beside = client.post("v1/recommendations", json={"user": user, "history": history, "k": 5})
    expected = model.recommend(user, history=history, confidence=0.9, k=5)
    assert [row["item_id"] for row in beside.json()["items"]] == expected.items


def test_unknown_items_of_a_history_are_named_and_the_others_answer(client, known):
    model, _ = known
    history = [*model.items_.ids[:4].to_list(), "nowhere", 10**9, "nowhere"]
    for path, more in (
        ("v1/recommendations", {}),
        ("v1/entry-confidences", {}),
        ("v1/p-values", {"items": [model.items_[9]]}),
        ("v1/explanations", {"item": model.items_[9]}),
    ):
        answer = client.post(path, json={"history": history, **more})
        assert answer.status_code == 200, answer.text
        assert answer.json()["ignored"] == ["nowhere", 10**9]


def test_one_answer_serves_every_confidence(client, known):
    model, user = known
    told = client.post("v1/entry-confidences", json={"user": user, "limit": 10_000}).json()
    assert told["n_candidates"] == len(told["items"]["item_id"])
    assert told["history_length"] == len(told["history"]["item_id"])
    entries, sizes = told["curve"]["entry_confidence"], told["curve"]["size"]
    levels = [0.5, 0.6, 2 / 3, 0.75, 0.8, 0.9, 0.95, 0.99, *entries]
    for confidence in [level for level in levels if 0 < level < 1]:
        picks = model.recommend(user, confidence=confidence)
        inside = [entry < confidence - 1e-9 for entry in told["items"]["entry_confidence"]]
        cut = [i for i, is_in in zip(told["items"]["item_id"], inside, strict=True) if is_in]
        assert cut == picks.items
        below = [
            size for entry, size in zip(entries, sizes, strict=True) if entry < confidence - 1e-9
        ]
        assert (below or [0])[-1] == len(picks)
    few = client.post("v1/entry-confidences", json={"user": user, "limit": 3}).json()
    assert few["curve"] == told["curve"]
    assert few["items"]["item_id"] == told["items"]["item_id"][:3]


def test_a_ranking_has_no_curve_and_no_p_values(client, known):
    body = {"user": known[1], "recommender": "precedence-mining", "limit": 5}
    told = client.post("v1/entry-confidences", json=body).json()
    assert told["gives_confidence"] is False
    assert told["curve"] == {"entry_confidence": [], "size": []}
    assert "p_value" not in told["items"]


def test_a_limit_shortens_the_answer_and_not_the_set(client, known):
    model, user = known
    picks = model.recommend(user, confidence=0.75)
    for limit in (0, 2):
        asked = {"user": user, "confidence": 0.75, "limit": limit}
        told = client.post("v1/recommendations", json=asked).json()
        assert told == picks.to_dict(limit)
        assert len(told["items"]) == limit
        assert (told["guarantee"], told["full_size"]) == (picks.guarantee.to_dict(), len(picks))


def test_p_values_and_explanations(client, known):
    model, user = known
    items = model.recommend(user, confidence=0.8).items[:3]
    told = client.post("v1/p-values", json={"user": user, "items": items}).json()
    expected = rows(model.p_values(user, items=items))
    assert [{k: v for k, v in row.items() if k != "title"} for row in told["items"]] == expected
    why = model.explain(user, item=items[0])
    told = client.post("v1/explanations", json={"user": user, "item": items[0], "limit": 4}).json()
    assert told == why.to_dict(4)
    assert told["sentences"] == why.sentences(4)
    assert told["because"] == rows(why.to_frame().head(4))


def test_a_batch_is_recommend_many_and_names_who_is_unknown(client, known):
    model, _ = known
    users = model.statistics_.interactions.users.ids[:7].to_list()
    body = {"users": [*users, "nobody", users[0]], "confidence": 0.7, "k": 4}
    told = client.post("v1/recommendations/batch", json=body).json()
    assert told["items"] == rows(model.recommend_many(users, confidence=0.7, k=4))
    assert told["unknown_users"] == ["nobody"]
    assert told["guarantee"]["reason"].startswith("the set was truncated")
    assert (told["confidence"], told["significance"]) == (0.7, 0.3)
    told = client.post("v1/recommendations/batch", json={"users": users, "k": 4}).json()
    assert (told["confidence"], told["significance"]) == (None, None)  # a short list
    assert told["items"] == rows(model.recommend_many(users, k=4))


def test_unknown_items_of_a_list_are_skipped_and_named(client, known):
    model, user = known
    items = model.recommend(user, confidence=0.8).items[:3]
    for path, more in (
        ("recommendations", {"user": user}),
        ("p-values", {"user": user}),
        ("recommendations/batch", {"users": [user], "k": 3}),
    ):
        body = {**more, "items": items}
        expected = client.post(f"v1/{path}", json=body).json()
        told = client.post(f"v1/{path}", json={**body, "items": [*items, "sku-1"]}).json()
        assert told == {**expected, "unknown_items": ["sku-1"]}
        mostly = {**body, "items": [*items, *(f"sku-{n}" for n in range(4))]}
        refused = client.post(f"v1/{path}", json=mostly)
        assert (refused.status_code, "4 of 7 items are unknown" in refused.text) == (422, True)
        told = client.post(f"v1/{path}", json={**mostly, "unknown": "skip"}).json()
        assert told == {**expected, "unknown_items": mostly["items"][3:]}


def test_titles_are_found_without_case_accents_or_order(client):
    for words in ("amelie", "AMÉLIE", "plage ame"):
        found = client.get("v1/items", params={"q": words}).json()["items"]
        assert [item["title"] for item in found] == [ACCENT]
    assert client.get("v1/items", params={"q": "onerror"}).json()["items"][0]["title"] == NASTY
    popular = client.get("v1/items", params={"limit": 5}).json()["items"]
    supports = [item["support"] for item in popular]
    assert supports == sorted(supports, reverse=True)
    assert client.get("v1/items", params={"q": "no such title"}).json() == {"items": []}


def test_the_card_tells_what_is_served_and_nothing_of_the_machine(client, model_folder):
    answer = client.get("v1/model")
    told, card = answer.json(), read_card(model_folder)
    assert told["data"] == "made-up"
    assert (told["counts"], told["settings"]) == (card["counts"], card["settings"])
    assert told["format_version"] == card["format_version"]
    assert [r["name"] for r in told["recommenders"]] == list(card["recommenders"])
    for recommender in told["recommenders"]:
        assert recommender["guarantee"]["sentence"]
    assert answer.headers["surerec-model"] == told["model"]
    assert "secret.csv" not in answer.text
    assert sr.__version__ not in answer.text


def test_it_is_alive_ready_and_described(client):
    assert client.get("healthz").json() == {"status": "ok"}
    assert client.get("readyz").json() == {"status": "ready"}
    description = client.get("openapi.json").json()
    assert "/v1/recommendations" in description["paths"]
    assert client.get("docs").headers["content-type"].startswith("text/html")


def test_metrics_count_over_all_workers(server):
    def counted():
        text = client.get("metrics").text
        found = re.findall(r'surerec_requests_total{.*route="/v1/items",status="200"} (\S+)', text)
        assert "surerec_workers_ready 2.0" in text
        return sum(map(float, found))

    with server.client() as client:
        before = counted()
    for _ in range(20):  # each on a connection of its own, so that both workers have some
        with server.client() as one:
            one.get("v1/items")
    with server.client() as client:
        assert counted() == before + 20


def test_every_answer_has_a_request_id_and_says_how_to_be_treated(client):
    given = client.get("healthz", headers={"X-Request-ID": "gateway-7.a"})
    assert given.headers["x-request-id"] == "gateway-7.a"
    odd = client.get("healthz", headers={"X-Request-ID": "a b\tc"})
    assert re.fullmatch("[0-9a-f]{32}", odd.headers["x-request-id"])
    for answer in (given, client.get("nowhere"), client.get(""), client.get("static/page.js")):
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "server" not in answer.headers
        assert "access-control-allow-origin" not in answer.headers


def test_the_log_has_lines_and_no_personal_data(server, client):
    user = 271828182845
    client.post("v1/recommendations", json={"user": user}, headers={"X-Request-ID": "look-for-me"})
    client.get("v1/items", params={"q": "whisper"})
    client.get("users/ann-the-spy")
    (line,) = [x for x in server.wait_for("request") if x.get("request_id") == "look-for-me"]
    assert (line["route"], line["status"], line["method"]) == ("/v1/recommendations", 404, "POST")
    assert line["ms"] > 0
    for personal in (str(user), "whisper", "ann-the-spy", "127.0.0.1:"):
        assert personal not in server.text.split("Ctrl-C", 1)[1]


def test_files_of_the_page_are_served_and_cached_by_their_tag(client):
    first = client.get("static/plotly.min.js")
    assert first.headers["content-type"].startswith("text/javascript")
    assert len(first.content) > 1_000_000
    again = client.get("static/plotly.min.js", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    for path in ("static/..%2f_keys.py", "static/../_keys.py", "static/_keys.py", "static/"):
        assert client.get(path).status_code == 404


def test_a_new_user_says_their_segment(start, tmp_path):
    films = sr.datasets.synthetic(n_users=120, n_items=40, n_rows=2_400, seed=1)
    country = {user: "DE" if user % 2 else "AT" for user in films.users.ids}
    model = sr.PopulationConformal("CM12", groups="country").fit(films, user_groups=country)
    model.save(tmp_path / "apart")
    sr.InductiveConformal("CM12").fit(model.statistics_).save(tmp_path / "apart")
    history = films.items.ids[:6].to_list()
    with start(tmp_path / "apart").client() as client:
        for group in ("DE", "AT", "FR", None):
            body = {"history": history, "segment": group, "confidence": 0.8}
            body["recommender"] = "population-cm12"
            told = client.post("v1/recommendations", json=body).json()
            picks = model.recommend(history=history, segment=group, confidence=0.8)
            assert told["guarantee"] == picks.guarantee.to_dict()
            assert [row["item_id"] for row in told["items"]] == picks.items
        body = {"history": history, "segment": "DE", "recommender": "icrs12"}
        refused = client.post("v1/recommendations", json=body)
        assert refused.status_code == 409
        assert "has no segments" in refused.json()["detail"]
