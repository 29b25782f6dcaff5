"""``--output`` never destroys: what is no plain file is written into, or refused in a sentence."""

import os
import stat
import subprocess
import sys
import threading

import polars as pl
import pytest

import surerec as sr

pytestmark = pytest.mark.skipif(os.name != "posix", reason="links, pipes and devices of Unix")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "films"
    data = sr.datasets.synthetic(n_users=30, n_items=20, n_rows=300, seed=1)
    sr.InductiveConformal("CM3").fit(data).save(folder)
    return folder


def commands(model):
    yield "recommend", model, "--user", "1", "--format", "json"
    yield "recommend", model, "--user", "1", "--format", "csv"
    yield "recommend", model, "--all", "--k", "2"


def test_a_pipe_gets_it(cli, model, tmp_path):
    pipe = tmp_path / "picks.csv"
    os.mkfifo(pipe)
    for command in commands(model):
        read = []
        reader = threading.Thread(target=lambda read=read: read.append(pipe.read_text()))
        reader.start()
        assert cli(*command, "--output", pipe).code == 0
        reader.join(10)
        assert "item_id" in read[0]
        assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_device_swallows_it_and_stays(cli, model, tmp_path):
    link = tmp_path / "nothing"
    link.symlink_to("/dev/null")
    for command in commands(model):
        assert cli(*command, "--output", link).code == 0
    assert link.is_char_device()


def test_a_link_keeps_leading_to_it(cli, model, tmp_path):
    target, link = tmp_path / "real.csv", tmp_path / "latest.csv"
    link.symlink_to("real.csv")
    for command in commands(model):
        assert cli(*command, "--output", link).code == 0
        assert link.is_symlink()
        assert "item_id" in target.read_text()


def test_a_folder_and_a_closed_place_are_refused(cli, model, tmp_path):
    folder = tmp_path / "picks.csv"
    folder.mkdir()
    for command in commands(model):
        for place, why in ((folder, "Is a directory"), ("/proc/picks.csv", "No such file")):
            told = cli(*command, "--output", place)
            assert told.code == 2
            assert f"{place}: cannot be written ({why}" in told.err
    assert not list(folder.iterdir())


def test_what_a_shell_appends_to_is_added_to(model, tmp_path):
    log = tmp_path / "log.csv"
    log.write_text("mine\n")
    told = [sys.executable, "-m", "surerec", "recommend", model, "--all", "--k", "1"]
    with log.open("a") as file:
        done = subprocess.run(  # noqa: S603
            [*told, "--output", "/dev/stdout"], stdout=file, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 0, done.stderr
    first, *rest = log.read_text().splitlines(keepends=True)
    assert first == "mine\n"
    assert pl.read_csv("".join(rest).encode())["rank"].to_list() == [1] * (len(rest) - 1)


@pytest.mark.parametrize("command", ["recommend", "explain"])
def test_a_file_has_the_format_of_its_name_or_is_refused(cli, model, tmp_path, command):
    asked = command, model, "--user", "1"
    if command == "explain":
        unseen = sr.load(model).recommend(1, confidence=0.9).items[0]
        asked += "--item", str(unseen)
    named = tmp_path / "picks.csv"
    assert cli(*asked, "--output", named).code == 0
    assert "item_id" in pl.read_csv(named).columns
    refused = cli(*asked, "--output", tmp_path / "picks.txt")
    assert refused.code == 2
    assert "picks.txt: a table for people is not written to a file" in refused.err
    assert not (tmp_path / "picks.txt").exists()
