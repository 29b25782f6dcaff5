"""What people took next, and where a scorer had ranked it."""

from surerec.futures._bins import Bins, edges_of, scale
from surerec.futures._cases import (
    Cases,
    Horizon,
    check_horizon,
    profile_cases,
    window_cases,
)
from surerec.futures._following import drop_repeats, following_cases
from surerec.futures._outcomes import Outcomes, candidates_of, codes_in, observe
from surerec.futures._ranking import (
    LIST_MOST,
    Ranking,
    place_among,
    share_of_all,
    share_terms,
    shares_by_terms,
)

__all__ = [
    "LIST_MOST",
    "Bins",
    "Cases",
    "Horizon",
    "Outcomes",
    "Ranking",
    "candidates_of",
    "check_horizon",
    "codes_in",
    "drop_repeats",
    "edges_of",
    "following_cases",
    "observe",
    "place_among",
    "profile_cases",
    "scale",
    "share_of_all",
    "share_terms",
    "shares_by_terms",
    "window_cases",
]
