"""Bad input: one clear sentence, and the right status."""

import json
import socket
from urllib.parse import urlsplit

import pytest

from tests.serving.serving_server import problem, someone


@pytest.fixture(scope="module")
def user(model_folder):
    return someone(model_folder)[1]


@pytest.mark.parametrize(
    ("path", "body", "status", "says"),
    [
        ("recommendations", {"user": "nobody"}, 404, "There is no such user."),
        ("recommendations", {"user": -1}, 404, "There is no such user."),
        ("recommendations", {}, 422, "Say for whom: give user, history or group."),
        ("recommendations", {"user": 1, "group": [{"user": 1}, {"user": 2}]}, 422, "whom once"),
        ("recommendations", {"user": 1, "together": "any"}, 422, "together is about a group"),
        ("recommendations", {"history": []}, 422, "history is empty: it needs at least one item."),
        ("recommendations", {"history": ["?"]}, 404, "None of the items of the history is known."),
        ("recommendations", {"history": list(range(5001))}, 422, "at most 5000 are taken"),
        ("recommendations", {"history": "5,6"}, 422, "valid list"),
        ("recommendations", {"history": [1.5]}, 422, "history[0] is 1.5"),
        ("recommendations", {"history": [None]}, 422, "history[0]"),
        ("recommendations", {"user": True}, 422, "user is True"),
        ("recommendations", {"user": 1, "confidence": 90}, 422, "did you mean 0.9?"),
        ("recommendations", {"user": 1, "confidence": 1}, 422, "between 0 and 1"),
        ("recommendations", {"user": 1, "confidence": "high"}, 422, "confidence is 'high'"),
        ("recommendations", {"user": 1, "confidence": 0.5, "significance": 0.5}, 422, "not both"),
        ("recommendations", {"user": 1, "k": 0}, 422, "k is 0"),
        ("recommendations", {"user": 1, "k": 10**9}, 422, "k is 1000000000"),
        ("recommendations", {"user": 1, "colour": 1}, 422, "There is no field colour."),
        ("recommendations", {"user_id": 1}, 422, "There is no field user_id; did you mean user?"),
        ("events", {"events": [{"user_id": 1, "item": 1}]}, 422, "field user_id; did you mean us"),
        ("recommendations", {"user": 1, "recommender": "icrs99"}, 404, "this model has icrs12"),
        ("recommendations", [1], 422, "The body is [1]"),
        ("p-values", {"user": 1}, 422, "items is missing."),
        ("p-values", {"user": 1, "items": ["?"]}, 404, "There is no item '?'."),
        ("explanations", {"user": 1, "item": "?"}, 404, "There is no item '?'."),
        ("recommendations/batch", {"users": []}, 422, "users is empty"),
        ("recommendations/batch", {"users": ["a", "b"]}, 404, "None of these users is known."),
        ("recommendations/batch", {"users": list(range(501))}, 422, "at most 500"),
    ],
)
def test_what_cannot_be_answered_is_said_in_a_sentence(client, path, body, status, says):
    assert says in problem(client.post(f"v1/{path}", json=body), status)


def test_an_unknown_user_learns_of_no_other(client, user):
    near = str(user)[:-1] + "x" + str(user)[-1]
    sentence = problem(client.post("v1/recommendations", json={"user": near}), 404)
    assert sentence == "There is no such user."


def test_questions_that_do_not_fit_are_refused(client, model_folder, user):
    model, _ = someone(model_folder)
    taken = model.statistics_.interactions.profile(user)["item_id"][0]
    for path, more in (("p-values", {"items": [taken]}), ("explanations", {"item": taken})):
        told = problem(client.post(f"v1/{path}", json={"user": user, **more}), 409)
        assert "is in the known profile" in told
    ranks = {"user": user, "recommender": "precedence-mining"}
    told = problem(client.post("v1/recommendations", json={**ranks, "confidence": 0.9}), 409)
    assert "knows no confidence" in told
    told = problem(client.post("v1/p-values", json={**ranks, "items": [taken]}), 409)
    assert "has no p-values" in told


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
def test_garbage_in_a_body_is_no_error_of_ours(client, content, status):
    headers = {"Content-Type": "application/json"}
    problem(client.post("v1/recommendations", content=content, headers=headers), status)


def test_a_huge_body_is_refused_declared_or_not(client):
    headers = {"Content-Type": "application/json"}
    body = b" " * 300_000
    sentence = problem(client.post("v1/recommendations", content=body, headers=headers), 413)
    assert "larger than 262,144 bytes" in sentence

    def drip():
        for _ in range(300):
            yield b" " * 1_000

    problem(client.post("v1/recommendations", content=drip(), headers=headers), 413)


@pytest.mark.parametrize("kind", [None, "text/plain", "application/x-www-form-urlencoded", "json"])
def test_a_body_of_another_type_is_415(client, kind):
    headers = {} if kind is None else {"Content-Type": kind}
    answer = client.post("v1/recommendations", content=b'{"user": 1}', headers=headers)
    assert "application/json" in problem(answer, 415)


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "application/vnd.shop+json"])
def test_json_by_another_name_is_accepted(client, user, kind):
    content = json.dumps({"user": user})
    answer = client.post("v1/recommendations", content=content, headers={"Content-Type": kind})
    assert answer.status_code == 200


def test_a_slash_too_many_is_no_redirect(client):
    for path in ("v1/model/", "healthz/", "docs/"):
        answer = client.get(path, follow_redirects=False)
        problem(answer, 404)
        assert "location" not in answer.headers


def test_addresses_and_methods_that_are_not_there(client):
    assert "/docs" in problem(client.get("v1/nothing"), 404)
    wrong = client.get("v1/recommendations")
    problem(wrong, 405)
    assert wrong.headers["allow"] == "POST"
    problem(client.get("v1/items", params={"limit": 51}), 422)
    problem(client.get("v1/items", params={"q": "x" * 201}), 422)


def test_other_sites_can_neither_point_a_name_here_nor_send_a_visitors_browser(client):
    told = client.get("v1/model", headers={"Host": "evil.example"})
    assert "host name" in problem(told, 421)
    told = client.post("admin/reload", headers={"Origin": "https://evil.example"})
    assert "other sites" in problem(told, 403)
    same = str(client.base_url).rstrip("/")
    assert client.post("admin/reload", headers={"Origin": same}).status_code == 200


def raw(server, data):
    address = urlsplit(server.url)
    with socket.create_connection((address.hostname, address.port), timeout=30) as connection:
        connection.sendall(data)
        parts = []
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts)


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\x01\x02\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: a\r\nBad Header\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: " + b"y" * 40_000 + b"\r\n\r\n",
        b"POST /v1/recommendations HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\n",
    ],
)
def test_what_is_not_http_gets_a_problem_and_the_door(server, data):
    answer = raw(server, data)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"application/problem+json" in answer
    assert b"uvicorn" not in answer.lower()


@pytest.mark.parametrize("origin", ["http://[", "http://[::1", "//[x]y", "null", "\x00"])
def test_an_origin_that_is_no_address_is_refused(server, origin):
    address = urlsplit(server.url)
    head = f"POST /v1/recommendations HTTP/1.1\r\nHost: localhost\r\nOrigin: {origin}\r\n"
    with socket.create_connection((address.hostname, address.port), timeout=10) as connection:
        connection.sendall(f"{head}Content-Length: 2\r\nConnection: close\r\n\r\n{{}}".encode())
        assert b" 40" in connection.recv(20)
