"""The paper's tables and figures, run on data at hand."""

from surerec.experiments._algorithms import ALGORITHMS
from surerec.experiments._run import Results, reproduce, run
from surerec.experiments._settings import DataSource, Settings

__all__ = ["ALGORITHMS", "DataSource", "Results", "Settings", "reproduce", "run"]
