"""What is asked of a scorer: what is known of a person, and what must not be used."""

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
    """One question: whom it is about, what is known of them, and when it is asked.

    Examples
    --------
    >>> query = Query(np.array([3, 1, 4]), users=(7,))
    >>> query.user, query.first(2).history.tolist()
    (7, [3, 1])
    """

    history: NDArray[np.int64]
    """Item codes in time order, each once."""
    users: tuple[int, ...] = ()
    """The users whose own contribution is left out of all that scores them."""
    times: NDArray[np.int64] | None = None
    """When each item of the history was taken, in microseconds since 1970, if it is known."""
    moment: int | None = None
    """When the question is asked, in microseconds since 1970; by default after the history."""
    allowed: NDArray[np.int64] | None = None
    """The items that may be recommended; by default all outside the history."""
    ignored: tuple[Any, ...] = ()
    """Ids of the history that nobody in the data has taken."""
    segment: str | None = None
    """The user's segment as it was given, where thresholds are calibrated by segment."""
    _checked: tuple[int, int] | None = field(default=None, init=False, repr=False, compare=False)
    """Among how many items and users its codes were looked for, as one question asks often."""

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
                f"A query has {len(self.history):,} items and {len(self.times):,} times."
            )
        if self.moment is not None:
            check_whole("The moment of a query", self.moment, lowest=-(2**63))

    def within(self, n_items: int, n_users: int) -> Query:
        """Return itself, or refuse codes that are not there: kernels do not check them."""
        if self._checked == (n_items, n_users):
            return self
        check_codes("The history of a query", self.history, n_items)
        for user in self.users:
            check_code("A user of a query", user, n_users)
        if self.allowed is not None:
            check_codes("What a query allows", self.allowed, n_items)
        object.__setattr__(self, "_checked", (n_items, n_users))
        return self

    @classmethod
    def of_user(cls, interactions: Interactions, user: int) -> Query:
        """Ask for a user of the data, by code, known by the whole profile."""
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
        """Ask without a look at what is given, as that takes a tenth of serving one of many.

        Parameters
        ----------
        history, users, times, segment
            As of :class:`Query`, and of its types: what others have looked at.

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
        """The one user to leave out, if there is any."""
        if len(self.users) > 1:
            raise InputError(
                f"{len(self.users)} users are to be left out at once, and this scorer can leave "
                "out one."
            )
        return self.users[0] if self.users else None

    def known_to(self, statistics: PrecedenceStatistics) -> Query:
        """Return the query without what only the users left out consumed, as a new user asks it.

        Without them nobody knows these items, and unknown items of a new user's history are
        dropped. A history of nothing else stays as it is.
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
        """Return the same question with only the first items of the history."""
        check_whole("n_items", n_items, lowest=0)
        times = None if self.times is None else self.times[:n_items]
        return replace(self, history=self.history[:n_items], times=times)


@dataclass(frozen=True, eq=False)
class Queries:
    """Many questions at once, as flat arrays: what kernels take.

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
    """Item codes of all histories, each once in a history."""
    starts: NDArray[np.int64]
    stops: NDArray[np.int64]
    """Where each history begins and ends among them."""
    users: NDArray[np.int64]
    """Whose contribution is left out for each; −1 for somebody who has none."""
    segments: tuple[str | None, ...] | None = None
    """The segment of each, as it was given."""
    times: NDArray[np.int64] | None = None
    """When each of `items` was consumed, in microseconds since 1970; None if it is not known."""

    @classmethod
    def of_users(cls, interactions: Interactions, users: NDArray[np.int64]) -> Queries:
        """Ask for users of the data, by code, known by their whole profiles with times."""
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
        """Return some of the questions."""
        return replace(
            self,
            starts=self.starts[start:stop],
            stops=self.stops[start:stop],
            users=self.users[start:stop],
            segments=None if self.segments is None else self.segments[start:stop],
        )
