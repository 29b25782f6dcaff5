"""Spark in several local processes: equality, wall time, shuffled bytes, a lost executor.

``python -m benchmarks.spark`` prints the tables of docs/how-to/spark.md; ``--help`` says what can
be left out. Everything runs on ``local-cluster[2,1,2048]``: a master and two executors with one
core and 2 GB each, in processes of their own.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import signal
import tempfile
import threading
import time
import urllib.request
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

import surerec as sr
from benchmarks.new_users import markdown
from surerec._words import in_bytes
from surerec.spark import Counting, fit_spark, read_frame, spark_session
from surerec.spark._session import run_numbered
from surerec.storage import read_card, save_model

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

MASTER = "local-cluster[2,1,2048]"
N_ITEMS = 4_000
PROFILE = 100


@dataclass(frozen=True)
class Case:
    """A table on disk, and its counts in memory."""

    name: str
    path: Path
    rows: int
    items: int
    files: dict[str, Any]
    memory_seconds: float
    pairs: tuple[int, int]
    """Number of ordered item pairs, and the sum of their counts."""


@dataclass(frozen=True)
class Run:
    """The cost of one job on Spark."""

    seconds: float
    shuffled: int


class Cluster:
    """A session that reports its shuffled bytes, from the REST interface of Spark."""

    def __init__(self) -> None:
        source = str(Path(sr.__file__).parents[1])
        os.environ["PYTHONPATH"] = source
        self.spark: SparkSession = spark_session(
            MASTER,
            settings={
                "spark.driver.memory": "1g",
                "spark.driver.host": "127.0.0.1",
                "spark.driver.bindAddress": "127.0.0.1",
                "spark.executorEnv.PYTHONPATH": source,
                "spark.sql.shuffle.partitions": "8",
            },
        )
        self.spark.sparkContext.setLogLevel("FATAL")

    def shuffled(self) -> int:
        """Return the bytes written for shuffles so far."""
        return sum(stage["shuffleWriteBytes"] for stage in self.stages())

    def stages(self, status: str | None = None) -> list[dict[str, Any]]:
        """Return the stages from the REST interface."""
        context = self.spark.sparkContext
        address = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/stages"
        if status is not None:
            address += f"?status={status}"
        with urllib.request.urlopen(address, timeout=30) as answer:  # noqa: S310  # loopback
            stages: list[dict[str, Any]] = json.load(answer)
        return stages

    def measure(self, work: Any) -> tuple[Run, Any]:
        """Run a function; return its cost and result."""
        before, begin = self.shuffled(), time.perf_counter()
        result = work()
        seconds = time.perf_counter() - begin
        time.sleep(1)  # the interface is updated with a delay
        return Run(seconds, self.shuffled() - before), result

    def executors(self) -> list[int]:
        """Return the process ids of the executors, the grandparents of the workers."""

        def grandparent(_: int) -> int:
            time.sleep(1)  # so that both executors get a task
            stat = Path(f"/proc/{os.getppid()}/stat").read_text()
            return int(stat.rpartition(")")[2].split()[1])

        return sorted(set(run_numbered(self.spark, 4, grandparent, "Finding executors")))


def make_case(folder: Path, name: str, interactions: sr.Interactions) -> Case:
    """Write rows in random order with their numbers, and count them in memory."""
    path = folder / f"{name}.parquet"
    frame = interactions.to_frame().sample(fraction=1, shuffle=True, seed=1)
    frame.with_row_index("row").with_columns(pl.col("row").cast(pl.Int64)).write_parquet(
        path, row_group_size=500_000
    )
    del frame
    begin = time.perf_counter()
    statistics = sr.count_precedence(sr.read_interactions(path), strategy="dense")
    model = folder / "memory"
    save_model(model, statistics, {})
    seconds = time.perf_counter() - begin
    files = read_card(model)["files"]
    shutil.rmtree(model)
    rows = [statistics.followers(item) for item in range(statistics.n_items)]
    pairs = sum(int(np.count_nonzero(x)) for x in rows), sum(int(x.sum()) for x in rows)
    return Case(name, path, interactions.n_rows, interactions.n_items, files, seconds, pairs)


def synthetic(folder: Path, millions: int) -> Case:
    """Generate millions of rows: histories of 100 of 4,000 items."""
    n_rows = millions * 1_000_000
    made = sr.datasets.synthetic(n_rows // PROFILE, N_ITEMS, n_rows, ties=0.2, random_state=1)
    return make_case(folder, f"synthetic {millions}M", made)


def case_of(folder: Path, name: str) -> Case:
    """Return a data set by name, or synthetic rows (``3M``)."""
    if name.endswith("M"):
        return synthetic(folder, int(name.removesuffix("M")))
    return make_case(folder, name, sr.load_dataset(name))


def fit(
    cluster: Cluster, case: Case, folder: Path, blocks: tuple[int, int] | None = None
) -> tuple[Run, bool]:
    """Count on Spark; return the cost, and whether all checksums equal those in memory."""
    model = folder / "spark"
    counting = Counting(strategy="dense", blocks=blocks)

    def work() -> None:
        frame = read_frame(cluster.spark, str(case.path))
        fit_spark(frame, model, sequence="row", counting=counting)

    run, _ = cluster.measure(work)
    same = read_card(model)["files"] == case.files
    shutil.rmtree(model)
    return run, same


def self_join(cluster: Cluster, case: Case, limit: float) -> tuple[Run | None, bool]:
    """Count one direction by a join and an aggregation of Spark; skipped if it takes too long.

    Says too whether it found as many pairs as we did.
    """
    query = """
    with pairs as (
      select a.item_id as i, b.item_id as h, count(*) as n
      from {rows} a join {rows} b on a.user_id = b.user_id
      where a.datetime < b.datetime or (a.datetime = b.datetime and a.row < b.row)
      group by a.item_id, b.item_id
    ) select count(*) as pairs, sum(n) as total from pairs
    """
    context = cluster.spark.sparkContext
    stop = threading.Timer(limit, context.cancelAllJobs)
    stop.start()
    try:
        rows = read_frame(cluster.spark, str(case.path))
        run, found = cluster.measure(lambda: cluster.spark.sql(query, rows=rows).first())
    except Exception as error:
        if "cancel" not in str(error).lower():
            raise
        return None, False
    else:
        return run, (found["pairs"], found["total"]) == case.pairs
    finally:
        stop.cancel()


def kill_in_mid_count(cluster: Cluster, case: Case, folder: Path) -> tuple[Run, bool, int]:
    """Count in blocks of users and items, and kill an executor after the first cells."""
    victim = cluster.executors()[0]
    killed: list[float] = []

    def watch() -> None:
        while not killed:
            for stage in cluster.stages("active"):
                is_counting = str(stage.get("description", "")).startswith("Counting")
                if is_counting and stage["numCompleteTasks"] >= 2:
                    os.kill(victim, signal.SIGKILL)
                    killed.append(time.perf_counter())
                    return
            time.sleep(0.05)

    threading.Thread(target=watch, daemon=True).start()
    run, same = fit(cluster, case, folder, blocks=(4, 4))
    count = len(killed)
    killed.append(0.0)
    return run, same, count


def table(title: str, head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    print(f"\n## {title}\n\n{markdown(head, rows)}")


def fit_often(cluster: Cluster, case: Case, folder: Path, repeats: int) -> tuple[Run, str, bool]:
    """Fit several times; return the median run, all times, and whether all are equal."""
    found = [fit(cluster, case, folder) for _ in range(repeats)]
    runs = sorted((run for run, _ in found), key=lambda run: run.seconds)
    times = f"{runs[0].seconds:.1f} to {runs[-1].seconds:.1f} s"
    return runs[len(runs) // 2], times, all(same for _, same in found)


def growth(cluster: Cluster, cases: list[Case], folder: Path, repeats: int) -> None:
    rows, points = [], []
    for case in cases:
        run, times, same = fit_often(cluster, case, folder, repeats)
        points.append((case.rows, run))
        rows.append(
            (
                case.name, f"{case.rows:,}", f"{case.items:,}", f"{run.seconds:.1f} s", times,
                in_bytes(run.shuffled), f"{run.shuffled / case.rows:.1f}",
                f"{case.memory_seconds:.1f} s", "equal" if same else "DIFFERENT",
            )
        )  # fmt: skip
        print(rows[-1], flush=True)
    head = ("data", "rows", "items", "Spark", f"of {repeats}", "shuffled", "bytes a row",
            "in memory", "checksums")  # fmt: skip
    table("Fit on Spark beside memory: every file of the model", head, rows)
    made_up = [x for case, x in zip(cases, points, strict=True) if "synthetic" in case.name]
    for (n, a), (m, b) in pairwise(made_up):
        span = math.log(m / n)
        print(f"slope {n:,} → {m:,}: time {math.log(b.seconds / a.seconds) / span:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--growth", nargs="*", default=["ml-1m", "1M", "3M", "10M"])
    parser.add_argument("--join", nargs="*", default=["ml-100k", "1M", "ml-1m"])
    parser.add_argument("--kill", nargs="*", default=["ml-1m"])
    parser.add_argument("--repeats", type=int, default=3, help="of each fit of --growth")
    parser.add_argument("--join-limit", type=float, default=600, help="seconds for the self-join")
    parser.add_argument("--folder", type=Path, default=None)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="surerec-spark-", dir=options.folder))
    try:
        cluster = Cluster()
        small = sr.datasets.synthetic(100, 50, 2_000, random_state=1)
        for _ in range(2):
            fit(cluster, make_case(folder, "warm-up", small), folder)
        cases = {x: case_of(folder, x) for x in {*options.growth, *options.join, *options.kill}}
        if options.join:
            compare_with_join(cluster, [cases[x] for x in options.join], folder, options.join_limit)
        for name in options.kill:
            lose_an_executor(cluster, cases[name], folder)
        if options.growth:
            growth(cluster, [cases[x] for x in options.growth], folder, options.repeats)
        cluster.spark.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def compare_with_join(cluster: Cluster, cases: list[Case], folder: Path, limit: float) -> None:
    rows = []
    for case in cases:
        ours, same = fit(cluster, case, folder)
        theirs, same_pairs = self_join(cluster, case, limit)
        ratio = (
            (f"> {limit:.0f} s", "", f"> {limit / ours.seconds:.1f}")
            if theirs is None
            else (
                f"{theirs.seconds:.1f} s",
                in_bytes(theirs.shuffled),
                f"{theirs.seconds / ours.seconds:.1f}",
            )
        )
        found = "equal" if same else "DIFFERENT"
        counts = "" if theirs is None else "equal" if same_pairs else "DIFFERENT"
        rows.append(
            (case.name, f"{ours.seconds:.1f} s", in_bytes(ours.shuffled), *ratio, found, counts)
        )
        print(rows[-1], flush=True)
    head = (
        "data", "ours (both directions, model written)", "shuffled",
        "self-join (one direction, not written)", "shuffled", "time ratio", "checksums", "pairs",
    )  # fmt: skip
    table("Beside Spark's own self-join and groupBy", head, rows)


def lose_an_executor(cluster: Cluster, case: Case, folder: Path) -> None:
    quiet, same_quiet = fit(cluster, case, folder, blocks=(4, 4))
    run, same, n_killed = kill_in_mid_count(cluster, case, folder)
    rows = [
        ("4 × 4 blocks", "0", f"{quiet.seconds:.1f} s", in_bytes(quiet.shuffled), str(same_quiet)),
        ("the same, executor killed", str(n_killed), f"{run.seconds:.1f} s",
         in_bytes(run.shuffled), str(same)),
    ]  # fmt: skip
    table(
        f"{case.name}, an executor killed in mid-count",
        ("run", "killed", "time", "shuffled", "equal"),
        rows,
    )


if __name__ == "__main__":
    main()
