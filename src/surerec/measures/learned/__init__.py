"""A measure learned from other users' futures."""

from surerec.measures.learned._choice import INGREDIENTS
from surerec.measures.learned._learned import LearnedMeasure
from surerec.measures.learned._offered import FEATURES
from surerec.measures.learned._recipe import LearnedRecipe
from surerec.measures.learned._ridge import Ridge
from surerec.measures.learned._scorer import LearnedScorer

__all__ = [
    "FEATURES",
    "INGREDIENTS",
    "LearnedMeasure",
    "LearnedRecipe",
    "LearnedScorer",
    "Ridge",
]
