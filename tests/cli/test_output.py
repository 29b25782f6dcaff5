"""``--output`` to pipes, devices and files."""

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
def test_output_to_pipes_and_unwritable_paths(run, tmp_path, command):
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
        done = run(*command, "--output", place)
        done.assert_refused(f"{place}: cannot be written ({why}")
    assert not list(folder.iterdir())


@pytest.mark.parametrize("command", ["recommend", "explain"])
def test_the_suffix_of_output_sets_the_format(run, answer, tmp_path, command):
    request = command, "icrs3", "--user", "7"
    if command == "explain":
        request += "--item", str(answer("recommend", "icrs3", "--user", "7")["items"][0]["item_id"])
    assert run(*request, "--output", tmp_path / "picks.csv").code == 0
    assert "item_id" in pl.read_csv(tmp_path / "picks.csv").columns
    refused = run(*request, "--output", tmp_path / "picks.txt")
    refused.assert_refused("picks.txt: the suffix names no file format")
    assert not (tmp_path / "picks.txt").exists()
