"""Error responses: status, detail and no leak."""

import json

import numpy as np
import pytest

import surerec as sr
from surerec import errors
from surerec.serving._models import load
from surerec.serving._problems import REFUSALS
from tests.serving.serving_server import problem


@pytest.fixture(scope="module")
def user(known):
    return known[1]


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("recommendations", {"user": "nobody"}, 404, "There is no such user. Send an id of"),
        ("recommendations", {}, 422, "Send user, history or group."),
        ("recommendations", {"user": 1, "group": [{"user": 1}, {"user": 2}]}, 422, "not both"),
        ("recommendations", {"user": 1, "group_guarantee": "any"}, 422, "needs group. Send group"),
        ("recommendations", {"history": []}, 422, "history is too short. Send at least 1."),
        ("recommendations", {"history": ["?"]}, 404, "No item of history is known."),
        ("recommendations", {"history": list(range(5001))}, 422, "too long. Send at most 5000."),
        ("recommendations", {"history": "5,6"}, 422, "valid list"),
        ("recommendations", {"history": [1.5]}, 422, "history[0] is 1.5"),
        ("recommendations", {"user": 1, "confidence": 90}, 422, "did you mean 0.9?"),
        ("recommendations", {"user": 1, "confidence": "high"}, 422, "confidence is 'high'"),
        ("recommendations", {"user": 1, "confidence": 0.5, "significance": 0.5}, 422, "not both"),
        ("recommendations", {"user": 1, "k": 0}, 422, "k is 0"),
        ("recommendations", {"user": 1, "colour": 1}, 422, "There is no field colour."),
        ("recommendations", {"user_id": 1}, 422, "There is no field user_id. Did you mean user?"),
        ("recommendations", {"user": 1, "recommender": "icrs99"}, 404, "Use one of icrs12"),
        ("recommendations", [1], 422, "The body is [1]"),
        ("p-values", {"user": 1}, 422, "items is missing."),
        ("p-values", {"user": 1, "items": ["?"]}, 404, "There is no item '?'."),
        ("recommendations/batch", {"users": []}, 422, "users is too short"),
        ("recommendations/batch", {"users": ["a", "b"]}, 404, "No user in users is known."),
        ("recommendations/batch", {"users": list(range(501))}, 422, "at most 500"),
    ],
)
def test_invalid_requests_are_refused(client, path, body, status, message):
    assert message in problem(client.post(f"v1/{path}", json=body), status)


def test_unsupported_requests_are_refused(client, known):
    model, user = known
    consumed = model.statistics_.interactions.profile(user)["item_id"][0]
    for path, more in (("p-values", {"items": [consumed]}), ("explanations", {"item": consumed})):
        detail = problem(client.post(f"v1/{path}", json={"user": user, **more}), 409)
        assert "is in the history. Send another item." in detail
    ranks = {"user": user, "recommender": "precedence-mining"}
    for path, more in (
        ("recommendations", {"confidence": 0.9}),
        ("p-values", {"items": [consumed]}),
    ):
        detail = problem(client.post(f"v1/{path}", json={**ranks, **more}), 409)
        assert RANKS in detail


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"{", 400),
        (b"", 422),
        (b"\xff\xfe", 400),
        (b"[" * 100_000, 400),
        (b'{"user": ' + b"9" * 10_000 + b"}", 400),
        (b'{"user": NaN}', 422),
        (b'{"user": "\\ud800"}', 422),
        (b'{"user": 1, "confidence": NaN}', 422),
    ],
)
def test_malformed_bodies_are_client_errors(client, content, status):
    headers = {"Content-Type": "application/json"}
    problem(client.post("v1/recommendations", content=content, headers=headers), status)


def test_a_huge_body_is_refused_declared_or_not(client):
    headers = {"Content-Type": "application/json"}
    body = b" " * 300_000
    sentence = problem(client.post("v1/recommendations", content=body, headers=headers), 413)
    assert "exceeds 262,144 bytes" in sentence

    def drip():
        for _ in range(300):
            yield b" " * 1_000

    problem(client.post("v1/recommendations", content=drip(), headers=headers), 413)


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        *((kind, 415) for kind in ("", "text/plain", "application/x-www-form-urlencoded", "json")),
        *((kind, 200) for kind in ("application/json; charset=utf-8", "application/vnd.shop+json")),
    ],
)
def test_a_body_must_be_declared_as_json(client, user, kind, status):
    headers, content = {"Content-Type": kind}, json.dumps({"user": user})
    answer = client.post("v1/recommendations", content=content, headers=headers)
    assert answer.status_code == status, answer.text


def test_unknown_paths_and_methods(client):
    for path in ("v1/nothing", "v1/model/", "healthz/", "docs/"):  # and no redirect
        assert "/docs" in problem(client.get(path, follow_redirects=False), 404)
    wrong = client.get("v1/recommendations")
    problem(wrong, 405)
    assert wrong.headers["allow"] == "POST"
    problem(client.get("v1/items", params={"limit": 51}), 422)
    problem(client.get("v1/items", params={"q": "x" * 201}), 422)


RANKS = "This recommender has no confidence and no p-values."


def test_every_request_error_has_a_status():
    kinds = {each for each in vars(errors).values() if isinstance(each, type)}
    input_errors = {kind for kind in kinds if issubclass(kind, errors.InputError)}
    # These occur when models are fitted, loaded and looked up, before a request is answered.
    elsewhere = {errors.InputError, errors.TooFewUsersError, errors.UnknownRecommenderError}
    assert set(REFUSALS) == input_errors - elsewhere


def test_a_model_without_users_answers_histories_only(in_process, tmp_path):
    counts = sr.PrecedenceStatistics.from_counts(np.triu(np.full((6, 6), 2), 1), [4] * 6, 5)
    sr.InductiveConformal("CM3").fit(counts).save(tmp_path / "model")
    client = in_process(tmp_path / "model")
    for path, body in (("recommendations", {"user": 1}), ("recommendations/batch", {"users": [1]})):
        detail = problem(client.post(f"v1/{path}", json=body), 409)
        assert detail == "This model has no users. Send history instead of user."
    assert client.post("v1/recommendations", json={"history": [1, 2, 3]}).status_code == 200


def test_an_unexpected_error_is_a_problem_without_its_message(in_process, model_folder):
    client = in_process(model_folder)
    client.service.model = None  # an unexpected error
    for answer in (client.get("/readyz"), client.get("/v1/model")):
        assert "Internal error. Report the X-Request-ID" in problem(answer, 500)


def test_a_model_past_its_window_is_served_with_a_warning(tmp_path):
    films = sr.datasets.synthetic(n_users=120, n_items=40, n_rows=2400, random_state=1)
    sr.PopulationConformal("CM12", window=120).fit(films).save(tmp_path / "model")
    warned = r"guarantee of recall-cm12 ended .*recalibrate"
    with pytest.warns(errors.StaleModelWarning, match=warned):
        load(tmp_path / "model")
