"""Some people who are asked together, and what is known of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from surerec.measures import Query

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.measures import Scorer
    from surerec.precedence import PrecedenceStatistics


@dataclass(frozen=True, eq=False)
class Company:
    """A group of people who choose together, by what is known of each of them.

    (In surerec *groups* of people by themselves are those of a kind, such as a country.)

    Parameters
    ----------
    members : tuple of Query
        One for each member; each leaves out that member, if they are a user of the data.

    Examples
    --------
    >>> ann, bob = Query(np.array([3, 1]), (7,)), Query(np.array([1, 4]), (2,))
    >>> both = Company((ann, bob))
    >>> both.users, both.known.tolist(), both.asked(1).users
    ((7, 2), [1, 3, 4], (2, 7))
    """

    members: tuple[Query, ...]

    def __len__(self) -> int:
        return len(self.members)

    @cached_property
    def users(self) -> tuple[int, ...]:
        """The members who are users of the data, by code."""
        return tuple(dict.fromkeys(user for query in self.members for user in query.users))

    @cached_property
    def known(self) -> NDArray[np.int64]:
        """What any member has taken, by code: these items are no candidates."""
        return np.unique(np.concatenate([query.history for query in self.members]))

    def asked(self, member: int, *, leaving_out: bool = True) -> Query:
        """Return the query of one member, with every member left out, this one first.

        Parameters
        ----------
        member : int
            The place of the member.
        leaving_out : bool, default=True
            Whether the scorer leaves users out. Otherwise the query names this member alone.
        """
        query = self.members[member]
        if not leaving_out:
            return query
        return replace(query, users=tuple(dict.fromkeys((*query.users, *self.users))))

    def joint(self, *, leaving_out: bool = True) -> Query:
        """Merge the members' histories into one by time, each item where it was first consumed.

        Without everybody's times, by the place in each history. `leaving_out` as in :meth:`asked`.
        """
        parts = self.members
        if all(query.times is not None for query in parts):
            times = np.concatenate([query.times for query in parts if query.times is not None])
            order = np.argsort(times, kind="stable")
        else:
            times = None
            places = [np.arange(1, len(q.history) + 1) / len(q.history) for q in parts]
            order = np.argsort(np.concatenate(places), kind="stable")
        items = np.concatenate([query.history for query in parts])[order]
        first = np.sort(np.unique(items, return_index=True)[1])
        moments = [query.moment for query in parts if query.moment is not None]
        return Query(
            items[first],
            self.users if leaving_out else (),
            None if times is None else times[order][first],
            max(moments) if len(moments) == len(parts) else None,
        )

    def ranks(
        self,
        scorer: Scorer,
        statistics: PrecedenceStatistics,
        candidates: NDArray[np.int64],
    ) -> NDArray[np.float64]:
        """Give the rank of every candidate for every member, members × candidates, from 1."""
        leaving_out = scorer.leaves_users_out is True
        asked = [self.asked(member, leaving_out=leaving_out) for member in range(len(self))]
        return np.stack([ranks_of(scorer, statistics, query, candidates) for query in asked])

    def joint_ranks(
        self, scorer: Scorer, statistics: PrecedenceStatistics, candidates: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Give the rank of every candidate by the joint profile, as one row."""
        return ranks_of(
            scorer, statistics, self.joint(leaving_out=scorer.leaves_users_out is True), candidates
        )[None]


def ranks_of(
    scorer: Scorer,
    statistics: PrecedenceStatistics,
    query: Query,
    candidates: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Rank candidates by a query's scores, from 1; those of equal score by popularity."""
    scores = scorer.score_query(query.known_to(statistics))[candidates]
    popularity = statistics.popularity_without(query.users, query.history)
    order = np.lexsort((popularity[candidates], -scores))
    ranks = np.empty(len(candidates))
    ranks[order] = np.arange(1, len(candidates) + 1)
    return ranks
