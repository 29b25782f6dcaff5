"""Other people's models as scorers: one thin adapter each, imported only when asked for."""

from surerec.adapters._adapter import Adapter, ids_of
from surerec.adapters._catalogue import on_catalogue
from surerec.adapters._find import adapt, restored
from surerec.adapters._forms import Factors, ItemItem
from surerec.adapters._lists import ListsAdapter, check_fallback
from surerec.adapters._recipe import WrappedRecipe, of_fitted
from surerec.adapters._scorer import WrappedScorer, read_lines

__all__ = [
    "Adapter",
    "Factors",
    "ItemItem",
    "ListsAdapter",
    "WrappedRecipe",
    "WrappedScorer",
    "adapt",
    "check_fallback",
    "ids_of",
    "of_fitted",
    "on_catalogue",
    "read_lines",
    "restored",
]
