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
    unknown_among,
    write_table,
)
from surerec.evaluation._metrics import mean_and_error, ranking_metrics
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
    dataset_ranks,
    friedman,
    nemenyi_critical_difference,
)
from surerec.evaluation._reliability import item_reliability, new_user_reliability
from surerec.evaluation._sets import (
    CHECKED_EPSILONS,
    MeasuredSets,
    halves,
    losses_at,
    measure_curve,
    measure_sets,
    refittable,
    risk_curve,
    sets_at_thresholds,
)

__all__ = [
    "AGES",
    "CHECKED_EPSILONS",
    "EPSILONS",
    "METRICS",
    "Evaluation",
    "Judgement",
    "MeasuredSets",
    "NewUserTest",
    "Shares",
    "Split",
    "SplitOrder",
    "TemporalSplit",
    "assess_model",
    "average_ranks",
    "backtest",
    "candidates_of",
    "choose_users",
    "dataset_ranks",
    "evaluate",
    "evaluate_user",
    "friedman",
    "halves",
    "item_reliability",
    "losses_at",
    "mean_and_error",
    "measure_curve",
    "measure_sets",
    "miss_by_support",
    "nemenyi_critical_difference",
    "new_user_reliability",
    "new_user_test",
    "ranking_metrics",
    "refittable",
    "risk_curve",
    "sets_at_thresholds",
    "split_user",
    "split_users",
    "temporal_windows",
    "unknown_among",
    "validity",
    "write_table",
]
