"""A measure learned from other users' futures."""

from surerec.measures.learned._features import FEATURES
from surerec.measures.learned._growing import INGREDIENTS
from surerec.measures.learned._measure import LearnedMeasure
from surerec.measures.learned._ridge import Ridge
from surerec.measures.learned._scorer import LearnedRecipe, LearnedScorer

__all__ = [
    "FEATURES",
    "INGREDIENTS",
    "LearnedMeasure",
    "LearnedRecipe",
    "LearnedScorer",
    "Ridge",
]
