"""Load, swaps, kills and invalid requests together: ``python -m benchmarks.soak --minutes 20``.

Every answer is compared with what the model that it names gives in Python; memory and file handles
of all processes are sampled, and must be flat. See README.md.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import sys
import time
from argparse import ArgumentParser, Namespace
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import numpy as np

import surerec as sr
from benchmarks.serving_clients import Answer, Expected, garbage, load, some_users
from benchmarks.serving_processes import Served, family, open_files, resident_bytes

_WORKERS = 2
_CONNECTIONS = 8
_ROUND = 12.0  # seconds
_PATIENCE = 120.0
_MEASURES = ("CM3", "CM7", "CM12")
_MOST_GROWTH = 1.15  # of memory, from the first third of the samples to the last
_MOST_HANDLES = 10


@dataclass
class Figures:
    """The results."""

    counts: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    samples: list[tuple[float, int, int, int]] = field(default_factory=list)
    """Minutes, bytes of all processes, of the supervisor alone, and file handles."""

    def judge(self, expected: Expected, answers: list[Answer]) -> None:
        """Add the answers of a round."""
        found = expected.judge(answers)
        self.counts.update({name: found[name] for name in ("answers", "wrong", "lost", "retried")})
        self.counts["refused (503)"] += found["busy"]
        self.seconds += [answer.seconds for answer in answers if answer.status == 200]

    def sample(self, begin: float, server: Served) -> None:
        """Sample all processes of the server."""
        process, minutes = server.process.pid, (time.monotonic() - begin) / 60
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
        alone = pages * os.sysconf("SC_PAGE_SIZE")
        self.samples.append((minutes, resident_bytes(process), alone, open_files(process)))

    def is_flat(self) -> bool:
        """Return whether memory and open files are stable after the first round."""
        seen = np.array(self.samples[1:], dtype=np.float64)
        third = max(1, len(seen) // 3)
        first, last = seen[:third].mean(axis=0), seen[-third:].mean(axis=0)
        grown = (last[1:3] > _MOST_GROWTH * first[1:3]).any()
        return not grown and bool(last[3] <= first[3] + _MOST_HANDLES)


def main() -> int:
    """Run the soak test; return 1 for a wrong or lost answer, a missing worker, or growth."""
    settings = _settings()
    with TemporaryDirectory() as name:
        folder = Path(name) / "model"
        if settings.model is None:
            films = sr.datasets.synthetic(n_users=2000, n_items=800, n_rows=80_000, random_state=1)
            sr.InductiveConformal("CM12").fit(films).save(folder, "icrs12")
        else:
            shutil.copytree(settings.model, folder)
        figures, is_whole = asyncio.run(_soak(folder, settings))
    _show(figures)
    good = is_whole and figures.is_flat()
    good = good and not figures.counts["wrong"] and not figures.counts["lost"]
    print("good" if good else "NOT GOOD")
    return int(not good)


def _settings() -> Namespace:
    parser = ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--model", type=Path, help="a model folder; by default synthetic data")
    parser.add_argument("--random-state", type=int, default=1, help="of who is killed, and when")
    return parser.parse_args()


async def _soak(folder: Path, settings: Namespace) -> tuple[Figures, bool]:
    figures, expected, rng = Figures(), Expected(), random.Random(settings.random_state)  # noqa: S311
    expected.add(folder)
    users = some_users(folder)
    with Served(folder, _WORKERS, "--log-level", "warning") as server:
        begin, number = time.monotonic(), 0
        while time.monotonic() < begin + 60 * settings.minutes:
            answers = await _round(server, users, folder, expected, rng, number)
            figures.judge(expected, answers)
            figures.counts["rounds"] += 1
            await _until_whole(server)
            figures.sample(begin, server)
            number += 1
        is_whole = server.ready_workers() == _WORKERS and "Traceback" not in server.log()
    return figures, is_whole


async def _round(
    server: Served,
    users: list[Any],
    folder: Path,
    expected: Expected,
    rng: random.Random,
    number: int,
) -> list[Answer]:
    """Send requests during a model swap, a kill and invalid requests."""
    end = asyncio.Event()
    asking = asyncio.create_task(load(server.url, users, end, n_connections=_CONNECTIONS))

    try:
        async with asyncio.timeout(_PATIENCE):
            await asyncio.gather(
                _swap(server, folder, expected, _MEASURES[number % len(_MEASURES)]),
                _kill(server, rng) if number % 2 else asyncio.sleep(0),
                garbage(server, may_die=True),
                asyncio.sleep(_ROUND),
            )
    finally:
        end.set()
        answers = await asking
    return answers


async def _swap(server: Served, folder: Path, expected: Expected, measure: str) -> None:
    def save() -> None:
        model = sr.load(folder, verify=False)
        other = sr.InductiveConformal(measure).fit(model.statistics_)
        other.save(folder, "icrs12")
        expected.add(folder)

    await asyncio.to_thread(save)
    async with httpx.AsyncClient(timeout=_PATIENCE) as client:
        for _ in range(3):
            try:
                found = await client.post(f"{server.url}admin/reload")
            except httpx.TransportError:
                continue  # its worker was killed
            if found.status_code == 200:
                return
            await asyncio.sleep(1.0)


async def _kill(server: Served, rng: random.Random) -> None:
    await asyncio.sleep(rng.uniform(0.0, _ROUND / 2))
    if workers := family(server.process.pid)[1:]:
        os.kill(rng.choice(workers), signal.SIGKILL)


async def _until_whole(server: Served) -> None:
    async with asyncio.timeout(_PATIENCE):
        while True:
            try:
                if server.ready_workers() == _WORKERS:
                    return
            except httpx.TransportError:
                pass
            await asyncio.sleep(0.2)


def _show(figures: Figures) -> None:
    for name, count in figures.counts.items():
        print(f"{name}: {count:,}")
    p50, p99 = np.percentile(figures.seconds, [50, 99]) * 1000
    print(f"p50 {p50:.1f} ms, p99 {p99:.1f} ms")
    seen = np.array(figures.samples, dtype=np.float64)
    names = ("memory, all processes, MB", "memory, supervisor, MB", "file handles")
    for column, (name, unit) in enumerate(zip(names, (1e6, 1e6, 1.0), strict=True), start=1):
        values = seen[:, column] / unit
        slope = np.polyfit(seen[1:, 0], values[1:], 1)[0] if len(seen) > 2 else 0.0
        found = f"first {values[0]:,.0f}, last {values[-1]:,.0f}, highest {values.max():,.0f}"
        print(f"{name}: {found}, {slope:+.2f} a minute after the first round")


if __name__ == "__main__":
    sys.exit(main())
