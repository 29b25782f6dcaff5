"""The downloader against a real server that cuts, stalls, lies and serves wrong bytes."""

from __future__ import annotations

import hashlib
import socket
import subprocess

import pytest

from surerec.datasets._download import download
from surerec.errors import FetchError
from tests.datasets.http_server import answer, cut_after, serve, status


def sha256(content):
    return "sha256:" + hashlib.sha256(content).hexdigest()


@pytest.fixture
def bring(server, tmp_path):
    """Download from the server into an empty folder; short of patience."""
    target = tmp_path / "here" / "data.bin"

    def bring(**options):
        options = {"timeout": 0.3, "checksum": sha256(server.content)} | options
        return download(server.url(), target, **options)

    bring.target = target
    bring.files = lambda: sorted(each.name for each in target.parent.iterdir())
    return bring


def assert_brought(bring, server):
    assert bring.target.read_bytes() == server.content
    assert bring.files() == ["data.bin"]


@pytest.mark.parametrize("kind", ["sha256", "md5"])
def test_brings_the_file_and_nothing_else(bring, server, kind):
    checksum = f"{kind}:{hashlib.new(kind, server.content, usedforsecurity=False).hexdigest()}"
    assert bring(checksum=checksum) == bring.target
    assert_brought(bring, server)


def stall(handler, server):
    serve(handler, server, threshold=70_000)
    handler.wfile.flush()
    server.over.wait(5)


def reset(handler, _):
    linger = b"\x01\x00\x00\x00\x00\x00\x00\x00"
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    handler.connection.close()


def longer(handler, server):
    answer(handler, server.content, Content_Length=len(server.content) + 7)


@pytest.mark.parametrize("trouble", [cut_after(100_000), stall, reset, longer])
def test_a_cut_connection_is_tried_again_and_then_given_up(bring, server, trouble):
    server.acts = [trouble]
    bring()
    assert_brought(bring, server)
    server.acts = [trouble] * 2
    with pytest.raises(FetchError, match=r"connection cut|no answer in time"):
        bring(attempts=2)
    assert_brought(bring, server)  # the earlier file


@pytest.mark.parametrize("earlier", [True, False])
def test_wrong_bytes_are_refused_and_leave_an_earlier_file_as_it_was(bring, server, earlier):
    bring.target.parent.mkdir()
    if earlier:
        bring.target.write_bytes(b"earlier")
    with pytest.raises(FetchError, match=r"data\.bin has a wrong checksum"):
        bring(checksum=sha256(b"something else"))
    assert bring.files() == (["data.bin"] if earlier else [])
    assert not earlier or bring.target.read_bytes() == b"earlier"
    assert len(server.requests) == 1


@pytest.mark.parametrize(("code", "n_requests"), [(403, 1), (404, 1), (410, 1), (500, 4)])
def test_a_refusal_fails_at_once_and_a_server_in_trouble_in_the_end(
    bring, server, code, n_requests
):
    server.acts = [status(code)] * 9
    with pytest.raises(FetchError, match=f"HTTP {code}"):
        bring()
    assert len(server.requests) == n_requests
    assert bring.files() == []


@pytest.mark.parametrize("code", [408, 429, 500, 503])
def test_a_server_in_trouble_is_tried_again(bring, server, code):
    server.acts = [status(code), status(code)]
    bring()
    assert_brought(bring, server)


def endless(handler, server):
    handler.send_response(200)
    handler.end_headers()
    while not server.over.is_set():
        handler.wfile.write(b"x" * 10_000)


@pytest.mark.parametrize("act", [endless, serve])
def test_a_body_beyond_the_limit_is_cut_off(bring, server, act):
    server.acts = [act]
    with pytest.raises(FetchError, match=r"longer than the 0\.2 MB"):
        bring(max_bytes=200_000)
    assert bring.files() == []


def chunked(threshold=None):
    def chunked(handler, server):
        handler.protocol_version = "HTTP/1.1"
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        end = b"\r\n0\r\n\r\n" if threshold is None else b""
        handler.wfile.write(b"%x\r\n%s" % (len(server.content), server.content[:threshold]) + end)

    return chunked


def test_a_chunked_body_without_length(bring, server):
    server.acts = [chunked(threshold=5000), chunked()]
    bring(checksum=None)
    assert_brought(bring, server)


def test_follows_a_redirect_but_not_out_of_http(bring, server, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("private")
    server.acts = [lambda handler, _: answer(handler, b"", 302, Location=server.url("moved"))]
    bring()
    assert_brought(bring, server)
    for elsewhere in (secret.as_uri(), "ftp://127.0.0.1:1/x", "data:text/plain,x"):
        server.acts = [lambda handler, _, to=elsewhere: answer(handler, b"", 302, Location=to)] * 4
        with pytest.raises(FetchError):
            download(server.url(), tmp_path / "other", timeout=0.3)
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("url", "says"),
    [
        *((url, "neither http nor https") for url in ("file:///etc/hostname", "data:,x", "ftp:x")),
        *(
            (url, "could not be")
            for url in ("http://", "http://[", "http://1:port/", "http://a b/")
        ),
        ("http://no-such-host.invalid/x", "name not resolved"),
        ("http://127.0.0.1:1/x", "connection refused"),
    ],
)
def test_what_is_no_address_or_out_of_reach_is_said(tmp_path, url, says):
    with pytest.raises(FetchError, match=says):
        download(url, tmp_path / "x", timeout=0.3)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 128 KB, where this user may mount one."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=128k", "none", str(folder)]
    try:
        subprocess.run(mount, check=True, capture_output=True)  # noqa: S603
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no right to mount a small file system here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)  # noqa: S603, S607


def test_a_disk_too_small_is_seen_beforehand(server, small_disk):
    with pytest.raises(FetchError, match=r"does not fit into .*small: 0\.3 MB are needed"):
        download(server.url(), small_disk / "data.bin")
    assert list(small_disk.iterdir()) == []


def test_a_disk_that_fills_up_on_the_way(server, small_disk):
    server.acts = [lambda handler, server: answer(handler, server.content)]  # no length given
    with pytest.raises(FetchError, match=r"does not fit into .*small: the disk is full"):
        download(server.url(), small_disk / "data.bin")
    assert list(small_disk.iterdir()) == []


def test_a_folder_that_cannot_be_written(server, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(FetchError, match="cannot be written into"):
        download(server.url(), tmp_path / "file" / "x")
