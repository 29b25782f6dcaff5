"""Interactions: users' histories in time order, read from files, frames and databases."""

from surerec.interactions._cells import whole_floats
from surerec.interactions._database import (
    driver_message,
    is_address,
    refuse_unknown_address,
    without_password,
    write_table,
)
from surerec.interactions._growing import GrowingIds, GrowingInteractions, Placed
from surerec.interactions._history import History, check_moment, read_time
from surerec.interactions._ids import IdMap, Selected, encode
from surerec.interactions._interactions import Interactions, RowsRead
from surerec.interactions._lists import ScoredLists, read_lists
from surerec.interactions._names import find_columns
from surerec.interactions._profiles import Profiles, build_profiles, select_profiles
from surerec.interactions._reading import as_interactions, read_interactions
from surerec.interactions._titles import TitlesRead, read_titles, titles_by_code
from surerec.interactions._user_segments import (
    OTHER,
    Segmentation,
    pool_segments,
    read_members,
    read_user_segments,
)

__all__ = [
    "OTHER",
    "GrowingIds",
    "GrowingInteractions",
    "History",
    "IdMap",
    "Interactions",
    "Placed",
    "Profiles",
    "RowsRead",
    "ScoredLists",
    "Segmentation",
    "Selected",
    "TitlesRead",
    "as_interactions",
    "build_profiles",
    "check_moment",
    "driver_message",
    "encode",
    "find_columns",
    "is_address",
    "pool_segments",
    "read_interactions",
    "read_lists",
    "read_members",
    "read_time",
    "read_titles",
    "read_user_segments",
    "refuse_unknown_address",
    "select_profiles",
    "titles_by_code",
    "whole_floats",
    "without_password",
    "write_table",
]
