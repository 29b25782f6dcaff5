"""Who was in the fit of somebody's model, and whether ids are those of the model."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Final, NoReturn

import numpy as np

from surerec.errors import AssumedIdsWarning, InputError, LeftOutWarning

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.adapters import Adapter
    from surerec.interactions import Interactions
    from surerec.recommenders._wrapped_about import Covers

_TRIED: Final = 100
"""Users whose items are looked for in the rankings of a model."""
_LEAST: Final = 0.6
"""The share of other items that a user's own must rank above: at random they reach half."""


def who(
    adapter: Adapter, past: Interactions, covers: Covers | None
) -> tuple[Covers, NDArray[np.bool_]]:
    """Give whom a fitted model can be calibrated for, and which users of the past were in its fit.

    What keeps no users was fitted on the past, unless it is said that it was not.
    """
    if adapter.users is None:
        chosen: Covers = covers or "fit"
        return chosen, np.full(past.n_users, chosen == "fit")
    in_fit = adapter.users.codes(past.users.ids) >= 0
    there = np.diff(past.offsets) > 0  # a past cut from other data may name more users
    n_in, n_users = int((in_fit & there).sum()), int(there.sum())
    if covers is None and 0 < n_in < n_users:
        outside = past.users.ids.gather(np.flatnonzero(there & ~in_fit)[:3]).to_list()
        such = f"such as {', '.join(map(repr, outside))}"
        counted = f"{n_users - n_in:,} of the {n_users:,} users of the past"
        if adapter.folds_in:
            raise InputError(
                f"{counted} were not in the fit of {adapter.name} by users=, {such}: say "
                "covers='fit' or covers='newcomers', and the others do not calibrate."
            )
        warnings.warn(
            f"{counted} have no scores, {such}: they do not calibrate, and cannot be served.",
            LeftOutWarning,
            stacklevel=3,
        )
    found: Covers = covers or ("fit" if n_in else "newcomers")
    if found == "newcomers" and not adapter.folds_in:
        refuse_newcomers(adapter)
    return found, in_fit


def refuse_newcomers(adapter: Adapter) -> NoReturn:
    """Say that it cannot score people whom it was not fitted on."""
    raise InputError(
        f"{adapter.name} scores the users of its fit only, so it can say nothing of newcomers: "
        "calibrate it on users of its fit, and give users=, the id of each row."
    )


def check_catalogue(adapter: Adapter, past: Interactions, covers: Covers) -> None:
    """Refuse a past whose items are not in the columns of a model."""
    taken = np.unique(past.items_taken)
    missing = taken[adapter.catalogue.codes(past.items.ids.gather(taken)) < 0]
    if adapter.assumes_ids:
        _check_column_numbers(adapter, past, missing)
    # What a model was fitted on is in its columns; a function may know fewer items.
    may_miss = adapter.knows_all or covers == "newcomers"
    if not len(missing) or (len(missing) < len(taken) and may_miss):
        return
    such = past.items.ids.gather(missing[:3]).to_list()
    raise InputError(
        f"{len(missing):,} of the {len(taken):,} items of the past are not in the "
        f"catalogue of {adapter.name}, such as {', '.join(map(repr, such))}: give items=, the id "
        "of each column in their order."
    )


def _check_column_numbers(
    adapter: Adapter, past: Interactions, missing: NDArray[np.integer]
) -> None:
    """Refuse item ids that cannot be column numbers, and warn of those that seem not to be."""
    give = "give items=, the id of each column in their order"
    last = len(adapter.catalogue) - 1
    if len(missing):
        such = ", ".join(map(repr, past.items.ids.gather(missing[:3]).to_list()))
        raise InputError(
            f"{adapter.name} was wrapped without items=, so item ids must be its column numbers, 0 "
            f"to {last:,}; {len(missing):,} ids of the past are not, such as {such}: {give}."
        )
    above = _own_items_above(adapter, past)
    if above < _LEAST:
        warnings.warn(
            f"{adapter.name} was wrapped without items=, so item ids are taken for its column "
            f"numbers, 0 to {last:,}. It ranks users' own items above {above:.0%} of the others, "
            f"about as chance does: the ids may be wrong. In that case {give}.",
            AssumedIdsWarning,
            stacklevel=4,
        )


def _own_items_above(adapter: Adapter, past: Interactions) -> float:
    """Return the mean share of other items that users' own items rank above in a model.

    Users of its fit are scored by what it keeps of them, others by all but their last item.
    """
    columns = adapter.catalogue.codes(past.items.ids)
    rows = np.full(past.n_users, -1)
    if adapter.knows_users and adapter.users is not None:
        rows = adapter.users.codes(past.users.ids)
    usable = (np.diff(past.offsets) > 1) & ((rows >= 0) | adapter.folds_in)
    shares = []
    for user in np.random.default_rng(0).permutation(np.flatnonzero(usable))[:_TRIED]:
        own = columns[past.taken(user)]
        by_row = rows[user] >= 0
        found = adapter.score_users(rows[[user]]) if by_row else adapter.score_histories([own[:-1]])
        scores = np.nan_to_num(found[0], nan=-np.inf)
        others = np.delete(scores, own)
        tried = scores[own if by_row else own[-1:], None]
        shares.append(np.mean((others < tried) + (others == tried) / 2))
    return float(np.mean(shares)) if shares else 0.0
