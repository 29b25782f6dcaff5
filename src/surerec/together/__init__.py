"""Groups of people who choose together: one set, and what it promises to whom."""

from surerec.together._aggregations import (
    AGGREGATIONS,
    Aggregation,
    find_aggregation,
    rank_together,
    values_of,
)
from surerec.together._assessment import GroupAssessment, OfMembers
from surerec.together._calibration import (
    MOST_MEMBERS,
    GroupCalibration,
    KeptPromise,
    check_leaves_out,
    members_future,
)
from surerec.together._company import Company
from surerec.together._forming import FORMED, form_groups
from surerec.together._merged import MergedAssessment, MergedPValues, find_merger
from surerec.together._outcomes import GroupOutcomes, observe_groups
from surerec.together._promises import GROUP_PROMISES, GroupPromise, find_group_promise

__all__ = [
    "AGGREGATIONS",
    "FORMED",
    "GROUP_PROMISES",
    "MOST_MEMBERS",
    "Aggregation",
    "Company",
    "GroupAssessment",
    "GroupCalibration",
    "GroupOutcomes",
    "GroupPromise",
    "KeptPromise",
    "MergedAssessment",
    "MergedPValues",
    "OfMembers",
    "check_leaves_out",
    "find_aggregation",
    "find_group_promise",
    "find_merger",
    "form_groups",
    "members_future",
    "observe_groups",
    "rank_together",
    "values_of",
]
