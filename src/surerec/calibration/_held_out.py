"""Held-out interactions: a known past and the future that followed it, for many users."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import polars as pl

from surerec._arguments import MOST, check_kind
from surerec._words import day_of, shown
from surerec.errors import InputError, LeftOutWarning
from surerec.interactions import IdMap, Interactions
from surerec.measures import Query

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.precedence import PrecedenceStatistics

Horizon: TypeAlias = "float | int"
"""How far the future goes: a share of the profile (0.4), or a number of items (5)."""


def check_horizon(horizon: object) -> Horizon:
    """Return the horizon, or refuse what is neither a share nor a number of items.

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
    """Users with what was known of them and what they consumed next; all by code.

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
        arrays = {name: getattr(self, name)[chosen] for name in ("users", "known_stops", "stops")}
        return replace(self, **arrays)

    @property
    def n_known(self) -> NDArray[np.int64]:
        """How many items are known in each case."""
        return self.known_stops - self.interactions.offsets[self.users]

    @property
    def n_future(self) -> NDArray[np.int64]:
        """How many items followed."""
        return self.stops - self.known_stops

    def known(self, case: int) -> NDArray[np.int64]:
        """Return what was known, in order."""
        begin = self.interactions.offsets[self.users[case]]
        return self.interactions.item_codes[begin : self.known_stops[case]].astype(np.int64)

    def future(self, case: int) -> NDArray[np.int64]:
        """Return what followed."""
        consumed = self.interactions.item_codes[self.known_stops[case] : self.stops[case]]
        return consumed.astype(np.int64)

    def query(self, case: int, users: NDArray[np.int64], items: NDArray[np.int64]) -> Query:
        """Return the query of the known part of a case, with the user left out.

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

    def sample(self, n: int, random_state: int) -> Cases:
        """Return some at random, or all if there are no more, in the order of the users."""
        chosen = np.random.default_rng(random_state).permutation(len(self))[:n]
        return self[np.sort(chosen)]

    def future_rows(self) -> NDArray[np.bool_]:
        """Return which rows of the flat profiles are some case's future."""
        change = np.zeros(self.interactions.n_rows + 1, dtype=np.int64)
        np.add.at(change, self.known_stops, 1)
        np.add.at(change, self.stops, -1)
        return np.cumsum(change)[:-1] > 0

    def period(self) -> tuple[int, int]:
        """Return the first and the last instant of the futures, in microseconds since 1970."""
        times = self.interactions.times
        return int(times[self.known_stops].min()), int(times[self.stops - 1].max())


def profile_cases(interactions: Interactions, horizon: Horizon, *, min_history: int = 5) -> Cases:
    """Cut every profile that is long enough before its last part.

    Parameters
    ----------
    interactions : Interactions
        The profiles.
    horizon : float or int
        The future is that share of the profile, at least one item, or that many last items.
    min_history : int, default=5
        Users of whom this leaves less are left out.

    Examples
    --------
    >>> import surerec as sr
    >>> films = sr.datasets.synthetic(n_users=50, n_items=40, n_rows=900, random_state=1)
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
    refusal = (
        f"{interactions.name or 'The data'}: with a horizon of {horizon} no user has "
        f"{min_history} known items and a future; the longest profile has "
        f"{lengths.max(initial=0):,}. Set a shorter horizon, or a smaller min_history."
    )
    return _split_at(interactions, lengths - n_future, n_future, min_history, refusal)


def window_cases(
    interactions: Interactions,
    begin: int,
    end: int,
    horizon: Horizon,
    *,
    min_history: int = 5,
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
    min_history : int, default=5
        Users of whom less was known at its beginning are left out.
    """
    horizon = check_horizon(horizon)
    owners = _owners(interactions)
    before, until = (
        np.bincount(owners[interactions.times < time], minlength=interactions.n_users)
        for time in (begin, end)
    )
    n_future = until - before if isinstance(horizon, float) else np.minimum(until - before, horizon)
    refusal = (
        f"{interactions.name or 'The data'}: nobody with {min_history} known items took anything "
        f"between {day_of(begin)} and {day_of(end)}, so there is no future to look at."
    )
    return _split_at(interactions, before, n_future, min_history, refusal, begin)


def _split_at(
    interactions: Interactions,
    n_known: NDArray[np.int64],
    n_future: NDArray[np.int64],
    min_history: int,
    refusal: str,
    moment: int | None = None,
) -> Cases:
    """Return the cases of users with enough known items and a future; refuse if there are none."""
    users = np.flatnonzero((n_known >= max(min_history, 1)) & (n_future > 0))
    if not users.size:
        raise InputError(refusal)
    stops = interactions.offsets[users] + n_known[users]
    return Cases(interactions, users, stops, stops + n_future[users], moment)


def drop_repeats(past: Interactions, future: Interactions) -> tuple[Interactions, int]:
    """Drop the rows of a future whose item the user has in the past; warn with their count.

    Parameters
    ----------
    past : Interactions
        What is known.
    future : Interactions
        What followed.

    Returns
    -------
    Interactions
        The future without them.
    int
        How many were dropped.

    Raises
    ------
    InputError
        If nothing is left.

    Examples
    --------
    >>> import warnings
    >>> past = Interactions.from_profiles([0, 2], [0, 1], item_ids=["a", "b"])
    >>> future = Interactions.from_profiles([0, 2], [0, 1], item_ids=["a", "c"])
    >>> with warnings.catch_warnings(action="ignore"):
    ...     left, dropped = drop_repeats(past, future)
    >>> left.to_frame()["item_id"].to_list(), dropped
    (['c'], 1)
    """
    again = _repeats(past, future)
    if not again.any():
        return future, 0
    if again.all():
        raise InputError(
            f"{_counted(future, again)}. Nothing is left to calibrate on: the future must have "
            "items new to the user."
        )
    warnings.warn(
        f"Dropped repeats: {_counted(future, again)}. The guarantee is of items new to the user.",
        LeftOutWarning,
        stacklevel=3,
    )
    return future.keeping(~again), int(again.sum())


def following_cases(
    past: Interactions, future: Interactions, horizon: Horizon, *, min_history: int = 5
) -> Cases:
    """Build cases from a past and a future that the caller has split.

    Parameters
    ----------
    past : Interactions
        What is known.
    future : Interactions
        What followed, without repeats of the past; see :func:`drop_repeats`.
    horizon : float or int
        A number of items takes that many of the future's first; a share, all of the future.
    min_history : int, default=5
        Users of whom less is known are left out.

    Raises
    ------
    InputError
        If the future repeats items of a user's past, or nobody can be looked at.

    Examples
    --------
    >>> past = Interactions.from_profiles([0, 2, 4], [0, 1, 0, 1], item_ids=["a", "b"])
    >>> future = Interactions.from_profiles([0, 1], [0], user_ids=[1], item_ids=["c"])
    >>> cases = following_cases(past, future, 0.4, min_history=2)
    >>> cases.users.tolist(), cases.n_known.tolist(), cases.n_future.tolist()
    ([1], [2], [1])
    """
    again = _repeats(past, future)
    if again.any():
        raise InputError(
            f"{_counted(future, again)}. The guarantee is of items new to the user. Drop them with "
            'repeats="drop" (--repeats drop on the command line), or remove them from the future '
            "or the past."
        )
    users = past.users.codes(future.users.ids)
    if not (users >= 0).any():
        raise InputError(
            f"Not one of the {future.n_users:,} users of the future is in the past: nothing is "
            "known of them. Their ids may be others, or of another kind."
        )
    strangers = np.flatnonzero((users < 0) & (np.diff(future.offsets) > 0))
    if len(strangers):
        unknown = future.users.ids.gather(strangers[:3]).to_list()
        warnings.warn(
            f"{len(strangers):,} of the {future.n_users:,} users of the future are not in "
            f"the past, such as {', '.join(map(repr, unknown))}: they do not calibrate.",
            LeftOutWarning,
            stacklevel=3,
        )
    new = past.items.codes(future.items.ids)
    items = np.where(new >= 0, new, past.n_items + np.cumsum(new < 0) - 1)
    ids = [past.items.ids, future.items.ids.filter(pl.Series(new < 0))]
    if ids[0].dtype != ids[1].dtype:
        ids = [each.cast(pl.String) for each in ids]
    owners = np.concatenate((_owners(past), users[_owners(future)]))
    consumed = np.concatenate((past.item_codes.astype(np.int64), items[future.item_codes]))
    times = np.concatenate((past.times, future.times))
    later = np.arange(len(owners)) >= past.n_rows
    known = owners >= 0
    order = np.flatnonzero(known)[np.lexsort((later[known], owners[known]))]
    lengths = np.bincount(owners[known], minlength=past.n_users)
    whole = Interactions(
        past.users,
        IdMap(pl.concat(ids), noun="item"),
        np.concatenate(([0], np.cumsum(lengths))),
        consumed[order].astype(np.uint32),
        times[order],
        name=future.name or past.name,
    )
    n_known = np.diff(past.offsets)
    n_future = np.diff(whole.offsets) - n_known
    if not isinstance(horizon, float):
        n_future = np.minimum(n_future, horizon)
    refusal = (
        f"Nobody of whom {min_history} items are known in the past took anything in the future: "
        "give a longer past, or a smaller min_history."
    )
    return _split_at(whole, n_known, n_future, min_history, refusal)


def _owners(interactions: Interactions) -> NDArray[np.int64]:
    return np.repeat(np.arange(interactions.n_users), np.diff(interactions.offsets))


def _repeats(past: Interactions, future: Interactions) -> NDArray[np.bool_]:
    """Return which rows of the future are of an item that the user has in the past."""
    users = past.users.codes(future.users.ids)[_owners(future)]
    items = past.items.codes(future.items.ids)[future.item_codes]
    pairs = np.where((users >= 0) & (items >= 0), users * past.n_items + items, -1)
    return np.isin(pairs, _owners(past) * past.n_items + past.item_codes)


def _counted(future: Interactions, again: NDArray[np.bool_]) -> str:
    """Return how many rows repeat the past, with one of them."""
    first = int(np.argmax(again))
    user = future.users[int(_owners(future)[first])]
    item = future.items[int(future.item_codes[first])]
    n, of = int(again.sum()), f"the {future.n_rows:,} rows of the future"
    return (
        f"{n:,} of {of} ({n / future.n_rows:.1%}) {'repeats' if n == 1 else 'repeat'} an item of "
        f"the user's past, such as user {user!r} and item {item!r}"
    )


def codes_in(
    statistics: PrecedenceStatistics, others: Interactions
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return each user's and each item's code in the statistics, −1 where they do not know it."""
    profiles = statistics.require_profiles("nobody's future can be looked at")
    if profiles.users is others.users and profiles.items is others.items:
        return np.arange(len(profiles.users)), np.arange(len(profiles.items))
    return profiles.users.codes(others.users.ids), profiles.items.codes(others.items.ids)
