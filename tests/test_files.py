import os
import stat

import pytest

from surerec._files import file_aside, folder_aside, is_stream

posix = pytest.mark.skipif(os.name != "posix", reason="links, pipes and permissions of Unix")


def test_a_file_appears_when_it_is_complete(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("old")
    with pytest.raises(OSError, match="full"), file_aside(path) as aside:  # noqa: PT012
        aside.write_text("half")
        raise OSError("full")
    assert path.read_text() == "old"
    with file_aside(path) as aside:
        aside.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_two_writers_of_one_file_do_not_collide(tmp_path):
    path = tmp_path / "table.csv"
    with file_aside(path) as one, file_aside(path) as other:
        one.write_text("same")
        other.write_text("same")
    assert path.read_text() == "same"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_is_replaced_when_it_is_complete(tmp_path):
    folder = tmp_path / "report"
    for name in ("first", "second"):
        with folder_aside(folder) as aside:
            (aside / name).touch()
        assert [path.name for path in folder.iterdir()] == [name]
    with pytest.raises(OSError, match="full"), folder_aside(folder) as aside:  # noqa: PT012
        (aside / "third").touch()
        raise OSError("full")
    assert [path.name for path in folder.iterdir()] == ["second"]
    assert list(tmp_path.iterdir()) == [folder]


@posix
def test_a_folder_through_a_link_replaces_the_target(tmp_path):
    (tmp_path / "latest").symlink_to(tmp_path / "report")
    with folder_aside(tmp_path / "latest") as aside:
        (aside / "first").touch()
    assert (tmp_path / "latest").is_symlink()
    assert (tmp_path / "report" / "first").exists()


def write(path, text="new"):
    with file_aside(path) as aside:
        aside.write_text(text)


@posix
def test_a_link_stays_and_its_target_is_replaced(tmp_path):
    target, link = tmp_path / "there" / "table.csv", tmp_path / "link.csv"
    target.parent.mkdir()
    link.symlink_to("there/table.csv")
    for text in ("first", "second"):  # the first leads to nothing yet
        write(link, text)
        assert link.is_symlink()
        assert target.read_text() == text
    assert list(target.parent.iterdir()) == [target]


@posix
def test_links_in_a_circle_are_refused_and_stay(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    one.symlink_to(other)
    other.symlink_to(one)
    with pytest.raises(OSError, match="links"):
        write(one)
    assert one.is_symlink()
    assert other.is_symlink()


@posix
def test_a_device_stays_a_device(tmp_path):
    link = tmp_path / "null"
    link.symlink_to("/dev/null")
    for path in (link, link.resolve()):
        write(path)
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)  # noqa: PTH116
    assert link.is_symlink()


@posix
def test_an_open_descriptor_is_not_replaced(tmp_path):
    with (tmp_path / "log").open("w") as file:
        if os.path.exists("/dev/fd"):  # noqa: PTH110
            link = tmp_path / "link"
            link.symlink_to(f"/dev/fd/{file.fileno()}")
            assert is_stream(link)
    assert not is_stream(tmp_path / "log")


def test_a_folder_is_not_a_file(tmp_path):
    with pytest.raises(IsADirectoryError):
        write(tmp_path)
    assert not list(tmp_path.iterdir())


@posix
def test_a_file_keeps_its_permissions_and_a_new_one_has_the_usual(tmp_path):
    old, new, usual = (tmp_path / name for name in ("old", "new", "usual"))
    old.touch()
    old.chmod(0o640)
    write(old)
    write(new)
    usual.touch()
    assert stat.S_IMODE(old.stat().st_mode) == 0o640
    assert new.stat().st_mode == usual.stat().st_mode


@posix
@pytest.mark.skipif(os.name == "posix" and os.geteuid() == 0, reason="nothing is closed to root")
def test_a_read_only_file_is_not_replaced(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("old")
    path.chmod(0o400)
    with pytest.raises(PermissionError):
        write(path)
    assert path.read_text() == "old"
