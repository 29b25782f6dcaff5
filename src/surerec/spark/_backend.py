"""Spark as one of the backends that count."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from surerec.spark._fit import Counting, count_precedence_spark

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from surerec.precedence import PrecedenceStatistics, Strategy, Ties


@dataclass(frozen=True)
class SparkBackend:
    """Counts on Spark, into a model folder."""

    folder: Path
    """The folder to write, on a path that driver and executors share."""
    reading: Mapping[str, Any] = field(default_factory=dict)
    """Options of :func:`fit_spark` that say how the DataFrame is read."""
    counting: Counting = field(default_factory=Counting)
    """How tasks are cut."""

    def count(
        self,
        source: Any,
        *,
        ties: Ties = "order",
        strategy: Strategy = "auto",
        memory: int | None = None,
    ) -> PrecedenceStatistics:
        """Count a Spark DataFrame."""
        how = replace(self.counting, ties=ties, strategy=strategy)
        if memory is not None:
            how = replace(how, memory=memory)
        return count_precedence_spark(
            source, self.folder, counting=how, overwrite=True, **self.reading
        )
