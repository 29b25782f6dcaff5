"""Recommendation sets with a confidence that you can trust."""

from surerec import datasets
from surerec._version import __version__
from surerec.datasets import load_dataset
from surerec.errors import (
    FetchError,
    HistoriesWarning,
    InputError,
    LeftOutWarning,
    NotFittedError,
    StaleModelWarning,
    SurerecError,
)
from surerec.interactions import Interactions, read_interactions
from surerec.live import Live
from surerec.measures import MEASURES
from surerec.precedence import PrecedenceStatistics, count_precedence, strongest_pairs
from surerec.recommenders import (
    GroupExplanation,
    GroupSet,
    InductiveConformal,
    PopulationConformal,
    PrecedenceMining,
    RecommendationSet,
    TransductiveConformal,
    WrappedRecommender,
    load,
    wrap,
)

__all__ = [
    "MEASURES",
    "FetchError",
    "GroupExplanation",
    "GroupSet",
    "HistoriesWarning",
    "InductiveConformal",
    "InputError",
    "Interactions",
    "LeftOutWarning",
    "Live",
    "NotFittedError",
    "PopulationConformal",
    "PrecedenceMining",
    "PrecedenceStatistics",
    "RecommendationSet",
    "StaleModelWarning",
    "SurerecError",
    "TransductiveConformal",
    "WrappedRecommender",
    "__version__",
    "count_precedence",
    "datasets",
    "load",
    "load_dataset",
    "read_interactions",
    "strongest_pairs",
    "wrap",
]
