"""From scores to sets: by a person's own items, or over users; and what that promises."""

from surerec.calibration._assessment import Assessment, ItemAssessment, UserAssessment
from surerec.calibration._calibrating import NobodyTook, calibrate, cases_of
from surerec.calibration._calibration import BestOfMany, Calibration, Uncalibrated
from surerec.calibration._chances import ItemChances, choose
from surerec.calibration._coverage import Coverage, LeftOut, Newcomers, Nobody, OfTheFit
from surerec.calibration._declaration import (
    false_declaration,
    refuse_false_declaration,
    with_other_items,
)
from surerec.calibration._guarantee import (
    NEW_ITEMS,
    RANKING,
    Guarantee,
    guarantee_of,
    level_of,
)
from surerec.calibration._hits import hit_probabilities, list_features
from surerec.calibration._items import ItemCalibration, compare_with_items
from surerec.calibration._listed import NamedItems
from surerec.calibration._precision import PrecisionCalibration
from surerec.calibration._promises import (
    PROMISES,
    Cut,
    Hit,
    MissRate,
    Precision,
    Promise,
    find_promise,
)
from surerec.calibration._shaping import choose_bins
from surerec.calibration._split import check_share, split
from surerec.calibration._stored import CalibrationUsers
from surerec.calibration._terms import next_items
from surerec.calibration._thresholds import LengthGroups
from surerec.calibration._transductive import (
    OverLater,
    TransductiveCalibration,
    p_counts_in_halves,
    ranks_by_later_item,
)
from surerec.calibration._users import NO_CHANCES, UserCalibration

__all__ = [
    "NEW_ITEMS",
    "NO_CHANCES",
    "PROMISES",
    "RANKING",
    "Assessment",
    "BestOfMany",
    "Calibration",
    "CalibrationUsers",
    "Coverage",
    "Cut",
    "Guarantee",
    "Hit",
    "ItemAssessment",
    "ItemCalibration",
    "ItemChances",
    "LeftOut",
    "LengthGroups",
    "MissRate",
    "NamedItems",
    "Newcomers",
    "Nobody",
    "NobodyTook",
    "OfTheFit",
    "OverLater",
    "Precision",
    "PrecisionCalibration",
    "Promise",
    "TransductiveCalibration",
    "Uncalibrated",
    "UserAssessment",
    "UserCalibration",
    "calibrate",
    "cases_of",
    "check_share",
    "choose",
    "choose_bins",
    "compare_with_items",
    "false_declaration",
    "find_promise",
    "guarantee_of",
    "hit_probabilities",
    "level_of",
    "list_features",
    "next_items",
    "p_counts_in_halves",
    "ranks_by_later_item",
    "refuse_false_declaration",
    "split",
    "with_other_items",
]
