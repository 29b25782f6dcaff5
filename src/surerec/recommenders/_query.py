"""Whom to recommend for: a known user, or a history with or without times; ids become codes."""

from __future__ import annotations

import warnings
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from surerec.errors import InputError, LeftOutWarning, UnknownHistory
from surerec.interactions import History
from surerec.measures import Query

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from surerec.interactions import IdMap
    from surerec.measures import Scorer
    from surerec.precedence import PrecedenceStatistics

_RECENT: Final = (
    "It also assumes that the history ended near the end of the data, as no times were given."
)


def resolve(
    statistics: PrecedenceStatistics,
    items: IdMap,
    user: Any,
    history: Any,
    times: Any = None,
    at: Any = None,
) -> Query:
    """Turn ids into a query by codes.

    A user alone is known by the whole profile. A history with a user beside it is what is known of
    that user, whose contribution to the counts is left out all the same. Times sort a history.
    """
    code = None
    if user is not None:
        code = statistics.require_profiles("give a history=").users.code(user)
    if history is None:
        if code is None:
            raise InputError(
                "Say for whom: give user= or history= (--user or --history on the command line)."
            )
        refuse_times(times, at, "a user of the data has times of their own")
        return Query.of_user(statistics.interactions, code)
    ids, then, moment = History.read(history, times, at)
    if not ids:
        raise InputError("The history is empty: it needs at least one item.")
    codes = items.codes(ids)
    unseen = (i for i, c in zip(ids, codes, strict=True) if c < 0)
    ignored = _each_once(unseen)
    _, first = np.unique(codes, return_index=True)
    places = np.sort(first)
    places = places[codes[places] >= 0]  # the first occurrence of each counts, as in the data
    if not places.size:
        raise UnknownHistory(ignored, partial(items.near, ignored[0]))
    return Query(
        codes[places],
        () if code is None else (code,),
        None if then is None else then[places],
        moment,
        ignored=ignored,
    )


def select_known(ids: IdMap, values: Iterable[Any], unknown: str) -> NDArray[np.int64]:
    """Return the codes of the known ids of a list, and warn of the others."""
    found = ids.select(values, unknown)
    if found.skipped:
        warnings.warn(found.message, LeftOutWarning, stacklevel=5)
    return found.codes


def refuse_times(times: Any, at: Any, why: str) -> None:
    """Refuse times or a moment where there is no history that they could be about."""
    for name, value in (("times", times), ("at", at)):
        if value is not None:
            raise InputError(
                f"{name}= (--{name} on the command line) is about a history=, and {why}: leave it "
                "out, or pass a history."
            )


def assumed_of(scorer: Scorer, *queries: Query) -> str:
    """Return the sentence on what is assumed where a scorer uses times and none were given.

    It is empty for users of the data, whose times are known.
    """
    if not scorer.uses_times:
        return ""
    untimed = any(query.times is None and not query.users for query in queries)
    return _RECENT if untimed else ""


def _each_once(ids: Iterable[Any]) -> tuple[Any, ...]:
    """Name each id once; what cannot be compared quickly is no id, and is named as often."""
    seen: dict[Any, Any] = {}
    for place, value in enumerate(ids):
        try:
            seen.setdefault(value, value)
        except TypeError:
            seen[(place, id(value))] = value
    return tuple(seen.values())
