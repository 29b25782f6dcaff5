"""The learned measure as a recipe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surerec.measures._scorer import Recipe
from surerec.measures.learned._learned import LearnedMeasure
from surerec.measures.learned._scorer import LearnedScorer
from surerec.measures.learned._state import from_state

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from surerec._state import State
    from surerec.measures._scorer import Scorer
    from surerec.precedence import PrecedenceStatistics


class LearnedRecipe(Recipe):
    """Trees trained on other users' futures.

    Parameters
    ----------
    learned : LearnedMeasure, optional
        What was learned before, to be used as it is. Its folds are of users by code: if it was
        learned from other data, only people who were in neither are surely scored by what was not
        learned from them.
    seed : int, default=0
        Of the training.
    horizon, window
        The future to train for; see :meth:`LearnedMeasure.train`.
    """

    name = "learned"
    stored = "learned"
    grows = True
    stays = "trees, ridges, factors and what else is known of items"

    def __init__(
        self,
        learned: LearnedMeasure | None = None,
        *,
        seed: int = 0,
        horizon: float = 0.4,
        window: float | None = None,
    ) -> None:
        self.learned = learned
        self.horizon = horizon
        self.window = window
        self.seed = seed
        self.refits = learned is None

    def fit(self, statistics: PrecedenceStatistics) -> Scorer:
        """Train on these statistics, or take what was learned before."""
        learned = self.learned or LearnedMeasure.train(
            statistics, horizon=self.horizon, window=self.window, seed=self.seed
        )
        return LearnedScorer(statistics, learned)

    def update(
        self,
        scorer: Scorer,
        statistics: PrecedenceStatistics,
        earlier_users: NDArray[np.integer] | None = None,
    ) -> Scorer:
        """Keep the trees, under the codes by which users go now."""
        assert isinstance(scorer, LearnedScorer)  # noqa: S101  # as `fit` made it
        learned = scorer.learned
        if earlier_users is not None:
            learned = learned.renumbered(earlier_users)
        return LearnedScorer(statistics, learned)

    def grown(self, scorer: Scorer, statistics: PrecedenceStatistics) -> Scorer:
        """Keep all that was learned, on counts that have grown."""
        assert isinstance(scorer, LearnedScorer)  # noqa: S101  # as `fit` made it
        newer = statistics.grown_from(scorer.statistics)
        return scorer.on(newer)

    def from_state(self, statistics: PrecedenceStatistics, state: State) -> Scorer:
        """Read back what was learned, so that opening a model learns nothing again."""
        learned, ridge, forward, factors = from_state(statistics, state)
        return LearnedScorer(statistics, learned, ridge=ridge, forward=forward, factors=factors)
