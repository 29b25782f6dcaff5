"""Precedence statistics: how many users consumed one item before another."""

from surerec.precedence._bounded import rows_from
from surerec.precedence._growing import GrowingStatistics
from surerec.precedence._lanes import lanes
from surerec.precedence._rows import RowSource, linear_budget, of_matrix
from surerec.precedence._spans import Direction, Spans, Ties, spans
from surerec.precedence._statistics import (
    PrecedenceStatistics,
    Strategy,
    as_statistics,
    count_like,
    count_precedence,
    places_without,
    without_counts,
)

__all__ = [
    "Direction",
    "GrowingStatistics",
    "PrecedenceStatistics",
    "RowSource",
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
    "spans",
    "without_counts",
]
