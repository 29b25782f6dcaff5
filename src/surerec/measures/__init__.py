"""How well an item fits a profile: the paper's 17 measures, trained ones, and your own."""

from surerec._state import State
from surerec.measures._aggregates import ProfileRows, aggregate, log_score
from surerec.measures._formula import (
    FormulaRecipe,
    MeasureScorer,
    PrecedenceRecipe,
    PrecedenceScorer,
)
from surerec.measures._query import Queries, Query
from surerec.measures._recipe import OwnRecipe, Recipe
from surerec.measures._recipes import TRAINED, RecipeLike, as_recipe, recipe_names
from surerec.measures._scorer import Contribution, OwnScorer, Scorer, Scores, as_scorer
from surerec.measures._table import MEASURES, Measure, find_measure

__all__ = [
    "MEASURES",
    "TRAINED",
    "Contribution",
    "FormulaRecipe",
    "Measure",
    "MeasureScorer",
    "OwnRecipe",
    "OwnScorer",
    "PrecedenceRecipe",
    "PrecedenceScorer",
    "ProfileRows",
    "Queries",
    "Query",
    "Recipe",
    "RecipeLike",
    "Scorer",
    "Scores",
    "State",
    "aggregate",
    "as_recipe",
    "as_scorer",
    "find_measure",
    "log_score",
    "recipe_names",
]
