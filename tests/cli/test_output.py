"""``--output`` never destroys: what is no plain file is written into, or refused in a sentence."""

import os
import stat
import threading

import polars as pl
import pytest

pytestmark = pytest.mark.skipif(os.name != "posix", reason="links, pipes and devices of Unix")

COMMANDS = (
    ("recommend", "icrs3", "--user", "7", "--format", "json"),
    ("recommend", "icrs3", "--user", "7", "--format", "csv"),
    ("recommend", "icrs3", "--all", "--k", "2"),
)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_pipe_gets_it_and_what_cannot_be_written_is_refused(run, tmp_path, command):
    pipe = tmp_path / "picks.csv"
    os.mkfifo(pipe)
    read = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    assert run(*command, "--output", pipe).code == 0
    reader.join(10)
    assert "item_id" in read[0]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    folder = tmp_path / "folder.csv"
    folder.mkdir()
    for place, why in ((folder, "Is a directory"), ("/proc/picks.csv", "No such file")):
        told = run(*command, "--output", place)
        assert told.code == 2
        assert f"{place}: cannot be written ({why}" in told.err
    assert not list(folder.iterdir())


@pytest.mark.parametrize("command", ["recommend", "explain"])
def test_a_file_has_the_format_of_its_name_or_is_refused(run, answer, tmp_path, command):
    asked = command, "icrs3", "--user", "7"
    if command == "explain":
        asked += "--item", str(answer("recommend", "icrs3", "--user", "7")["items"][0]["item_id"])
    assert run(*asked, "--output", tmp_path / "picks.csv").code == 0
    assert "item_id" in pl.read_csv(tmp_path / "picks.csv").columns
    refused = run(*asked, "--output", tmp_path / "picks.txt")
    assert refused.code == 2
    assert "picks.txt: the suffix names no file format" in refused.err
    assert not (tmp_path / "picks.txt").exists()
