"""Rules that other engines (Spark) share with counting in memory, for identical results.

The width of counts, the form of rows within a memory budget, and the check of budgets.
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
