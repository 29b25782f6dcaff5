"""Recommendation sets with a confidence that you can trust."""

from surerec import datasets
from surerec._version import __version__
from surerec.datasets import load_dataset
from surerec.errors import FetchError, InputError, SurerecError
from surerec.interactions import Interactions, read_interactions
from surerec.precedence import PrecedenceStatistics, count_precedence, strongest_pairs

__all__ = [
    "FetchError",
    "InputError",
    "Interactions",
    "PrecedenceStatistics",
    "SurerecError",
    "__version__",
    "count_precedence",
    "datasets",
    "load_dataset",
    "read_interactions",
    "strongest_pairs",
]
