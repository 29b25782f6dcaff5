"""Spark on one machine, in several processes: equality, wall time, bytes shuffled, a lost executor.

``python -m benchmarks.spark`` prints the tables of docs/spark.md; ``--help`` says what can be left
out. Everything runs on ``local-cluster[2,1,2048]``: a master and two executors with one core and
2 GB each, in processes of their own.
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

import polars as pl

import surerec as sr
from surerec._memory import in_words
from surerec.spark import Counting, count_precedence_spark, read_frame, spark_session
from surerec.spark._jobs import run_numbered
from surerec.storage import read_card, save_model

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

MASTER = "local-cluster[2,1,2048]"
N_ITEMS = 4_000
PROFILE = 100


@dataclass(frozen=True)
class Case:
    """A table on disk, and what counting it in memory gives."""

    name: str
    path: Path
    rows: int
    items: int
    files: dict[str, Any]
    memory_seconds: float


@dataclass(frozen=True)
class Run:
    """What one piece of work on Spark took."""

    seconds: float
    shuffled: int


class Cluster:
    """A session, with the bytes that its stages shuffled as its own interface tells them."""

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
        """Give the bytes written for shuffles so far."""
        return sum(stage["shuffleWriteBytes"] for stage in self.stages())

    def stages(self, status: str | None = None) -> list[dict[str, Any]]:
        """Give what Spark knows of its stages."""
        context = self.spark.sparkContext
        address = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/stages"
        if status is not None:
            address += f"?status={status}"
        with urllib.request.urlopen(address, timeout=30) as answer:  # noqa: S310  # loopback
            stages: list[dict[str, Any]] = json.load(answer)
        return stages

    def measure(self, work: Any) -> tuple[Run, Any]:
        """Run something; give what it took, and its result."""
        before, begin = self.shuffled(), time.perf_counter()
        result = work()
        seconds = time.perf_counter() - begin
        time.sleep(1)  # the interface hears of the last stage a little later
        return Run(seconds, self.shuffled() - before), result

    def executors(self) -> list[int]:
        """Give the process ids of the executors: the parents of the workers' parents."""

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
    return Case(name, path, interactions.n_rows, interactions.n_items, files, seconds)


def fit(
    cluster: Cluster, case: Case, folder: Path, blocks: tuple[int, int] | None = None
) -> tuple[Run, bool]:
    """Count on Spark; say what it took, and whether every file has the checksum from memory."""
    model = folder / "spark"
    counting = Counting(strategy="dense", blocks=blocks)

    def work() -> None:
        frame = read_frame(cluster.spark, str(case.path))
        count_precedence_spark(frame, model, sequence="row", counting=counting)

    run, _ = cluster.measure(work)
    same = read_card(model)["files"] == case.files
    shutil.rmtree(model)
    return run, same


def self_join(cluster: Cluster, case: Case, limit: float) -> Run | None:
    """Count one direction as Spark's own join and groups would; None if it takes too long."""
    query = """
    with pairs as (
      select a.item_id as i, b.item_id as h, count(*) as n
      from {rows} a join {rows} b on a.user_id = b.user_id
      where (a.datetime, a.row) < (b.datetime, b.row)
      group by a.item_id, b.item_id
    ) select count(*) as pairs, sum(n) as total from pairs
    """.replace(
        "(a.datetime, a.row) < (b.datetime, b.row)",
        "a.datetime < b.datetime or (a.datetime = b.datetime and a.row < b.row)",
    )
    context = cluster.spark.sparkContext
    stop = threading.Timer(limit, context.cancelAllJobs)
    stop.start()
    try:
        rows = read_frame(cluster.spark, str(case.path))
        run, _ = cluster.measure(lambda: cluster.spark.sql(query, rows=rows).collect())
    except Exception as error:
        if "cancel" not in str(error).lower():
            raise
        return None
    else:
        return run
    finally:
        stop.cancel()


def kill_in_mid_count(cluster: Cluster, case: Case, folder: Path) -> tuple[Run, bool, int]:
    """Count in blocks of users and items, and kill an executor when the first cells are done."""
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
    print(f"\n## {title}\n")
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")


def growth(cluster: Cluster, cases: list[Case], folder: Path) -> None:
    rows, points = [], []
    for case in cases:
        run, same = fit(cluster, case, folder)
        points.append((case.rows, run))
        rows.append(
            (
                case.name, f"{case.rows:,}", f"{case.items:,}", f"{run.seconds:.1f} s",
                in_words(run.shuffled), f"{run.shuffled / case.rows:.1f}",
                f"{case.memory_seconds:.1f} s", "equal" if same else "DIFFERENT",
            )
        )  # fmt: skip
        print(rows[-1], flush=True)
    head = ("data", "rows", "items", "Spark", "shuffled", "bytes a row", "in memory", "checksums")
    table("Fit on Spark beside memory: every file of the model", head, rows)
    synthetic = [point for case, point in zip(cases, points, strict=True) if case.name != "ml-1m"]
    for (n, a), (m, b) in pairwise(synthetic):
        span = math.log(m / n)
        print(
            f"slope {n:,} → {m:,}: time {math.log(b.seconds / a.seconds) / span:.2f}, "
            f"shuffle {math.log(b.shuffled / a.shuffled) / span:.2f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--millions", type=int, nargs="*", default=[1, 3, 10])
    parser.add_argument("--only", nargs="*", default=["growth", "join", "kill", "movies"])
    parser.add_argument("--join-limit", type=float, default=600, help="seconds for the self-join")
    parser.add_argument("--folder", type=Path, default=None)
    wish = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="surerec-spark-", dir=wish.folder))
    try:
        movies = make_case(folder, "ml-1m", sr.load_dataset("ml-1m"))
        cluster = Cluster()
        small = sr.datasets.synthetic(100, 50, 2_000, seed=1)
        fit(cluster, make_case(folder, "warm-up", small), folder)
        if "join" in wish.only:
            compare_with_join(cluster, movies, folder, wish.join_limit)
        if "kill" in wish.only:
            lose_an_executor(cluster, movies, folder)
        if "growth" in wish.only:
            cases = [movies] if "movies" in wish.only else []
            for millions in wish.millions:
                n_rows = millions * 1_000_000
                made = sr.datasets.synthetic(n_rows // PROFILE, N_ITEMS, n_rows, ties=0.2, seed=1)
                cases.append(make_case(folder, f"synthetic {millions}M", made))
                del made
            growth(cluster, cases, folder)
        cluster.spark.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def compare_with_join(cluster: Cluster, movies: Case, folder: Path, limit: float) -> None:
    hundred = make_case(folder, "ml-100k", sr.load_dataset("ml-100k"))
    rows = []
    for case in (hundred, movies):
        ours, same = fit(cluster, case, folder)
        theirs = self_join(cluster, case, limit)
        ratio = (
            (f"> {limit:.0f} s", "", f"> {limit / ours.seconds:.1f}", "")
            if theirs is None
            else (
                f"{theirs.seconds:.1f} s",
                in_words(theirs.shuffled),
                f"{theirs.seconds / ours.seconds:.1f}",
                f"{theirs.shuffled / ours.shuffled:.1f}",
            )
        )
        found = "equal" if same else "DIFFERENT"
        rows.append(
            (case.name, f"{ours.seconds:.1f} s", in_words(ours.shuffled), *ratio, found)
        )  # fmt: skip
        print(rows[-1], flush=True)
    head = (
        "data", "ours (both directions, model written)", "shuffled",
        "self-join (one direction, not written)", "shuffled", "time ratio", "shuffle ratio",
        "checksums",
    )  # fmt: skip
    table("Beside Spark's own self-join and groupBy", head, rows)


def lose_an_executor(cluster: Cluster, movies: Case, folder: Path) -> None:
    quiet, same_quiet = fit(cluster, movies, folder, blocks=(4, 4))
    run, same, n_killed = kill_in_mid_count(cluster, movies, folder)
    rows = [
        ("4 × 4 blocks", "0", f"{quiet.seconds:.1f} s", in_words(quiet.shuffled), str(same_quiet)),
        ("the same, executor killed", str(n_killed), f"{run.seconds:.1f} s",
         in_words(run.shuffled), str(same)),
    ]  # fmt: skip
    table(
        "ML-1M, an executor killed in mid-count",
        ("run", "killed", "time", "shuffled", "equal"),
        rows,
    )


if __name__ == "__main__":
    main()
