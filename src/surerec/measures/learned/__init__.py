"""A measure learned from other users' futures."""

from surerec.measures.learned._features import FEATURES
from surerec.measures.learned._growing import INGREDIENTS
from surerec.measures.learned._measure import LearnedModel
from surerec.measures.learned._ridge import Ridge
from surerec.measures.learned._scorer import LearnedMeasure, LearnedScorer

__all__ = [
    "FEATURES",
    "INGREDIENTS",
    "LearnedMeasure",
    "LearnedModel",
    "LearnedScorer",
    "Ridge",
]
