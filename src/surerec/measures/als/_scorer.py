"""A matrix factorisation as a scorer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surerec.errors import InputError
from surerec.measures._folds import folds_of
from surerec.measures._scorer import Contribution, Scorer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from surerec._state import State
    from surerec.measures._query import Query
    from surerec.measures.als._factors import Factorisation
    from surerec.precedence import PrecedenceStatistics


class AlsScorer(Scorer):
    """The preference of a person for every item, by factors; see :class:`surerec.measures.Scorer`.

    A user to leave out is folded in by the item factors that were trained without them.

    Parameters
    ----------
    statistics : PrecedenceStatistics
        What the factors were trained on.
    factors : Factorisation
        What was learned from them.

    Examples
    --------
    >>> import numpy as np
    >>> import surerec as sr
    >>> from surerec.measures.als import AlsSettings, Factorisation
    >>> films = sr.datasets.synthetic(n_users=200, n_items=60, n_rows=4000, seed=1)
    >>> statistics = sr.count_precedence(films)
    >>> scorer = AlsScorer(statistics, Factorisation.train(statistics, AlsSettings(factors=8)))
    >>> scorer.score(np.array([3, 1, 4])).shape
    (60,)
    """

    leaves_users_out = True
    checked = True
    unit = "preference"

    def __init__(self, statistics: PrecedenceStatistics, factors: Factorisation) -> None:
        if factors.n_items != statistics.n_items:
            raise InputError(
                f"These factors are of {factors.n_items:,} items and the data have "
                f"{statistics.n_items:,}: train them anew."
            )
        self.statistics = statistics
        self.factors = factors

    @property
    def name(self) -> str:
        """What reports call it."""
        return "als"

    def score_query(self, query: Query) -> NDArray[np.float64]:
        """Score every item: about 1 for what a person surely takes, about 0 for what they do not.

        By the history alone, and factors that nobody to leave out had a part in.
        """
        return self.factors.score(self.factors.fold_for(query.users, query.history), query.history)

    def fold_of(self, users: NDArray[np.int64]) -> NDArray[np.int64]:
        """Give the fold of each user, whose factors were trained without its users."""
        return folds_of(self.factors.fold_of, users)

    def contributions(self, query: Query, item: int) -> tuple[Contribution, ...]:
        """Say what each item of the history adds to the score of one item, the strongest first.

        They add up to the score.
        """
        fold = self.factors.fold_for(query.users, query.history)
        profiles = self.statistics.interactions
        alike = self.factors.likeness(fold, query.history, item).tolist()
        weight = 1.0 + self.factors.settings.alpha
        found = [
            Contribution(f"likeness to {profiles.title(taken)}", value, weight * value)
            for taken, value in zip(query.history.tolist(), alike, strict=True)
        ]
        return tuple(sorted(found, key=lambda each: -abs(each.by)))

    def state(self) -> State:
        """Return the factors."""
        return self.factors.state()
