"""Measures of how well an item fits a profile: the paper's 17, trained ones, and your own."""

from surerec._state import State
from surerec.measures._aggregates import ProfileRows, aggregate, log_score
from surerec.measures._formula import (
    MEASURES,
    Formula,
    FormulaMeasure,
    MeasureScorer,
    PrecedenceMeasure,
    PrecedenceScorer,
    find_measure,
)
from surerec.measures._own import (
    TRAINED,
    MeasureLike,
    OwnMeasure,
    OwnScorer,
    as_measure,
    as_scorer,
    measure_names,
)
from surerec.measures._query import Queries, Query
from surerec.measures._scorer import Contribution, Measure, PopularityScorer, Scorer

__all__ = [
    "MEASURES",
    "TRAINED",
    "Contribution",
    "Formula",
    "FormulaMeasure",
    "Measure",
    "MeasureLike",
    "MeasureScorer",
    "OwnMeasure",
    "OwnScorer",
    "PopularityScorer",
    "PrecedenceMeasure",
    "PrecedenceScorer",
    "ProfileRows",
    "Queries",
    "Query",
    "Scorer",
    "State",
    "aggregate",
    "as_measure",
    "as_scorer",
    "find_measure",
    "log_score",
    "measure_names",
]
