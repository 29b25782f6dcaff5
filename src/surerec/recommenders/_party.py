"""Whom a group is made of: known users, histories, or both; ids become codes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from surerec._arguments import check_list
from surerec._columns import Columns
from surerec._shown import shown
from surerec.errors import InputError, RepeatedMember, UnknownHistory, UnknownMembers
from surerec.recommenders._query import refuse_times, resolve
from surerec.together import Company

if TYPE_CHECKING:
    from surerec.interactions import IdMap
    from surerec.measures import Query
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


def read_party(statistics: PrecedenceStatistics, items: IdMap, group: Any, at: Any = None) -> Party:
    """Turn the members of a group into queries; each is a user's id, or a list of items.

    Parameters
    ----------
    statistics : PrecedenceStatistics
        What is known.
    items : IdMap
        The items of the data.
    group : list, or mapping by name
        Users by id; lists or frames of items, with or without times, for people who need not be in
        the data.
    at : datetime, date, text or number, optional
        When the question is asked, for histories without times.
    """
    named = isinstance(group, Mapping)
    given = (
        list(group.values())
        if isinstance(group, Mapping)
        else check_list("group", group, "users' ids or histories (for a segment pass segment=)")
    )
    if not given:
        raise InputError("The group is empty: it needs at least two members.")
    if len(given) == 1:
        raise InputError(
            "A group of one is a person: ask with user= or history= instead (on the command line "
            "without --together)."
        )
    histories = [_is_history(each) for each in given]
    if not any(histories):
        refuse_times(None, at, "every member of this group is a user of the data")
    users = [each for each, known in zip(given, histories, strict=True) if not known]
    _check_users(statistics, users)
    names = tuple(group) if isinstance(group, Mapping) else ()
    members, called = [], []
    for place, (each, known) in enumerate(zip(given, histories, strict=True)):
        own = f"member {place + 1}" if known else each
        called.append(names[place] if named else own)
        if known:
            members.append(_newcomer(statistics, items, each, called[-1], at))
        else:
            members.append(_user(statistics, items, each, called[-1]))
    return Party(tuple(called), Company(tuple(members)))


def _user(statistics: PrecedenceStatistics, items: IdMap, user: Any, name: Any) -> Query:
    query = resolve(statistics, items, user, None)
    if not len(query.history):
        raise UnknownMembers(f"Nothing is known of {name!r}: they have taken nothing yet.")
    return query


def _newcomer(
    statistics: PrecedenceStatistics, items: IdMap, history: Any, name: Any, at: Any
) -> Query:
    if not len(history):
        raise InputError(f"Nothing is known of {name}: their list of items is empty.")
    try:
        return resolve(statistics, items, None, history, at=at)
    except UnknownHistory as error:
        raise UnknownMembers(
            f"Nothing is known of {name}: nobody in the data took any of their items, such as "
            f"{shown(error.items[0])}."
        ) from error
    except InputError as error:
        raise InputError(f"The history of {name}: {error}") from error


def _is_history(member: Any) -> bool:
    """Tell whether a member is known by a history: a list or a frame of items."""
    if hasattr(member, "columns") and Columns.Item not in member.columns:
        raise InputError(f"A member given as a frame needs a column {Columns.Item!r}.")
    return hasattr(member, "columns") or isinstance(member, (list, tuple, np.ndarray, pl.Series))


def _check_users(statistics: PrecedenceStatistics, users: list[Any]) -> None:
    if not users:
        return
    known = statistics.require_profiles("give the histories of members").users
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
