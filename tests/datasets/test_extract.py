"""Archives: only the members asked for, never outside the folder, never too much."""

from __future__ import annotations

import io
import tarfile
import zipfile

import pytest

from surerec.datasets import _extract
from surerec.datasets._extract import extract, is_archive
from surerec.errors import FetchError, InputError

FILES = {"set/ratings.csv": b"a,b\n" * 1000, "set/movies.csv": b"c\n", "set/big/other.bin": b"z"}


def make_zip(path, files):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)


def make_tar(path, files):
    with tarfile.open(path, "w:gz" if path.suffix == ".gz" else "w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


@pytest.fixture(params=["set.zip", "set.tar.gz", "set.tar"])
def pack(request, tmp_path):
    path = tmp_path / request.param

    def pack(files):
        (make_zip if path.suffix == ".zip" else make_tar)(path, files)
        return path

    return pack


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "out" / "deep"
    folder.mkdir(parents=True)
    return folder


def everything(names):
    return list(names)


def test_takes_the_members_asked_for_flat_and_in_order(pack, folder):
    archive = pack(FILES)
    assert is_archive(archive)
    names = ["set/movies.csv", "set/ratings.csv"]
    files = extract(archive, lambda _: names, folder)
    assert files == [folder / "movies.csv", folder / "ratings.csv"]
    assert [file.read_bytes() for file in files] == [b"c\n", b"a,b\n" * 1000]
    assert sorted(folder.iterdir()) == files


@pytest.mark.parametrize(
    "name", ["../evil.csv", "/evil.csv", "set/../../evil.csv", "..\\evil.csv", "C:evil.csv"]
)
def test_a_member_that_points_outside_is_not_even_offered(pack, folder, name):
    files = extract(pack({name: b"evil", "set/good.csv": b"good"}), everything, folder)
    assert files == [folder / "good.csv"]
    assert [each.name for each in folder.parent.parent.rglob("*.csv")] == ["good.csv"]


def test_links_and_folders_in_a_tar_are_not_offered(tmp_path, folder):
    path = tmp_path / "links.tar"
    with tarfile.open(path, "w") as archive:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.CHRTYPE):
            member = tarfile.TarInfo(f"kind{kind.decode()}.csv")
            member.type, member.linkname = kind, "/etc/hostname"
            archive.addfile(member)
    assert extract(path, everything, folder) == []


def test_a_bomb_is_stopped(pack, folder, monkeypatch):
    monkeypatch.setattr(_extract, "_MAX_BYTES", 3_000_000)
    archive = pack({"bomb.csv": bytes(20_000_000)})
    with pytest.raises(InputError, match="unpacks to more than"):
        extract(archive, everything, folder)
    assert sum(each.stat().st_size for each in folder.iterdir()) < 5_000_000


def test_many_members_share_one_limit(pack, folder, monkeypatch):
    monkeypatch.setattr(_extract, "_MAX_BYTES", 3_000_000)
    archive = pack({f"{i}.csv": bytes(1_000_000) for i in range(9)})
    with pytest.raises(InputError, match="unpacks to more than"):
        extract(archive, everything, folder)


@pytest.mark.parametrize("where", [0.1, 0.5, 0.9])
def test_a_damaged_archive_is_one_sentence(pack, folder, where):
    archive = pack({"a.csv": bytes(range(256)) * 4000})
    content = bytearray(archive.read_bytes())
    if archive.suffix == ".tar":
        content = content[: int(len(content) * where)]
    else:
        at = int(len(content) * where)
        content[at : at + 200] = b"\xff" * 200
    archive.write_bytes(content)
    with pytest.raises(InputError, match="damaged"):
        extract(archive, everything, folder)


def test_a_web_page_in_place_of_an_archive(tmp_path, folder):
    page = tmp_path / "set.zip"
    page.write_text("<html>Sorry</html>")
    assert not is_archive(page)
    with pytest.raises(InputError, match="no zip or tar file"):
        extract(page, everything, folder)


def test_an_encrypted_zip_is_one_sentence(tmp_path, folder):
    path = tmp_path / "set.zip"
    make_zip(path, {"a.csv": b"x"})
    content = bytearray(path.read_bytes())
    content[6] |= 1  # the flag of encryption, in the member's own header
    content[content.index(b"PK\x01\x02") + 8] |= 1  # and in the directory
    path.write_bytes(content)
    with pytest.raises(InputError, match="damaged"):
        extract(path, everything, folder)


def test_a_full_disk_is_said_to_be_full(pack, folder):
    resource = pytest.importorskip("resource")
    archive = pack({"a.csv": bytes(1_000_000)})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(FetchError, match="does not fit into"):
            extract(archive, everything, folder)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
