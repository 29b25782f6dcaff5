"""Precedence mining: who took what before what."""

from surerec.precedence._backend import CountingBackend, MemoryBackend
from surerec.precedence._growing import GrowingStatistics
from surerec.precedence._growing_rows import GrowingRows
from surerec.precedence._lanes import Lanes, lanes
from surerec.precedence._pairs import PrecedencePair, strongest_pairs
from surerec.precedence._popularity import places_without
from surerec.precedence._rows import Block, RowStore, Source, linear_budget, of_matrix, source
from surerec.precedence._spans import Direction, Spans, Ties, spans
from surerec.precedence._statistics import (
    PrecedenceStatistics,
    Strategy,
    as_statistics,
    count_like,
    count_precedence,
)
from surerec.precedence._stored import rows_from
from surerec.precedence._uncounted import NoRows, without_counts

__all__ = [
    "Block",
    "CountingBackend",
    "Direction",
    "GrowingRows",
    "GrowingStatistics",
    "Lanes",
    "MemoryBackend",
    "NoRows",
    "PrecedencePair",
    "PrecedenceStatistics",
    "RowStore",
    "Source",
    "Spans",
    "Strategy",
    "Ties",
    "as_statistics",
    "count_like",
    "count_precedence",
    "lanes",
    "linear_budget",
    "of_matrix",
    "places_without",
    "rows_from",
    "source",
    "spans",
    "strongest_pairs",
    "without_counts",
]
