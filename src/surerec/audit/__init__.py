"""Test whether guarantees hold on given data, on users who did not calibrate."""

from surerec.audit._audit import audit
from surerec.audit._items import log_martingale
from surerec.audit._report import Audit, check_target
from surerec.audit._verdicts import (
    HEADLINE,
    GuaranteeVerdict,
    at_headline,
    falls_short,
    percent,
    with_interval,
)

__all__ = [
    "HEADLINE",
    "Audit",
    "GuaranteeVerdict",
    "at_headline",
    "audit",
    "check_target",
    "falls_short",
    "log_martingale",
    "percent",
    "with_interval",
]
