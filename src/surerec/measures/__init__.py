"""How well an item fits a profile: the paper's 17 measures, as a table, and a learned one."""

from surerec.measures._scorer import MeasureScorer, Scorer
from surerec.measures._table import MEASURES, Measure, find_measure, is_learned

__all__ = ["MEASURES", "Measure", "MeasureScorer", "Scorer", "find_measure", "is_learned"]
