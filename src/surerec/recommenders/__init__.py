"""The recommenders: precedence mining, the transductive CRS, the inductive ICRS, and over users."""

from surerec.recommenders._estimator import Recommender
from surerec.recommenders._explanation import Explanation
from surerec.recommenders._folder import load, load_all, save_all
from surerec.recommenders._group_sets import GroupExplanation, GroupSet
from surerec.recommenders._histories import Histories
from surerec.recommenders._item_level import (
    InductiveConformal,
    PrecedenceMining,
    TransductiveConformal,
)
from surerec.recommenders._model import FittedModel
from surerec.recommenders._names import DEFAULT_NAMES, make_recommender, recommender_names
from surerec.recommenders._options import RecommendOptions, RequestOptions
from surerec.recommenders._population import PopulationConformal
from surerec.recommenders._sets import RecommendationSet
from surerec.recommenders._wrap import wrap
from surerec.recommenders._wrapped import WrappedRecommender

__all__ = [
    "DEFAULT_NAMES",
    "Explanation",
    "FittedModel",
    "GroupExplanation",
    "GroupSet",
    "Histories",
    "InductiveConformal",
    "PopulationConformal",
    "PrecedenceMining",
    "RecommendOptions",
    "RecommendationSet",
    "Recommender",
    "RequestOptions",
    "TransductiveConformal",
    "WrappedRecommender",
    "load",
    "load_all",
    "make_recommender",
    "recommender_names",
    "save_all",
    "wrap",
]
