"""How algorithms judge a user's candidates, and how well that turned out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from surerec.calibration import compare_with_items
from surerec.evaluation._metrics import hits_curve, ranking_metrics
from surerec.evaluation._tables import K_MAX
from surerec.evaluation._validity import validity
from surerec.measures import Query

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from surerec.calibration import Assessment, ItemAssessment
    from surerec.evaluation._protocol import Split
    from surerec.measures import Scorer
    from surerec.precedence import PrecedenceStatistics
    from surerec.recommenders import FittedModel

    Assess: TypeAlias = Callable[[Split, NDArray[np.int64]], Assessment]


class Judgement(NamedTuple):
    """One algorithm's view of the candidates."""

    key: NDArray[np.float64]
    """What ranks them; equal is a tie."""
    counts: NDArray[np.int64] | None = None
    """p-values as counts, for those that have them."""
    levels: int = 1

    @classmethod
    def of(cls, assessment: Assessment) -> Judgement:
        """Take what is judged from an assessment."""
        return cls(assessment.key, *(assessment.counted or ()))

    def without(self, unknown: NDArray[np.bool_]) -> Judgement:
        """Return it with unknown items ranked last and in no set."""
        if not unknown.any():
            return self
        counts = None if self.counts is None else np.where(unknown, 0, self.counts)
        return self._replace(key=np.where(unknown, -np.inf, self.key), counts=counts)


class Judge(Protocol):
    """Lets algorithms judge the candidates of one user."""

    def __call__(
        self, statistics: PrecedenceStatistics, split: Split, candidates: NDArray[np.int64]
    ) -> Iterator[tuple[str, Judgement]]:
        """Give each algorithm's name with its judgement."""


def candidates_of(statistics: PrecedenceStatistics, split: Split) -> NDArray[np.int64]:
    """Return the items outside what is known of the user.

    Those that nobody else consumed are among them, so that they count as missed: see
    :func:`unknown_among`.
    """
    return statistics.items_outside(split.known)


def unknown_among(
    statistics: PrecedenceStatistics, split: Split, candidates: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return which candidates nobody but the user consumed: no algorithm can know them."""
    return np.isin(candidates, statistics.unknown_without((split.user,)))


def judge_by(algorithms: Mapping[str, Assess]) -> Judge:
    """Let algorithms judge, by what assesses the candidates of a split."""

    def judge(
        statistics: PrecedenceStatistics,  # noqa: ARG001
        split: Split,
        candidates: NDArray[np.int64],
    ) -> Iterator[tuple[str, Judgement]]:
        for name, assess in algorithms.items():
            yield name, Judgement.of(assess(split, candidates))

    return judge


def assess_model(model: FittedModel, split: Split, candidates: NDArray[np.int64]) -> Assessment:
    """Assess the candidates by a fitted model, which splits a history where the protocol did."""
    share = min(len(split.training) / len(split.known), 1 - 1e-12)
    same = replace(model, calibration=model.calibration.splitting(share))
    return same.assess(Query(split.known, (split.user,)), candidates)


def assess_split(
    scorer: Scorer,
    split: Split,
    candidates: NDArray[np.int64],
    *,
    chances: NDArray[np.float64] | None = None,
) -> ItemAssessment:
    """Give the candidates' p-values among a user's calibration items, scored by the training ones.

    Parameters
    ----------
    scorer : Scorer
        Asked to leave the user out.
    split : Split
        Of the user's profile.
    candidates : array of int
        Item codes.
    chances : array of float, optional
        For each candidate a random number in (0, 1], to break its ties by.
    """
    scores = scorer.score_query(Query(split.training, (split.user,)))
    return compare_with_items(scores, split.calibration, candidates, chances=chances)


def user_rows(
    judgements: Iterable[tuple[str, Judgement]],
    relevant: NDArray[np.bool_],
    unknown: NDArray[np.bool_],
    k: int,
) -> Iterator[dict[str, Any]]:
    """Measure each judgement of one user's candidates: a row for each algorithm."""
    for algorithm, given in judgements:
        judgement = given.without(unknown)
        metrics = ranking_metrics(judgement.key, relevant, k=k)
        row = {"algorithm": algorithm, **metrics._asdict()}
        row["hits"] = hits_curve(judgement.key, relevant, K_MAX).tolist()
        row["n_relevant"] = int(relevant.sum())
        missed = let_in = size = None
        if judgement.counts is not None:
            found = validity(judgement.counts, judgement.levels, relevant)
            missed, let_in, size = (column.astype(float).tolist() for column in found)
        yield row | {"missed": missed, "let_in": let_in, "set_size": size}
