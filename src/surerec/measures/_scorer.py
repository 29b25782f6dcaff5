"""The first seam: a scorer says how well each item fits what is known of a person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import numpy as np

from surerec._arguments import check_wholes
from surerec._shown import declared_name, public_name, shown
from surerec._state import State
from surerec.errors import InputError
from surerec.measures._query import Query

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from surerec.measures._plan import Plan
    from surerec.precedence import PrecedenceStatistics


UNNAMED: Final = "your scorer"
"""What sentences call a scorer that has no name for its readers."""


class Contribution(NamedTuple):
    """What one feature contributed to the score of an item."""

    feature: str
    """In words."""
    value: float
    by: float
    """How far it moved the score."""


class Scores(Protocol):
    """The one thing that a scorer of your own must have; see :class:`Scorer` for all the others."""

    def score(
        self, history: NDArray[np.integer], *, without_user: int | None = None
    ) -> NDArray[np.float64]:
        """Score every item; see :meth:`Scorer.score`."""


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
    plan : Plan or None
        What the fused kernels need to score whole profiles and compare them in one call; None
        where there is no faster way than `score`.
    takes_histories : bool
        Whether it scores people who are in no data by a history.
    takes_user_histories : bool
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
    plan: Plan | None = None
    takes_histories: bool = True
    takes_user_histories: bool = True
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

    def plan_of(self, history: NDArray[np.int64]) -> Plan | None:  # noqa: ARG002
        """Give what the fused kernels need to score by one history: by default what all do."""
        return self.plan

    def score_many(self, queries: Sequence[Query]) -> NDArray[np.float64]:
        """Score every item for several queries: a row for each; by default one by one."""
        return np.stack([self.score_query(query) for query in queries])

    def score_candidates(self, queries: Sequence[Query]) -> NDArray[np.float64]:
        """Do the same where scores of what is in a history do not matter: they may be anything.

        By default as `score_many`. The rows are the caller's own, to write to.
        """
        return self.score_many(queries)

    def reaches(self, users: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell which users, by code and −1 for strangers, it can score; by default all."""
        return np.ones(len(users), dtype=bool)

    def fold_of(self, users: NDArray[np.int64]) -> NDArray[np.int64]:
        """Give the fold of each user, by code: users of one fold can be left out at once.

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
        """Give scores in a unit that compares between people, higher for what conforms more.

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
        """Say what moved the score of one item, the strongest first; nothing by default."""
        return ()

    def about(self, query: Query) -> str:  # noqa: ARG002
        """Say how what scores a person was learned, in a sentence; nothing by default."""
        return ""

    def state(self) -> State | None:
        """Return what is saved of it; None if it must be given again when a model is loaded."""
        return None


class OwnScorer(Scorer):
    """A scorer of somebody's own class, adapted; what it declares is taken over.

    Its scores are checked: one for each item, and all of them finite. What it raises itself passes
    through as it is.
    """

    checked = True

    def __init__(self, own: Any, n_items: int | None, name: str | None = None) -> None:
        self.own = own
        self._name = name
        self._n_items = n_items
        self.leaves_users_out = declared(own, "leaves_users_out")
        self.uses_times = bool(declared(own, "uses_times"))
        self.unit = str(getattr(own, "unit", Scorer.unit))

    def __getattr__(self, name: str) -> Any:
        """Give what else its own class has, such as what it learned."""
        if name == "own":  # not there yet: a copy is being made
            raise AttributeError(name)
        return getattr(self.own, name)

    @property
    def name(self) -> str:
        """The name that it or its recipe declares, or that of a public class."""
        said = declared_name(self.own)
        return (said if said != UNNAMED else None) or self._name or public_name(self.own) or UNNAMED

    def score(
        self, history: NDArray[np.integer], *, without_user: int | None = None
    ) -> NDArray[np.float64]:
        """Ask it, and check what it says."""
        users = () if without_user is None else (without_user,)
        return self.score_query(Query(check_wholes("history", history), users))

    def score_query(self, query: Query) -> NDArray[np.float64]:
        """Ask it, and check what it says."""
        if isinstance(self.own, Scorer):
            return self._checked(self.own.score_query(query), self._n_items)
        # Nobody can be left out of what says so.
        user = None if self.leaves_users_out is False else query.user
        return self._checked(self.own.score(query.history, without_user=user), self._n_items)

    def fold_of(self, users: NDArray[np.int64]) -> NDArray[np.int64]:
        """Ask a scorer that can say; one with `score` alone leaves out one user at a time."""
        return self.own.fold_of(users) if isinstance(self.own, Scorer) else users

    def _checked(self, given: Any, n_items: int | None) -> NDArray[np.float64]:
        scores = _as_numbers(given)
        if scores is None:
            raise InputError(
                f"{self.name} gave {shown(given)} for scores; an array of one number for each item "
                "is needed."
            )
        if scores.shape != ((len(scores) if scores.ndim else 1) if n_items is None else n_items,):
            raise InputError(
                f"{self.name} gave scores of shape {scores.shape}; one for each of the {n_items} "
                "items is needed."
            )
        for wrong, what in ((np.isnan(scores), "not numbers"), (np.isinf(scores), "infinite")):
            if wrong.any():
                raise InputError(
                    f"{self.name} gave {int(wrong.sum())} scores that are {what}; nothing can be "
                    "calibrated on them: give what must come last the lowest of all scores."
                )
        return scores

    def value(
        self,
        scores: NDArray[np.float64],
        history_length: int | NDArray[np.int64],
        n_users: int,
    ) -> NDArray[np.float64]:
        """Ask it, if it has a unit of its own."""
        if not hasattr(self.own, "value"):
            return scores
        return self._checked(self.own.value(scores, history_length, n_users), len(scores))

    def contributions(self, query: Query, item: int) -> tuple[Contribution, ...]:
        """Ask it, if it can tell."""
        if not hasattr(self.own, "contributions"):
            return ()
        given = self.own.contributions(query, item)
        try:
            return tuple(
                Contribution(str(words), float(value), float(by)) for words, value, by in given
            )
        except (TypeError, ValueError):
            raise InputError(
                f"{self.name} gave {shown(given)} for contributions; rows of words, a value and "
                "what it moved are needed."
            ) from None

    def state(self) -> State | None:
        """Ask it, if it can be saved."""
        found = self.own.state() if hasattr(self.own, "state") else None
        if found is None:
            return None
        is_pair = isinstance(found, tuple) and len(found) == len(State._fields)
        if not is_pair or not all(isinstance(each, Mapping) for each in found):
            raise InputError(
                f"{self.name} returned {shown(found)} for its state; a State of arrays and texts "
                "by name is needed."
            )
        return State(*found)


def declared(own: Any, name: str) -> bool | None:
    """Return what something declares under a name: True, False, or None if it does not."""
    said = getattr(own, name, None)
    if said is None or isinstance(said, (bool, np.bool_)):
        return None if said is None else bool(said)
    raise InputError(
        f"{name} of {type(own).__name__} is {shown(said)}; it must be True, False or None."
    )


def _as_numbers(given: Any) -> NDArray[np.float64] | None:
    try:
        array = np.asarray(given)
        return array.astype(np.float64) if array.dtype.kind in "biufO" else None
    except (TypeError, ValueError, OverflowError):
        return None


def is_scorer(given: object) -> bool:
    """Tell whether something scores; a class does not, it makes something that does."""
    return callable(getattr(given, "score", None)) and not isinstance(given, type)


def as_scorer(
    given: Scores | Scorer, n_items: int | None = None, *, name: str | None = None
) -> Scorer:
    """Give a scorer as all rooms ask it: itself, or somebody's own class adapted.

    Parameters
    ----------
    given : Scorer or anything with `score`
        What scores.
    n_items : int, optional
        How many scores it must give.
    name : str, optional
        What it is called if it declares no `name` itself.

    Examples
    --------
    >>> class Mine:
    ...     def score(self, history, *, without_user=None):
    ...         return [1.0, 2.0]
    >>> as_scorer(Mine(), n_items=3).score(np.array([0]))
    Traceback (most recent call last):
    surerec.errors.InputError: Mine gave scores of shape (2,); one for each of the 3 items is
    needed.
    """
    if isinstance(given, Scorer) and given.checked:
        return given
    if not is_scorer(given):
        raise InputError(
            f"{type(given).__name__} scores nothing: it has no method "
            "score(history, *, without_user)."
        )
    return OwnScorer(given, n_items, name)
