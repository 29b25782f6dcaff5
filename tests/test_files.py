import pytest

from surerec._files import file_aside, folder_aside


def test_a_file_appears_when_it_is_complete(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("old")
    with file_aside(path) as aside:
        aside.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_fails_leaves_the_old_one_and_nothing_aside(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("old")

    def fail():
        with file_aside(path) as aside:
            aside.write_text("half")
            raise OSError

    with pytest.raises(OSError):  # noqa: PT011  # any will do
        fail()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_two_who_write_one_file_at_once_do_not_meet(tmp_path):
    path = tmp_path / "table.csv"
    with file_aside(path) as one, file_aside(path) as other:
        one.write_text("same")
        other.write_text("same")
    assert path.read_text() == "same"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_takes_the_place_of_another_when_it_is_complete(tmp_path):
    folder = tmp_path / "report"
    for name in ("first", "second"):
        with folder_aside(folder) as aside:
            (aside / name).touch()
        assert [path.name for path in folder.iterdir()] == [name]
    assert list(tmp_path.iterdir()) == [folder]


def test_a_folder_that_fails_leaves_the_old_one_and_nothing_aside(tmp_path):
    folder = tmp_path / "report"
    folder.mkdir()
    (folder / "old").touch()

    def fail():
        with folder_aside(folder) as aside:
            (aside / "new").touch()
            raise OSError

    with pytest.raises(OSError):  # noqa: PT011  # any will do
        fail()
    assert [path.name for path in folder.iterdir()] == ["old"]
    assert list(tmp_path.iterdir()) == [folder]
