"""The users of an experiment, evaluated on Spark: statistics mapped once in each worker."""

from __future__ import annotations

import secrets
import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from surerec.spark._jobs import run_numbered
from surerec.spark._shared import check_seen
from surerec.storage import load_model, save_model

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from surerec.experiments import Spread
    from surerec.precedence import PrecedenceStatistics


@lru_cache(maxsize=1)
def _statistics(folder: str) -> PrecedenceStatistics:
    """Map them once in a worker, which lives through many tasks."""
    return load_model(folder, verify=False).statistics


@dataclass(frozen=True)
class SparkEngine:
    """Evaluates the users of an experiment on Spark; a :class:`surerec.experiments.Engine`.

    The output folder of the experiment must be on a path that driver and executors share.
    """

    spark: SparkSession

    @contextmanager
    def holding(self, statistics: PrecedenceStatistics, folder: Path) -> Iterator[Spread]:
        """Write the statistics into the folder for a while, where executors map them."""
        place = folder.absolute() / f".statistics-{secrets.token_hex(4)}"
        try:
            save_model(place, statistics, {})
            check_seen(self.spark, place)
            yield partial(self._spread, place)
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def _spread(
        self,
        place: Path,
        task: Callable[[PrecedenceStatistics, Any], Any],
        work: Sequence[Any],
        description: str,
    ) -> list[Any]:
        folder, pieces = str(place), list(work)

        def do(number: int) -> Any:
            return task(_statistics(folder), pieces[number])

        return run_numbered(self.spark, len(pieces), do, description)
