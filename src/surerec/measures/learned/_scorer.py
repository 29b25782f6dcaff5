"""The learned measure as a scorer over statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from surerec.measures._folds import folds_of
from surerec.measures._scorer import Contribution, Scorer
from surerec.measures.learned._asked import Person
from surerec.measures.learned._boosting import contributions
from surerec.measures.learned._features import Features
from surerec.measures.learned._offered import EXTRAS, extras_of
from surerec.measures.learned._preference import train_factors
from surerec.measures.learned._state import to_state
from surerec.measures.learned._text import read_trees, write_trees
from surerec.measures.learned._trees import Trees

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from surerec._state import State
    from surerec.measures._query import Query
    from surerec.measures.als import Factorisation
    from surerec.measures.learned._forward import ForwardRidge
    from surerec.measures.learned._learned import LearnedMeasure
    from surerec.measures.learned._ridge import Ridge
    from surerec.measures.learned._text import Tree
    from surerec.precedence import PrecedenceStatistics


_BYTES: Final = 8 * 18
"""For a person and an item, while ridges say what they expect of many."""
_ROOM: Final = 1 << 26
_AT_ONCE: Final = 16, 128


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
    forward : ForwardRidge, optional
        The same of the ridge from past to future, where its features were kept.
    factors : Factorisation, optional
        The same of the matrix factorisation.

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
        forward: ForwardRidge | None = None,
        factors: Factorisation | None = None,
    ) -> None:
        names = learned.feature_names
        extras = extras_of(names)
        self.statistics = statistics
        self.learned = learned
        if factors is None and "matrix factorisation" in extras:
            how = learned.params
            factors = train_factors(statistics.counted, int(how["n_folds"]), int(how["seed"]))
        self._features = Features(statistics, ridge, extras, forward, factors)
        n_bytes = _BYTES * max(self._features.ridge.n_items, 1)
        # People who are scored together, each block of them by one thread.
        self.at_once = int(np.clip(_ROOM // n_bytes, *_AT_ONCE))
        folds = [read_trees(text, len(names)) for text in learned.folds]
        self._trees = [Trees.of(trees) for trees in folds]
        self._looked_at = [_looked_at(trees, names) for trees in folds]
        # Written anew: LightGBM does not look where a text leads it.
        self._texts = [write_trees(trees, names) for trees in folds]

    @property
    def ridge(self) -> Ridge:
        """The ridge regression behind it, to share with other scorers of these statistics."""
        return self._features.ridge

    def on(self, statistics: PrecedenceStatistics) -> LearnedScorer:
        """Give the same on other counts of the same profiles: nothing is learned again."""
        made = self._features
        return LearnedScorer(
            statistics, self.learned, ridge=made.ridge, forward=made.forward, factors=made.factors
        )

    @property
    def name(self) -> str:
        """What reports call it."""
        return "learned"

    def score_query(self, query: Query) -> NDArray[np.float64]:
        """Score every item: the log-odds that it is taken next, within the horizon.

        A user to leave out is left out of all counts, and scored by the trees that never saw them.
        """
        self._within(query)
        fold = self.learned.fold_for(query.users, query.history)
        features = self._features.of(
            query.history, without=query.users, only=self._looked_at[fold], in_threads=True
        )
        scores = np.empty(self.statistics.n_items)
        self._add_trees(scores, fold, query, features, in_threads=True)
        return scores

    def score_many(self, queries: Sequence[Query]) -> NDArray[np.float64]:
        """Score every item for several queries in this thread, what ridges expect together."""
        scores = np.empty((len(queries), self.statistics.n_items))
        for start in range(0, len(queries), self.at_once):
            some = [self._within(query) for query in queries[start : start + self.at_once]]
            folds = [self.learned.fold_for(query.users, query.history) for query in some]
            found = self._features.of_many(
                [Person(query.history, query.users) for query in some],
                [self._looked_at[fold] for fold in folds],
            )
            rows = scores[start : start + len(some)]
            for row, fold, query, features in zip(rows, folds, some, found, strict=True):
                self._add_trees(row, fold, query, features, in_threads=False)
        return scores

    def _within(self, query: Query) -> Query:
        return query.within(self.statistics.n_items, self.statistics.n_user_codes)

    def _add_trees(
        self,
        scores: NDArray[np.float64],
        fold: int,
        query: Query,
        features: NDArray[np.float32],
        *,
        in_threads: bool,
    ) -> None:
        """Write what the trees of a fold say of every item."""
        n_items = len(scores) - len(self.statistics.unknown_without(query.users))
        scores[:] = self.learned.base(fold, len(query.history), n_items)
        self._trees[fold].add_to(scores, features, in_threads=in_threads)

    def fold_of(self, users: NDArray[np.int64]) -> NDArray[np.int64]:
        """Give the fold of each user, of which neither trees nor factors have seen anybody."""
        folds, factors = folds_of(self.learned.fold_of, users), self._features.factors
        if factors is None:
            return folds
        # The same, but that on newer data factors are trained anew and everybody is dealt.
        both = (folds + 1) * (factors.settings.folds + 1) + folds_of(factors.fold_of, users) + 1
        return np.asarray(both - 1)

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
        values = self._features.of(query.history, without=query.users, columns=column)[:, 0]
        fold = self.learned.fold_for(query.users, query.history)
        moved = contributions(self._texts[fold], values)[:-1]
        words = self._features.in_words.values()
        found = zip(words, values.tolist(), moved.tolist(), strict=True)
        return tuple(
            sorted((Contribution(*each) for each in found), key=lambda each: -abs(each.by))
        )

    def about(self, query: Query) -> str:
        """Say which ingredients the trees of the person's fold have, and why."""
        return self.learned.about(self.learned.fold_for(query.users, query.history))

    def state(self) -> State:
        """Return what was learned."""
        return to_state(self.learned, self._features)


def _looked_at(trees: Sequence[Tree], names: Sequence[str]) -> tuple[str, ...]:
    """Give the ingredients by whose features some tree splits."""
    split = {names[feature] for tree in trees for feature in tree.features}
    return tuple(each for each, more in EXTRAS.items() if not split.isdisjoint(more))
