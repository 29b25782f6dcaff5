"""Tables that show whether promises over users hold, and how small their sets are."""

from surerec.experiments.guarantees._calendar import calendar_table
from surerec.experiments.guarantees._new_users import new_users_table
from surerec.experiments.guarantees._observed import Observed, chosen_cases, observe_all
from surerec.experiments.guarantees._slates import Reliability, reliability, slate_reliability
from surerec.experiments.guarantees._sure import (
    item_reliabilities,
    lists_table,
    precision_calendar_table,
    precision_table,
)
from surerec.experiments.guarantees._tables import (
    hits_table,
    misses_table,
    per_user_sizes,
    sizes_table,
)

__all__ = [
    "Observed",
    "Reliability",
    "calendar_table",
    "chosen_cases",
    "hits_table",
    "item_reliabilities",
    "lists_table",
    "misses_table",
    "new_users_table",
    "observe_all",
    "per_user_sizes",
    "precision_calendar_table",
    "precision_table",
    "reliability",
    "sizes_table",
    "slate_reliability",
]
