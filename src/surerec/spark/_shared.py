"""Whether driver and executors see the same folder, asked before any work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surerec.errors import InputError
from surerec.spark._jobs import run_numbered

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from surerec.spark._staging import Staging


def cores(spark: SparkSession) -> int:
    """Give how many tasks run at a time."""
    context = getattr(spark, "_sc", None)  # Spark Connect has none
    return int(context.defaultParallelism) if context is not None else 8


def check_seen(spark: SparkSession, model: Path) -> None:
    """Refuse a model folder that an executor does not see."""
    seen = run_numbered(
        spark, cores(spark), lambda _: model.is_dir(), "Looking at the model folder"
    )
    if not all(seen):
        raise InputError(
            f"An executor does not see {model}: the model folder must be on a path that the "
            "driver and all executors share."
        )


def check_shared(spark: SparkSession, staging: Staging) -> None:
    """Refuse a folder that executors and driver do not share."""
    staging.write_facts("shared", {})
    folder = staging.path("")

    def look(number: int) -> str | None:
        if not staging.path("shared").exists():
            return "does not see"
        try:
            staging.write_facts(f"shared-{number}", {})
        except OSError:
            return "cannot write into"
        return None

    n_tasks = cores(spark)
    for problem in run_numbered(spark, n_tasks, look, "Looking at the shared folder"):
        if problem:
            raise InputError(
                f"An executor {problem} {folder.parent}: the model folder must be on a path that "
                "the driver and all executors share and may write to."
            )
    for number in range(n_tasks):
        if not staging.path(f"shared-{number}").exists():
            raise InputError(
                f"What an executor writes into {folder.parent} is not seen here: the model folder "
                "must be on a path that the driver and all executors share."
            )
