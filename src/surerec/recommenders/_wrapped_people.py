"""Who was in the fit of somebody's model, and whether ids are those of the model."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import numpy as np

from surerec.errors import InputError

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
    n_in = int(in_fit.sum())
    if covers is None and 0 < n_in < past.n_users:
        outside = past.users.ids.gather(np.flatnonzero(~in_fit)[:3]).to_list()
        raise InputError(
            f"{past.n_users - n_in:,} of the {past.n_users:,} users of the past were not in the "
            f"fit of {adapter.name} by users=, such as {', '.join(map(repr, outside))}: say "
            "covers='fit' or covers='newcomers', and the others do not calibrate."
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
    missing = adapter.catalogue.codes(past.items.ids) < 0
    # What a model was fitted on is in its columns; a function may know fewer items.
    if not missing.any() or (not missing.all() and (adapter.knows_all or covers == "newcomers")):
        return
    such = past.items.ids.gather(np.flatnonzero(missing)[:3]).to_list()
    raise InputError(
        f"{int(missing.sum()):,} of the {past.n_items:,} items of the past are not in the "
        f"catalogue of {adapter.name}, such as {', '.join(map(repr, such))}: give items=, the id "
        "of each column in their order."
    )
