"""How good rankings are, and which algorithms differ over data sets."""

from surerec.evaluation._as_of import MOST_BLOCKS, AsOf, observe_as_of
from surerec.evaluation._calendar import AGES, Calendar, backtest, calendar_windows
from surerec.evaluation._coverage import (
    CHECKED_EPSILONS,
    Coverage,
    coverage,
    coverage_over_splits,
    losses_at,
    risk_curve,
    size_at_miss,
)
from surerec.evaluation._evaluate import Evaluation, evaluate, evaluate_user
from surerec.evaluation._judging import (
    Judge,
    Judgement,
    assess_model,
    assess_split,
    candidates_of,
    judge_by,
    unknown_among,
)
from surerec.evaluation._metrics import (
    MeanAndError,
    RankingMetrics,
    bootstrap_interval,
    hits_curve,
    mean_and_error,
    ranking_metrics,
)
from surerec.evaluation._new_user_probabilities import new_user_reliability
from surerec.evaluation._new_users import (
    DIAGNOSED,
    NewUserTest,
    UserSplit,
    new_user_test,
    split_users,
)
from surerec.evaluation._precision import (
    CHECKED_PRECISIONS,
    precision_over_calendar,
    precision_over_splits,
)
from surerec.evaluation._probabilities import ItemReliability, item_reliability
from surerec.evaluation._protocol import Shares, Split, SplitOrder, choose_users, split_user
from surerec.evaluation._ranks import (
    CriticalDifference,
    FriedmanResult,
    average_ranks,
    cd_groups,
    dataset_ranks,
    friedman,
    nemenyi_critical_difference,
)
from surerec.evaluation._support import OTHER_USERS, HeldOut, miss_by_support
from surerec.evaluation._tables import (
    K_MAX,
    METRICS,
    curves_table,
    metrics_table,
    validity_table,
    write_table,
)
from surerec.evaluation._validity import EPSILONS, Validity, validity

__all__ = [
    "AGES",
    "CHECKED_EPSILONS",
    "CHECKED_PRECISIONS",
    "DIAGNOSED",
    "EPSILONS",
    "K_MAX",
    "METRICS",
    "MOST_BLOCKS",
    "OTHER_USERS",
    "AsOf",
    "Calendar",
    "Coverage",
    "CriticalDifference",
    "Evaluation",
    "FriedmanResult",
    "HeldOut",
    "ItemReliability",
    "Judge",
    "Judgement",
    "MeanAndError",
    "NewUserTest",
    "RankingMetrics",
    "Shares",
    "Split",
    "SplitOrder",
    "UserSplit",
    "Validity",
    "assess_model",
    "assess_split",
    "average_ranks",
    "backtest",
    "bootstrap_interval",
    "calendar_windows",
    "candidates_of",
    "cd_groups",
    "choose_users",
    "coverage",
    "coverage_over_splits",
    "curves_table",
    "dataset_ranks",
    "evaluate",
    "evaluate_user",
    "friedman",
    "hits_curve",
    "item_reliability",
    "judge_by",
    "losses_at",
    "mean_and_error",
    "metrics_table",
    "miss_by_support",
    "nemenyi_critical_difference",
    "new_user_reliability",
    "new_user_test",
    "observe_as_of",
    "precision_over_calendar",
    "precision_over_splits",
    "ranking_metrics",
    "risk_curve",
    "size_at_miss",
    "split_user",
    "split_users",
    "unknown_among",
    "validity",
    "validity_table",
    "write_table",
]
