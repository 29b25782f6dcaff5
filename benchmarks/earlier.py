"""Beside an earlier commit: the same jobs on its code, and what became faster, as lines."""

# ruff: noqa: SLF001  # the judge of `lines`, of which this is a part in a file of its own
from __future__ import annotations

import subprocess
import tarfile
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.contestant import LEFT_OUT, Outcome
from benchmarks.plan import LARGE_DATA

if TYPE_CHECKING:
    from benchmarks.contestant import Job
    from benchmarks.lines import Judge, Line

_ROOT = Path(__file__).parents[1]
_NOBODY = Outcome(LEFT_OUT, 0.0, 0)


class Promised(NamedTuple):
    """What must take less time than it did."""

    key: str
    figure: str
    what: str
    unit: str
    bar: float
    """At most so many times the earlier time."""


_PROMISED = (
    Promised("learned/answers", "p50_ms", "one user, recommend() at 0.9, p50", "ms", 0.25),
    Promised("learned/answers", "p99_ms", "one user, recommend() at 0.9, p99", "ms", 0.25),
    Promised("learned/answers", "ms_per_user", "recommend_many(k=20), time per user", "ms", 1 / 6),
    Promised("learned/answers", "fit_seconds", "fit", "s", 0.5),
    Promised("large-one/CM12", "p50_ms", "one user, warm, CM12 p50", "ms", 0.5),
    Promised("large-one/CM12", "p99_ms", "one user, warm, CM12 p99", "ms", 0.5),
)


def source_of(commit: str, folder: Path) -> Path:
    """Lay the code of an earlier commit, and what it was measured with, into a folder."""
    command = ["git", "-C", str(_ROOT), "archive", commit, "src", "benchmarks"]
    done = subprocess.run(command, capture_output=True, check=False)  # noqa: S603
    if done.returncode:
        raise SystemExit(f"--before {commit}: {done.stderr.decode().strip()}")
    with tarfile.open(fileobj=BytesIO(done.stdout)) as packed:
        packed.extractall(folder, filter="data")
    return folder


def with_earlier(jobs: list[Job], source: Path) -> list[Job]:
    """Put beside each job that became faster the same one on earlier code."""
    judged = {each.key for each in _PROMISED}
    found = []
    for job in jobs:
        found.append(job)
        if job.key in judged:
            found.append(replace(job, key=f"before/{job.key}", source=str(source)))
    return found


def earlier_lines(judge: Judge, commit: str | None) -> list[Line]:
    """Give the lines of what was measured on the earlier code too."""
    found = []
    for each in _PROMISED:
        if each.key not in judge.outcomes:
            continue
        ours, theirs = (
            judge.outcomes.get(key, _NOBODY).figures.get(each.figure)
            for key in (each.key, f"before/{each.key}")
        )
        data = judge.scale.learned_data if each.key.startswith("learned/") else LARGE_DATA
        kind = "learned measure" if data == judge.scale.learned_data else "within a budget"
        group = f"Beside {commit or 'an earlier commit'}, {kind}, {judge.size(data)}"
        found.append(judge._at_most(group, each.what, (ours, theirs), each.unit, each.bar))
    return found
