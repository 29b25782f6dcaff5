"""One contestant in a process of its own: the child's side, and the parent's.

The child runs ``python -m benchmarks.contestant module:function options result-file``. The parent
watches its memory and its time, and ends it beyond either: that is a result too.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.measuring import Figures, peak_memory

_ROOT = Path(__file__).parents[1]
_STARTED = "SUREREC_BENCH_STARTED"
_POLL = 0.05

LEFT_OUT = "left out"
"""The status of a job that was not asked for."""


@dataclass(frozen=True)
class Job:
    """Who does what, on which input."""

    key: str
    """Its name in the results."""
    contestant: str
    """``module:function``, within benchmarks.contestants, or within benchmarks itself."""
    options: dict[str, Any]


@dataclass(frozen=True)
class Limits:
    """What a contestant may use."""

    memory: int
    seconds: float
    threads: int


@dataclass(frozen=True)
class Outcome:
    """What became of a job."""

    status: str
    """ "done", "DNF: memory", "DNF: time", "left out", or "failed: " and why."""
    wall_seconds: float
    peak_bytes: int
    figures: Figures = field(default_factory=dict)

    @property
    def done(self) -> bool:
        """Whether there are figures."""
        return self.status == "done"

    def to_dict(self) -> dict[str, Any]:
        """Give it as JSON takes it."""
        return asdict(self)


def since_start() -> float:
    """Give the seconds since the parent started this process, imports and all."""
    return time.time() - float(os.environ[_STARTED])


def run(job: Job, limits: Limits) -> Outcome:
    """Run a job in a process of its own, within limits."""
    many, begin = str(limits.threads), time.perf_counter()
    threads = {f"{name}_NUM_THREADS": many for name in ("OMP", "MKL", "NUMBA")}
    environment = os.environ | threads | {
        "OPENBLAS_NUM_THREADS": "1",  # as implicit asks
        "POLARS_MAX_THREADS": many,
        "SUREREC_THREADS": many,
        _STARTED: str(time.time()),
    }  # fmt: skip
    with TemporaryDirectory() as folder:
        result = Path(folder, "result.json")
        options = json.dumps(job.options)
        command = [sys.executable, "-m", "benchmarks.contestant", job.contestant]
        with (
            Path(folder, "log").open("w+", encoding="utf-8") as log,
            subprocess.Popen(  # noqa: S603  # our own module
                [*command, options, str(result)],
                cwd=_ROOT,
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            ) as process,
        ):
            status, peak = _watch(process, limits)
            log.seek(0)
            said = log.read()
        wall = time.perf_counter() - begin
        if status or not result.exists():
            return Outcome(status or _why(said), wall, peak)
        told = json.loads(result.read_text())
    return Outcome("done", wall, told["peak"], told["figures"])


def _watch(process: subprocess.Popen[bytes], limits: Limits) -> tuple[str, int]:
    """Wait for the end, or make it; give the reason if we made it, and the largest size seen."""
    until, peak = time.perf_counter() + limits.seconds, 0
    try:
        while process.poll() is None:
            peak = max(peak, _resident(process.pid))
            if peak > limits.memory:
                return "DNF: memory", peak
            if time.perf_counter() > until:
                return "DNF: time", peak
            time.sleep(_POLL)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    killed = process.returncode == -signal.SIGKILL  # by the system, when memory ran out
    return ("DNF: memory" if killed else ""), peak


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0  # it just ended, or this is not Linux: then only the time is limited


def _why(said: str) -> str:
    lines = [line for line in said.splitlines() if line.strip()]
    last = lines[-1] if lines else "it ended without a word"
    if "memory" in last.lower():  # MemoryError, and what duckdb and polars say
        return "DNF: memory"
    return f"failed: {last}"


def main() -> None:
    """Be the child."""
    contestant, options, result = sys.argv[1:]
    module, _, function = contestant.partition(":")
    package = "benchmarks" if module in {"data", "films"} else "benchmarks.contestants"
    figures = getattr(import_module(f"{package}.{module}"), function)(**json.loads(options))
    told = {"figures": figures, "peak": peak_memory()}
    Path(result).write_text(json.dumps(told))


if __name__ == "__main__":
    main()
