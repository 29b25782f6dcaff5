"""The paper's tables and figures, run on data at hand."""

from surerec.experiments._algorithms import ALGORITHMS
from surerec.experiments._engine import Engine, Spread, Threads
from surerec.experiments._run import reproduce, run
from surerec.experiments._settings import DataSource, Settings
from surerec.experiments._tables import Results

__all__ = [
    "ALGORITHMS",
    "DataSource",
    "Engine",
    "Results",
    "Settings",
    "Spread",
    "Threads",
    "reproduce",
    "run",
]
