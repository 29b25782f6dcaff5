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


def following_cases(
    past: Interactions, future: Interactions, horizon: Horizon, *, min_known: int = 5
) -> Cases:
    """Give cases of the users of whom something is known and who took something then.

    Parameters
    ----------
    past : Interactions
        What is known.
    future : Interactions
        What followed; nobody takes there what they have in the past.
    horizon : float or int
        A number of items takes that many of the future's first; a share, all of the future.
    min_known : int, default=5
        Users of whom less is known are left out.

    Raises
    ------
    InputError
        If something of the future is in the past too, or nobody can be looked at.

    Examples
    --------
    >>> past = Interactions.from_profiles([0, 2, 4], [0, 1, 0, 1], item_ids=["a", "b"])
    >>> future = Interactions.from_profiles([0, 1], [0], user_ids=[1], item_ids=["c"])
    >>> cases = following_cases(past, future, 0.4, min_known=2)
    >>> cases.users.tolist(), cases.n_known.tolist(), cases.n_future.tolist()
    ([1], [2], [1])
    """
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
    _refuse_overlap(owners[known], taken[known], later[known], past)
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


def _refuse_overlap(
    owners: NDArray[np.int64],
    taken: NDArray[np.int64],
    later: NDArray[np.bool_],
    past: Interactions,
) -> None:
    pairs = owners * (int(taken.max(initial=0)) + 1) + taken
    both = np.isin(pairs[later], pairs[~later])
    if not both.any():
        return
    first = int(np.argmax(both))
    user, item = past.users[int(owners[later][first])], past.items[int(taken[later][first])]
    raise InputError(
        f"{int(both.sum()):,} of the {len(both):,} rows of the future are in the past too, such as "
        f"user {user!r} and item {item!r}: the model knows them, so they say nothing about what "
        "it does not know. Leave them out of the future, or out of what the model is fitted on."
    )
