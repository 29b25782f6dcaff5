"""Extraction of archives: only the chosen members, inside the folder, up to a limit."""

from __future__ import annotations

from functools import partial

import pytest

from surerec.datasets import _download
from surerec.datasets._download import extract
from surerec.errors import FetchError, InputError
from tests.datasets.archives import zip_of

FILES = {"set/ratings.csv": b"a,b\n" * 1000, "set/movies.csv": b"c\n", "set/big/other.bin": b"z"}


@pytest.fixture
def pack(tmp_path):
    return partial(zip_of, tmp_path / "set.zip")


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "out" / "deep"
    folder.mkdir(parents=True)
    return folder


def everything(names):
    return list(names)


def test_the_chosen_members_are_extracted_in_order(pack, folder):
    archive = pack(FILES)
    names = ["set/movies.csv", "set/ratings.csv"]
    files = extract(archive, lambda _: names, folder)
    assert files == [folder / "movies.csv", folder / "ratings.csv"]
    assert [file.read_bytes() for file in files] == [b"c\n", b"a,b\n" * 1000]
    assert sorted(folder.iterdir()) == files


@pytest.mark.parametrize(
    "name", ["../evil.csv", "/evil.csv", "set/../../evil.csv", "..\\evil.csv", "C:evil.csv"]
)
def test_a_member_with_an_unsafe_path_is_not_offered(pack, folder, name):
    files = extract(pack({name: b"evil", "set/good.csv": b"good"}), everything, folder)
    assert files == [folder / "good.csv"]
    assert [each.name for each in folder.parent.parent.rglob("*.csv")] == ["good.csv"]


@pytest.mark.parametrize(
    "files", [{"bomb.csv": bytes(20_000_000)}, {f"{i}.csv": bytes(1_000_000) for i in range(9)}]
)
def test_a_zip_bomb_raises(pack, folder, monkeypatch, files):
    monkeypatch.setattr(_download, "_MAX_UNPACKED", 3_000_000)
    with pytest.raises(InputError, match="unpacks to more than"):
        extract(pack(files), everything, folder)
    assert sum(each.stat().st_size for each in folder.iterdir()) < 5_000_000


@pytest.mark.parametrize("where", [0.1, 0.5, 0.9])
def test_a_damaged_archive_raises(pack, folder, where):
    archive = pack({"a.csv": bytes(range(256)) * 4000})
    content = bytearray(archive.read_bytes())
    at = int(len(content) * where)
    content[at : at + 200] = b"\xff" * 200
    archive.write_bytes(content)
    with pytest.raises(InputError, match="damaged"):
        extract(archive, everything, folder)


def test_a_web_page_or_an_encrypted_archive_raises(pack, folder):
    path = pack({"a.csv": b"x"})
    content = bytearray(path.read_bytes())
    content[6] |= 1  # the encryption flag, in the header of the member
    content[content.index(b"PK\x01\x02") + 8] |= 1  # and in the directory
    path.write_bytes(content)
    with pytest.raises(InputError, match="damaged"):
        extract(path, everything, folder)
    path.write_text("<html>Sorry</html>")
    with pytest.raises(InputError, match="not a zip file"):
        extract(path, everything, folder)


def test_a_full_disk_raises(pack, folder):
    resource = pytest.importorskip("resource")
    archive = pack({"a.csv": bytes(1_000_000)})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(FetchError, match="does not fit in"):
            extract(archive, everything, folder)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
