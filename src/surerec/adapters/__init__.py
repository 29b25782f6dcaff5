"""Other people's models as scorers: one thin adapter each, imported only when asked for."""

from surerec.adapters._adapter import Adapter, ids_of
from surerec.adapters._catalogue import on_catalogue
from surerec.adapters._find import adapt
from surerec.adapters._recipe import WrappedRecipe, of_fitted
from surerec.adapters._scorer import WrappedScorer

__all__ = [
    "Adapter",
    "WrappedRecipe",
    "WrappedScorer",
    "adapt",
    "ids_of",
    "of_fitted",
    "on_catalogue",
]
