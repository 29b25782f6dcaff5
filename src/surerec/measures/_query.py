"""What is asked of a scorer: what is known of a person, and what must not be used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from surerec.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.interactions import Interactions


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

    @classmethod
    def of_user(cls, interactions: Interactions, user: int) -> Query:
        """Ask for a user of the data, by code, known by the whole profile."""
        history = interactions.taken(user).astype(np.int64)
        return cls(history, (user,), interactions.times_of(user))

    @property
    def user(self) -> int | None:
        """The one user to leave out, if there is any."""
        if len(self.users) > 1:
            raise InputError(
                f"{len(self.users)} users are to be left out at once, and this scorer can leave "
                "out one."
            )
        return self.users[0] if self.users else None

    def first(self, n_items: int) -> Query:
        """Give the same question with only the first items of the history."""
        times = None if self.times is None else self.times[:n_items]
        return Query(
            self.history[:n_items], self.users, times, self.moment, self.allowed, self.ignored
        )
