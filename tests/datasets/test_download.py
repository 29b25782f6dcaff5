"""The downloader against a real server that cuts, stalls, lies and serves wrong bytes."""

from __future__ import annotations

import errno
import hashlib
import os
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


def test_brings_the_file_and_nothing_else(bring, server):
    assert bring() == bring.target
    assert_brought(bring, server)


def test_md5_is_known_too(bring, server):
    bring(checksum="md5:" + hashlib.md5(server.content).hexdigest())  # noqa: S324
    assert_brought(bring, server)


def test_resumes_after_cuts_within_one_call(bring, server):
    server.acts = [cut_after(100_000), cut_after(50_000)]
    bring()
    assert_brought(bring, server)
    assert server.ranges() == [None, "bytes=100000-", "bytes=150000-"]


def test_resumes_what_an_earlier_call_left(bring, server):
    server.acts = [cut_after(100_000)]
    with pytest.raises(FetchError, match=r"data\.bin.*connection cut.*kept"):
        bring(attempts=1)
    assert bring.files() == ["data.bin.part", "data.bin.part.json"]
    bring()
    assert_brought(bring, server)
    assert server.ranges() == [None, "bytes=100000-"]


def test_resumes_after_a_stall(bring, server):
    def stall(handler, server):
        serve(handler, server, cut=70_000)
        handler.wfile.flush()
        server.over.wait(5)

    server.acts = [stall]
    bring()
    assert_brought(bring, server)
    assert server.ranges() == [None, "bytes=70000-"]


def test_a_server_that_never_speaks_is_given_up(bring, server):
    server.acts = [lambda _, server: server.over.wait(5)] * 2
    with pytest.raises(FetchError, match=r"no answer for 0\.3 s"):
        bring(attempts=2)


def test_a_reset_connection_is_tried_again(bring, server):
    def reset(handler, _):
        handler.connection.setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00"
        )
        handler.connection.close()

    server.acts = [reset]
    bring()
    assert_brought(bring, server)


def test_starts_over_where_the_server_ignores_ranges(bring, server):
    def whole(handler, server):
        answer(handler, server.content, Content_Length=len(server.content), ETag=server.etag)

    server.acts = [cut_after(100_000), whole]
    bring()
    assert_brought(bring, server)


@pytest.mark.parametrize(
    "headers",
    [
        {"Content_Range": "bytes 5-307199/307200"},
        {"Content_Range": "bytes 100000-307199/999999"},
        {"Content_Range": "nonsense"},
        {},
        {"Content_Range": "bytes 100000-307199/307200", "ETag": '"v2"'},
    ],
)
def test_starts_over_after_a_wrong_range(bring, server, headers):
    def wrong(handler, _):
        answer(handler, b"x" * 207_200, 206, Content_Length=207_200, **headers)

    server.acts = [cut_after(100_000), wrong]
    bring()
    assert_brought(bring, server)
    assert server.ranges() == [None, "bytes=100000-", None]


def test_starts_over_when_the_file_changed_meanwhile(bring, server):
    def cut_then_change(handler, server):
        serve(handler, server, cut=100_000)
        server.content, server.etag = b"new" * 50_000, '"v2"'

    server.acts = [cut_then_change]
    bring(checksum=None)
    assert_brought(bring, server)
    assert bring.target.stat().st_size == 150_000


def test_does_not_resume_without_a_validator(bring, server):
    server.etag = None
    server.acts = [cut_after(100_000)]
    bring()
    assert_brought(bring, server)
    assert server.ranges() == [None, None]


def test_resumes_by_date_where_the_etag_is_weak(bring, server):
    date = "Wed, 01 Jan 2020 00:00:00 GMT"
    length = len(server.content)

    def dated_cut(handler, server):
        answer(handler, server.content[:9], Content_Length=length, ETag='W/"a"', Last_Modified=date)

    server.acts = [dated_cut]
    server.etag = date  # so that a matching If-Range is the date
    bring()
    assert_brought(bring, server)
    assert server.ranges() == [None, "bytes=9-"]


@pytest.mark.parametrize("sidecar", ["", "{", "[]", '{"version": 1, "total": 2}', '{"total": 5}'])
def test_starts_over_when_the_sidecar_is_damaged(bring, server, sidecar):
    bring.target.parent.mkdir()
    bring.target.with_name("data.bin.part").write_bytes(b"junk")
    bring.target.with_name("data.bin.part.json").write_text(sidecar)
    bring()
    assert_brought(bring, server)
    assert server.ranges() == [None]


def test_a_complete_part_needs_no_request(bring, server):
    bring.target.parent.mkdir()
    bring.target.with_name("data.bin.part").write_bytes(server.content)
    bring.target.with_name("data.bin.part.json").write_text('{"version": "v", "total": 307200}')
    bring()
    assert_brought(bring, server)
    assert server.requests == []


def test_a_length_promised_too_long_fails_in_the_end(bring, server):
    def longer(handler, server):
        answer(handler, server.content, Content_Length=len(server.content) + 7, ETag=server.etag)

    server.acts = [longer] * 3
    with pytest.raises(FetchError, match="connection cut"):
        bring(attempts=3)
    assert not bring.target.exists()


def test_a_length_promised_too_long_is_mended_by_a_good_answer(bring, server):
    def longer(handler, server):
        answer(handler, server.content, Content_Length=len(server.content) + 7, ETag=server.etag)

    server.acts = [longer]  # going on from its end is answered by 416, and then from zero
    bring()
    assert_brought(bring, server)


def test_a_length_promised_too_short_is_a_wrong_checksum(bring, server):
    def shorter(handler, server):
        answer(handler, server.content, Content_Length=1000)

    server.acts = [shorter] * 4
    with pytest.raises(FetchError, match="wrong checksum"):
        bring()
    assert bring.files() == []


def test_wrong_bytes_are_refused_and_removed(bring, server):
    with pytest.raises(FetchError, match=r"data\.bin came with a wrong checksum"):
        bring(checksum=sha256(b"something else"))
    assert bring.files() == []
    assert len(server.requests) == 1


def test_wrong_bytes_leave_an_earlier_file_as_it_was(bring):
    bring.target.parent.mkdir()
    bring.target.write_bytes(b"earlier")
    with pytest.raises(FetchError):
        bring(checksum=sha256(b"something else"))
    assert bring.target.read_bytes() == b"earlier"


@pytest.mark.parametrize("attempts", [1, 4])
def test_a_spoilt_beginning_is_brought_again_from_zero(bring, server, attempts):
    bring.target.parent.mkdir()
    bring.target.with_name("data.bin.part").write_bytes(b"junk")
    bring.target.with_name("data.bin.part.json").write_text(
        '{"version": "\\"v1\\"", "total": null}'
    )
    bring(attempts=attempts)
    assert_brought(bring, server)
    assert server.ranges() == ["bytes=4-", None]


@pytest.mark.parametrize("code", [403, 404, 410])
def test_a_refusal_fails_at_once(bring, server, code):
    server.acts = [status(code)]
    with pytest.raises(FetchError, match=f"HTTP {code}"):
        bring()
    assert len(server.requests) == 1
    assert bring.files() == []


@pytest.mark.parametrize("code", [408, 429, 500, 503])
def test_a_server_in_trouble_is_tried_again(bring, server, code):
    server.acts = [status(code), status(code)]
    bring()
    assert_brought(bring, server)


def test_a_server_that_stays_in_trouble_is_given_up(bring, server):
    server.acts = [status(500)] * 9
    with pytest.raises(FetchError, match="HTTP 500"):
        bring()
    assert len(server.requests) == 4


def test_an_endless_body_is_cut_off(bring, server):
    def endless(handler, server):
        handler.send_response(200)
        handler.end_headers()
        while not server.over.is_set():
            handler.wfile.write(b"x" * 10_000)

    server.acts = [endless]
    with pytest.raises(FetchError, match=r"longer than the 0\.5 MB"):
        bring(max_bytes=500_000)
    assert bring.files() == []


def test_a_length_beyond_the_limit_is_not_even_begun(bring):
    with pytest.raises(FetchError, match=r"longer than the 0\.1 MB"):
        bring(max_bytes=100_000)
    assert bring.files() == []


def test_a_chunked_body_without_length(bring, server):
    def chunked(handler, server):
        handler.protocol_version = "HTTP/1.1"
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        handler.wfile.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(server.content), server.content))

    def chunked_and_cut(handler, server):
        handler.protocol_version = "HTTP/1.1"
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        handler.wfile.write(b"%x\r\n%s" % (len(server.content), server.content[:5000]))

    server.acts = [chunked_and_cut, chunked]
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
    "url", ["file:///etc/hostname", "ftp://127.0.0.1/x", "data:,x", "nonsense"]
)
def test_opens_nothing_but_http(tmp_path, url):
    with pytest.raises(FetchError, match="neither http nor https"):
        download(url, tmp_path / "x")


@pytest.mark.parametrize("url", ["http://", "http://[", "http://127.0.0.1:port/", "http://a b/"])
def test_an_address_that_is_none(tmp_path, url):
    with pytest.raises(FetchError):
        download(url, tmp_path / "x", timeout=0.3)


def test_a_closed_port_is_tried_twice_at_most(tmp_path, monkeypatch):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    waits = []
    monkeypatch.setattr("surerec.datasets._download.time.sleep", waits.append)
    with pytest.raises(FetchError, match="connection refused"):
        download(f"http://127.0.0.1:{port}/x", tmp_path / "x")
    assert len(waits) == 1


def test_a_name_that_nobody_knows(tmp_path):
    with pytest.raises(FetchError, match="name not resolved"):
        download("http://no-such-host.invalid/x", tmp_path / "x", timeout=0.3)
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


def test_a_limit_on_file_sizes_is_like_a_full_disk(bring):
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(FetchError, match="does not fit"):
            bring()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert bring.files() == []


def test_a_folder_that_cannot_be_written(server, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(FetchError, match="cannot be written into"):
        download(server.url(), tmp_path / "file" / "x")


def test_a_failing_fsync_leaves_nothing(bring, monkeypatch):
    def fail(_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr("surerec.datasets._download.os.fsync", fail)
    with pytest.raises(FetchError, match="input/output error"):
        bring()
    assert bring.files() == []
