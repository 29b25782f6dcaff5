"""Runs one contestant in a child process.

The child runs ``python -m benchmarks.contestant module:function options result-file``. The parent
limits its memory and time, and ends it beyond either.
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
"""The status of a job that was not selected."""


@dataclass(frozen=True)
class Job:
    """A function, and its options."""

    key: str
    """Name in the results."""
    contestant: str
    """``module:function``, within benchmarks.contestants, or within benchmarks itself."""
    options: dict[str, Any]


@dataclass(frozen=True)
class Limits:
    """Limits of a contestant."""

    memory: int
    seconds: float
    threads: int


@dataclass(frozen=True)
class Outcome:
    """The result of a job."""

    status: str
    """ "done", "DNF: memory", "DNF: time", "left out", or "failed: " and the reason."""
    wall_seconds: float
    peak_bytes: int
    figures: Figures = field(default_factory=dict)

    @property
    def done(self) -> bool:
        """Whether it has figures."""
        return self.status == "done"

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON types."""
        return asdict(self)


def since_start() -> float:
    """Return the seconds since the parent started this process, including imports."""
    return time.time() - float(os.environ[_STARTED])


def run(job: Job, limits: Limits) -> Outcome:
    """Run a job in a child process, within limits."""
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
            log_text = log.read()
        wall = time.perf_counter() - begin
        if status or not result.exists():
            return Outcome(status or _why(log_text), wall, peak)
        report = json.loads(result.read_text())
    return Outcome("done", wall, report["peak"], report["figures"])


def _watch(process: subprocess.Popen[bytes], limits: Limits) -> tuple[str, int]:
    """Wait for the end, or kill the process; return the reason and the peak memory."""
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
        return 0  # it has ended, or the system is not Linux


def _why(log_text: str) -> str:
    lines = [line for line in log_text.splitlines() if line.strip()]
    last = lines[-1] if lines else "it ended without a word"
    if "memory" in last.lower():  # MemoryError, or a message of duckdb or polars
        return "DNF: memory"
    return f"failed: {last}"


def main() -> None:
    """Run the child."""
    contestant, options, result = sys.argv[1:]
    module, _, function = contestant.partition(":")
    package = "benchmarks" if module == "data" else "benchmarks.contestants"
    figures = getattr(import_module(f"{package}.{module}"), function)(**json.loads(options))
    report = {"figures": figures, "peak": peak_memory()}
    Path(result).write_text(json.dumps(report))


if __name__ == "__main__":
    main()
