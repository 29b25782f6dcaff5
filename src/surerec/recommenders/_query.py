"""Queries: users, histories and groups of users, with ids resolved to codes."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from surerec._arguments import check_list
from surerec._columns import Columns
from surerec._words import shown
from surerec.errors import (
    InputError,
    LeftOutWarning,
    RepeatedMemberError,
    UnknownHistoryError,
    UnknownMembersError,
)
from surerec.interactions import History
from surerec.measures import Query

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from surerec.interactions import IdMap
    from surerec.measures import Scorer
    from surerec.precedence import PrecedenceStatistics

_RECENT: Final = (
    "It also assumes a history that ends near the end of the data, because no times were given."
)


def resolve(
    statistics: PrecedenceStatistics, user: Any, history: Any, times: Any = None, at: Any = None
) -> Query:
    """Return the query of a user, of a history, or of a user with another history.

    A user without `history` is known by the whole profile. The user's own interactions are left
    out of the statistics either way. Times sort a history.
    """
    code = None
    if isinstance(user, (list, tuple, set, frozenset, np.ndarray, pl.Series)):
        raise InputError(
            f"user is {shown(user)}; it must be one id. Use recommend_many(users) for many users, "
            "or group= for users who choose together."
        )
    if user is not None:
        code = statistics.require_profiles("pass history= instead").users.code(user)
    if history is None:
        if code is None:
            raise InputError(
                "There is no user. Pass user=, history= or group= (--user or --history)."
            )
        refuse_times(times, at, "a user of the data has times of their own")
        return Query.of_user(statistics.interactions, code)
    ids, then, moment = History.read(history, times, at)
    if not ids:
        raise InputError("history is empty. Pass at least one item.")
    items = statistics.interactions.items
    codes = items.codes(ids)
    ignored = _each_once(i for i, c in zip(ids, codes, strict=True) if c < 0)
    places = np.sort(np.unique(codes, return_index=True)[1])
    places = places[codes[places] >= 0]  # repeats are dropped, as in the data
    if not places.size:
        raise UnknownHistoryError(ignored, partial(items.near, ignored[0]))
    return Query(
        codes[places],
        () if code is None else (code,),
        None if then is None else then[places],
        moment,
        ignored=ignored,
    )


def select_known(ids: IdMap, values: Iterable[Any], unknown: str) -> NDArray[np.int64]:
    """Return the codes of the known ids, and warn about the others."""
    found = ids.select(values, unknown)
    if found.skipped:
        warnings.warn(found.message, LeftOutWarning, stacklevel=5)
    return found.codes


def refuse_times(times: Any, at: Any, why: str) -> None:
    """Raise InputError if `times` or `at` is given without a history."""
    for name, value in (("times", times), ("at", at)):
        if value is not None:
            raise InputError(f"{name}= needs a history: {why}. Omit it, or pass history=.")


def assumed_of(scorer: Scorer, *queries: Query) -> str:
    """Return the assumption about new users without times, for scorers that use times."""
    if not scorer.uses_times:
        return ""
    untimed = any(query.times is None and not query.users for query in queries)
    return _RECENT if untimed else ""


def _each_once(ids: Iterable[Any]) -> tuple[Any, ...]:
    """Return the distinct ids; unhashable values, which are no ids, are all kept."""
    seen: dict[Any, Any] = {}
    for place, value in enumerate(ids):
        try:
            seen.setdefault(value, value)
        except TypeError:
            seen[(place, id(value))] = value
    return tuple(seen.values())


@dataclass(frozen=True, eq=False)
class Group:
    """Users who choose together, one query for each.

    Parameters
    ----------
    members : tuple of Query
        One for each member; it leaves out that member, if they are a user of the data.
    names : tuple, optional
        The members' names: a user's id, a given name, or "member 2".

    Examples
    --------
    >>> ann, bob = Query(np.array([3, 1]), (7,)), Query(np.array([1, 4]), (2,))
    >>> both = Group((ann, bob))
    >>> both.users, both.known.tolist(), both.query(1).users
    ((7, 2), [1, 3, 4], (2, 7))
    """

    members: tuple[Query, ...]
    names: tuple[Any, ...] = ()

    def __len__(self) -> int:
        return len(self.members)

    @property
    def words(self) -> list[str]:
        """The members' names for messages."""
        return [name if isinstance(name, str) else f"user {name!r}" for name in self.names]

    @property
    def ignored(self) -> tuple[Any, ...]:
        """Ids of the histories that are not in the data."""
        return tuple(dict.fromkeys(i for query in self.members for i in query.ignored))

    @cached_property
    def users(self) -> tuple[int, ...]:
        """The members who are users of the data, by code."""
        return tuple(dict.fromkeys(user for query in self.members for user in query.users))

    @cached_property
    def known(self) -> NDArray[np.int64]:
        """The items that any member has consumed, by code; they are no candidates."""
        return np.unique(np.concatenate([query.history for query in self.members]))

    def query(self, member: int, *, leaving_out: bool = True) -> Query:
        """Return the query of one member, by position, with all members left out.

        For a scorer that does not leave users out, `leaving_out` is False, and the query names
        this member alone.
        """
        query = self.members[member]
        if not leaving_out:
            return query
        return replace(query, users=tuple(dict.fromkeys((*query.users, *self.users))))

    def ranks(
        self, scorer: Scorer, statistics: PrecedenceStatistics, candidates: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Return the rank of each candidate for each member, members × candidates, from 1.

        Popularity breaks ties.
        """
        found, out = [], scorer.leaves_users_out is True
        for member in range(len(self)):
            query = self.query(member, leaving_out=out)
            scores = scorer.score_query(query.known_to(statistics))[candidates]
            popularity = statistics.popularity_without(query.users, query.history)[candidates]
            found.append(places_of(np.lexsort((popularity, -scores))))
        return np.stack(found)


def places_of(order: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return the rank of each element of an order, from 1."""
    ranks = np.empty(len(order))
    ranks[order] = np.arange(1, len(order) + 1)
    return ranks


def read_group(statistics: PrecedenceStatistics, group: Any, at: Any = None) -> Group:
    """Resolve the members of a group to queries.

    Parameters
    ----------
    statistics : PrecedenceStatistics
        The statistics of the data.
    group : list, or mapping by name
        User ids; or lists or frames of items, with or without times, for new users.
    at : datetime, date, text or number, optional
        The time of the request, for histories without times.
    """
    if isinstance(group, Mapping):
        names, given = list(group), list(group.values())
    else:
        words = "user ids or histories (for a segment pass segment=)"
        given = check_list("group", group, words)
        names = [f"member {n}" if _is_history(each) else each for n, each in enumerate(given, 1)]
    if not given:
        raise InputError("group is empty. Pass at least two members.")
    if len(given) == 1:
        raise InputError(
            "group has one member. Pass at least two, or use user= or history= for a single user."
        )
    if not any(map(_is_history, given)):
        refuse_times(None, at, "every member of this group is a user of the data")
    members = tuple(
        _member(statistics, each, name, at) for each, name in zip(given, names, strict=True)
    )
    users = [user for query in members for user in query.users]
    for user in users:
        if users.count(user) > 1:
            known = statistics.interactions.users[user]
            raise RepeatedMemberError(f"User {known!r} is in the group twice. Pass each user once.")
    return Group(members, tuple(names))


def _member(statistics: PrecedenceStatistics, member: Any, name: Any, at: Any) -> Query:
    if not _is_history(member):
        query = resolve(statistics, member, None)
        if not len(query.history):
            raise UnknownMembersError(
                f"Member {name!r} has no interactions. Pass a history instead."
            )
        return query
    if not len(member):
        raise InputError(f"The history of {name} is empty. Pass at least one item.")
    try:
        return resolve(statistics, None, member, at=at)
    except UnknownHistoryError as error:
        raise UnknownMembersError(
            f"No item in the history of {name} is in the data, such as {shown(error.items[0])}. "
            "Check the item ids."
        ) from error
    except InputError as error:
        raise InputError(f"The history of {name}: {error}") from error


def _is_history(member: Any) -> bool:
    """Return whether a member is a history: a list or a frame of items."""
    if hasattr(member, "columns") and Columns.Item not in member.columns:
        raise InputError(f"A history in a frame needs a column {Columns.Item!r}.")
    return hasattr(member, "columns") or isinstance(member, (list, tuple, np.ndarray, pl.Series))
