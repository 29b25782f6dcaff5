"""Downloads from a server that disconnects, stalls and sends wrong bytes."""

from __future__ import annotations

import hashlib
import socket
from types import SimpleNamespace

import pytest

from surerec.datasets._download import download
from surerec.errors import FetchError
from tests.datasets.http_server import answer, close_after, serve, status


def sha256(content):
    return "sha256:" + hashlib.sha256(content).hexdigest()


@pytest.fixture
def fetch(server, tmp_path):
    """A function that downloads from the server to an empty folder, with a short timeout."""
    target = tmp_path / "here" / "data.bin"

    def fetch(**options):
        options = {"timeout": 0.3, "checksum": sha256(server.content)} | options
        return download(server.url(), target, **options)

    fetch.target = target
    fetch.files = lambda: sorted(each.name for each in target.parent.iterdir())
    return fetch


def assert_downloaded(fetch, server):
    assert fetch.target.read_bytes() == server.content
    assert fetch.files() == ["data.bin"]


@pytest.mark.parametrize("kind", ["sha256", "md5"])
def test_only_the_file_is_written(fetch, server, kind):
    checksum = f"{kind}:{hashlib.new(kind, server.content, usedforsecurity=False).hexdigest()}"
    assert fetch(checksum=checksum) == fetch.target
    assert_downloaded(fetch, server)


def stall(handler, server):
    serve(handler, server, n_bytes=70_000)
    handler.wfile.flush()
    server.over.wait(5)


def reset(handler, _):
    linger = b"\x01\x00\x00\x00\x00\x00\x00\x00"
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    handler.connection.close()


def longer(handler, server):
    answer(handler, server.content, Content_Length=len(server.content) + 7)


@pytest.mark.parametrize(
    "failure",
    [close_after(100_000), stall, reset, longer, *map(status, (408, 429, 500, 503))],
)
def test_connections_and_server_errors_are_retried(fetch, server, failure):
    server.acts = [failure]
    fetch()
    assert_downloaded(fetch, server)
    server.acts = [failure] * 2
    with pytest.raises(FetchError, match=r"connection lost|timeout|HTTP"):
        fetch(attempts=2)
    assert_downloaded(fetch, server)  # the earlier file


@pytest.mark.parametrize("earlier", [True, False])
def test_a_wrong_checksum_raises_and_keeps_the_earlier_file(fetch, server, earlier):
    fetch.target.parent.mkdir()
    if earlier:
        fetch.target.write_bytes(b"earlier")
    with pytest.raises(FetchError, match=r"data\.bin: wrong checksum"):
        fetch(checksum=sha256(b"something else"))
    assert fetch.files() == (["data.bin"] if earlier else [])
    assert not earlier or fetch.target.read_bytes() == b"earlier"
    assert len(server.requests) == 1


@pytest.mark.parametrize(("code", "n_requests"), [(403, 1), (404, 1), (410, 1), (500, 4)])
def test_only_server_errors_are_retried(fetch, server, code, n_requests):
    server.acts = [status(code)] * 9
    with pytest.raises(FetchError, match=f"HTTP {code}"):
        fetch()
    assert len(server.requests) == n_requests
    assert fetch.files() == []


def endless(handler, server):
    handler.send_response(200)
    handler.end_headers()
    while not server.over.is_set():
        handler.wfile.write(b"x" * 10_000)


@pytest.mark.parametrize("act", [endless, serve])
def test_a_body_beyond_the_limit_raises(fetch, server, act):
    server.acts = [act]
    with pytest.raises(FetchError, match=r"longer than the allowed 0\.2 MB"):
        fetch(max_bytes=200_000)
    assert fetch.files() == []


def test_redirects_stay_within_http(fetch, server, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("private")
    server.acts = [lambda handler, _: answer(handler, b"", 302, Location=server.url("moved"))]
    fetch()
    assert_downloaded(fetch, server)
    for elsewhere in (secret.as_uri(), "ftp://127.0.0.1:1/x", "data:text/plain,x"):
        server.acts = [lambda handler, _, to=elsewhere: answer(handler, b"", 302, Location=to)] * 4
        with pytest.raises(FetchError):
            download(server.url(), tmp_path / "other", timeout=0.3)
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        *((url, "neither http nor https") for url in ("file:///etc/hostname", "data:,x", "ftp:x")),
        *(
            (url, "download failed")
            for url in ("http://", "http://[", "http://1:port/", "http://a b/")
        ),
        ("http://no-such-host.invalid/x", "host name not resolved"),
        ("http://127.0.0.1:1/x", "connection refused"),
    ],
)
def test_invalid_and_unreachable_urls_raise(tmp_path, url, message):
    with pytest.raises(FetchError, match=message):
        download(url, tmp_path / "x", timeout=0.3)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_does_not_fit_is_not_begun(fetch, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=128_000))
    with pytest.raises(FetchError, match=r"does not fit in .*here: 0\.3 MB are needed"):
        fetch()
    assert fetch.files() == []


def test_a_folder_that_cannot_be_written_raises(server, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(FetchError, match="cannot write to"):
        download(server.url(), tmp_path / "file" / "x")
