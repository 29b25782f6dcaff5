"""Matrix factorisation of implicit feedback (ALS), cross-fitted over folds of users."""

from surerec.measures.als._factors import Factorisation
from surerec.measures.als._parts import from_parts as factors_from_parts
from surerec.measures.als._parts import to_parts as factors_to_parts
from surerec.measures.als._recipe import AlsRecipe
from surerec.measures.als._scorer import AlsScorer
from surerec.measures.als._settings import AlsSettings

__all__ = [
    "AlsRecipe",
    "AlsScorer",
    "AlsSettings",
    "Factorisation",
    "factors_from_parts",
    "factors_to_parts",
]
