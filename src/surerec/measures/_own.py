"""Scorers and recipes of a caller's own, adapted, and recipes by name."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from surerec._arguments import check_random_state
from surerec._state import State
from surerec._words import declared_name, public_name, shown
from surerec.errors import InputError
from surerec.measures._formula import MEASURES, Formula, FormulaMeasure
from surerec.measures._scorer import UNNAMED, Contribution, Measure, Scorer

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from surerec.measures._query import Query
    from surerec.precedence import PrecedenceStatistics

MeasureLike: TypeAlias = Any
"""A name, a :class:`Recipe`, a scorer, or what makes a scorer from statistics."""


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
        """Return what else its own class has, such as what it learned."""
        if name == "own":  # not there yet: a copy is being made
            raise AttributeError(name)
        return getattr(self.own, name)

    @property
    def name(self) -> str:
        """The name that it or its recipe declares, or that of a public class."""
        said = declared_name(self.own)
        return (said if said != UNNAMED else None) or self._name or public_name(self.own) or UNNAMED

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
        if scores is None or scores.ndim != 1 or len(scores) != (n_items or len(scores)):
            shape = "" if scores is None else f"scores of shape {scores.shape}"
            gave = shape or f"{shown(given)} for scores"
            raise InputError(
                f"{self.name} gave {gave}; one for each of the {n_items} items is needed."
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
    """Return whether something scores; a class does not, it makes something that does."""
    return callable(getattr(given, "score", None)) and not isinstance(given, type)


def as_scorer(given: Any, n_items: int | None = None, *, name: str | None = None) -> Scorer:
    """Return a scorer as all packages ask it: itself, or somebody's own class adapted.

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


class OwnMeasure(Measure):
    """Something of somebody's own: a fitted scorer, or what makes one from statistics.

    Parameters
    ----------
    given : object
        What has ``score``, what has ``fit(statistics)``, or a function of statistics that gives
        what has ``score``.
    """

    def __init__(self, given: Any) -> None:
        self.given = given
        self._fit: Callable[[PrecedenceStatistics], Any] | None = None
        if isinstance(given, type) or not hasattr(given, "score"):
            self._fit = given if isinstance(given, type) else getattr(given, "fit", given)
        self.refits = self._fit is not None
        self.leaves_users_out = declared(given, "leaves_users_out")
        self.learns = self.refits

    @property
    def name(self) -> str:
        """The title as a folder can hold it; "own" without one."""
        named = "" if self.title == UNNAMED else self.title
        return re.sub(r"[^A-Za-z0-9._-]", "", named.replace(" ", "-")) or "own"

    @property
    def title(self) -> str:
        """What it declares, or the name of its public class or function, else "your scorer"."""
        return declared_name(self.given) or public_name(self.given) or UNNAMED

    def fit(self, statistics: PrecedenceStatistics) -> Scorer:
        """Ask it for a scorer of these statistics, or take it as it comes."""
        made = self.given if self._fit is None else self._fit(statistics)
        return as_scorer(made, statistics.n_items, name=declared_name(self.given))

    def from_state(self, statistics: PrecedenceStatistics, state: State) -> Scorer:
        """Return what its ``from_state(statistics, state)`` makes, or take it as it comes."""
        restore = getattr(self.given, "from_state", None)
        if restore is None or state.is_empty:
            return self.fit(statistics)
        return as_scorer(restore(statistics, state), statistics.n_items)


# What is trained brings kernels of its own: they are imported by who asks for it.
def _learned(**given: Any) -> Measure:
    from surerec.measures.learned import LearnedMeasure  # noqa: PLC0415

    return LearnedMeasure(**given)


def _als(*, random_state: int, **_: Any) -> Measure:
    from surerec.measures.als import AlsMeasure, AlsSettings  # noqa: PLC0415

    return AlsMeasure(AlsSettings(random_state=random_state))


_NAMED: dict[str, Callable[..., Measure]] = {"learned": _learned, "als": _als}
"""Recipes that are no formulas, by name; each is made with a seed, a horizon and a window."""


TRAINED: Mapping[str, str] = MappingProxyType(
    {
        "learned": "boosted trees over what precedence says, trained on other users' futures",
        "als": "matrix factorisation, trained on other users' profiles; people are folded in",
    }
)
"""The measures that are trained, in words."""


def measure_names() -> list[str]:
    """Return the names of all recipes that need nothing but a name."""
    return [*MEASURES, *_NAMED]


def as_measure(
    given: MeasureLike,
    *,
    top: int = 1,
    literal: bool = False,
    random_state: int = 0,
    horizon: float = 0.4,
    window: float | None = None,
) -> Measure:
    """Return the recipe that is meant.

    Parameters
    ----------
    given : str, int, Formula, Measure or object
        One of the 17 measures by name or number, or "learned" or "als"; a recipe; something that
        scores (it has ``score(history, *, without_user)``); or something that makes a scorer: an
        object with ``fit(statistics)``, or a function of statistics.
    top, literal
        Of the formulas; see :class:`MeasureScorer`.
    random_state : int, default=0
        Of what is trained.
    horizon, window
        The future that it is trained for: that of the promise.

    Examples
    --------
    >>> as_measure("icrs3").name, as_measure("learned").learns, as_measure("CM3").learns
    ('CM3', True, False)
    """
    if isinstance(given, Measure):
        return given
    trained = sys.modules.get("surerec.measures.learned")  # else nobody can have one
    if trained is not None and isinstance(given, trained.LearnedModel):
        return _learned(learned=given)
    check_random_state(random_state)
    name = given.strip().lower().removeprefix("icrs-") if isinstance(given, str) else ""
    if name in _NAMED:
        return _NAMED[name](random_state=random_state, horizon=horizon, window=window)
    if isinstance(given, (str, int, Formula)):
        return FormulaMeasure(given, top=top, literal=literal)
    if is_scorer(given) or callable(getattr(given, "fit", given)):
        return OwnMeasure(given)
    raise InputError(
        f"{type(given).__name__} is no measure: give a name of `surerec measures`, something with "
        "score(history, *, without_user), or a function that makes such a thing from statistics."
    )
