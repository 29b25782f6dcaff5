"""Processes killed at random moments: what they leave is whole, and the next run succeeds.

``fit`` over an older model, ``recommend --all`` into a file, and ``serve`` with its workers.
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
from benchmarks.serving_processes import Served, family
from fuzz.tally import Tally
from surerec.errors import SurerecError
from surerec.recommenders import load_all

if TYPE_CHECKING:
    from collections.abc import Callable

_PATIENCE: Final = 120.0
_RECOMMENDER: Final = ("--recommender", "icrs3", "--recommender", "recall-cm12")


@dataclass(frozen=True)
class _Work:
    """The data, the models and how long things take."""

    place: Path
    old: Path
    """A model folder of older data."""
    new_data: Path
    new_users: int
    expected: bytes
    """What `recommend --all` writes from the old model."""
    seconds: dict[str, float]

    def fit(self, folder: Path) -> list[str]:
        return ["fit", str(self.new_data), str(folder), "--overwrite", *_RECOMMENDER]

    def recommend(self, output: Path) -> list[str]:
        return ["recommend", str(self.old), "--all", "--output", str(output), "--k", "5"]


def run(n: int, random_state: int) -> Tally:
    """Kill `n` processes, each at a moment of its own, and look at what is left."""
    tally = Tally("kills")
    with TemporaryDirectory() as name:
        work = _prepare(Path(name))
        for number in range(n):
            chance = random.Random(repr((random_state, number)))
            way: Callable[[_Work, random.Random], str] = (_kill_fit, _kill_many, _kill_server)[
                number % 3
            ]
            try:
                note = way(work, chance)
            except (AssertionError, SurerecError) as error:
                tally.fail(
                    f"{way.__name__[1:]}: {error}"[:200], f"seed {random_state}, kill {number}"
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
        _command(*arguments), capture_output=True, text=True, check=False, timeout=_PATIENCE
    )
    assert done.returncode == 0, f"the next run fails: {done.stderr[-300:]}"  # noqa: S101


def _killed(arguments: list[str], seconds: float, watched: Path, chance: random.Random) -> bool:
    """Start a command and kill it; half of the time as soon as it begins to write, or soon after.

    Tells whether it was still running.
    """
    before = _names(watched)
    process = subprocess.Popen(  # noqa: S603  # our own command
        _command(*arguments), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    begin = time.perf_counter()
    if chance.random() < 0.5:
        end = begin + chance.uniform(0.0, 1.1 * seconds)
        while time.perf_counter() < end and process.poll() is None:
            time.sleep(0.001)
    else:
        while process.poll() is None and _names(watched) == before:
            pass
        time.sleep(chance.choice((0.0, 0.001, 0.003, 0.01, 0.03)))
    running = process.poll() is None
    process.kill()
    process.wait()
    return running


def _names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder)) if folder.is_dir() else []  # noqa: PTH208  # often, names alone


def _kill_fit(work: _Work, chance: random.Random) -> str:
    folder = work.place / "fitted"
    shutil.rmtree(folder, ignore_errors=True)
    over_old = chance.random() < 0.7
    if over_old:
        shutil.copytree(work.old, folder)
    running = _killed(work.fit(folder), work.seconds["fit"], folder, chance)
    has_new = False
    if over_old or (folder / "manifest.json").exists():
        models = load_all(folder)
        assert len(models) == 2, "a recommender is missing"  # noqa: S101
        n_users = next(iter(models.values())).statistics_.n_users
        has_new = n_users == work.new_users
        assert has_new or over_old, "a model from nowhere"  # noqa: S101
        for model in models.values():
            model.recommend(1, confidence=0.8)
    _done(*work.fit(folder))
    model = sr.load(folder)
    assert model.statistics_.n_users == work.new_users, "not the new model"  # noqa: S101
    files = {*sr.storage.read_card(folder)["files"], "manifest.json", ".lock"}
    left = {*_names(folder)} - files
    assert not left, f"leftovers after the next run: {min(left)}"  # noqa: S101
    return f"fit {'killed' if running else 'done'}, {'new' if has_new else 'old or no'} model"


def _kill_many(work: _Work, chance: random.Random) -> str:
    folder = work.place / "written"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    output = folder / "all.csv"
    before = chance.choice((None, b"of yesterday\n"))
    if before is not None:
        output.write_bytes(before)
    running = _killed(work.recommend(output), work.seconds["many"], folder, chance)
    found = output.read_bytes() if output.exists() else None
    assert found in (before, work.expected), "a torn output"  # noqa: S101
    _done(*work.recommend(output))
    assert output.read_bytes() == work.expected, "another output in the next run"  # noqa: S101
    what = "whole" if found == work.expected else "as it was"
    return f"recommend --all {'killed' if running else 'done'}, output {what}"


def _kill_server(work: _Work, chance: random.Random) -> str:
    """Kill some workers, or the supervisor: the others go on, or go away."""
    body: dict[str, Any] = {"user": 1, "confidence": 0.8, "k": 5}
    right = sr.load(work.old).recommend(1, confidence=0.8, k=5).items
    with Served(work.old, 2) as server:
        processes = family(server.process.pid)
        time.sleep(chance.uniform(0.0, 0.5))
        whole = chance.random() < 0.4
        chosen = processes[:1] if whole else chance.sample(processes[1:], chance.choice((1, 2)))
        for process in chosen:
            os.kill(process, signal.SIGKILL)
        if whole:
            server.process.wait(_PATIENCE)
            _wait(lambda: not any(map(_is_alive, processes)), "workers outlive the supervisor")
            port = httpx.URL(server.url).port
            with socket.create_server(("127.0.0.1", int(port or 0)), reuse_port=False):
                pass  # the address is free again
            with Served(work.old, 1) as again:
                _check(again.url, body, right)
            return "serve: supervisor killed"
        _wait(lambda: _is_right(server.url, body, right), "no right answer after a kill")
        _wait(lambda: server.ready_workers() == 2, "a worker does not come back")
    return f"serve: {len(chosen)} of 2 workers killed"


def _check(url: str, body: dict[str, Any], right: list[Any]) -> None:
    told = httpx.post(f"{url}v1/recommendations", json=body, timeout=30).json()
    assert [row["item_id"] for row in told["items"]] == right, "a wrong answer"  # noqa: S101


def _is_right(url: str, body: dict[str, Any], right: list[Any]) -> bool:
    with suppress(httpx.TransportError):
        _check(url, body, right)
        return True
    return False


def _is_alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def _wait(is_so: Callable[[], bool], problem: str) -> None:
    end = time.monotonic() + _PATIENCE
    while not is_so():
        assert time.monotonic() < end, problem  # noqa: S101
        time.sleep(0.1)
