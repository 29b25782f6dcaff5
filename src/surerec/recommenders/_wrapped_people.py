"""Who was in the fit of somebody's model, and whether ids are those of the model."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from surerec.errors import InputError, LeftOutWarning

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.adapters import Adapter
    from surerec.interactions import Interactions
    from surerec.recommenders._wrapped_about import Covers


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
