"""Whom to recommend for: a known user, or a history; ids become codes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

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
    if isinstance(history, (str, bytes)):
        raise InputError(f"A history is a list of item ids, not the text {history!r}.")
    ids = list(history)
    if not ids:
        raise InputError("The history is empty: it needs at least one item.")
    codes = items.codes(ids)
    unseen = (i for i, c in zip(ids, codes, strict=True) if c < 0)
    ignored = tuple(dict.fromkeys(unseen))  # each named once
    _, first = np.unique(codes, return_index=True)
    known = codes[np.sort(first)]
    known = known[known >= 0]  # the first occurrence of each counts, as in the data
    if not known.size:
        raise UnknownHistory(ignored, partial(items.near, ignored[0]))
    return Query(known, () if code is None else (code,), ignored=ignored)
