"""Kernels for other packages: pure functions on arrays."""

from surerec.measures._aggregates import ScoringPlan, aggregate_columns, score_buffer, score_profile
from surerec.measures._many import total_ratios_of
from surerec.measures._tiles import COUNT, HIGH, LOW, MIDDLE, TOTAL, LeftOutUser, OfCounts, Task
from surerec.measures._vectors import STRIP_BYTES, aligned_zeros, double_medians

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
    "double_medians",
    "score_buffer",
    "score_profile",
    "total_ratios_of",
]
