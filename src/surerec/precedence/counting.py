"""What whoever counts elsewhere shares with counting in memory, so that both give the same bytes.

How wide counts are, how rows are held within a budget, and which budgets are refused.
"""

from surerec.precedence._bounded import RowForm, divide_budget, slots_of
from surerec.precedence._rows import DenseRows
from surerec.precedence._spans import WIDE, narrowest, too_popular
from surerec.precedence._statistics import check_budget

__all__ = [
    "WIDE",
    "DenseRows",
    "RowForm",
    "check_budget",
    "divide_budget",
    "narrowest",
    "slots_of",
    "too_popular",
]
