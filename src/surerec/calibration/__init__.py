"""From scores to sets: by a person's own items, or over users; and what that promises."""

from surerec.calibration._assessment import Assessment, ItemAssessment, UserAssessment
from surerec.calibration._calibration import BestOfMany, Calibration, Uncalibrated
from surerec.calibration._coverage import Coverage, LeftOut, Newcomers, Nobody, OfTheFit
from surerec.calibration._groups import LengthGroups
from surerec.calibration._items import ItemCalibration, compare_with_items
from surerec.calibration._slates import Slate, hit_probabilities, slate_features
from surerec.calibration._split import check_share, split
from surerec.calibration._stored import CalibrationUsers
from surerec.calibration._terms import Terms
from surerec.calibration._transductive import (
    OverLater,
    TransductiveCalibration,
    p_counts_in_halves,
    ranks_by_later_item,
)
from surerec.calibration._users import UserCalibration
from surerec.calibration.promises import PROMISES, Cut, Hit, MissRate, Promise, find_promise

__all__ = [
    "PROMISES",
    "Assessment",
    "BestOfMany",
    "Calibration",
    "CalibrationUsers",
    "Coverage",
    "Cut",
    "Hit",
    "ItemAssessment",
    "ItemCalibration",
    "LeftOut",
    "LengthGroups",
    "MissRate",
    "Newcomers",
    "Nobody",
    "OfTheFit",
    "OverLater",
    "Promise",
    "Slate",
    "Terms",
    "TransductiveCalibration",
    "Uncalibrated",
    "UserAssessment",
    "UserCalibration",
    "check_share",
    "compare_with_items",
    "find_promise",
    "hit_probabilities",
    "p_counts_in_halves",
    "ranks_by_later_item",
    "slate_features",
    "split",
]
