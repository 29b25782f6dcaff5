"""Matrix factorisation of implicit feedback (ALS), cross-fitted over folds of users."""

from surerec.measures.als._factors import Factorisation
from surerec.measures.als._recipe import AlsRecipe
from surerec.measures.als._scorer import AlsScorer
from surerec.measures.als._settings import AlsSettings

__all__ = [
    "AlsRecipe",
    "AlsScorer",
    "AlsSettings",
    "Factorisation",
]
