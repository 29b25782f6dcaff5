"""Precedence mining: who took what before what."""

from surerec.precedence._pairs import PrecedencePair, strongest_pairs
from surerec.precedence._rows import RowStore
from surerec.precedence._statistics import PrecedenceStatistics, Strategy, count_precedence

__all__ = [
    "PrecedencePair",
    "PrecedenceStatistics",
    "RowStore",
    "Strategy",
    "count_precedence",
    "strongest_pairs",
]
