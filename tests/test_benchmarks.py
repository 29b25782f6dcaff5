"""The benchmarks run from end to end; what they measure is for `make bench`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
PEERS = ("scipy", "implicit", "implicit-als", "duckdb", "polars", "numpy", "crepes", "ir-measures")


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench")
    output, plot = folder / "bench.json", folder / "bench.png"
    command = [sys.executable, "-m", "benchmarks.run", "--small", "--output", output]
    done = subprocess.run(  # noqa: S603
        [*command, "--plot", plot], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert plot.stat().st_size > 0
    assert plot.with_suffix(".svg").stat().st_size > 0
    return json.loads(output.read_text())


def test_every_contestant_finishes_unless_its_package_is_missing(report):
    for key, outcome in report["outcomes"].items():
        missing = "ModuleNotFoundError" in outcome["status"] and key.split("/")[-1] in PEERS
        assert outcome["status"] == "done" or missing, (key, outcome["status"])


def test_contestants_that_count_the_same_agree(report):
    assert len(report["checks"]) == 13
    assert False not in report["checks"].values()
    assert report["checks"]["counts of 10m: scipy"] is True
