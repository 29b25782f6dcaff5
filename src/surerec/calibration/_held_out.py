"""Held-out interactions: the known history and the future of many users."""

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
"""Length of the held-out part: a share of the history (0.4), or a number of items (5)."""


def check_horizon(horizon: object) -> Horizon:
    """Return the horizon; raise InputError if it is neither a share nor a number of items.

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
        f"horizon is {shown(horizon)}. Pass a share of the history between 0 and 1, such as 0.4, "
        "or a whole number of next items, such as 5."
    )


@dataclass(frozen=True)
class Cases:
    """Users with their known history and what they consumed next, by code.

    Attributes
    ----------
    interactions : Interactions
        All interactions of the users.
    users : array of int
        The user of each case.
    known_stops, stops : array of int
        Row of the interactions at which the known history ends, and at which the future ends.
    moment : int or None
        Time of all queries, in microseconds since 1970; by default the last known interaction of
        each user.
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
        """Number of known items of each case."""
        return self.known_stops - self.interactions.offsets[self.users]

    @property
    def n_future(self) -> NDArray[np.int64]:
        """Number of held-out items of each case."""
        return self.stops - self.known_stops

    def known(self, case: int) -> NDArray[np.int64]:
        """Return the known items, in order."""
        begin = self.interactions.offsets[self.users[case]]
        return self.interactions.item_codes[begin : self.known_stops[case]].astype(np.int64)

    def future(self, case: int) -> NDArray[np.int64]:
        """Return the held-out items, in order."""
        consumed = self.interactions.item_codes[self.known_stops[case] : self.stops[case]]
        return consumed.astype(np.int64)

    def query(self, case: int, users: NDArray[np.int64], items: NDArray[np.int64]) -> Query:
        """Return the query for the known history of a case, with the user left out.

        Parameters
        ----------
        case : int
            Index of the case.
        users, items : array of int
            Codes of users and items in the model that answers; −1 for unknown ones.
        """
        begin, stop = self.interactions.offsets[self.users[case]], self.known_stops[case]
        times = self.interactions.times[begin:stop]
        moment = int(times[-1]) if self.moment is None else self.moment
        history = items[self.known(case)]
        seen = history >= 0
        user = int(users[self.users[case]])
        return Query(history[seen], () if user < 0 else (user,), times[seen], moment)

    def sample(self, n: int, random_state: int) -> Cases:
        """Return a random sample of n cases, or all if there are fewer, in their order."""
        chosen = np.random.default_rng(random_state).permutation(len(self))[:n]
        return self[np.sort(chosen)]

    def future_rows(self) -> NDArray[np.bool_]:
        """Return which rows of the interactions are held out in some case."""
        change = np.zeros(self.interactions.n_rows + 1, dtype=np.int64)
        np.add.at(change, self.known_stops, 1)
        np.add.at(change, self.stops, -1)
        return np.cumsum(change)[:-1] > 0

    def period(self) -> tuple[int, int]:
        """Return the first and last time held out, in microseconds since 1970."""
        times = self.interactions.times
        return int(times[self.known_stops].min()), int(times[self.stops - 1].max())


def profile_cases(interactions: Interactions, horizon: Horizon, *, min_history: int = 5) -> Cases:
    """Build cases by a per-user split: the last part of each long enough history is held out.

    Parameters
    ----------
    interactions : Interactions
        Histories of users.
    horizon : float or int
        Held-out share of a history (at least one item), or number of held-out items.
    min_history : int, default=5
        Users with fewer known items are left out.

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
        f"{interactions.name or 'The data'}: with horizon={horizon} no user has {min_history} "
        f"known items and held-out items; the longest history has {lengths.max(initial=0):,}. "
        "Pass a shorter horizon or a smaller min_history."
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
    """Build cases by a temporal split: a window after a date is held out.

    Parameters
    ----------
    interactions : Interactions
        Histories of users.
    begin, end : int
        The window ``begin ≤ time < end``, in microseconds since 1970.
    horizon : float or int
        A number of items holds out that many first items of the window; any share, all of them.
    min_history : int, default=5
        Users with fewer known items at its beginning are left out.
    """
    horizon = check_horizon(horizon)
    owners = _owners(interactions)
    before, until = (
        np.bincount(owners[interactions.times < time], minlength=interactions.n_users)
        for time in (begin, end)
    )
    n_future = until - before if isinstance(horizon, float) else np.minimum(until - before, horizon)
    refusal = (
        f"{interactions.name or 'The data'}: no user with {min_history} known items consumed an "
        f"item between {day_of(begin)} and {day_of(end)}. Pass a longer window or a smaller "
        "min_history."
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
    """Return the cases with enough known items and a future; raise InputError without any."""
    users = np.flatnonzero((n_known >= max(min_history, 1)) & (n_future > 0))
    if not users.size:
        raise InputError(refusal)
    stops = interactions.offsets[users] + n_known[users]
    return Cases(interactions, users, stops, stops + n_future[users], moment)


def drop_repeats(past: Interactions, future: Interactions) -> tuple[Interactions, int]:
    """Drop future rows that repeat an item of the user's past, with a warning.

    Parameters
    ----------
    past : Interactions
        Known interactions.
    future : Interactions
        Later interactions.

    Returns
    -------
    Interactions
        The future without repeats.
    int
        Number of dropped rows.

    Raises
    ------
    InputError
        If all rows are repeats.

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
            f"{_counted(future, again)}. Nothing is left to calibrate on. Pass a future with items "
            "new to the user."
        )
    warnings.warn(
        f"Dropped repeats: {_counted(future, again)}. Guarantees are about items new to the user.",
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
        Known interactions.
    future : Interactions
        Later interactions, without repeats of the past; see :func:`drop_repeats`.
    horizon : float or int
        A number of items uses that many first items of the future; any share, all of them.
    min_history : int, default=5
        Users with fewer known items are left out.

    Raises
    ------
    InputError
        If the future repeats items of a user's past, or no user remains.

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
            f"{_counted(future, again)}. The guarantee is about items new to the user. Pass "
            'repeats="drop" (--repeats drop on the command line), or remove them from the future '
            "or the past."
        )
    users = past.users.codes(future.users.ids)
    if not (users >= 0).any():
        raise InputError(
            f"None of the {future.n_users:,} users of the future is in the past. Use the same user "
            "ids, of the same type, in both."
        )
    strangers = np.flatnonzero((users < 0) & (np.diff(future.offsets) > 0))
    if len(strangers):
        unknown = future.users.ids.gather(strangers[:3]).to_list()
        warnings.warn(
            f"{len(strangers):,} of the {future.n_users:,} users of the future are not in "
            f"the past, such as {', '.join(map(repr, unknown))}. They are not calibration users.",
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
        f"No user with {min_history} known items in the past consumed an item in the future. Pass "
        "a longer past or a smaller min_history."
    )
    return _split_at(whole, n_known, n_future, min_history, refusal)


def _owners(interactions: Interactions) -> NDArray[np.int64]:
    return np.repeat(np.arange(interactions.n_users), np.diff(interactions.offsets))


def _repeats(past: Interactions, future: Interactions) -> NDArray[np.bool_]:
    """Return which rows of the future repeat an item of the user's past."""
    users = past.users.codes(future.users.ids)[_owners(future)]
    items = past.items.codes(future.items.ids)[future.item_codes]
    pairs = np.where((users >= 0) & (items >= 0), users * past.n_items + items, -1)
    return np.isin(pairs, _owners(past) * past.n_items + past.item_codes)


def _counted(future: Interactions, again: NDArray[np.bool_]) -> str:
    """Return the number of repeats as text, with an example."""
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
    """Return the codes of users and items in the statistics; −1 for unknown ones."""
    profiles = statistics.require_profiles("held-out interactions cannot be found")
    if profiles.users is others.users and profiles.items is others.items:
        return np.arange(len(profiles.users)), np.arange(len(profiles.items))
    return profiles.users.codes(others.users.ids), profiles.items.codes(others.items.ids)
