"""How good rankings are, and which algorithms differ over data sets."""

from surerec.evaluation._metrics import (
    MeanAndError,
    RankingMetrics,
    bootstrap_interval,
    hits_curve,
    mean_and_error,
    ranking_metrics,
)
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
from surerec.evaluation._validity import EPSILONS, Validity, validity

__all__ = [
    "EPSILONS",
    "CriticalDifference",
    "FriedmanResult",
    "MeanAndError",
    "RankingMetrics",
    "Shares",
    "Split",
    "SplitOrder",
    "Validity",
    "average_ranks",
    "bootstrap_interval",
    "cd_groups",
    "choose_users",
    "dataset_ranks",
    "friedman",
    "hits_curve",
    "mean_and_error",
    "nemenyi_critical_difference",
    "ranking_metrics",
    "split_user",
    "validity",
]
