"""Does the guarantee hold here? Measured on the futures of people who did not calibrate."""

from surerec.audit._audit import audit
from surerec.audit._drift import log_martingale
from surerec.audit._report import check_target, segment_cells
from surerec.audit._result import Audit
from surerec.audit._verdicts import (
    HEADLINE,
    Verdict,
    at_headline,
    falls_short,
    percent,
    with_interval,
)

__all__ = [
    "HEADLINE",
    "Audit",
    "Verdict",
    "at_headline",
    "audit",
    "check_target",
    "falls_short",
    "log_martingale",
    "percent",
    "segment_cells",
    "with_interval",
]
