"""Precedence mining: who took what before what."""

from surerec.precedence._backend import CountingBackend, MemoryBackend
from surerec.precedence._pairs import PrecedencePair, strongest_pairs
from surerec.precedence._rows import Block, RowStore
from surerec.precedence._sources import Source, source
from surerec.precedence._spans import Direction, Ties
from surerec.precedence._statistics import PrecedenceStatistics, Strategy, count_precedence

__all__ = [
    "Block",
    "CountingBackend",
    "Direction",
    "MemoryBackend",
    "PrecedencePair",
    "PrecedenceStatistics",
    "RowStore",
    "Source",
    "Strategy",
    "Ties",
    "count_precedence",
    "source",
    "strongest_pairs",
]
