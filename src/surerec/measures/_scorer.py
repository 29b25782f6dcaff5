"""The first extension point: a measure is fitted on statistics and gives a scorer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from surerec._arguments import check_wholes
from surerec._words import public_name
from surerec.measures._query import Query
from surerec.precedence import count_precedence

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from surerec._state import State
    from surerec.interactions import Interactions
    from surerec.measures._aggregates import ScoringPlan
    from surerec.precedence import PrecedenceStatistics, Ties


UNNAMED: Final = "your scorer"
"""Name of a scorer without a public name."""


class Contribution(NamedTuple):
    """Contribution of one feature to the score of an item."""

    feature: str
    """Description of the feature."""
    value: float
    by: float
    """Change of the score."""


class Scorer:
    """Interface of a scorer, with defaults for everything but the scores.

    A class of your own needs only `score` and no base class: it is adapted. Derive from this class,
    or declare attributes of the same names, to override the defaults.

    Attributes
    ----------
    leaves_users_out : bool or None
        Whether users can be left out of what scores them. If False, only users who were not in the
        fit can calibrate the scorer and get a guarantee. If None, it is undeclared and there is no
        guarantee.
    unit : str
        Unit of the scores, for explanations.
    plan : ScoringPlan or None
        Input of the fused kernels, which score and compare whole profiles in one call; None if
        there is no faster way than `score`.
    accepts_histories : bool
        Whether it scores a history of a user who is not in the data.
    accepts_user_histories : bool
        Whether it scores a user of the data by another history.
    at_once : int
        Number of queries to score in one batch; 1 if batches are no faster.
    is_partial : bool
        Whether items may have no score (−∞); these are in no set.
    uses_times : bool
        Whether scores depend on the times or the moment of a query.

    Examples
    --------
    >>> class Latest(Scorer):
    ...     def score(self, history, *, without_user=None):
    ...         return -np.abs(np.arange(5.0) - history[-1])
    >>> Latest().score_query(Query(np.array([4, 2]))).tolist()
    [-2.0, -1.0, -0.0, -1.0, -2.0]
    """

    leaves_users_out: bool | None = None
    unit: str = "score"
    plan: ScoringPlan | None = None
    accepts_histories: bool = True
    accepts_user_histories: bool = True
    at_once: int = 1
    is_partial: bool = False
    uses_times: bool = False
    checked: bool = False
    """Whether the scores need no check, as those of surerec's own scorers."""

    @property
    def name(self) -> str:
        """Name in guarantees, reports and messages.

        By default the name of a public class, else "your scorer".
        """
        return public_name(self) or UNNAMED

    @property
    def called(self) -> str:
        """Name within a sentence: "the scorer CM12", or "your scorer" without a name."""
        return UNNAMED if self.name == UNNAMED else f"the scorer {self.name}"

    def score(
        self, history: NDArray[np.integer], *, without_user: int | None = None
    ) -> NDArray[np.float64]:
        """Score every item; higher conforms more, and equal scores are a true tie.

        Parameters
        ----------
        history : array of int
            Item codes in time order.
        without_user : int, optional
            User whose own contribution is left out exactly.
        """
        users = () if without_user is None else (without_user,)
        return self.score_query(Query(check_wholes("history", history), users))

    def score_query(self, query: Query) -> NDArray[np.float64]:
        """Score every item for a query with times, moment and several users to leave out.

        By default calls `score`; a subclass defines one of the two.
        """
        if type(self).score is Scorer.score:
            raise NotImplementedError(
                f"{self.name} defines neither score nor score_query. Define one."
            )
        return self.score(query.history, without_user=query.user)

    def score_many(self, queries: Sequence[Query]) -> NDArray[np.float64]:
        """Score every item for several queries, one row each; by default one by one."""
        return np.stack([self.score_query(query) for query in queries])

    def score_candidates(self, queries: Sequence[Query]) -> NDArray[np.float64]:
        """Score the same, where scores of items of a history may be anything.

        By default as `score_many`. The rows are the caller's own, to write to.
        """
        return self.score_many(queries)

    def reaches(self, users: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which users, by code and −1 for strangers, it can score; by default all."""
        return np.ones(len(users), dtype=bool)

    def fold_of(self, users: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the fold of each user, by code: users of one fold can be left out together.

        −1 is in every fold. By default each user has a fold of their own, so that one user is left
        out at a time.
        """
        return users

    def candidates(
        self,
        statistics: PrecedenceStatistics,
        known: NDArray[np.integer],
        users: Sequence[int] = (),
    ) -> NDArray[np.int64]:
        """Return the codes of the items that can be ranked, ascending.

        By default the items outside `known` that other users than those left out consumed.
        """
        return statistics.items_outside(known, users)

    def unknown(
        self, statistics: PrecedenceStatistics, users: Sequence[int] = ()
    ) -> NDArray[np.int64]:
        """Return the codes of the items that are never `candidates`.

        By default the items that only the users left out consumed, or none.
        """
        return statistics.unknown_without(users)

    def value(
        self,
        scores: NDArray[np.float64],
        history_length: int | NDArray[np.int64],  # noqa: ARG002
        n_users: int,  # noqa: ARG002
    ) -> NDArray[np.float64]:
        """Return scores in a unit that is comparable between users; higher conforms more.

        Parameters
        ----------
        scores : array of float
            Scores of all items or of some.
        history_length : int or array of int
            Length of the history.
        n_users : int
            Number of users in the statistics.
        """
        return scores

    def contributions(self, query: Query, item: int) -> tuple[Contribution, ...]:  # noqa: ARG002
        """Return the contributions to the score of one item, strongest first; none by default."""
        return ()

    def about(self, query: Query) -> str:  # noqa: ARG002
        """Return a sentence on how the scoring model was trained; empty by default."""
        return ""

    def state(self) -> State | None:
        """Return the saved state; None if the scorer must be passed again at loading."""
        return None


class PopularityScorer(Scorer):
    """Scores each item by the number of users who consumed it: the baseline of every ranking.

    Parameters
    ----------
    statistics : PrecedenceStatistics
        Statistics with the support of each item.
    leave_out : bool, default=True
        Whether users are left out of the support; False if it was counted without their held-out
        interactions.
    """

    checked = True

    def __init__(self, statistics: PrecedenceStatistics, *, leave_out: bool = True) -> None:
        self._statistics = statistics
        self.leaves_users_out = leave_out

    def score_query(self, query: Query) -> NDArray[np.float64]:
        """Return the support of every item, without the users to leave out."""
        support = self._statistics.support.astype(np.float64)
        for user in query.users if self.leaves_users_out else ():
            support[self._statistics.consumed_by(user)[0]] -= 1
        return support

    def candidates(
        self,
        statistics: PrecedenceStatistics,
        known: NDArray[np.integer],
        users: Sequence[int] = (),
    ) -> NDArray[np.int64]:
        """Return the items outside `known` that were consumed, by others if users are left out."""
        return statistics.items_outside(known, users if self.leaves_users_out else ())


class Measure(ABC):
    """Fitted on statistics, gives a scorer; may be fitted again on other statistics.

    Attributes
    ----------
    learns : bool
        Whether fitting trains a model; a formula needs no training.
    refits : bool
        Whether it can be fitted on other statistics; a fitted scorer cannot.
    leaves_users_out : bool or None
        As declared by its scorers (see :class:`Scorer`), if known before the fit.
    stored : str or None
        Name in a model folder; None if it must be passed again at loading.
    grows : bool
        Whether its scorers work on counts that grow with events, without a refit.
    stays : str
        Description of what stays as it was fitted while counts grow; empty for nothing.
    """

    learns: bool = True
    refits: bool = True
    leaves_users_out: bool | None = None
    stored: str | None = None
    grows: bool = False
    stays: str = ""

    @property
    @abstractmethod
    def name(self) -> str:
        """Name in reports and in names of recommenders, such as "CM12"."""

    @property
    def title(self) -> str:
        """Name within sentences; by default `name`."""
        return self.name

    @property
    def short_name(self) -> str:
        """Suffix of "icrs" in a recommender's name."""
        return f"-{self.name}"

    def count(self, interactions: Interactions, ties: Ties = "order") -> PrecedenceStatistics:
        """Return the statistics to fit on; by default precedence counts."""
        return count_precedence(interactions, ties=ties)

    @abstractmethod
    def fit(self, statistics: PrecedenceStatistics) -> Scorer:
        """Fit on these statistics only and return the scorer."""

    def update(
        self,
        scorer: Scorer,  # noqa: ARG002
        statistics: PrecedenceStatistics,
        earlier_users: NDArray[np.integer] | None = None,  # noqa: ARG002
    ) -> Scorer:
        """Return the scorer on newer statistics; by default fits again.

        Parameters
        ----------
        scorer : Scorer
            Scorer that this measure gave on earlier statistics.
        statistics : PrecedenceStatistics
            The newer statistics.
        earlier_users : array of int, optional
            Earlier code of each user, −1 for a new user; by default codes are the same.
        """
        return self.fit(statistics)

    def grown(self, scorer: Scorer, statistics: PrecedenceStatistics) -> Scorer:  # noqa: ARG002
        """Return the scorer on newer counts under the same codes, without training.

        Parameters
        ----------
        scorer : Scorer
            Scorer that this measure gave on earlier statistics.
        statistics : PrecedenceStatistics
            The newer statistics.
        """
        return self.fit(statistics)

    def from_state(self, statistics: PrecedenceStatistics, state: State) -> Scorer:
        """Return the saved scorer; KeyError or ValueError if the state is invalid.

        By default nothing is saved, and the measure is fitted again. A state comes from a file, so
        check its shapes and indices before kernels use them.
        """
        state.require_empty(self.title)
        return self.fit(statistics)
