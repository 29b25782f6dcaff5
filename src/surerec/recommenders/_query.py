"""Whom to recommend for: a known user, or a history."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from surerec.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from surerec.interactions import IdMap, Interactions
    from surerec.precedence import PrecedenceStatistics

__all__ = ["Query", "known_user", "resolve"]


@dataclass(frozen=True)
class Query:
    """What is known of the person."""

    history: NDArray[np.int64]
    """Item codes in time order, each once."""
    user: int | None
    """The user whose own contribution is left out of all that scores them."""
    ignored: tuple[Any, ...] = ()
    """Ids of the history that nobody in the data has taken."""


def known_user(interactions: Interactions, code: int) -> Query:
    """Ask for a user of the data, known by the whole profile."""
    where = slice(interactions.offsets[code], interactions.offsets[code + 1])
    return Query(interactions.items_taken[where].astype(np.int64), code)


def resolve(
    statistics: PrecedenceStatistics, items: IdMap, user: Any, history: Iterable[Any] | None
) -> Query:
    """Turn ids into codes.

    A user alone is known by the whole profile. A history with a user beside it is what is known of
    that user, whose contribution to the counts is left out all the same.
    """
    code = None
    if user is not None:
        if statistics.interactions is None:
            raise InputError("These statistics have no users: give a history=.")
        code = statistics.interactions.users.code(user)
    if history is None:
        if code is None:
            raise InputError(
                "Say for whom: give user= or history= (--user or --history on the command line)."
            )
        assert statistics.interactions is not None  # noqa: S101  # as the user was found in it
        return known_user(statistics.interactions, code)
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
        named = ", ".join(repr(i) for i in ignored[:5])
        near = [repr(i) for i in items.near(ignored[0])]
        hint = f"; near the first are {', '.join(near)}" if near else ""
        raise InputError(f"Nobody in the data took any item of the history ({named}){hint}.")
    return Query(known, code, ignored)
