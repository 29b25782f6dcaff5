"""The kernels of measures that other packages build on: pure functions on arrays."""

from surerec.measures._aggregates import (
    ScoringPlan,
    aggregate_columns,
    pays,
    room_for,
    score_profile,
)
from surerec.measures._rough import total_ratios_of
from surerec.measures._tiles import (
    COUNT,
    HIGH,
    LOW,
    MIDDLE,
    TOTAL,
    LeftOutUser,
    OfCounts,
    Task,
)
from surerec.measures._vectors import STRIP_BYTES, aligned_zeros, guessed_middles

__all__ = [
    "COUNT",
    "HIGH",
    "LOW",
    "MIDDLE",
    "STRIP_BYTES",
    "TOTAL",
    "LeftOutUser",
    "OfCounts",
    "ScoringPlan",
    "Task",
    "aggregate_columns",
    "aligned_zeros",
    "guessed_middles",
    "pays",
    "room_for",
    "score_profile",
    "total_ratios_of",
]
