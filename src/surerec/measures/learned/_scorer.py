"""The learned measure as a scorer over statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from surerec.measures._folds import folds_of
from surerec.measures._scorer import Contribution, Parts, Scorer
from surerec.measures.learned._boosting import contributions
from surerec.measures.learned._features import Features, extras_of
from surerec.measures.learned._parts import to_parts
from surerec.measures.learned._text import read_trees, write_trees
from surerec.measures.learned._trees import Trees

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.measures._query import Query
    from surerec.measures.learned._learned import LearnedMeasure
    from surerec.measures.learned._ridge import Ridge
    from surerec.precedence import PrecedenceStatistics


class LearnedScorer(Scorer):
    """A learned measure over precedence statistics; see :class:`surerec.measures.Scorer`.

    Parameters
    ----------
    statistics : PrecedenceStatistics
        The counts, made from profiles.
    learned : LearnedMeasure
        What was learned, from these statistics or from earlier ones.
    ridge : Ridge, optional
        Of the same profiles, where several scorers share it; by default it is fitted here.

    Examples
    --------
    >>> import surerec as sr
    >>> from surerec.measures.learned import LearnedMeasure
    >>> films = sr.datasets.synthetic(n_users=200, n_items=60, n_rows=4000, seed=1)
    >>> statistics = sr.count_precedence(films)
    >>> scorer = LearnedScorer(statistics, LearnedMeasure.train(statistics))
    >>> scores = scorer.score(np.array([3, 1, 4]))
    >>> scores.shape, bool((scorer.value(scores, 3, 200) < 1).all())
    ((60,), True)
    """

    leaves_users_out = True
    checked = True
    unit = "log-odds"

    def __init__(
        self,
        statistics: PrecedenceStatistics,
        learned: LearnedMeasure,
        *,
        ridge: Ridge | None = None,
    ) -> None:
        names = learned.feature_names
        extras = extras_of(names)
        self.statistics = statistics
        self.learned = learned
        self._features = Features(statistics, ridge, extras)
        folds = [read_trees(text, len(names)) for text in learned.folds]
        self._trees = [Trees.of(trees) for trees in folds]
        # Written anew: LightGBM does not look where a text leads it.
        self._texts = [write_trees(trees, names) for trees in folds]

    @property
    def ridge(self) -> Ridge:
        """The ridge regression behind it, to share with other scorers of these statistics."""
        return self._features.ridge

    @property
    def name(self) -> str:
        """What reports call it."""
        return "learned"

    def score_query(self, query: Query) -> NDArray[np.float64]:
        """Score every item: the log-odds that it is taken next, within the horizon.

        A user to leave out is left out of all counts, and scored by the trees that never saw them.
        """
        query.within(self.statistics.n_items, self.statistics.n_users)
        n_known, n_items = len(query.history), self.statistics.n_items
        fold = self.learned.fold_for(query.users)
        features = self._features.of(query.history, without=query.users, moment=_moment(query))
        scores = np.full(features.shape[1], self.learned.base(fold, n_known, n_items))
        self._trees[fold].add_to(scores, features)
        return scores

    def fold_of(self, users: NDArray[np.int64]) -> NDArray[np.int64]:
        """Give the fold of each user, whose trees were trained without its users."""
        return folds_of(self.learned.fold_of, users)

    def value(
        self,
        scores: NDArray[np.float64],
        history_length: int | NDArray[np.int64],  # noqa: ARG002  # as other measures need it
        n_users: int,  # noqa: ARG002
    ) -> NDArray[np.float64]:
        """Turn scores into the probability that the item is taken within the horizon."""
        return np.asarray(0.5 * (1 + np.tanh(scores / 2)))  # the logistic curve, never overflowing

    def contributions(self, query: Query, item: int) -> tuple[Contribution, ...]:
        """Say what moved the score of one item: each feature in words, its value, what it moved.

        In log-odds against the average training example, the strongest first (TreeSHAP).
        """
        column = np.array([item], dtype=np.int64)
        values = self._features.of(
            query.history, without=query.users, columns=column, moment=_moment(query)
        )[:, 0]
        moved = contributions(self._texts[self.learned.fold_for(query.users)], values)[:-1]
        words = self._features.in_words.values()
        found = zip(words, values.tolist(), moved.tolist(), strict=True)
        return tuple(
            sorted((Contribution(*each) for each in found), key=lambda each: -abs(each.by))
        )

    def about(self, query: Query) -> str:
        """Say which ingredients the trees of the person's fold have, and why."""
        return self.learned.about(self.learned.fold_for(query.users))

    def parts(self) -> Parts:
        """Give what is to be stored, the ridge included, so that opening it learns nothing."""
        return to_parts(self.learned, self.ridge)


def _moment(query: Query) -> int | None:
    """Give when the last known item was taken, if that is known."""
    return None if query.times is None or not len(query.times) else int(query.times[-1])
