"""Processes killed at random moments: their files are complete, and the next run succeeds.

The commands are ``fit`` over an older model, ``recommend --all`` to a file, and ``serve``.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import httpx
import polars as pl

import surerec as sr
from benchmarks.serving_processes import Served, family, is_running
from fuzz.tally import Tally
from surerec.errors import SurerecError
from surerec.recommenders import load_all

if TYPE_CHECKING:
    from collections.abc import Callable

_TIMEOUT: Final = 120.0
_RECOMMENDER: Final = ("--recommender", "icrs3", "--recommender", "recall-cm12")


@dataclass(frozen=True)
class _Work:
    """The data, the models and the durations of the commands."""

    place: Path
    old: Path
    """Model folder of older data."""
    new_data: Path
    new_users: int
    expected: bytes
    """Output of `recommend --all` with the old model."""
    seconds: dict[str, float]

    def fit(self, folder: Path) -> list[str]:
        return ["fit", str(self.new_data), str(folder), "--overwrite", *_RECOMMENDER]

    def recommend(self, output: Path) -> list[str]:
        return ["recommend", str(self.old), "--all", "--output", str(output), "--k", "5"]


def run(n: int, random_state: int) -> Tally:
    """Kill `n` processes at random moments, and check what is left."""
    tally = Tally("kills")
    with TemporaryDirectory() as name:
        work = _prepare(Path(name))
        for number in range(n):
            rng = random.Random(repr((random_state, number)))
            way: Callable[[_Work, random.Random], str] = (_kill_fit, _kill_many, _kill_server)[
                number % 3
            ]
            try:
                note = way(work, rng)
            except (AssertionError, SurerecError) as error:
                tally.fail(
                    f"{way.__name__[1:]}: {error}"[:200],
                    f"seed {random_state}, kill {number}",
                )
            else:
                tally.answered += 1
                tally.notes[note] += 1
    return tally


def _prepare(place: Path) -> _Work:
    data = {}
    for age, users in (("old", 300), ("new", 400)):
        films = sr.datasets.synthetic(
            n_users=users, n_items=300, n_rows=30 * users, random_state=users
        )
        frame = films.to_frame().with_columns(pl.col("datetime").dt.epoch("s"))
        data[age] = place / f"{age}.csv"
        frame.rename({"datetime": "timestamp"}).write_csv(data[age])
    old, output = place / "model", place / "expected.csv"
    _done("fit", str(data["old"]), str(old), *_RECOMMENDER)
    work = _Work(place, old, data["new"], 400, b"", {})
    for name, command in (("fit", work.fit(place / "new")), ("many", work.recommend(output))):
        begin = time.perf_counter()
        _done(*command)
        work.seconds[name] = time.perf_counter() - begin
    return _Work(place, old, data["new"], 400, output.read_bytes(), work.seconds)


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "surerec", *arguments]


def _done(*arguments: str) -> None:
    done = subprocess.run(  # noqa: S603  # our own command
        _command(*arguments), capture_output=True, text=True, check=False, timeout=_TIMEOUT
    )
    assert done.returncode == 0, f"the next run fails: {done.stderr[-300:]}"  # noqa: S101


def _killed(arguments: list[str], seconds: float, watched: Path, rng: random.Random) -> bool:
    """Start and kill a command, half of the time just after its first write.

    Return whether it was still running.
    """
    before = _names(watched)
    process = subprocess.Popen(  # noqa: S603  # our own command
        _command(*arguments), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    begin = time.perf_counter()
    if rng.random() < 0.5:
        end = begin + rng.uniform(0.0, 1.1 * seconds)
        while time.perf_counter() < end and process.poll() is None:
            time.sleep(0.001)
    else:
        while process.poll() is None and _names(watched) == before:
            pass
        time.sleep(rng.choice((0.0, 0.001, 0.003, 0.01, 0.03)))
    running = process.poll() is None
    process.kill()
    process.wait()
    return running


def _names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder)) if folder.is_dir() else []  # noqa: PTH208  # fast


def _kill_fit(work: _Work, rng: random.Random) -> str:
    folder = work.place / "fitted"
    shutil.rmtree(folder, ignore_errors=True)
    over_old = rng.random() < 0.7
    if over_old:
        shutil.copytree(work.old, folder)
    running = _killed(work.fit(folder), work.seconds["fit"], folder, rng)
    has_new = False
    if over_old or (folder / "manifest.json").exists():
        models = load_all(folder)
        assert len(models) == 2, "a recommender is missing"  # noqa: S101
        n_users = next(iter(models.values())).statistics_.n_users
        has_new = n_users == work.new_users
        assert has_new or over_old, "an unexpected model"  # noqa: S101
        for model in models.values():
            model.recommend(1, confidence=0.8)
    _done(*work.fit(folder))
    model = sr.load(folder)
    assert model.statistics_.n_users == work.new_users, "not the new model"  # noqa: S101
    files = {*sr.storage.read_card(folder)["files"], "manifest.json", ".lock"}
    left = {*_names(folder)} - files
    assert not left, f"leftovers after the next run: {min(left)}"  # noqa: S101
    return f"fit {'killed' if running else 'done'}, {'new' if has_new else 'old or no'} model"


def _kill_many(work: _Work, rng: random.Random) -> str:
    folder = work.place / "written"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    output = folder / "all.csv"
    before = rng.choice((None, b"of yesterday\n"))
    if before is not None:
        output.write_bytes(before)
    running = _killed(work.recommend(output), work.seconds["many"], folder, rng)
    found = output.read_bytes() if output.exists() else None
    assert found in (before, work.expected), "a partial output"  # noqa: S101
    _done(*work.recommend(output))
    assert output.read_bytes() == work.expected, "another output in the next run"  # noqa: S101
    what = "whole" if found == work.expected else "as it was"
    return f"recommend --all {'killed' if running else 'done'}, output {what}"


def _kill_server(work: _Work, rng: random.Random) -> str:
    """Kill some workers, which are replaced, or the supervisor, whose workers end."""
    body: dict[str, Any] = {"user": 1, "confidence": 0.8, "k": 5}
    right = sr.load(work.old).recommend(1, confidence=0.8, k=5).items
    with Served(work.old, 2) as server:
        processes = family(server.process.pid)
        time.sleep(rng.uniform(0.0, 0.5))
        whole = rng.random() < 0.4
        chosen = processes[:1] if whole else rng.sample(processes[1:], rng.choice((1, 2)))
        for process in chosen:
            os.kill(process, signal.SIGKILL)
        if whole:
            server.process.wait(_TIMEOUT)
            _wait(lambda: not any(map(is_running, processes)), "workers survive the supervisor")
            port = httpx.URL(server.url).port
            with socket.create_server(("127.0.0.1", int(port or 0)), reuse_port=False):
                pass  # the port is free again
            with Served(work.old, 1) as again:
                _check(again.url, body, right)
            return "serve: supervisor killed"
        _wait(lambda: _is_right(server.url, body, right), "no correct answer after a kill")
        _wait(lambda: server.ready_workers() == 2, "a worker is not replaced")
    return f"serve: {len(chosen)} of 2 workers killed"


def _check(url: str, body: dict[str, Any], right: list[Any]) -> None:
    reply = httpx.post(f"{url}v1/recommendations", json=body, timeout=30).json()
    assert [row["item_id"] for row in reply["items"]] == right, "a wrong answer"  # noqa: S101


def _is_right(url: str, body: dict[str, Any], right: list[Any]) -> bool:
    with suppress(httpx.TransportError):
        _check(url, body, right)
        return True
    return False


def _wait(condition: Callable[[], bool], problem: str) -> None:
    end = time.monotonic() + _TIMEOUT
    while not condition():
        assert time.monotonic() < end, problem  # noqa: S101
        time.sleep(0.1)
