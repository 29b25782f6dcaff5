"""p-values and the sets they make, risk control over users; knows nothing of recommenders."""

from surerec.conformal._betting import bets_needed, betting_p_value, betting_p_values
from surerec.conformal._learn_then_test import Passed, ServedPrecision
from surerec.conformal._merging import MERGERS, Merger, merge_p_values
from surerec.conformal._p_values import p_value_counts, smoothed_p_values
from surerec.conformal._pooling import isotonic_rates
from surerec.conformal._risk import RiskCurve, users_needed
from surerec.conformal._sets import (
    DEFAULT_CONFIDENCE,
    TOLERANCE,
    border_of,
    entry_confidence,
    highest_confidence,
    in_set,
    left_out_up_to,
    significance_of,
)
from surerec.conformal._steering import DEFAULT_STEP, Steering, UserDay, is_inside
from surerec.conformal._venn_abers import CalibratedProbability, venn_abers
from surerec.conformal._watch import DEFAULT_FALSE_ALARMS, DEFAULT_TOLERANCE, Alarm, Watch

__all__ = [
    "DEFAULT_CONFIDENCE",
    "DEFAULT_FALSE_ALARMS",
    "DEFAULT_STEP",
    "DEFAULT_TOLERANCE",
    "MERGERS",
    "TOLERANCE",
    "Alarm",
    "CalibratedProbability",
    "Merger",
    "Passed",
    "RiskCurve",
    "ServedPrecision",
    "Steering",
    "UserDay",
    "Watch",
    "bets_needed",
    "betting_p_value",
    "betting_p_values",
    "border_of",
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
