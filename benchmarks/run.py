"""Run the benchmarks: ``python -m benchmarks.run [--full | --small]``. See README.md."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatch
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import plan, report
from benchmarks.checks import checks, forget_heads
from benchmarks.contestant import LEFT_OUT, Job, Limits, Outcome, run
from benchmarks.lines import Judge
from benchmarks.plotting import plot_curve
from benchmarks.reading import reading_lines
from surerec._memory import available_memory
from surerec._words import in_bytes


def main() -> int:
    """Run all jobs; return 1 if results that must be equal differ."""
    settings = _settings()
    kind = "full" if settings.full else "small" if settings.small else "bench"
    scale = plan.KINDS[kind]
    # Without free memory, the system would kill a process of its choice.
    memory = min(int(settings.memory_limit * 1e9), int(0.85 * available_memory()))
    limits = Limits(memory, settings.time_limit, settings.threads)
    begun = report.now()
    with TemporaryDirectory(dir=settings.scratch) as name:
        folder = Path(name)
        jobs = plan.jobs(scale, folder, limits)
        jobs = [
            job
            for job in jobs
            if any(fnmatch(job.key, pattern) for pattern in settings.only.split(","))
        ]
        read = {Path(job.options.get("folder", "")).name for job in jobs}
        inputs = plan.inputs(scale, folder)
        outcomes = {job.key: Outcome(LEFT_OUT, 0.0, 0) for job in (*inputs, *jobs)}
        # Timings of a smoke run do not matter.
        at_once = 3 if kind == "small" else 1
        needed = [job for job in inputs if Path(job.options["folder"]).name in read]
        outcomes |= _run_all(needed, limits, at_once)
        outcomes |= _run_all(jobs, limits, at_once)
    judge = Judge(scale, outcomes, limits)
    compared = checks(scale, outcomes)
    forget_heads(outcomes)
    lines = [*judge.lines(), *reading_lines(judge)]
    everything = settings.only == "*"
    report.show([line for line in lines if everything or line.ratio is not None], compared)
    if kind == "small":
        print("These data are tiny, and the machine was busy: no ratio here means anything.")
    results = {
        "kind": kind,
        "begun": begun,
        "ended": report.now(),
        "machine": report.machine(),
        "versions": report.versions(),
        "limits": {"memory": memory, "seconds": limits.seconds, "threads": limits.threads},
        "lines": [line.to_dict() for line in lines],
        "checks": compared,
        "slopes": {name: judge.slope(name) for name in ("seconds", "counting_seconds")}
        if scale.curve else {},
        "outcomes": {key: outcome.to_dict() for key, outcome in outcomes.items()},
    }  # fmt: skip
    settings.output.parent.mkdir(parents=True, exist_ok=True)
    settings.output.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    print(f"Everything is in {settings.output}.")
    if any(outcomes[f"curve/{name}"].figures for name in scale.curve):
        print(f"The plot is in {', '.join(map(str, plot_curve(judge, settings.plot)))}.")
    return 1 if False in compared.values() else 0


def _run_all(jobs: list[Job], limits: Limits, at_once: int) -> dict[str, Outcome]:
    def run_one(job: Job) -> tuple[str, Outcome]:
        outcome = run(job, limits)
        peak = in_bytes(outcome.figures.get("peak", outcome.peak_bytes))
        print(f"{job.key:32} {outcome.wall_seconds:7.1f} s {peak:>9}  {outcome.status}", flush=True)
        return job.key, outcome

    with ThreadPoolExecutor(at_once) as pool:
        return dict(pool.map(run_one, jobs))


def _settings() -> Namespace:
    parser = ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--full", action="store_true", help="with 25 million rows, and the curve")
    kind.add_argument("--small", action="store_true", help="everything on tiny data, as a test")
    parser.add_argument("--output", type=Path, default=Path("out/bench.json"))
    parser.add_argument("--plot", type=Path, default=Path("out/bench.png"))
    parser.add_argument("--only", default="*", help="jobs to run, such as 'fit/10m/*,one/*'")
    parser.add_argument("--memory-limit", type=float, default=16, metavar="GB")
    parser.add_argument("--time-limit", type=float, default=200, metavar="SECONDS")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--scratch", type=Path, help="folder for inputs; by default the system's")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
