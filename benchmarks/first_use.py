"""The cost of the first use, as ratios: ``python -m benchmarks.first_use PYTHON [--times 3]``.

PYTHON is the interpreter of an environment into which the wheel was installed; kernels are compiled
into an empty folder each time. Seconds of CPU are compared, as a busy machine stretches the others.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import NamedTuple

_BASE = "import numpy, polars, numba"
_ASKED = ("--user", "u7", "--confidence", "0.8")
_BARS = {
    "import surerec": 1.3,
    "surerec.PopulationConformal": None,  # loads most modules
    "everything public": None,
    "surerec --version": 3.0,
    "recommend, first / second after fit": 7.0,
    "recommend, first / second of a model from elsewhere": 7.0,
}


class Cost(NamedTuple):
    """Durations of commands in seconds."""

    cpu: float
    wall: float


def cost_of(command: list[str], compiled: Path) -> Cost:
    """Run a command with a folder for compiled kernels."""
    env = {**os.environ, "NUMBA_CACHE_DIR": str(compiled)}
    for name in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE"):  # as for a user
        env.pop(name, None)
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), perf_counter()
    subprocess.run(command, check=True, env=env, capture_output=True)  # noqa: S603  # ours
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(used, perf_counter() - begin)


def write_shop(path: Path) -> None:
    """Write a small, reproducible log of purchases."""
    rows = ["customer,product,purchased_at"]
    for who in range(400):
        for place in range(12):
            item = (7 * who + 3 * place * place + who * place) % 97
            rows.append(f"u{who},p{item},{1_700_000_000 + 3600 * place + who}")
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")


def round_of(python: str, scratch: Path) -> dict[str, tuple[Cost, Cost]]:
    """Measure once: for each line, the value and its reference."""
    surerec = str(Path(python).parent / "surerec")
    kept, fresh, elsewhere = (scratch / name for name in ("kept", "fresh", "elsewhere"))
    shop, model = scratch / "shop.csv", scratch / "model"
    write_shop(shop)

    def script(code: str) -> Cost:
        return min(cost_of([python, "-c", code], kept) for _ in range(3))

    base, bare = script(_BASE), script("pass")
    everything = "import surerec; [getattr(surerec, name) for name in surerec.__all__]"
    found = {
        "import surerec": (script("import surerec"), base),
        "surerec.PopulationConformal": (
            script("import surerec; surerec.PopulationConformal"),
            base,
        ),
        "everything public": (script(everything), base),
        "surerec --version": (min(cost_of([surerec, "--version"], kept) for _ in range(3)), bare),
    }
    fit = [surerec, "fit", str(shop), str(model), "--overwrite"]
    found["fit, first / second"] = cost_of(fit, fresh), cost_of(fit, fresh)
    ask = [surerec, "recommend", str(model), *_ASKED]
    for name, folder in (("after fit", fresh), ("of a model from elsewhere", elsewhere)):
        first, second = cost_of(ask, folder), cost_of(ask, folder)
        found[f"recommend, first / second {name}"] = first, second
    return found


def main() -> None:
    """Print every round, and the median ratios with their targets."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("python")
    parser.add_argument("--times", type=int, default=3)
    options = parser.parse_args()
    rounds = []
    for number in range(options.times):
        with tempfile.TemporaryDirectory(prefix="surerec-first-use-") as scratch:
            rounds.append(round_of(options.python, Path(scratch)))
        for name, (one, other) in rounds[-1].items():
            cpu = f"{one.cpu:6.2f} / {other.cpu:5.2f} s of CPU"
            print(f"{number + 1}  {name:52} {cpu}, {one.wall:6.2f} / {other.wall:5.2f} s")
    print()
    for name in rounds[0]:
        found = median(each[name][0].cpu / each[name][1].cpu for each in rounds)
        bar = _BARS.get(name)
        judged = "" if bar is None else f"  at most {bar:g}: {'met' if found <= bar else 'NOT MET'}"
        print(f"{name:52} {found:6.2f} ×{judged}")


if __name__ == "__main__":
    main()
