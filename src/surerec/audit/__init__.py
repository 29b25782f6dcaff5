"""Does the guarantee hold here? Measured on the futures of people who did not calibrate."""

from surerec.audit._audit import audit
from surerec.audit._drift import log_martingale
from surerec.audit._report import check_target
from surerec.audit._result import Audit
from surerec.audit._verdicts import HEADLINE, Verdict, at_headline, percent, with_interval

__all__ = [
    "HEADLINE",
    "Audit",
    "Verdict",
    "at_headline",
    "audit",
    "check_target",
    "log_martingale",
    "percent",
    "with_interval",
]
