"""p-values and the sets they make; knows scores, and nothing of recommenders."""

from surerec.conformal._p_values import p_value_counts, smoothed_p_values
from surerec.conformal._sets import (
    entry_confidence,
    highest_confidence,
    in_set,
    left_out_up_to,
    significance_of,
)

__all__ = [
    "entry_confidence",
    "highest_confidence",
    "in_set",
    "left_out_up_to",
    "p_value_counts",
    "significance_of",
    "smoothed_p_values",
]
