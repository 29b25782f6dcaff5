"""The benchmarks run from end to end; what they measure is for `make bench`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.contestant import Job, Limits, Outcome, run
from benchmarks.earlier import earlier_lines, source_of, with_earlier
from benchmarks.lines import Judge
from benchmarks.plan import SMALL

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


def test_every_line_of_the_bar_is_judged(report):
    judged = [line for line in report["lines"] if line["bar"]]
    groups = [line["group"].split(",")[0] for line in judged]
    assert {group: groups.count(group) for group in groups} == {
        "Counting one direction": 3,
        "Ready for every measure": 3,
        "Counting kernel": 3,
        "Whole fit": 2 + 2,
        "One user": 12 + 4,
        "Batch": 3,
        "Batch of 20": 1,
        "p-values": 4,
        "Reading": 6,
        "From Parquet to a recommendation": 2,
        "Fit cost": 1,
        "Beside an earlier commit": 6,
    }
    for line in judged:
        assert line["verdict"] in {"met", "NOT MET", "not measured"}
        assert (line["verdict"] == "met") == (line["met"] is True)
    assert sum("CRS-max" in line["what"] for line in report["lines"]) == 3


def test_a_job_on_earlier_code_stands_beside_the_same_on_ours():
    jobs = [Job(key, "a:b", {"folder": "x"}) for key in ("one/CM4", "learned/answers")]
    found = with_earlier(jobs, Path("/there"))
    assert [job.key for job in found] == ["one/CM4", "learned/answers", "before/learned/answers"]
    assert [job.source for job in found] == ["", "", "/there"]
    assert found[2].options == jobs[1].options


def test_earlier_code_is_what_runs(tmp_path):
    package = tmp_path / "src" / "surerec"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit('the earlier one')")
    limits = Limits(10**9, 60, 1)
    job = Job("before/x", "ours_learned:answer", {}, source=str(tmp_path))
    assert job.root == ROOT
    assert run(job, limits).status == "failed: the earlier one"
    own = tmp_path / "benchmarks" / "contestants" / "ours_learned.py"
    own.parent.mkdir(parents=True)
    own.touch()
    assert job.root == tmp_path


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a checkout")
def test_the_source_of_a_commit_is_laid_out(tmp_path):
    source = source_of("HEAD", tmp_path)
    assert (source / "src" / "surerec" / "__init__.py").is_file()
    assert (source / "benchmarks" / "contestant.py").is_file()
    with pytest.raises(SystemExit, match="--before nowhere"):
        source_of("nowhere", tmp_path)


def test_what_became_faster_is_judged_by_the_earlier_time():
    sizes = {"n_rows": 4_000, "n_items": 150}
    figures = {
        "input/10m": sizes,
        "input/25m": sizes,
        "learned/answers": {"p50_ms": 1.0, "p99_ms": 9.0, "fit_seconds": 5.0},
        "before/learned/answers": {"p50_ms": 4.0, "p99_ms": 20.0, "ms_per_user": 6.0},
    }
    outcomes = {key: Outcome("done", 0.0, 0, value) for key, value in figures.items()}
    lines = earlier_lines(Judge(SMALL, outcomes, Limits(0, 0, 1)), "1f78e90")
    assert [line.verdict for line in lines] == ["met", "NOT MET", "not measured", "not measured"]
    assert {line.group for line in lines} == {
        "Beside 1f78e90, learned measure, 4,000 rows × 150 items"
    }
