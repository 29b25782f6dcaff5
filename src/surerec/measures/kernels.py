"""The kernels of measures that other rooms build on: pure functions on arrays, no ids, no files."""

from surerec.measures._aggregates import equal_columns, pays
from surerec.measures._plan import Plan, room_for, rows_of, score_profile
from surerec.measures._rough import ROUGH, rough_ratios, total_ratios_of
from surerec.measures._tiles import NARROW, RATIO, TOTAL, LeftOut

__all__ = [
    "NARROW",
    "RATIO",
    "ROUGH",
    "TOTAL",
    "LeftOut",
    "Plan",
    "equal_columns",
    "pays",
    "room_for",
    "rough_ratios",
    "rows_of",
    "score_profile",
    "total_ratios_of",
]
