"""The examples of every ``--help`` run as they are written, on small data of the same names."""

import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import zipfile
from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest

import surerec as sr
from checks.site import commands as all_commands
from surerec.datasets import CATALOGUE
from tests.docs.pages import check_understood, write_files

# Examples that others continue, and the path that shows that they were run.
FIRST = {
    "films": "surerec fit ml-1m films",
    "keys.json": "surerec keys create keys.json --name shop",
    "alive": "surerec live init alive films",
}
GROUPS = "surerec groups films --size 2 --size 3"
PARSED_ONLY = {
    "--engine spark": "needs a cluster: see tests/spark",
    "postgresql://": "needs a PostgreSQL server: see tests/interactions/test_database.py",
    "demo --serve": "opens a browser: see tests/serving/test_serve_command.py",
}
MINUTES = ("surerec reproduce", "surerec compile")


def examples():
    """Return every example of the help texts, each on one line."""
    found = []
    for _, command in all_commands():
        for paragraph in re.split(r"\n\s*\n", command.help or ""):
            text = " ".join(re.sub(r"\[bold\]Examples?:\[/bold\]", "", paragraph).split())
            if re.match(r"(echo .*\| )?surerec ", text):
                found.append(text)
    return found


EXAMPLES = examples()
RUN = [each for each in EXAMPLES if not any(mark in each for mark in PARSED_ONLY)]
SERVED = [each for each in RUN if each.startswith("surerec serve ")]
LONG = [each for each in RUN if any(mark in each for mark in MINUTES)]
SHORT = [each for each in RUN if each not in SERVED + LONG]


def cached(folder, name, frame):
    """Put small data into the cache under a name of the catalogue."""

    def text(rows, separator, header=()):
        return "".join(separator.join(map(str, row)) + "\n" for row in [*header, *rows])

    seconds = frame["datetime"].dt.epoch("s")
    rows = list(zip(frame["user_id"], frame["item_id"], [5] * len(frame), seconds, strict=True))
    films = [(item, f"Film {item} (1999)", "Drama") for item in frame["item_id"].unique().sort()]
    files = {
        "ratings.dat": text(rows, "::"),
        "movies.dat": text(films, "::"),
        "u.data": text(rows, "\t"),
        "u.item": text(films, "|"),
        "ratings.csv": text(rows, ",", [("userId", "movieId", "rating", "timestamp")]),
        "movies.csv": text(films, ",", [("movieId", "title", "genres")]),
    }
    source = CATALOGUE[name].sources[0]
    here = folder / "datasets" / name
    here.mkdir(parents=True)
    sizes = {}
    for file in source.layout.ratings + source.layout.titles:
        (here / file).write_text(files[file])
        sizes[file] = {"bytes": (here / file).stat().st_size}
    manifest = {"source": source.description, "files": sizes}
    (here / "manifest.json").write_text(json.dumps(manifest))
    return files


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """Files, data sets in a cache, and the model that `surerec fit ml-1m films` makes."""
    at = tmp_path_factory.mktemp("help")
    (at / "here").mkdir()
    consumed = sr.datasets.synthetic(n_users=220, n_items=310, n_rows=6_000, random_state=1)
    write_files(at / "here", consumed, ("visitor", "page", "seen"))
    long_ago = consumed.to_frame().with_columns(pl.col("datetime") - timedelta(days=365 * 20 + 5))
    for name in ("ml-1m", "ml-100k", "ml-latest-small-2016"):
        files = cached(at / "cache", name, long_ago)
    later = pl.col("datetime") + timedelta(days=800)
    until_march = [
        long_ago,
        long_ago.tail(3_000).with_columns(later, pl.col("item_id").shift(-1, fill_value=1)),
    ]
    pl.concat(until_march).write_csv(at / "here" / "ratings-until-march.csv")
    (at / "here" / "u.data").write_text(files["u.data"])
    with zipfile.ZipFile(at / "ml-25m.zip", "w") as archive:
        for name in ("ratings.csv", "movies.csv"):
            archive.writestr(f"ml-25m/{name}", files[name])
    return at


@pytest.fixture
def shell(prepared, monkeypatch, cli):
    """Run an example as a shell would, after those that it continues, in the folder of all."""
    monkeypatch.chdir(prepared / "here")
    monkeypatch.setenv("SUREREC_CACHE", str(prepared / "cache"))
    monkeypatch.setenv("HOME", str(prepared))  # for ~/ml-25m.zip
    monkeypatch.setattr("surerec.datasets._loading.difference", lambda *_: None)  # small data

    def run(line):
        before, _, command = line.rpartition(" | ")
        if before:
            monkeypatch.setattr(sys, "stdin", io.StringIO(" ".join(shlex.split(before)[1:])))
        done = cli(*shlex.split(command)[1:])
        assert done.code == 0, f"{line}\n{done.err}"

    def prepare(line):
        for path, first in FIRST.items():
            if path in line.split() and line != first and not Path(path).exists():
                prepare(first)
                run(first)
        if "--group-guarantee" in line:
            run(GROUPS)

    def run_prepared(line):
        prepare(line)
        run(line)

    run_prepared.prepare = prepare
    return run_prepared


def test_every_command_but_the_plainest_has_an_example():
    without = {words for words, command in all_commands() if "surerec" not in (command.help or "")}
    assert {words[0] for words in without} <= {"measures", "live", "keys", "datasets"}
    assert len(EXAMPLES) >= 38


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_is_understood(example):
    check_understood(shlex.split(example.rpartition(" | ")[2])[1:])


@pytest.mark.parametrize("example", SHORT)
def test_examples_run_one_after_the_other_as_written(shell, example):
    shell(example)


@pytest.mark.full
@pytest.mark.parametrize("example", LONG)
def test_examples_of_minutes_run_as_written(shell, example):
    shutil.rmtree("out", ignore_errors=True)
    shell(example)


@pytest.mark.parametrize("example", SERVED)
def test_examples_that_serve_start_and_stop(shell, example):
    shell.prepare(example)
    command = [sys.executable, "-m", *shlex.split(example)]
    environment = os.environ | {"SUREREC_SERVE_PORT": "0"}
    with subprocess.Popen(  # noqa: S603  # the examples are ours
        command, env=environment, stderr=subprocess.PIPE, text=True
    ) as server:
        said = ""
        while "Serving films at" not in said:
            line = server.stderr.readline()
            said += line
            assert line, said
        server.send_signal(signal.SIGINT)
        assert server.wait(timeout=60) == 0, said
