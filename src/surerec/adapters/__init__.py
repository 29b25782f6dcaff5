"""Models of other libraries as scorers: one thin adapter each, imported only when used."""

from surerec.adapters._adapter import Adapter, Factors, ItemItem, ids_of
from surerec.adapters._own import ListsAdapter, adapt, check_fallback, restored
from surerec.adapters._scorer import (
    WrappedMeasure,
    WrappedScorer,
    of_fitted,
    on_catalogue,
    read_lines,
)

__all__ = [
    "Adapter",
    "Factors",
    "ItemItem",
    "ListsAdapter",
    "WrappedMeasure",
    "WrappedScorer",
    "adapt",
    "check_fallback",
    "ids_of",
    "of_fitted",
    "on_catalogue",
    "read_lines",
    "restored",
]
