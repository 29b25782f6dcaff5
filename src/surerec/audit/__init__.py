"""Does the guarantee hold here? Measured on the futures of people who did not calibrate."""

from surerec.audit._audit import audit
from surerec.audit._drift import log_martingale
from surerec.audit._result import Audit
from surerec.audit._verdicts import Verdict

__all__ = ["Audit", "Verdict", "audit", "log_martingale"]
