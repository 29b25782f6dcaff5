"""Requests as bytes over real connections: slow bodies and how the server closes."""

import contextlib
import socket
import time
from http.client import HTTPResponse
from urllib.parse import urlsplit

import httpx
import pytest

from tests.serving.serving_server import Server

MOST = 20


@pytest.fixture(scope="module")
def strict(model_folder, tmp_path_factory):
    """A server that waits 1 s for a request and holds 20 connections."""
    options = ("--workers", "1", "--receive-timeout", "1", "--max-connections", str(MOST))
    options += ("--cors-origins", "https://shop.example")
    running = Server(model_folder, tmp_path_factory.mktemp("strict") / "log", *options)
    yield running
    running.stop()
    assert "Traceback" not in running.text


def connect(server):
    address = urlsplit(server.url)
    return socket.create_connection((address.hostname, address.port), timeout=10)


def trickle(connection, seconds=6.0, gap=0.2):
    """Send a byte now and then; return the answer and how long the connection stayed open."""
    begin, answer = time.monotonic(), b""
    connection.settimeout(gap)
    while time.monotonic() - begin < seconds:
        try:
            part = connection.recv(65536)
        except TimeoutError:
            with contextlib.suppress(ConnectionError):  # closed in between: recv will say so
                connection.sendall(b"x")
            continue
        except ConnectionError:
            part = b""
        if not part:
            return answer, time.monotonic() - begin
        answer += part
    return answer, float("inf")


def answered(connection):
    """Read one whole answer, which may come in pieces; return its status."""
    response = HTTPResponse(connection)
    response.begin()
    response.read()
    response.close()
    return response.status


def head(line, *headers, host="localhost"):
    return "\r\n".join([f"{line} HTTP/1.1", f"Host: {host}", *headers, "", ""]).encode()


@pytest.mark.parametrize(
    ("line", "headers", "status"),
    [
        ("GET /healthz", ["Content-Length: 100"], 408),
        ("GET /healthz", ["Content-Length: 1000000000"], 413),
        ("GET /healthz", ["Transfer-Encoding: chunked"], 408),
        ("HEAD /", ["Content-Length: 100"], 408),
        ("GET /nowhere", ["Content-Length: 100"], 408),
        ("OPTIONS /v1/model", ["Content-Length: 100"], 408),
        ("DELETE /v1/model", ["Content-Length: 100"], 408),
        ("POST /v1/recommendations", ["Content-Length: 100"], 408),
        # Answered without the body, so the body may not keep the connection.
        (
            "OPTIONS /v1/recommendations",
            [
                "Content-Length: 100",
                "Origin: https://shop.example",
                "Access-Control-Request-Method: POST",
            ],
            200,
        ),
        ("POST /v1/model", ["Content-Length: 100", "Origin: https://e.vil"], 403),
        ("GET /healthz", ["Content-Length: 100", "X: y"], 421),
    ],
)
def test_a_slow_body_is_ended_for_every_method_and_status(strict, line, headers, status):
    with connect(strict) as connection:
        host = "evil.example" if status == 421 else "localhost"
        connection.sendall(head(line, *headers, host=host))
        answer, seconds = trickle(connection)
    assert answer.startswith(f"HTTP/1.1 {status} ".encode()), answer
    assert seconds < 4


@pytest.mark.parametrize(
    "data",
    [
        b"GET /healthz HTTP/1.1\nHost: localhost\n\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\nX: y\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: y\r\n z\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: y\r\n\tz\r\n\r\n",
        head("POST /v1/recommendations", "Content-Length: 6", "Transfer-Encoding: chunked")
        + b"0\r\n\r\nX",
        head("GET /healthz", "Transfer-Encoding: chunked", "Content-Length: 0"),
    ],
)
def test_what_can_be_read_in_two_ways_is_refused_and_closed(strict, data):
    after = head("GET /healthz")
    with connect(strict) as connection:
        connection.sendall(data + after)
        answer = b""
        while part := connection.recv(65536):
            answer += part
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1 ") == 1
    # The same as the second request of a connection, in pieces.
    with connect(strict) as connection:
        connection.sendall(after)
        assert answered(connection) == 200
        for place in range(0, len(data), 7):
            with contextlib.suppress(ConnectionError):
                connection.sendall(data[place : place + 7])
        answer = b""
        with contextlib.suppress(ConnectionError):
            while part := connection.recv(65536):
                answer += part
    assert answer.startswith(b"HTTP/1.1 400 ")


BODY = b'{"user": 1, "confidence": 0.8, "k": 3}'
CHUNKED = head(
    "POST /v1/recommendations", "Content-Type: application/json", "Transfer-Encoding: chunked"
) + b"%x\r\n%s\r\n" % (len(BODY), BODY)


@pytest.mark.parametrize("piece", [1, 7, 10_000])
@pytest.mark.parametrize("trailers", [b"", b"X-Sum: 1\r\n", b"A: b\r\nC: d\r\n"])
def test_a_chunked_body_may_have_trailers(strict, trailers, piece):
    data = CHUNKED + b"0\r\n" + trailers + b"\r\n"
    with connect(strict) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(2):  # the connection goes on
            for place in range(0, len(data), piece):
                connection.sendall(data[place : place + piece])
            assert answered(connection) == 200


@pytest.mark.parametrize("piece", [1, 10_000])
@pytest.mark.parametrize(
    "end",
    [
        b"0\r\nX: y\nZ: w\r\n\r\n",
        b"0\r\nX: y\n\n",
        b"0\r\n\n",
        b"0\r\nX: y\r\n z\r\n\r\n",
        b"0\r\nContent-Length: 5\r\n\r\n",
        b"0\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"0\n\r\n",
    ],
)
def test_trailers_that_can_be_read_in_two_ways_are_refused_and_closed(strict, end, piece):
    data, answer = CHUNKED + end + head("GET /healthz"), b""
    with connect(strict) as connection, contextlib.suppress(ConnectionError):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for place in range(0, len(data), piece):
            with contextlib.suppress(ConnectionError):
                connection.sendall(data[place : place + piece])
        while part := connection.recv(65536):
            answer += part
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1 ") == 1


def test_a_slow_trailer_is_ended(strict):
    with connect(strict) as connection:
        connection.sendall(CHUNKED + b"0\r\nX: ")
        answer, seconds = trickle(connection)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert seconds < 4


def test_a_body_may_have_any_line_ends(strict):
    body = b'{"user":\n 1}\n\n'
    asked = head(
        "POST /v1/recommendations",
        f"Content-Length: {len(body)}",
        "Content-Type: application/json",
        "Connection: close",
    )
    with connect(strict) as connection:
        connection.sendall(asked + body)
        assert answered(connection) == 200


def test_slow_bodies_do_not_fill_the_server(strict):
    request = head("GET /healthz", "Content-Length: 1000000")
    held = [connect(strict) for _ in range(MOST)]
    try:
        for connection in held:
            connection.sendall(request)
        end = time.monotonic() + 6
        while time.monotonic() < end:
            for connection in held:
                with contextlib.suppress(OSError):
                    connection.sendall(b"x")
            with contextlib.suppress(httpx.HTTPError):
                if httpx.get(strict.url + "healthz").status_code == 200:
                    return
            time.sleep(0.2)
    finally:
        for connection in held:
            connection.close()
    pytest.fail("slow bodies keep others out")


def test_a_refused_request_that_ends_in_time_keeps_its_connection(strict):
    """The rest of a body that nobody wants is read for a moment, then the next request answers."""
    with connect(strict) as connection:
        connection.sendall(head("GET /healthz", "Content-Length: 4", host="evil.example"))
        assert answered(connection) == 421
        connection.sendall(b"rest" + head("GET /healthz", "Connection: close"))
        assert answered(connection) == 200


LARGE = "static/plotly.min.js"  # 4.8 MB, more than the buffers of the kernel hold


def slow_reader(server, times=1):
    """Ask for a large answer over a connection that takes in little."""
    address = urlsplit(server.url)
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(10)
    connection.connect((address.hostname, address.port))
    connection.sendall(times * head(f"GET /{LARGE}"))
    return connection


def test_slow_readers_do_not_fill_the_server(model_folder, tmp_path):
    options = ("--workers", "1", "--receive-timeout", "1", "--keep-alive", "1")
    server = Server(model_folder, tmp_path / "log", *options, "--max-connections", str(MOST))
    try:
        held = [slow_reader(server, times=1 + n % 2) for n in range(MOST)]
        begin, status = time.monotonic(), 0
        while status != 200 and time.monotonic() - begin < 60:
            for connection in held:
                with contextlib.suppress(OSError):
                    connection.recv(1)  # a byte now and then
            time.sleep(0.3)
            with contextlib.suppress(httpx.HTTPError), server.client() as client:
                status = client.get("healthz").status_code
        assert status == 200
        for connection in held:
            connection.close()
        with server.client() as client:
            assert len(client.get(LARGE).content) > 4_000_000
            assert 'reason="slow"' in client.get("metrics").text
    finally:
        server.stop()
    assert "Traceback" not in server.text
