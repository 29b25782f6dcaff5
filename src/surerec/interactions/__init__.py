"""Users' profiles in time order, from any ratings file or frame."""

from surerec.interactions._ids import IdMap
from surerec.interactions._interactions import Interactions, RowsRead
from surerec.interactions._names import find_columns
from surerec.interactions._reading import read_interactions

__all__ = ["IdMap", "Interactions", "RowsRead", "find_columns", "read_interactions"]
