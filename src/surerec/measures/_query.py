"""Queries to a scorer: the history of a user, and the users to leave out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from surerec._arguments import check_code, check_codes, check_kind, check_whole, check_wholes
from surerec.errors import InputError
from surerec.interactions import Interactions

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.precedence import PrecedenceStatistics


@dataclass(frozen=True, eq=False)
class Query:
    """A query: the history of a user, when it is made, and which users to leave out.

    Examples
    --------
    >>> query = Query(np.array([3, 1, 4]), users=(7,))
    >>> query.user, query.first(2).history.tolist()
    (7, [3, 1])
    """

    history: NDArray[np.int64]
    """Item codes in time order, each once."""
    users: tuple[int, ...] = ()
    """Users whose own contribution is left out of the scores."""
    times: NDArray[np.int64] | None = None
    """Time of each item of the history in microseconds since 1970, if known."""
    moment: int | None = None
    """Time of the query in microseconds since 1970; by default after the history."""
    allowed: NDArray[np.int64] | None = None
    """Items that may be recommended; by default all outside the history."""
    ignored: tuple[Any, ...] = ()
    """Ids of the history that no user in the data consumed."""
    segment: str | None = None
    """Segment of the user, if thresholds are calibrated by segment."""
    _checked: tuple[int, int] | None = field(default=None, init=False, repr=False, compare=False)
    """Numbers of items and users that the codes were last checked against."""

    def __post_init__(self) -> None:
        made = object.__setattr__
        made(self, "history", check_wholes("The history of a query", self.history))
        if not isinstance(self.users, tuple) or not all(type(user) is int for user in self.users):
            made(self, "users", tuple(check_wholes("The users of a query", self.users).tolist()))
        for name in ("times", "allowed"):
            if getattr(self, name) is not None:
                made(self, name, check_wholes(f"{name} of a query", getattr(self, name)))
        if self.times is not None and len(self.times) != len(self.history):
            raise InputError(
                f"A query has {len(self.history):,} items and {len(self.times):,} times. Pass one "
                "time for each item."
            )
        if self.moment is not None:
            check_whole("The moment of a query", self.moment, lowest=-(2**63))

    def within(self, n_items: int, n_users: int) -> Query:
        """Return the query after a check of its codes, as kernels do not check them."""
        if self._checked == (n_items, n_users):
            return self
        check_codes("The history of a query", self.history, n_items)
        for user in self.users:
            check_code("A user of a query", user, n_users)
        if self.allowed is not None:
            check_codes("The allowed items of a query", self.allowed, n_items)
        object.__setattr__(self, "_checked", (n_items, n_users))
        return self

    @classmethod
    def of_user(cls, interactions: Interactions, user: int) -> Query:
        """Build the query of a user of the data, by code, with the whole profile."""
        check_kind("interactions", interactions, Interactions, "Interactions")
        history = interactions.consumed(user).astype(np.int64)
        made = cls.trusted(history, (int(user),), times=interactions.times_of(user))
        object.__setattr__(made, "_checked", (interactions.n_items, interactions.n_users))
        return made

    @classmethod
    def trusted(
        cls,
        history: NDArray[np.int64],
        users: tuple[int, ...],
        *,
        times: NDArray[np.int64] | None = None,
        segment: str | None = None,
    ) -> Query:
        """Build a query without checks, which are a tenth of the time of a batch query.

        Parameters
        ----------
        history, users, times, segment
            As in :class:`Query`, already checked and of its types.

        Examples
        --------
        >>> Query.trusted(np.array([3, 1]), (7,)).user
        7
        """
        made = object.__new__(cls)
        made.__dict__.update(history=history, users=users, times=times, segment=segment)
        return made

    @property
    def user(self) -> int | None:
        """The user to leave out; None if there is none."""
        if len(self.users) > 1:
            raise InputError(
                f"A query leaves out {len(self.users)} users; this scorer can leave out one. Use a "
                "scorer that defines score_query(query)."
            )
        return self.users[0] if self.users else None

    def known_to(self, statistics: PrecedenceStatistics) -> Query:
        """Return the query without items that only the left-out users consumed.

        Without these users the items are unknown, and unknown items of a new user's history are
        dropped too. A history of unknown items alone is kept.
        """
        if not self.users or not statistics.has_profiles:
            return self
        unknown = statistics.unknown_without(self.users)
        if not len(unknown):
            return self
        kept = ~np.isin(self.history, unknown)
        if kept.all() or not kept.any():
            return self
        times = None if self.times is None else self.times[kept]
        return replace(self, history=self.history[kept], times=times)

    def first(self, n_items: int) -> Query:
        """Return the query with the first items of the history only."""
        check_whole("n_items", n_items, lowest=0)
        times = None if self.times is None else self.times[:n_items]
        return replace(self, history=self.history[:n_items], times=times)


@dataclass(frozen=True, eq=False)
class Queries:
    """Many queries as flat arrays, for kernels.

    Examples
    --------
    >>> many = Queries(np.array([3, 1, 4]), np.array([0, 2]), np.array([2, 3]), np.array([-1, 7]))
    >>> len(many), many[0].history.tolist(), many[1].users, len(many.part(0, 1))
    (2, [3, 1], (7,), 1)
    >>> timed = replace(many, times=np.array([10, 20, 15]))
    >>> timed[0].times.tolist(), timed.part(1, 2)[0].times.tolist()
    ([10, 20], [15])
    """

    items: NDArray[np.integer]
    """Item codes of all histories, each once per history."""
    starts: NDArray[np.int64]
    stops: NDArray[np.int64]
    """Start and end of each history in `items`."""
    users: NDArray[np.int64]
    """User to leave out of each query; −1 for none."""
    segments: tuple[str | None, ...] | None = None
    """Segment of each query."""
    times: NDArray[np.int64] | None = None
    """Time of each of `items` in microseconds since 1970; None if unknown."""

    @classmethod
    def of_users(cls, interactions: Interactions, users: NDArray[np.int64]) -> Queries:
        """Build the queries of users of the data, by code, with whole profiles and times."""
        starts, stops = interactions.offsets[users], interactions.offsets[users + 1]
        return cls(interactions.item_codes, starts, stops, users, times=interactions.times)

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, place: int) -> Query:
        where = slice(self.starts[place], self.stops[place])
        user = int(self.users[place])
        return Query.trusted(
            self.items[where].astype(np.int64),
            () if user < 0 else (user,),
            times=None if self.times is None else self.times[where],
            segment=None if self.segments is None else self.segments[place],
        )

    def part(self, start: int, stop: int) -> Queries:
        """Return a slice of the queries."""
        return replace(
            self,
            starts=self.starts[start:stop],
            stops=self.stops[start:stop],
            users=self.users[start:stop],
            segments=None if self.segments is None else self.segments[start:stop],
        )
