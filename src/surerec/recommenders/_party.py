"""Whom a group is made of: known users, histories, or both; ids become codes."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from surerec._columns import Columns
from surerec._shown import shown
from surerec.errors import InputError, RepeatedMember, UnknownHistory, UnknownMembers
from surerec.recommenders._query import resolve
from surerec.together import Company

if TYPE_CHECKING:
    from surerec.interactions import IdMap
    from surerec.precedence import PrecedenceStatistics

_NAMED = 5


@dataclass(frozen=True, eq=False)
class Party:
    """A group as it was asked for: what its members are called, and what is known of them."""

    names: tuple[Any, ...]
    """A user's id, a name that was given, or "member 2" for the second."""
    company: Company

    def __len__(self) -> int:
        return len(self.names)

    @property
    def words(self) -> list[str]:
        """The members as sentences call them."""
        return [name if isinstance(name, str) else f"user {name!r}" for name in self.names]

    @property
    def ignored(self) -> tuple[Any, ...]:
        """Ids of the histories that nobody in the data has taken."""
        return tuple(dict.fromkeys(i for query in self.company.members for i in query.ignored))


def is_party(group: object) -> bool:
    """Tell whether a group is one of people who choose together, not a kind of people.

    Examples
    --------
    >>> is_party([196, 22]), is_party({"ann": [1, 2]}), is_party("DE"), is_party(3)
    (True, True, False, False)
    """
    return isinstance(group, (list, tuple, AbstractSet, Mapping, np.ndarray, pl.Series))


def read_party(statistics: PrecedenceStatistics, items: IdMap, group: Any) -> Party:
    """Turn the members of a group into queries; each is a user's id, or a list of items.

    Parameters
    ----------
    statistics : PrecedenceStatistics
        What is known.
    items : IdMap
        The items of the data.
    group : list, or mapping by name
        Users by id; lists or frames of items for people who need not be in the data.
    """
    named = isinstance(group, Mapping)
    given = list(group.values()) if isinstance(group, Mapping) else list(group)
    if not given:
        raise InputError("The group is empty: it needs at least two members.")
    if len(given) == 1:
        raise InputError(
            "A group of one is a person: ask with user= or history= instead (on the command line "
            "without --together)."
        )
    histories = [_history(each) for each in given]
    users = [each for each, taken in zip(given, histories, strict=True) if taken is None]
    _check_users(statistics, users)
    names = tuple(group) if isinstance(group, Mapping) else ()
    members, called = [], []
    for place, (each, taken) in enumerate(zip(given, histories, strict=True)):
        own = each if taken is None else f"member {place + 1}"
        called.append(names[place] if named else own)
        members.append(_member(statistics, items, each, taken, called[-1]))
    return Party(tuple(called), Company(tuple(members)))


def _member(
    statistics: PrecedenceStatistics, items: IdMap, user: Any, taken: list[Any] | None, name: Any
) -> Any:
    if taken is None:
        query = resolve(statistics, items, user, None)
        if not len(query.history):
            raise UnknownMembers(f"Nothing is known of {name!r}: they have taken nothing yet.")
        return query
    if not taken:
        raise InputError(f"Nothing is known of {name}: their list of items is empty.")
    try:
        return resolve(statistics, items, None, taken)
    except UnknownHistory as error:
        raise UnknownMembers(
            f"Nothing is known of {name}: nobody in the data took any of their items, such as "
            f"{shown(taken[0])}."
        ) from error


def _history(member: Any) -> list[Any] | None:
    """Give the items of a member who is known by them; None for a user."""
    if hasattr(member, "columns") and Columns.Item in getattr(member, "columns", ()):
        return list(member[Columns.Item])
    if isinstance(member, (list, tuple, np.ndarray, pl.Series)):
        return list(member)
    if hasattr(member, "columns"):
        raise InputError(f"A member given as a frame needs a column {Columns.Item!r}.")
    return None


def _check_users(statistics: PrecedenceStatistics, users: list[Any]) -> None:
    if not users or statistics.interactions is None:
        return
    known = statistics.interactions.users
    codes = known.codes(users)
    unknown = [user for user, code in zip(users, codes, strict=True) if code < 0]
    if len(unknown) == 1:
        known.code(unknown[0])  # says which are near
    if unknown:
        few = ", ".join(shown(user) for user in unknown[:_NAMED])
        more = "" if len(unknown) <= _NAMED else f" and {len(unknown) - _NAMED:,} others"
        raise UnknownMembers(
            f"There are no users {few}{more}: give lists of items for people who are not in the "
            "data."
        )
    twice, n = np.unique(codes, return_counts=True)
    if (n > 1).any():
        raise RepeatedMember(f"User {known[int(twice[n > 1][0])]!r} is in the group twice.")
