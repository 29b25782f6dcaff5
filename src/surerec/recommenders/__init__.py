"""The recommenders: precedence mining, the transductive CRS, the inductive ICRS, and over users."""

from surerec.recommenders._base import Recommender
from surerec.recommenders._explanation import Explanation
from surerec.recommenders._folder import load, load_all, save_all
from surerec.recommenders._group_sets import GroupExplanation, GroupSet
from surerec.recommenders._histories import Histories
from surerec.recommenders._inductive import InductiveConformal
from surerec.recommenders._names import DEFAULT_NAMES, make_recommender, recommender_names
from surerec.recommenders._population import PopulationConformal
from surerec.recommenders._precedence_mining import PrecedenceMining
from surerec.recommenders._sets import RecommendationSet
from surerec.recommenders._transductive import TransductiveConformal
from surerec.recommenders._wanted import Wanted
from surerec.recommenders._wrap import wrap
from surerec.recommenders._wrapped import WrappedRecommender

__all__ = [
    "DEFAULT_NAMES",
    "Explanation",
    "GroupExplanation",
    "GroupSet",
    "Histories",
    "InductiveConformal",
    "PopulationConformal",
    "PrecedenceMining",
    "RecommendationSet",
    "Recommender",
    "TransductiveConformal",
    "Wanted",
    "WrappedRecommender",
    "load",
    "load_all",
    "make_recommender",
    "recommender_names",
    "save_all",
    "wrap",
]
