"""The gate: keys, rate limits, hosts, sizes and timeouts, over real connections."""

import contextlib
import re
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPResponse
from urllib.parse import urlsplit

import httpx
import pytest

from surerec.serving import KeyFile
from tests.serving.serving_server import Server, problem

MOST = 20
SHOP = "https://shop.example"
BATCH = {"users": list(range(1, 251)), "k": 100, "recommender": "crs-max"}
LARGE = "static/plotly.min.js"  # 4.8 MB, more than the buffers of the kernel hold


@pytest.fixture(scope="module")
def strict(model_folder, tmp_path_factory):
    """A server with one thread, a queue of 1, 20 connections and timeouts of 1 s."""
    environment = {
        "SUREREC_SERVE_WORKERS": "1",
        "SUREREC_SERVE_THREADS": "1",
        "SUREREC_SERVE_QUEUE": "1",
        "SUREREC_SERVE_RECEIVE_TIMEOUT": "1",
        "SUREREC_SERVE_KEEP_ALIVE": "1",
    }
    options = ("--max-connections", str(MOST), "--cors-origins", SHOP)
    log = tmp_path_factory.mktemp("strict") / "log"
    running = Server(model_folder, log, *options, env=environment)
    yield running
    running.stop()
    assert "Traceback" not in running.text


def connect(server, buffer=None):
    address = urlsplit(server.url)
    connection = socket.socket()
    if buffer is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    connection.settimeout(10)
    connection.connect((address.hostname, address.port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def head(line, *headers, host="localhost"):
    return "\r\n".join([f"{line} HTTP/1.1", f"Host: {host}", *headers, "", ""]).encode()


def send(connection, data, piece):
    for place in range(0, len(data), piece):
        with contextlib.suppress(ConnectionError):
            connection.sendall(data[place : place + piece])


def rest(connection):
    answer = b""
    with contextlib.suppress(ConnectionError):
        while part := connection.recv(65536):
            answer += part
    return answer


def answered(connection):
    """Read one response; return its status."""
    response = HTTPResponse(connection)
    response.begin()
    response.read()
    response.close()
    return response.status


def trickle(connection, seconds=6.0, gap=0.2):
    """Send single bytes slowly; return the response and how long the connection was open."""
    begin, answer = time.monotonic(), b""
    connection.settimeout(gap)
    while time.monotonic() - begin < seconds:
        try:
            part = connection.recv(65536)
        except TimeoutError:
            with contextlib.suppress(ConnectionError):  # closed meanwhile: recv reports it
                connection.sendall(b"x")
            continue
        except ConnectionError:
            part = b""
        if not part:
            return answer, time.monotonic() - begin
        answer += part
    return answer, float("inf")


def until_it_answers(server, held, act):
    """Hold connections, act on each repeatedly, and wait until another client is answered."""
    end = time.monotonic() + 60
    try:
        while time.monotonic() < end:
            for connection in held:
                with contextlib.suppress(OSError):
                    act(connection)
            with contextlib.suppress(httpx.HTTPError):
                if httpx.get(server.url + "healthz").status_code == 200:
                    return
            time.sleep(0.2)
    finally:
        for connection in held:
            connection.close()
    pytest.fail("the server does not recover")


BODY = b'{"user": 1, "confidence": 0.8, "k": 3}'
JSON = "Content-Type: application/json"
CHUNKED = head("POST /v1/recommendations", JSON, "Transfer-Encoding: chunked")
CHUNKED += b"%x\r\n%s\r\n" % (len(BODY), BODY)
PREFLIGHT = (f"Origin: {SHOP}", "Access-Control-Request-Method: POST")


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"", 408),
        (b"GET / HTTP/1.1\r\nHost:", 408),
        (head("GET /healthz", "Content-Length: 100"), 408),
        (head("GET /healthz", "Content-Length: 1000000000"), 413),
        (head("GET /healthz", "Transfer-Encoding: chunked"), 408),
        (head("HEAD /", "Content-Length: 100"), 408),
        (head("GET /nowhere", "Content-Length: 100"), 408),
        (head("DELETE /v1/model", "Content-Length: 100"), 408),
        (head("POST /v1/recommendations", "Content-Length: 100"), 408),
        (CHUNKED + b"0\r\nX: ", 408),
        # Answered before the body, which must not hold the connection.
        (head("OPTIONS /v1/recommendations", "Content-Length: 100", *PREFLIGHT), 200),
        (head("POST /v1/model", "Content-Length: 100", "Origin: https://e.vil"), 403),
        (head("GET /healthz", "Content-Length: 100", host="evil.example"), 421),
    ],
)
def test_a_slow_request_is_ended_for_every_method_and_status(strict, data, status):
    with connect(strict) as connection:
        connection.sendall(data)
        answer, seconds = trickle(connection)
    assert answer.startswith(f"HTTP/1.1 {status} ".encode()), answer
    assert seconds < 4


@pytest.mark.parametrize("piece", [7, 100_000])
@pytest.mark.parametrize(
    "data",
    [
        b"\x00\x01\x02\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: a\r\nBad Header\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: " + b"y" * 40_000 + b"\r\n\r\n",
        head("POST /v1/recommendations", "Content-Length: -5"),
        b"GET /healthz HTTP/1.1\nHost: localhost\n\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\nX: y\r\n\r\n",
        head("GET /healthz", "X: y\r\n z"),
        head("GET /healthz", "X: y\r\n\tz"),
        head("POST /", "Content-Length: 6", "Transfer-Encoding: chunked") + b"0\r\n\r\nX",
        head("GET /healthz", "Transfer-Encoding: chunked", "Content-Length: 0"),
        CHUNKED + b"0\r\nX: y\nZ: w\r\n\r\n",
        CHUNKED + b"0\r\nX: y\n\n",
        CHUNKED + b"0\r\n\n",
        CHUNKED + b"0\r\nX: y\r\n z\r\n\r\n",
        CHUNKED + b"0\r\nContent-Length: 5\r\n\r\n",
        CHUNKED + b"0\r\nTransfer-Encoding: chunked\r\n\r\n",
        CHUNKED + b"0\n\r\n",
    ],
)
def test_invalid_or_ambiguous_http_is_refused_and_closed(strict, data, piece):
    with connect(strict) as connection:
        connection.sendall(head("GET /healthz"))
        assert answered(connection) == 200  # the second request of a connection
        send(connection, data + head("GET /healthz"), piece)
        answer = rest(connection)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"application/problem+json" in answer
    assert answer.count(b"HTTP/1.1 ") == 1
    assert b"uvicorn" not in answer.lower()


@pytest.mark.parametrize("piece", [1, 7, 10_000])
@pytest.mark.parametrize("trailers", [b"", b"X-Sum: 1\r\n", b"A: b\r\nC: d\r\n"])
def test_a_chunked_body_may_have_trailers(strict, trailers, piece):
    with connect(strict) as connection:
        for _ in range(2):  # the connection goes on
            send(connection, CHUNKED + b"0\r\n" + trailers + b"\r\n", piece)
            assert answered(connection) == 200


def test_a_refused_request_that_ends_in_time_keeps_its_connection(strict):
    """The rest of a refused body is read for a moment, then the next request is answered."""
    body = b'{"user":\n 1}\n\n'  # of any line ends
    request = head("POST /v1/recommendations", f"Content-Length: {len(body)}", JSON)
    with connect(strict) as connection:
        connection.sendall(head("GET /healthz", "Content-Length: 4", host="evil.example"))
        assert answered(connection) == 421
        connection.sendall(b"rest" + request + body)
        assert answered(connection) == 200


@pytest.mark.parametrize("data", [b"", head("GET /healthz", "Content-Length: 1000000")])
def test_slow_senders_do_not_fill_the_server(strict, data):
    held = [connect(strict) for _ in range(MOST)]
    for connection in held:
        connection.sendall(data)
    with connect(strict) as one_more:
        assert one_more.recv(4096).startswith(b"HTTP/1.1 503")
    until_it_answers(strict, held, lambda connection: connection.sendall(b"x"))


def test_slow_readers_do_not_fill_the_server(strict):
    held = [connect(strict, buffer=4096) for _ in range(MOST)]
    for number, connection in enumerate(held):
        connection.sendall((1 + number % 2) * head(f"GET /{LARGE}"))
    until_it_answers(strict, held, lambda connection: connection.recv(1))
    with strict.client() as client:
        assert len(client.get(LARGE).content) > 4_000_000
        assert 'reason="slow"' in client.get("metrics").text


def test_a_full_queue_is_503_and_never_a_wrong_answer(strict):
    def post(_):
        with strict.client() as client:
            return client.post("v1/recommendations/batch", json=BATCH)

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(post, range(16)))
    served = [answer for answer in answers if answer.status_code == 200]
    refused = [answer for answer in answers if answer.status_code != 200]
    assert len({answer.content for answer in served}) == 1
    assert refused
    for answer in refused:
        assert "busy" in problem(answer, 503)
        assert answer.headers["retry-after"] == "1"
    with strict.client() as client:
        assert "surerec_work_held 0.0" in client.get("metrics").text


def test_a_slow_request_times_out(in_process, model_folder):
    client = in_process(model_folder, request_timeout=0.001)
    answer = client.post("v1/recommendations/batch", json=BATCH)
    assert "took longer than 0.001 s" in problem(answer, 503)
    assert "retry-after" in answer.headers


def test_cors_is_for_the_named_origins(strict):
    asks = {"Access-Control-Request-Method": "POST", "Origin": SHOP}
    with strict.client() as client:
        allowed = client.options("v1/recommendations", headers=asks)
        assert allowed.headers["access-control-allow-origin"] == SHOP
        problem(
            client.post("v1/items", headers={"Origin": SHOP}), 405
        )  # accepted, then refused by the API
        # A page can also read errors of the gate.
        shop = {"Origin": SHOP, "Content-Type": "application/json"}
        large = client.post("v1/recommendations", content=b" " * 300_000, headers=shop)
        problem(large, 413)
        assert large.headers["access-control-allow-origin"] == SHOP
        refused = client.options("v1/recommendations", headers={**asks, "Origin": "https://e.vil"})
        assert "access-control-allow-origin" not in refused.headers


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("evil.example", None, 421),
        ("localhost", "https://evil.example", 403),
        *(("localhost", origin, 403) for origin in ("http://[", "http://[::1", "//[x]y", "null")),
        ("localhost:8000", "http://localhost:8000", 200),
    ],
)
def test_other_hosts_and_origins_are_refused(client, host, origin, status):
    headers = {"Host": host} | ({} if origin is None else {"Origin": origin})
    answer = client.post("v1/recommendations", json={"user": 1}, headers=headers)
    assert answer.status_code == status, answer.text


BY_SCOPE = {
    "read": ("v1/recommendations", {"user": 1}),
    "events": ("v1/events", {"events": [{"user": 1, "item": 1}]}),
    "admin": ("admin/reload", {}),
}


def test_events_and_admin_requests_need_a_key_of_their_scope(in_process, model_folder, tmp_path):
    without = in_process(model_folder, insecure_admin=False)
    for path in ("v1/events", "admin/forget", "admin/reload", "admin/nowhere"):
        assert "--insecure-admin" in problem(without.post(path, json={}), 403)
    assert without.post("v1/recommendations", json={"user": 1}).status_code == 200
    keys = KeyFile(tmp_path / "keys.json")
    made = {scope: keys.create(scope, [scope]) for scope in BY_SCOPE}
    client = in_process(model_folder, keys=keys.path, insecure_admin=False)
    for mine, key in made.items():
        for scope, (path, body) in BY_SCOPE.items():
            headers = {"Authorization": f"Bearer {key}"}
            answer = client.post(path, json=body, headers=headers)
            if mine in (scope, "admin"):
                assert answer.status_code == (409 if scope == "events" else 200)  # it is not live
            else:
                assert f"lacks the scope {scope}" in problem(answer, 403)


def test_keys_are_required_and_rate_limited(start, model_folder, tmp_path):
    keys = KeyFile(tmp_path / "keys.json")
    reader = keys.create("reader")
    options = ("--workers", "2", "--keys", str(keys.path), "--rate", "1", "--burst", "10")
    server = start(model_folder, "--host", "0.0.0.0", *options)  # noqa: S104  # that is the point
    with server.client() as anonymous:
        for path in ("", "docs", "openapi.json", "healthz", "readyz", "static/page.css"):
            assert anonymous.get(path).status_code == 200
        for path in ("v1/model", "v1/items", "metrics", "nowhere", "admin/nowhere"):
            answer = anonymous.get(path)
            assert "API key" in problem(answer, 401)
            assert answer.headers["www-authenticate"].startswith("Bearer")
        big = b"x" * 300_000  # refused before it is read
        problem(anonymous.post("v1/recommendations", content=big), 401)
        described = anonymous.get("openapi.json").json()["paths"]
        assert described["/v1/model"]["get"]["security"] == [{"key": []}]
        assert "security" not in described["/healthz"]["get"]
    with server.client("sr_00000000_wrong") as wrong:
        assert "not valid" in problem(wrong.get("v1/model"), 401)
    # Ten at once over all workers, then one per second.
    answers = []
    for _ in range(16):
        with server.client(reader) as client:
            answers.append(client.get("v1/model"))
    statuses = [answer.status_code for answer in answers]
    assert statuses[:10] == [200] * 10
    assert statuses.count(200) <= 12
    often = answers[statuses.index(429)]
    assert "exceeds its rate limit" in problem(often, 429)
    assert int(often.headers["retry-after"]) >= 1
    keys.revoke(reader.split("_")[1])
    with server.client(reader) as client:
        problem(client.get("v1/model"), 401)
    assert {line.get("key") for line in server.lines("request")} >= {reader.split("_")[1]}
    assert reader not in server.text


def test_every_answer_has_a_request_id_and_security_headers(client):
    given = client.get("healthz", headers={"X-Request-ID": "gateway-7.a"})
    assert given.headers["x-request-id"] == "gateway-7.a"
    odd = client.get("healthz", headers={"X-Request-ID": "a b\tc"})
    assert re.fullmatch("[0-9a-f]{32}", odd.headers["x-request-id"])
    for answer in (given, client.get("nowhere"), client.get(""), client.get("static/page.js")):
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert not {"server", "access-control-allow-origin"} & set(answer.headers)


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


def test_metrics_count_over_all_workers(server):
    def counted():
        with server.client() as client:
            text = client.get("metrics").text
        found = re.findall(r'surerec_requests_total{.*route="/v1/items",status="200"} (\S+)', text)
        assert "surerec_workers_ready 2.0" in text
        return sum(map(float, found))

    before = counted()
    for _ in range(20):  # each on a connection of its own, so that both workers have some
        with server.client() as one:
            one.get("v1/items")
    assert counted() == before + 20
