"""Adapters of your own scorers and measures, and measures by name."""

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
"""A name, a :class:`Measure`, a scorer, or a factory of scorers from statistics."""


class OwnScorer(Scorer):
    """Adapter of your own scorer, with the attributes that it declares.

    The scores are checked: one for each item, all finite. Exceptions of the scorer pass through.
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
        """Return an attribute of the scorer itself."""
        if name == "own":  # not set yet while the adapter is copied
            raise AttributeError(name)
        return getattr(self.own, name)

    @property
    def name(self) -> str:
        """Name declared by the scorer or its measure, or that of a public class."""
        name = declared_name(self.own)
        return (name if name != UNNAMED else None) or self._name or public_name(self.own) or UNNAMED

    def score_query(self, query: Query) -> NDArray[np.float64]:
        """Return the checked scores."""
        if isinstance(self.own, Scorer):
            return self._checked(self.own.score_query(query), self._n_items)
        # Such a scorer cannot leave a user out.
        user = None if self.leaves_users_out is False else query.user
        return self._checked(self.own.score(query.history, without_user=user), self._n_items)

    def fold_of(self, users: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the scorer's folds; a class with `score` alone leaves out one user at a time."""
        return self.own.fold_of(users) if isinstance(self.own, Scorer) else users

    def _checked(self, given: Any, n_items: int | None) -> NDArray[np.float64]:
        scores = _as_numbers(given)
        if scores is None or scores.ndim != 1 or len(scores) != (n_items or len(scores)):
            shape = "" if scores is None else f"scores of shape {scores.shape}"
            returned = shape or f"{shown(given)} for scores"
            raise InputError(
                f"{self.name} returned {returned}. Return one score for each of the {n_items} "
                "items."
            )
        for wrong, what in ((np.isnan(scores), "not numbers"), (np.isinf(scores), "infinite")):
            if wrong.any():
                raise InputError(
                    f"{self.name} returned {int(wrong.sum())} scores that are {what}. Return "
                    "finite scores, the lowest for items that must come last."
                )
        return scores

    def value(
        self, scores: NDArray[np.float64], history_length: int | NDArray[np.int64], n_users: int
    ) -> NDArray[np.float64]:
        """Return the scorer's values, if it has a unit of its own."""
        if not hasattr(self.own, "value"):
            return scores
        return self._checked(self.own.value(scores, history_length, n_users), len(scores))

    def contributions(self, query: Query, item: int) -> tuple[Contribution, ...]:
        """Return the scorer's contributions, if it has any."""
        if not hasattr(self.own, "contributions"):
            return ()
        given = self.own.contributions(query, item)
        try:
            return tuple(
                Contribution(str(text), float(value), float(by)) for text, value, by in given
            )
        except (TypeError, ValueError):
            raise InputError(
                f"{self.name} returned {shown(given)} for contributions. Return rows of a "
                "description, a value and a contribution."
            ) from None

    def state(self) -> State | None:
        """Return the scorer's state, if it has one."""
        found = self.own.state() if hasattr(self.own, "state") else None
        if found is None:
            return None
        is_pair = isinstance(found, tuple) and len(found) == len(State._fields)
        if not is_pair or not all(isinstance(each, Mapping) for each in found):
            raise InputError(
                f"{self.name} returned {shown(found)} for its state. Return a State of arrays and "
                "texts by name."
            )
        return State(*found)


def declared(own: Any, name: str) -> bool | None:
    """Return a declared flag: True, False, or None if it is not declared."""
    flag = getattr(own, name, None)
    if flag is None or isinstance(flag, (bool, np.bool_)):
        return None if flag is None else bool(flag)
    raise InputError(
        f"{name} of {type(own).__name__} is {shown(flag)}. Set it to True, False or None."
    )


def _as_numbers(given: Any) -> NDArray[np.float64] | None:
    try:
        array = np.asarray(given)
        return array.astype(np.float64) if array.dtype.kind in "biufO" else None
    except (TypeError, ValueError, OverflowError):
        return None


def is_scorer(given: object) -> bool:
    """Return whether an object has `score`; a class does not count."""
    return callable(getattr(given, "score", None)) and not isinstance(given, type)


def as_scorer(given: Any, n_items: int | None = None, *, name: str | None = None) -> Scorer:
    """Return the scorer itself, or an adapter of an object with `score`.

    Parameters
    ----------
    given : Scorer or object with `score`
        The scorer.
    n_items : int, optional
        Required number of scores.
    name : str, optional
        Name of a scorer that declares no `name`.

    Examples
    --------
    >>> class Mine:
    ...     def score(self, history, *, without_user=None):
    ...         return [1.0, 2.0]
    >>> as_scorer(Mine(), n_items=3).score(np.array([0]))
    Traceback (most recent call last):
    surerec.errors.InputError: Mine returned scores of shape (2,). Return one score for each of the
    3 items.
    """
    if isinstance(given, Scorer) and given.checked:
        return given
    if not is_scorer(given):
        raise InputError(
            f"{type(given).__name__} is no scorer. Give it a method "
            "score(history, *, without_user)."
        )
    return OwnScorer(given, n_items, name)


class OwnMeasure(Measure):
    """Your own measure: a fitted scorer, or a factory of scorers from statistics.

    Parameters
    ----------
    given : object
        An object with ``score``, an object with ``fit(statistics)``, or a function from statistics
        to an object with ``score``.
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
        """The title in characters for file names; "own" without a title."""
        named = "" if self.title == UNNAMED else self.title
        return re.sub(r"[^A-Za-z0-9._-]", "", named.replace(" ", "-")) or "own"

    @property
    def title(self) -> str:
        """The declared name, or that of a public class or function, else "your scorer"."""
        return declared_name(self.given) or public_name(self.given) or UNNAMED

    def fit(self, statistics: PrecedenceStatistics) -> Scorer:
        """Return its scorer for these statistics, or the fitted scorer."""
        made = self.given if self._fit is None else self._fit(statistics)
        return as_scorer(made, statistics.n_items, name=declared_name(self.given))

    def from_state(self, statistics: PrecedenceStatistics, state: State) -> Scorer:
        """Return the result of its ``from_state(statistics, state)``, if it has one."""
        restore = getattr(self.given, "from_state", None)
        if restore is None or state.is_empty:
            return self.fit(statistics)
        return as_scorer(restore(statistics, state), statistics.n_items)


# Trained measures have kernels of their own, which are imported only when needed.
def _learned(**given: Any) -> Measure:
    from surerec.measures.learned import LearnedMeasure  # noqa: PLC0415

    return LearnedMeasure(**given)


def _als(*, random_state: int, **_: Any) -> Measure:
    from surerec.measures.als import AlsMeasure, AlsSettings  # noqa: PLC0415

    return AlsMeasure(AlsSettings(random_state=random_state))


_NAMED: dict[str, Callable[..., Measure]] = {"learned": _learned, "als": _als}
"""Trained measures by name; each is built with a random state, a horizon and a window."""


TRAINED: Mapping[str, str] = MappingProxyType(
    {
        "learned": "boosted trees on precedence features, trained on what others consumed next",
        "als": "matrix factorisation, trained on other users' profiles; users are folded in",
    }
)
"""Descriptions of the trained measures."""


def measure_names() -> list[str]:
    """Return the names of all measures that can be built by name."""
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
    """Return the measure for a name, a scorer or a factory.

    Parameters
    ----------
    given : str, int, Formula, Measure or object
        One of the 17 measures by name or number, or "learned" or "als"; a measure; a scorer with
        ``score(history, *, without_user)``; or a factory of scorers: an object with
        ``fit(statistics)``, or a function of statistics.
    top, literal
        Parameters of the formulas; see :class:`MeasureScorer`.
    random_state : int, default=0
        Seed of the training.
    horizon, window
        The period to predict, as in the guarantee.

    Examples
    --------
    >>> as_measure("icrs3").name, as_measure("learned").learns, as_measure("CM3").learns
    ('CM3', True, False)
    """
    if isinstance(given, Measure):
        return given
    trained = sys.modules.get("surerec.measures.learned")  # else there are no instances
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
        f"{type(given).__name__} is no measure. Pass a name listed by `surerec measures`, an "
        "object with score(history, *, without_user), or a function from statistics to such an "
        "object."
    )
