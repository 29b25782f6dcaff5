"""Keys, rates, queue, sizes and times: what keeps a server standing, and closed."""

import os
import signal
import socket
import stat
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surerec.errors import InputError
from surerec.serving._keys import KeyFile, Keyring
from surerec.serving._service import RateLimits, shared_memory
from tests.serving.serving_server import problem, save


@pytest.fixture
def keys(tmp_path):
    return KeyFile(tmp_path / "keys.json")


def test_a_key_file_keeps_no_key_and_is_for_its_owner_only(keys):
    key = keys.create("shop")
    assert stat.S_IMODE(keys.path.stat().st_mode) == 0o600
    assert key not in keys.path.read_text()
    assert key.split("_", 2)[2] not in keys.path.read_text()
    ring = Keyring(keys)
    assert ring.find(key).name == "shop"
    kept = keys.read()[0]
    for wrong in ("", "sr_", key[:-1], key + "x", key.upper(), f"sr_{kept.key_id}_", kept.sha256):
        assert ring.find(wrong) is None


def test_a_running_keyring_notices_new_and_revoked_keys_and_lets_nobody_in_blindly(keys):
    first = keys.create("first")
    ring = Keyring(keys)
    second = keys.create("second", ["admin"])
    assert ring.find(second).may("read")
    keys.revoke(ring.find(first).key_id)
    assert ring.find(first) is None
    keys.path.write_text("{")
    with pytest.raises(InputError, match="damaged"):
        ring.find(second)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o644, 0o666])
def test_a_key_file_that_others_can_read_is_refused_with_what_mends_it(tmp_path, mode):
    keys = KeyFile(tmp_path / "my keys.json")
    key = keys.create("shop")
    keys.path.chmod(mode)
    for ask in (
        keys.read,
        lambda: Keyring(keys),
        lambda: keys.create("b"),
        lambda: keys.revoke(""),
    ):
        with pytest.raises(InputError, match=r"`chmod 600 '.*my keys\.json'`"):
            ask()
    keys.path.chmod(0o600)
    assert Keyring(keys).find(key)


def test_key_files_that_are_none_are_named(tmp_path):
    for path in (tmp_path, "", ".", "/", "/proc/nope/keys", "/proc/keys", "/proc/self/mem"):
        file = KeyFile(path)
        for ask in (file.read, lambda: file.create("a"), lambda: file.revoke("")):  # noqa: B023
            with pytest.raises(InputError):
                ask()
    assert not list(tmp_path.iterdir())


def test_keys_behind_a_link_are_kept_behind_it(tmp_path):
    link = tmp_path / "keys.json"
    link.symlink_to(tmp_path / "real.json")
    KeyFile(link).create("shop")
    assert link.is_symlink()
    assert stat.S_IMODE((tmp_path / "real.json").stat().st_mode) == 0o600


def test_a_key_file_of_another_user_is_refused(keys, monkeypatch):
    key = keys.create("shop")
    ring = Keyring(keys)
    monkeypatch.setattr(os, "geteuid", lambda: keys.path.stat().st_uid + 1)
    for ask in (keys.read, lambda: Keyring(keys), lambda: keys.create("b")):
        with pytest.raises(InputError, match="belongs to another user; make it yours with `chown"):
            ask()
    monkeypatch.undo()
    assert ring.find(key).name == "shop"


def test_a_running_keyring_notices_a_file_that_was_opened_to_others(keys):
    key = keys.create("shop")
    ring = Keyring(keys)
    keys.path.chmod(0o644)
    with pytest.raises(InputError, match="others can read or write"):
        ring.find(key)


@given(
    rate=st.sampled_from([1.0, 2.0, 8.0]),
    burst=st.integers(1, 5),
    gaps=st.lists(st.sampled_from([0.0, 0.0, 0.125, 0.5, 3.0]), max_size=40),
)
def test_a_rate_is_a_bucket_that_refills(rate, burst, gaps):
    """Compared with the obvious bucket of tokens."""
    with shared_memory() as memory:
        limits = RateLimits(memory.fileno(), rate, burst)
        tokens, now = float(burst), 1_000.0
        for gap in gaps:
            now += gap
            tokens = min(burst, tokens + gap * rate)
            wait = limits.wait("ann", now)
            assert (wait == 0) == (tokens >= 1 - 1e-9)
            if wait == 0:
                tokens -= 1
            else:
                assert wait == pytest.approx((1 - tokens) / rate)


def test_many_keys_share_the_memory_and_two_servers_see_the_same():
    with shared_memory() as memory:
        one, other = (RateLimits(memory.fileno(), 1.0, 1) for _ in range(2))
        assert [one.wait(f"key {n}", 50.0) for n in range(900)] == [0.0] * 900
        assert all(other.wait(f"key {n}", 50.0) > 0 for n in range(900))
        assert [one.wait(f"new {n}", 60.0) for n in range(900)] == [0.0] * 900  # the oldest go


def test_keys_open_what_their_scope_says_and_nothing_without(start, model_folder, keys):
    reader, admin = keys.create("reader"), keys.create("admin", ["admin"])
    options = ("--workers", "2", "--keys", str(keys.path), "--rate", "1", "--burst", "10")
    server = start(model_folder, "--host", "0.0.0.0", *options)  # noqa: S104  # that is the point
    with server.client() as nobody:
        for path in ("", "docs", "openapi.json", "healthz", "readyz", "static/page.css"):
            assert nobody.get(path).status_code == 200
        for path in ("v1/model", "v1/items", "metrics", "nowhere", "admin/nowhere"):
            answer = nobody.get(path)
            assert "API key" in problem(answer, 401)
            assert answer.headers["www-authenticate"].startswith("Bearer")
        big = b"x" * 300_000  # refused before a byte of it is looked at
        problem(nobody.post("v1/recommendations", content=big), 401)
    with server.client("sr_00000000_wrong") as wrong:
        assert "not valid" in problem(wrong.get("v1/model"), 401)
    with server.client(admin) as client:
        assert client.post("admin/reload").json()["changed"] is False
        assert client.get("v1/model").status_code == 200
    with server.client(reader) as client:
        assert "scope admin" in problem(client.post("admin/reload"), 403)
    # Ten at once over all workers, whichever answers; then one a second.
    statuses = []
    for _ in range(16):
        with server.client(reader) as client:
            statuses.append(client.get("v1/model").status_code)
    assert statuses[:9].count(200) == 9
    assert statuses.count(200) <= 12
    assert 429 in statuses
    with server.client(reader) as client:
        while (answer := client.get("v1/model")).status_code != 429:
            pass
        assert "too often" in problem(answer, 429)
        assert int(answer.headers["retry-after"]) >= 1
    keys.revoke(reader.split("_")[1])
    time.sleep(1.2)
    with server.client(reader) as client:
        problem(client.get("v1/model"), 401)
    line = next(x for x in server.lines("request") if x["status"] == 403)
    assert "key" not in line or line["key"] == reader.split("_")[1]
    assert reader not in server.text


def test_cors_is_for_the_named_origins(start, model_folder):
    server = start(model_folder, "--workers", "1", "--cors-origins", "https://shop.example")
    asks = {"Access-Control-Request-Method": "POST", "Origin": "https://shop.example"}
    with server.client() as client:
        allowed = client.options("v1/recommendations", headers=asks)
        assert allowed.headers["access-control-allow-origin"] == "https://shop.example"
        posted = client.post("v1/items", headers={"Origin": "https://shop.example"})
        assert posted.status_code == 405  # let in, and then told
        # What is refused before the API can be read by the page as well.
        shop = {"Origin": "https://shop.example", "Content-Type": "application/json"}
        large = client.post("v1/recommendations", content=b" " * 300_000, headers=shop)
        problem(large, 413)
        assert large.headers["access-control-allow-origin"] == "https://shop.example"
        refused = client.options("v1/recommendations", headers={**asks, "Origin": "https://e.vil"})
        assert "access-control-allow-origin" not in refused.headers
        problem(client.post("v1/items", headers={"Origin": "https://e.vil"}), 403)


@pytest.fixture(scope="module")
def narrow(model_folder, tmp_path_factory):
    """A server with room for one request, and no patience; settings from the environment."""
    from tests.serving.serving_server import Server  # noqa: PLC0415

    environment = {
        "SUREREC_SERVE_WORKERS": "1",
        "SUREREC_SERVE_THREADS": "1",
        "SUREREC_SERVE_QUEUE": "1",
        "SUREREC_SERVE_RECEIVE_TIMEOUT": "1",
        "SUREREC_SERVE_MAX_CONNECTIONS": "40",
    }
    running = Server(model_folder, tmp_path_factory.mktemp("narrow") / "log", env=environment)
    yield running
    running.stop()


def test_beyond_the_queue_there_is_503_and_never_a_wrong_answer(narrow):
    body = {"users": list(range(1, 251)), "k": 100, "recommender": "crs-max"}

    def ask(_):
        with narrow.client() as client:
            return client.post("v1/recommendations/batch", json=body)

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(ask, range(16)))
    served = [answer for answer in answers if answer.status_code == 200]
    refused = [answer for answer in answers if answer.status_code != 200]
    assert served
    assert refused
    assert len({answer.content for answer in served}) == 1
    for answer in refused:
        assert "busy" in problem(answer, 503)
        assert answer.headers["retry-after"] == "1"
    with narrow.client() as client:
        assert client.get("healthz").status_code == 200
        assert "surerec_work_held 0.0" in client.get("metrics").text


def test_an_answer_that_takes_too_long_is_given_up(start, model_folder):
    server = start(model_folder, "--workers", "1", "--request-timeout", "0.001")
    body = {"users": list(range(1, 251)), "k": 100, "recommender": "crs-max"}
    with server.client() as client:
        answer = client.post("v1/recommendations/batch", json=body)
        assert "took longer than 0.001 s" in problem(answer, 503)
        assert "retry-after" in answer.headers


def connect(server):
    address = urlsplit(server.url)
    return socket.create_connection((address.hostname, address.port), timeout=10)


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost:",
        b"POST /v1/recommendations HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{",
    ],
)
def test_a_request_that_trickles_in_is_ended(narrow, head):
    with connect(narrow) as connection:
        begin = time.monotonic()
        connection.sendall(head)
        answer = b""
        while part := connection.recv(4096):
            answer += part
        assert 0.5 < time.monotonic() - begin < 5
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"too slowly" in answer


def test_too_many_connections_are_told_to_come_back(narrow):
    held = [connect(narrow) for _ in range(40)]
    try:
        with connect(narrow) as one_more:
            assert one_more.recv(4096).startswith(b"HTTP/1.1 503")
    finally:
        for connection in held:
            connection.close()
    end = time.monotonic() + 10
    while time.monotonic() < end:
        try:
            if httpx.get(narrow.url + "healthz").status_code == 200:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.1)
    pytest.fail("the server did not come back")


def test_stopping_lets_requests_end(start, tmp_path):
    server = start(save(tmp_path / "films"), "--workers", "1")
    body = {"users": list(range(1, 301)), "k": 100, "recommender": "crs-max"}
    with ThreadPoolExecutor(1) as pool, server.client() as client:
        client.get("healthz")
        waiting = pool.submit(client.post, "v1/recommendations/batch", json=body)
        time.sleep(0.05)
        os.kill(server.process.pid, signal.SIGTERM)
        assert waiting.result().status_code == 200
    assert server.stop() == 0
    with pytest.raises(httpx.ConnectError):
        httpx.get(server.url + "healthz")
