"""Conformal statistics on arrays: p-values, risk control, Venn–Abers, online control."""

from surerec.conformal._learn_then_test import Passed, ServedPrecision, bets_needed, betting_p_value
from surerec.conformal._online import (
    DEFAULT_FALSE_ALARMS,
    DEFAULT_STEP,
    AdaptiveLevel,
    DriftAlert,
    UserDay,
    Watch,
    is_inside,
)
from surerec.conformal._p_values import (
    DEFAULT_CONFIDENCE,
    MERGERS,
    TOLERANCE,
    Merger,
    entry_confidence,
    highest_confidence,
    in_set,
    left_out_up_to,
    merge_p_values,
    p_value_counts,
    significance_of,
    smoothed_p_values,
)
from surerec.conformal._risk import RiskCurve, users_needed
from surerec.conformal._venn_abers import CalibratedProbability, isotonic_rates, venn_abers

__all__ = [
    "DEFAULT_CONFIDENCE",
    "DEFAULT_FALSE_ALARMS",
    "DEFAULT_STEP",
    "MERGERS",
    "TOLERANCE",
    "AdaptiveLevel",
    "CalibratedProbability",
    "DriftAlert",
    "Merger",
    "Passed",
    "RiskCurve",
    "ServedPrecision",
    "UserDay",
    "Watch",
    "bets_needed",
    "betting_p_value",
    "entry_confidence",
    "highest_confidence",
    "in_set",
    "is_inside",
    "isotonic_rates",
    "left_out_up_to",
    "merge_p_values",
    "p_value_counts",
    "significance_of",
    "smoothed_p_values",
    "users_needed",
    "venn_abers",
]
