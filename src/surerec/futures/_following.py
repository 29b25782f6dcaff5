"""A past and a future that somebody cut apart themselves, put together as cases."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from surerec.errors import InputError, LeftOutWarning
from surerec.futures._cases import Cases
from surerec.interactions import IdMap, Interactions

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.futures._cases import Horizon


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
    if again.any() and again.all():
        raise InputError(
            f"{_counted(future, again)}. Nothing is left to calibrate on: the future must have "
            "items new to the user."
        )
    if not again.any():
        return future, 0
    warnings.warn(
        f"Dropped repeats: {_counted(future, again)}. The guarantee is of items new to the user.",
        LeftOutWarning,
        stacklevel=3,
    )
    return future.keeping(~again), int(again.sum())


def following_cases(
    past: Interactions, future: Interactions, horizon: Horizon, *, min_known: int = 5
) -> Cases:
    """Give cases of the users of whom something is known and who took something then.

    Parameters
    ----------
    past : Interactions
        What is known.
    future : Interactions
        What followed, without repeats of the past; see :func:`drop_repeats`.
    horizon : float or int
        A number of items takes that many of the future's first; a share, all of the future.
    min_known : int, default=5
        Users of whom less is known are left out.

    Raises
    ------
    InputError
        If the future repeats items of a user's past, or nobody can be looked at.

    Examples
    --------
    >>> past = Interactions.from_profiles([0, 2, 4], [0, 1, 0, 1], item_ids=["a", "b"])
    >>> future = Interactions.from_profiles([0, 1], [0], user_ids=[1], item_ids=["c"])
    >>> cases = following_cases(past, future, 0.4, min_known=2)
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
    taken = np.concatenate((past.items_taken.astype(np.int64), items[future.items_taken]))
    times = np.concatenate((past.times, future.times))
    later = np.arange(len(owners)) >= past.n_rows
    known = owners >= 0
    order = np.flatnonzero(known)[np.lexsort((later[known], owners[known]))]
    lengths = np.bincount(owners[known], minlength=past.n_users)
    whole = Interactions(
        past.users,
        IdMap(pl.concat(ids), noun="item"),
        np.concatenate(([0], np.cumsum(lengths))),
        taken[order].astype(np.uint32),
        times[order],
        name=future.name or past.name,
    )
    known_stops = whole.offsets[:-1] + np.diff(past.offsets)
    n_future = whole.offsets[1:] - known_stops
    if not isinstance(horizon, float):
        n_future = np.minimum(n_future, horizon)
    chosen = np.flatnonzero((np.diff(past.offsets) >= max(min_known, 1)) & (n_future > 0))
    if not chosen.size:
        raise InputError(
            f"Nobody of whom {min_known} items are known in the past took anything in the future: "
            "give a longer past, or a smaller min_known."
        )
    stops = known_stops[chosen] + n_future[chosen]
    return Cases(whole, chosen, known_stops[chosen], stops)


def _owners(interactions: Interactions) -> NDArray[np.int64]:
    return np.repeat(np.arange(interactions.n_users), np.diff(interactions.offsets))


def _repeats(past: Interactions, future: Interactions) -> NDArray[np.bool_]:
    """Return which rows of the future are of an item that the user has in the past."""
    users = past.users.codes(future.users.ids)[_owners(future)]
    items = past.items.codes(future.items.ids)[future.items_taken]
    pairs = np.where((users >= 0) & (items >= 0), users * past.n_items + items, -1)
    return np.isin(pairs, _owners(past) * past.n_items + past.items_taken)


def _counted(future: Interactions, again: NDArray[np.bool_]) -> str:
    """Return how many rows repeat the past, with one of them."""
    first = int(np.argmax(again))
    user = future.users[int(_owners(future)[first])]
    item = future.items[int(future.items_taken[first])]
    n, of = int(again.sum()), f"the {future.n_rows:,} rows of the future"
    return (
        f"{n:,} of {of} ({n / future.n_rows:.1%}) {'repeats' if n == 1 else 'repeat'} an item of "
        f"the user's past, such as user {user!r} and item {item!r}"
    )
