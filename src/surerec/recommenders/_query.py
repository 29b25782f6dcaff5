"""Whom to recommend for: a known user, or a history; ids become codes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from surerec._arguments import check_list
from surerec.errors import InputError, NoUsers, UnknownHistory
from surerec.measures import Query

if TYPE_CHECKING:
    from collections.abc import Iterable

    from surerec.interactions import IdMap
    from surerec.precedence import PrecedenceStatistics


def resolve(
    statistics: PrecedenceStatistics, items: IdMap, user: Any, history: Iterable[Any] | None
) -> Query:
    """Turn ids into a query by codes.

    A user alone is known by the whole profile. A history with a user beside it is what is known of
    that user, whose contribution to the counts is left out all the same.
    """
    interactions = statistics.interactions
    code = None
    if user is not None:
        if interactions is None:
            raise NoUsers("These statistics have no users: give a history=.")
        code = interactions.users.code(user)
    if history is None:
        if code is None or interactions is None:
            raise InputError(
                "Say for whom: give user= or history= (--user or --history on the command line)."
            )
        return Query.of_user(interactions, code)
    ids = check_list("history", history, "item ids")
    if not ids:
        raise InputError("The history is empty: it needs at least one item.")
    codes = items.codes(ids)
    unseen = (i for i, c in zip(ids, codes, strict=True) if c < 0)
    ignored = _each_once(unseen)
    _, first = np.unique(codes, return_index=True)
    known = codes[np.sort(first)]
    known = known[known >= 0]  # the first occurrence of each counts, as in the data
    if not known.size:
        raise UnknownHistory(ignored, partial(items.near, ignored[0]))
    return Query(known, () if code is None else (code,), ignored=ignored)


def _each_once(ids: Iterable[Any]) -> tuple[Any, ...]:
    """Name each id once; what cannot be compared quickly is no id, and is named as often."""
    seen: dict[Any, Any] = {}
    for place, value in enumerate(ids):
        try:
            seen.setdefault(value, value)
        except TypeError:
            seen[(place, id(value))] = value
    return tuple(seen.values())
