"""The first extension point: a recipe is fitted on statistics, and its scorer scores items."""

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
"""What sentences call a scorer that has no name for its readers."""


class Contribution(NamedTuple):
    """What one feature contributed to the score of an item."""

    feature: str
    """In words."""
    value: float
    by: float
    """How far it moved the score."""


class Scorer:
    """All that is ever asked of a scorer, with defaults for everything but the scores.

    A class of your own needs no more than `score`, and need not derive from this one: it is
    adapted. Derive from it, or declare the attributes of the same names, to say more. Who asks
    never looks at what kind of scorer it is.

    Attributes
    ----------
    leaves_users_out : bool or None
        Whether a user to leave out has no part in their scores. False says that nobody can be left
        out, so that only people whom it has not seen may calibrate it and are promised anything;
        None is undeclared, and then nobody is promised anything.
    unit : str
        What scores are, in words: contributions move them.
    plan : ScoringPlan or None
        What the fused kernels need to score whole profiles and compare them in one call; None
        where there is no faster way than `score`.
    accepts_histories : bool
        Whether it scores people who are in no data by a history.
    accepts_user_histories : bool
        Whether it scores a user of the data by a history given beside the user.
    at_once : int
        How many people it scores together faster than one by one; 1 if that gains nothing.
    is_partial : bool
        Whether it may leave items without a score, as −∞: these are in no set, whatever the cut.
    uses_times : bool
        Whether scores depend on the times of a query, or on its moment.

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
    """Whether its scores need no check: those of surerec's own need none."""

    @property
    def name(self) -> str:
        """The name in guarantees, reports and messages; declare a text of your own.

        By default the name of a public class, else "your scorer".
        """
        return public_name(self) or UNNAMED

    @property
    def called(self) -> str:
        """The name as a sentence has it: "the scorer CM12", or "your scorer" without one."""
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
            A user whose own contribution to what was learned is left out, exactly.
        """
        users = () if without_user is None else (without_user,)
        return self.score_query(Query(check_wholes("history", history), users))

    def score_query(self, query: Query) -> NDArray[np.float64]:
        """Score every item for a whole query: its times, its moment, several users to leave out.

        By default as `score` does; a subclass defines one of the two.
        """
        if type(self).score is Scorer.score:
            raise NotImplementedError(f"{self.name} defines neither score nor score_query.")
        return self.score(query.history, without_user=query.user)

    def score_many(self, queries: Sequence[Query]) -> NDArray[np.float64]:
        """Score every item for several queries: a row for each; by default one by one."""
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
        """Return the fold of each user, by code: users of one fold can be left out at once.

        −1 is in every fold. By default everybody is alone in theirs, so that nobody is left out
        together with somebody else.
        """
        return users

    def candidates(
        self,
        statistics: PrecedenceStatistics,
        known: NDArray[np.integer],
        users: Sequence[int] = (),
    ) -> NDArray[np.int64]:
        """Return the codes of the items that it can rank, ascending.

        By default those outside `known` that somebody consumed other than the users left out.
        """
        return statistics.items_outside(known, users)

    def unknown(
        self, statistics: PrecedenceStatistics, users: Sequence[int] = ()
    ) -> NDArray[np.int64]:
        """Return the codes of the items that are no `candidates`, whatever is known.

        By default those that nobody consumed other than the users left out.
        """
        return statistics.unknown_without(users)

    def value(
        self,
        scores: NDArray[np.float64],
        history_length: int | NDArray[np.int64],  # noqa: ARG002
        n_users: int,  # noqa: ARG002
    ) -> NDArray[np.float64]:
        """Return scores in a unit that compares between people, higher for what conforms more.

        Parameters
        ----------
        scores : array of float
            As `score` gives them, of all items or of some.
        history_length : int or array of int
            How many items were known.
        n_users : int
            How many users were counted.
        """
        return scores

    def contributions(self, query: Query, item: int) -> tuple[Contribution, ...]:  # noqa: ARG002
        """Return what moved the score of one item, the strongest first; nothing by default."""
        return ()

    def about(self, query: Query) -> str:  # noqa: ARG002
        """Return how what scores a person was learned, in a sentence; nothing by default."""
        return ""

    def state(self) -> State | None:
        """Return what is saved of it; None if it must be given again when a model is loaded."""
        return None


class Measure(ABC):
    """How a scorer is made, again and again: on all data, or on the past of some moment.

    Attributes
    ----------
    learns : bool
        Whether fitting it learns anything, and so takes time; a formula learns nothing.
    refits : bool
        Whether it can be fitted on other statistics; what comes fitted cannot.
    leaves_users_out : bool or None
        What its scorers say of themselves (see :class:`Scorer`), if that is known before one is
        made.
    stored : str or None
        How a model folder names it; None if it must be given again at loading.
    grows : bool
        Whether its scorers answer from counts that grow with events, without being fitted again.
    stays : str
        What they know beside counts, which stays as it was fitted, in words; empty for nothing.
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
        """What reports and names of recommenders call it, such as "CM12"."""

    @property
    def title(self) -> str:
        """What sentences call it; by default its name."""
        return self.name

    @property
    def short_name(self) -> str:
        """What follows "icrs" in a recommender's name."""
        return f"-{self.name}"

    def count(self, interactions: Interactions, ties: Ties = "order") -> PrecedenceStatistics:
        """Return the statistics that it is fitted on: by default all precedence is counted."""
        return count_precedence(interactions, ties=ties)

    @abstractmethod
    def fit(self, statistics: PrecedenceStatistics) -> Scorer:
        """Make a scorer from what these statistics know, and nothing else."""

    def update(
        self,
        scorer: Scorer,  # noqa: ARG002
        statistics: PrecedenceStatistics,
        earlier_users: NDArray[np.integer] | None = None,  # noqa: ARG002
    ) -> Scorer:
        """Return a fitted scorer on newer statistics; by default by fitting again.

        Parameters
        ----------
        scorer : Scorer
            What this recipe made of earlier statistics.
        statistics : PrecedenceStatistics
            The newer ones.
        earlier_users : array of int, optional
            For each of their users the code in the earlier ones, −1 for somebody new; by default
            codes are the same.
        """
        return self.fit(statistics)

    def grown(self, scorer: Scorer, statistics: PrecedenceStatistics) -> Scorer:  # noqa: ARG002
        """Return a fitted scorer on newer counts under the same codes; what it learned stays.

        Parameters
        ----------
        scorer : Scorer
            What this recipe made of earlier statistics.
        statistics : PrecedenceStatistics
            The newer ones.
        """
        return self.fit(statistics)

    def from_state(self, statistics: PrecedenceStatistics, state: State) -> Scorer:
        """Return the scorer that was saved; KeyError or ValueError if this is not its state.

        By default nothing is saved, and it is fitted again. A state comes from a file: kernels
        must not trust its shapes and indices.
        """
        state.require_empty(self.title)
        return self.fit(statistics)
