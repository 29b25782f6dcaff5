"""Where precedence is counted: one protocol for this machine's memory and for a cluster."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from surerec.interactions import read_interactions
from surerec.precedence._statistics import PrecedenceStatistics, Strategy, count_precedence

if TYPE_CHECKING:
    from collections.abc import Mapping

    from surerec.precedence._spans import Ties


class CountingBackend(Protocol):
    """Counts who took what before what in a table of users, items and times.

    Every backend gives the same counts, whatever it runs on.
    """

    def count(
        self,
        source: Any,
        *,
        ties: Ties = "order",
        strategy: Strategy = "auto",
        memory: int | None = None,
    ) -> PrecedenceStatistics:
        """Count; the parameters are those of :func:`surerec.count_precedence`."""


@dataclass(frozen=True)
class MemoryBackend:
    """Counts in this machine's memory.

    Examples
    --------
    >>> import polars as pl
    >>> taken = pl.DataFrame({"user": [1, 1, 2], "item": [5, 6, 6], "time": [10, 20, 10]})
    >>> MemoryBackend().count(taken)
    PrecedenceStatistics(2 users, 2 items)
    """

    reading: Mapping[str, Any] = field(default_factory=dict)
    """Options of :func:`surerec.read_interactions`."""

    def count(
        self,
        source: Any,
        *,
        ties: Ties = "order",
        strategy: Strategy = "auto",
        memory: int | None = None,
    ) -> PrecedenceStatistics:
        """Count a file or frame that :func:`surerec.read_interactions` takes."""
        interactions = read_interactions(source, **self.reading)
        return count_precedence(interactions, ties=ties, strategy=strategy, memory=memory)
