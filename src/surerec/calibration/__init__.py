"""Calibrations, which turn scores into sets, and their guarantees."""

from surerec.calibration._calibration import (
    Assessment,
    BestOfMany,
    Calibration,
    ItemAssessment,
    Uncalibrated,
    UserAssessment,
    UserCoverage,
    guarantee_of,
)
from surerec.calibration._calibration_users import CalibrationUsers, LengthSegments, NamedItems
from surerec.calibration._declaration import (
    false_declaration,
    refuse_false_declaration,
    with_other_items,
)
from surerec.calibration._guarantee import (
    GUARANTEE_KINDS,
    Guarantee,
    GuaranteeKind,
    ThresholdChoice,
    ThresholdUnit,
    find_guarantee,
    level_of,
)
from surerec.calibration._held_out import (
    Cases,
    Horizon,
    check_horizon,
    codes_in,
    drop_repeats,
    following_cases,
    profile_cases,
    window_cases,
)
from surerec.calibration._items import (
    ItemCalibration,
    OverLater,
    TransductiveCalibration,
    compare_with_items,
    p_counts_in_halves,
    ranks_by_later_item,
    split,
)
from surerec.calibration._learned import calibrate, sizes_by_unit, unit_of
from surerec.calibration._precision import PrecisionCalibration
from surerec.calibration._probabilities import (
    COMPARED,
    ItemProbabilities,
    choose,
)
from surerec.calibration._ranking import (
    LIST_MOST,
    Bins,
    Outcomes,
    Ranking,
    observe,
    rank_items,
)
from surerec.calibration._ranking_calibrator import RankedSets, RankingCalibrator
from surerec.calibration._regressions import ItemCurve, hit_probabilities, list_features
from surerec.calibration._users import UserCalibration, cases_of, held_out_text

__all__ = [
    "COMPARED",
    "GUARANTEE_KINDS",
    "LIST_MOST",
    "Assessment",
    "BestOfMany",
    "Bins",
    "Calibration",
    "CalibrationUsers",
    "Cases",
    "Guarantee",
    "GuaranteeKind",
    "Horizon",
    "ItemAssessment",
    "ItemCalibration",
    "ItemCurve",
    "ItemProbabilities",
    "LengthSegments",
    "NamedItems",
    "Outcomes",
    "OverLater",
    "PrecisionCalibration",
    "RankedSets",
    "Ranking",
    "RankingCalibrator",
    "ThresholdChoice",
    "ThresholdUnit",
    "TransductiveCalibration",
    "Uncalibrated",
    "UserAssessment",
    "UserCalibration",
    "UserCoverage",
    "calibrate",
    "cases_of",
    "check_horizon",
    "choose",
    "codes_in",
    "compare_with_items",
    "drop_repeats",
    "false_declaration",
    "find_guarantee",
    "following_cases",
    "guarantee_of",
    "held_out_text",
    "hit_probabilities",
    "level_of",
    "list_features",
    "observe",
    "p_counts_in_halves",
    "profile_cases",
    "rank_items",
    "ranks_by_later_item",
    "refuse_false_declaration",
    "sizes_by_unit",
    "split",
    "unit_of",
    "window_cases",
    "with_other_items",
]
