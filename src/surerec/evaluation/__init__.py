"""Evaluation: fit on some data, query held-out users, and compare with what they consumed."""

from surerec.evaluation._backtest import (
    AGES,
    TemporalSplit,
    backtest,
    temporal_windows,
)
from surerec.evaluation._evaluate import (
    METRICS,
    Evaluation,
    Judgement,
    assess_model,
    candidates_of,
    evaluate,
    evaluate_user,
    judge_by,
    unknown_among,
    write_table,
)
from surerec.evaluation._metrics import hits_curve, mean_and_error, ranking_metrics
from surerec.evaluation._new_users import (
    NewUserTest,
    miss_by_support,
    new_user_test,
    split_users,
)
from surerec.evaluation._protocol import (
    EPSILONS,
    Shares,
    Split,
    SplitOrder,
    choose_users,
    split_user,
    validity,
)
from surerec.evaluation._ranks import (
    average_ranks,
    cd_groups,
    dataset_ranks,
    friedman,
    nemenyi_critical_difference,
)
from surerec.evaluation._reliability import item_reliability, new_user_reliability
from surerec.evaluation._sets import (
    CHECKED_EPSILONS,
    MeasuredSets,
    coverage_over_splits,
    for_each,
    halves,
    losses_at,
    measure_curve,
    measure_sets,
    refittable,
    risk_curve,
    sets_at_thresholds,
    size_at_miss,
)

__all__ = [
    "AGES", "CHECKED_EPSILONS", "EPSILONS", "METRICS", "Evaluation", "Judgement",
    "MeasuredSets", "NewUserTest", "Shares", "Split", "SplitOrder", "TemporalSplit",
    "assess_model", "average_ranks", "backtest", "candidates_of", "cd_groups", "choose_users",
    "coverage_over_splits", "dataset_ranks", "evaluate", "evaluate_user", "for_each",
    "friedman", "halves", "hits_curve", "item_reliability", "judge_by", "losses_at",
    "mean_and_error", "measure_curve", "measure_sets", "miss_by_support",
    "nemenyi_critical_difference", "new_user_reliability", "new_user_test", "ranking_metrics",
    "refittable", "risk_curve", "sets_at_thresholds", "size_at_miss", "split_user",
    "split_users", "temporal_windows", "unknown_among", "validity", "write_table",
]  # fmt: skip
