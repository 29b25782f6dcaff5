"""Running tasks on executors, with progress by stages and errors in a sentence."""

from __future__ import annotations

import gc
import json
import os
import secrets
import threading
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from surerec._progress import progress
from surerec.spark._errors import plain_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession


_SECONDS_BETWEEN_LOOKS = 0.5
_MANY_OBJECTS = 20_000


def map_arrow(
    frame: DataFrame,
    task: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    schema: str,
) -> DataFrame:
    """Map batches on executors, one thread a task: Spark deals out the cores."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        os.environ["SUREREC_THREADS"] = "1"
        yield from task(batches)
        spare_collections()

    with warnings.catch_warnings():
        # What PySpark thinks of the installed pandas is no concern here: only Arrow is used.
        warnings.simplefilter("ignore", FutureWarning)
        return frame.mapInArrow(run, schema)


def spare_collections() -> None:
    """Take what a worker has loaded out of garbage collections, where that is much.

    Spark's workers collect garbage after each task and look at every object then: 90 ms a task,
    with polars and numba there. What lives now is modules and compiled kernels, which stay.
    """
    if len(gc.get_objects()) > _MANY_OBJECTS:  # those that were taken out are not among them
        gc.collect()
        gc.freeze()


def run_numbered(
    spark: SparkSession, n_tasks: int, task: Callable[[int], Any], description: str
) -> list[Any]:
    """Run a task for each number; give what they answered, which JSON must be able to say."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                answer = {"number": [number], "answer": [json.dumps(task(number))]}
                yield pa.RecordBatch.from_pydict(answer)

    numbers = spark.range(0, n_tasks, 1, n_tasks)
    table = collect(map_arrow(numbers, run, "number bigint, answer string"), description)
    found = sorted(zip(table["number"].to_pylist(), table["answer"].to_pylist(), strict=True))
    return [json.loads(answer) for _, answer in found]


def collect(frame: DataFrame, description: str) -> pa.Table:
    """Bring a small result to the driver, with its stages shown."""
    with stage(frame.sparkSession, description), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return frame.toArrow()


@contextmanager
def stage(spark: SparkSession, description: str) -> Iterator[None]:
    """Show how many tasks of the jobs inside are done, and give their errors in a sentence."""
    context = getattr(spark, "_sc", None)  # Spark Connect has none, and no tracker
    with plain_errors():
        if context is None:
            yield
            return
        group = f"surerec-{secrets.token_hex(4)}"
        context.setJobGroup(group, description)
        over = threading.Event()
        with progress(description, total=1.0) as advance:
            watcher = threading.Thread(
                target=_watch, args=(context.statusTracker(), group, advance, over), daemon=True
            )
            watcher.start()
            try:
                yield
            except KeyboardInterrupt:
                context.cancelJobGroup(group)
                raise
            finally:
                over.set()
                watcher.join()
                context.setLocalProperty("spark.jobGroup.id", None)
                context.setLocalProperty("spark.job.description", None)


def _watch(
    tracker: Any, group: str, advance: Callable[[float], None], over: threading.Event
) -> None:
    shown = 0.0
    while not over.wait(_SECONDS_BETWEEN_LOOKS):
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
        numbers = {number for job in jobs if job for number in job.stageIds}
        stages = [info for number in numbers if (info := tracker.getStageInfo(number))]
        total = sum(info.numTasks for info in stages)
        done = sum(info.numCompletedTasks for info in stages) / total if total else 0.0
        if done > shown:
            advance(done - shown)
            shown = done


@contextmanager
def settings(spark: SparkSession, **values: object) -> Iterator[None]:
    """Set what Spark's SQL is to do for a while; ``__`` stands for a dot."""
    names = {f"spark.sql.{key.replace('__', '.')}": str(value) for key, value in values.items()}
    before: Mapping[str, str | None] = {name: spark.conf.get(name, None) for name in names}
    for name, value in names.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)
