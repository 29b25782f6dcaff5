"""What an algorithm thinks of a user's candidates, and how well that turned out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from surerec.conformal import p_value_counts
from surerec.evaluation._metrics import hits_curve, ranking_metrics
from surerec.evaluation._tables import K_MAX
from surerec.evaluation._validity import validity
from surerec.recommenders import Recommender
from surerec.recommenders._query import Query

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from surerec.evaluation._protocol import Split
    from surerec.measures import Scorer
    from surerec.precedence import PrecedenceStatistics

__all__ = ["Judge", "Judgement", "candidates_of", "judge_by", "user_rows"]


class Judgement(NamedTuple):
    """What one algorithm thinks of the candidates."""

    key: NDArray[np.float64]
    """What ranks them; equal is a tie."""
    counts: NDArray[np.int64] | None = None
    """p-values as counts, for those that have them."""
    levels: int = 1


class Judge(Protocol):
    """Lets algorithms judge the candidates of one user."""

    def __call__(
        self, statistics: PrecedenceStatistics, split: Split, candidates: NDArray[np.int64]
    ) -> Iterator[tuple[str, Judgement]]:
        """Give each algorithm's name with its judgement."""


def candidates_of(statistics: PrecedenceStatistics, split: Split) -> NDArray[np.int64]:
    """Give the items outside what is known of the user."""
    return statistics.items_outside(split.known)


def judge_by(algorithms: Mapping[str, Recommender | Scorer]) -> Judge:
    """Let recommenders and scorers judge; a user's calibration items calibrate a scorer."""

    def judge(
        statistics: PrecedenceStatistics, split: Split, candidates: NDArray[np.int64]
    ) -> Iterator[tuple[str, Judgement]]:
        for name, algorithm in algorithms.items():
            if isinstance(algorithm, Recommender):
                yield name, _recommender(algorithm, statistics, split, candidates)
            else:
                yield name, _scorer(algorithm, split, candidates)

    return judge


def _recommender(
    model: Recommender,
    statistics: PrecedenceStatistics,
    split: Split,
    candidates: NDArray[np.int64],
) -> Judgement:
    params = {}
    if "train_share" in model.get_params():  # split what is known where the protocol did
        share = len(split.training) / len(split.known)
        params["train_share"] = min(share, 1 - 1e-12)
    fitted = model._fitted_like(statistics, **params)  # noqa: SLF001
    assessed = fitted._assess(Query(split.known, split.user), candidates)  # noqa: SLF001
    if assessed.smoothed is not None or assessed.counts is None:
        key = assessed.score if assessed.smoothed is None else assessed.smoothed
        return Judgement(key)
    return Judgement(assessed.counts.astype(np.float64), assessed.counts, assessed.levels)


def _scorer(scorer: Scorer, split: Split, candidates: NDArray[np.int64]) -> Judgement:
    scores = scorer.score(split.training, without_user=split.user)
    counts = p_value_counts(scores[split.calibration], scores[candidates])
    return Judgement(counts.astype(np.float64), counts, len(split.calibration) + 1)


def user_rows(
    judgements: Iterable[tuple[str, Judgement]], relevant: NDArray[np.bool_], k: int
) -> Iterator[dict[str, Any]]:
    """Measure each judgement of one user's candidates: a row for each algorithm."""
    for algorithm, judgement in judgements:
        metrics = ranking_metrics(judgement.key, relevant, k=k)
        row = {"algorithm": algorithm, **metrics._asdict()}
        row["hits"] = hits_curve(judgement.key, relevant, K_MAX).tolist()
        row["n_relevant"] = int(relevant.sum())
        missed = let_in = size = None
        if judgement.counts is not None:
            found = validity(judgement.counts, judgement.levels, relevant)
            missed, let_in, size = (column.astype(float).tolist() for column in found)
        yield row | {"missed": missed, "let_in": let_in, "set_size": size}
