"""Estimators, fitted models, results, groups, and the storage of models."""

from surerec.recommenders._batch import Histories
from surerec.recommenders._choice import choice_lines
from surerec.recommenders._estimator import Recommender, measure_of, refitted, to_spec
from surerec.recommenders._explanation import Explanation, GroupExplanation
from surerec.recommenders._folder import (
    DEFAULT_NAMES,
    load,
    load_all,
    make_recommender,
    recommender_names,
    save_all,
)
from surerec.recommenders._group_rankings import (
    AGGREGATIONS,
    FORMED,
    GROUP_GUARANTEE_KINDS,
    Aggregation,
    GroupGuaranteeKind,
    GroupOutcomes,
    find_aggregation,
    form_groups,
    observe_groups,
    values_of,
)
from surerec.recommenders._item_level import (
    InductiveConformal,
    PrecedenceMining,
    TransductiveConformal,
)
from surerec.recommenders._model import FittedModel
from surerec.recommenders._options import RecommendOptions, RequestOptions
from surerec.recommenders._population import PopulationConformal
from surerec.recommenders._query import Group
from surerec.recommenders._sets import GroupSet, RecommendationSet
from surerec.recommenders._wrapped import WrappedRecommender, wrap

__all__ = [
    "AGGREGATIONS",
    "DEFAULT_NAMES",
    "FORMED",
    "GROUP_GUARANTEE_KINDS",
    "Aggregation",
    "Explanation",
    "FittedModel",
    "Group",
    "GroupExplanation",
    "GroupGuaranteeKind",
    "GroupOutcomes",
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
    "choice_lines",
    "find_aggregation",
    "form_groups",
    "load",
    "load_all",
    "make_recommender",
    "measure_of",
    "observe_groups",
    "recommender_names",
    "refitted",
    "save_all",
    "to_spec",
    "values_of",
    "wrap",
]
