"""How well an item fits a profile: the paper's 17 measures, trained ones, and your own."""

from surerec._state import State
from surerec.measures._aggregates import ProfileRows, aggregate, log_score
from surerec.measures._formula import (
    MEASURES,
    FormulaRecipe,
    Measure,
    MeasureScorer,
    PrecedenceRecipe,
    PrecedenceScorer,
    find_measure,
)
from surerec.measures._own import (
    TRAINED,
    OwnRecipe,
    OwnScorer,
    RecipeLike,
    as_recipe,
    as_scorer,
    recipe_names,
)
from surerec.measures._query import Queries, Query
from surerec.measures._scorer import Contribution, Recipe, Scorer

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
    "State",
    "aggregate",
    "as_recipe",
    "as_scorer",
    "find_measure",
    "log_score",
    "recipe_names",
]
