"""The paper's experiments, run on the data of your choice."""

from surerec.experiments._run import reproduce
from surerec.experiments._settings import DataSource, Results, StudySettings
from surerec.experiments._study import ALGORITHMS

__all__ = [
    "ALGORITHMS",
    "DataSource",
    "Results",
    "StudySettings",
    "reproduce",
]
