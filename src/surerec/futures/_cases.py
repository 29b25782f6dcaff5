"""A known past and the future that followed it, for many users."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from surerec._arguments import check_kind
from surerec._calendar import day_of
from surerec._checks import MOST
from surerec._shown import shown
from surerec.errors import InputError
from surerec.interactions import Interactions
from surerec.measures import Query

if TYPE_CHECKING:
    from numpy.typing import NDArray

Horizon: TypeAlias = "float | int"
"""How far the future goes: a share of the profile (0.4), or a number of items (5)."""


def check_horizon(horizon: object) -> Horizon:
    """Give the horizon, or refuse what is neither a share nor a number of items.

    Examples
    --------
    >>> check_horizon(0.4), check_horizon(np.int64(5))
    (0.4, 5)
    """
    if (
        isinstance(horizon, (int, np.integer))
        and not isinstance(horizon, bool)
        and 0 < horizon <= MOST
    ):
        return int(horizon)
    if isinstance(horizon, (float, np.floating)) and 0 < horizon < 1:
        return float(horizon)
    raise InputError(
        f"horizon is {shown(horizon)}; it must be a share of the profile between 0 and 1, such as "
        "0.4, or a whole number of next items, such as 5."
    )


@dataclass(frozen=True)
class Cases:
    """Users with what was known of them and what they took next; all by code.

    Attributes
    ----------
    interactions : Interactions
        Whose profiles they are.
    users : array of int
        Whom each case is about.
    known_stops, stops : array of int
        Where, in the flat profiles, the known part ends and the future ends.
    moment : int or None
        When all of them are asked, in microseconds since 1970; by default each when the last known
        item was taken.
    """

    interactions: Interactions
    users: NDArray[np.int64]
    known_stops: NDArray[np.int64]
    stops: NDArray[np.int64]
    moment: int | None = None

    def __len__(self) -> int:
        return len(self.users)

    def __getitem__(self, chosen: NDArray[np.integer] | NDArray[np.bool_] | slice) -> Cases:
        return Cases(
            self.interactions,
            self.users[chosen],
            self.known_stops[chosen],
            self.stops[chosen],
            self.moment,
        )

    @property
    def n_known(self) -> NDArray[np.int64]:
        """How many items are known in each case."""
        return self.known_stops - self.interactions.offsets[self.users]

    @property
    def n_future(self) -> NDArray[np.int64]:
        """How many items followed."""
        return self.stops - self.known_stops

    def known(self, case: int) -> NDArray[np.int64]:
        """Give what was known, in order."""
        begin = self.interactions.offsets[self.users[case]]
        return self.interactions.items_taken[begin : self.known_stops[case]].astype(np.int64)

    def future(self, case: int) -> NDArray[np.int64]:
        """Give what followed."""
        taken = self.interactions.items_taken[self.known_stops[case] : self.stops[case]]
        return taken.astype(np.int64)

    def query(self, case: int, users: NDArray[np.int64], items: NDArray[np.int64]) -> Query:
        """Ask for the known part of a case, with the user left out.

        Parameters
        ----------
        case : int
            Which one.
        users, items : array of int
            The codes by which users and items go where it is asked, −1 for what is unknown there.
        """
        begin, stop = self.interactions.offsets[self.users[case]], self.known_stops[case]
        times = self.interactions.times[begin:stop]
        moment = int(times[-1]) if self.moment is None else self.moment
        history = items[self.known(case)]
        seen = history >= 0
        user = int(users[self.users[case]])
        return Query(history[seen], () if user < 0 else (user,), times[seen], moment)

    def sample(self, n: int, seed: int) -> Cases:
        """Take some at random, or all if there are no more, in the order of the users."""
        chosen = np.random.default_rng(seed).permutation(len(self))[:n]
        return self[np.sort(chosen)]

    def future_rows(self) -> NDArray[np.bool_]:
        """Tell which rows of the flat profiles are some case's future."""
        change = np.zeros(self.interactions.n_rows + 1, dtype=np.int64)
        np.add.at(change, self.known_stops, 1)
        np.add.at(change, self.stops, -1)
        return np.cumsum(change)[:-1] > 0

    def period(self) -> tuple[int, int]:
        """Give the first and the last instant of the futures, in microseconds since 1970."""
        times = self.interactions.times
        return int(times[self.known_stops].min()), int(times[self.stops - 1].max())


def profile_cases(interactions: Interactions, horizon: Horizon, *, min_known: int = 5) -> Cases:
    """Cut every profile that is long enough before its last part.

    Parameters
    ----------
    interactions : Interactions
        The profiles.
    horizon : float or int
        The future is that share of the profile, at least one item, or that many last items.
    min_known : int, default=5
        Users of whom this leaves less are left out.

    Examples
    --------
    >>> import surerec as sr
    >>> films = sr.datasets.synthetic(n_users=50, n_items=40, n_rows=900, seed=1)
    >>> cases = profile_cases(films, 3)
    >>> bool((cases.n_future == 3).all()), bool((cases.n_known >= 5).all())
    (True, True)
    """
    check_kind("interactions", interactions, Interactions, "Interactions")
    horizon = check_horizon(horizon)
    lengths = np.diff(interactions.offsets)
    if isinstance(horizon, float):
        n_future = np.maximum(1, (horizon * lengths + 0.5).astype(np.int64))
    else:
        n_future = np.full(len(lengths), horizon)
    users = np.flatnonzero(lengths - n_future >= max(min_known, 1))
    if not users.size:
        raise InputError(
            f"{interactions.name or 'The data'}: with a horizon of {horizon} no user has "
            f"{min_known} known items and a future; the longest profile has "
            f"{lengths.max(initial=0):,}. Set a shorter horizon, or a smaller min_known."
        )
    stops = interactions.offsets[users + 1]
    return Cases(interactions, users, stops - n_future[users], stops)


def window_cases(
    interactions: Interactions,
    begin: int,
    end: int,
    horizon: Horizon,
    *,
    min_known: int = 5,
) -> Cases:
    """Cut profiles at a date: known is what came before, the future what followed in a window.

    Parameters
    ----------
    interactions : Interactions
        The profiles.
    begin, end : int
        The window ``begin ≤ time < end``, in microseconds since 1970.
    horizon : float or int
        A number of items takes that many of the window's first; a share, which a date has cut
        already, takes all of the window.
    min_known : int, default=5
        Users of whom less was known at its beginning are left out.
    """
    horizon = check_horizon(horizon)
    owners = np.repeat(np.arange(interactions.n_users), np.diff(interactions.offsets))
    starts = interactions.offsets[:-1]
    n_users = interactions.n_users
    before = np.bincount(owners[interactions.times < begin], minlength=n_users)
    until = np.bincount(owners[interactions.times < end], minlength=n_users)
    n_future = until - before
    if not isinstance(horizon, float):
        n_future = np.minimum(n_future, horizon)
    users = np.flatnonzero((before >= max(min_known, 1)) & (n_future > 0))
    if not users.size:
        raise InputError(
            f"{interactions.name or 'The data'}: nobody with {min_known} known items took anything "
            f"between {day_of(begin)} and {day_of(end)}, so there is no future to look at."
        )
    known_stops = starts[users] + before[users]
    return Cases(interactions, users, known_stops, known_stops + n_future[users], begin)
