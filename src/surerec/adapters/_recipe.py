"""A wrapped model as a recipe: a fresh copy is fitted on whatever statistics know."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from surerec.adapters._scorer import WrappedScorer
from surerec.errors import InputError
from surerec.measures import Recipe
from surerec.precedence import without_counts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.adapters._adapter import Adapter
    from surerec.interactions import Interactions
    from surerec.measures import Scorer
    from surerec.precedence import PrecedenceStatistics, Ties


class WrappedRecipe(Recipe):
    """Fits a copy of somebody's model on interactions; the model itself stays as it is.

    Parameters
    ----------
    adapter : Adapter
        The model.
    by_user : bool, default=False
        Whether users of a fit are scored by what the model keeps of them, if it keeps anything.
    """

    leaves_users_out = False

    def __init__(self, adapter: Adapter, *, by_user: bool = False) -> None:
        self.adapter = adapter
        self.by_user = by_user and adapter.knows_users
        self.refits = self.learns = adapter.can_fit

    @property
    def name(self) -> str:
        """The name of the model, of letters that a folder can hold."""
        named = re.sub(r"\s+", "-", self.adapter.short_name)
        return re.sub(r"[^A-Za-z0-9._-]", "", named) or "model"

    def count(self, interactions: Interactions, ties: Ties = "order") -> PrecedenceStatistics:
        """Count no precedence."""
        del ties
        return without_counts(interactions)

    def fit(self, statistics: PrecedenceStatistics) -> Scorer:
        """Fit a copy on these profiles; what cannot be fitted is taken as it comes."""
        profiles = statistics.require_profiles(f"{self.name} is fitted on profiles")
        return self.scorer(profiles, profiles)

    def scorer(self, fitted: Interactions, served: Interactions) -> WrappedScorer:
        """Fit a copy on some profiles, for all those that it is to serve.

        Parameters
        ----------
        fitted : Interactions
            What it learns from.
        served : Interactions
            Whom it will be asked about: the same items and users, and more of what they took.
        """
        adapter = self.adapter.fitted_on(fitted) if self.adapter.can_fit else self.adapter
        in_fit = np.diff(fitted.offsets) > 0
        return of_fitted(adapter, served, in_fit, by_user=self.by_user, knows_all=adapter.knows_all)


def of_fitted(
    adapter: Adapter,
    served: Interactions,
    in_fit: NDArray[np.bool_],
    *,
    by_user: bool,
    knows_all: bool,
) -> WrappedScorer:
    """Give the scorer of a fitted model on profiles whose items are in its catalogue.

    Parameters
    ----------
    adapter : Adapter
        The model.
    served : Interactions
        Whom it will be asked about.
    in_fit : array of bool
        Of each of these users, whether the model was fitted on them.
    by_user, knows_all : bool
        As in :class:`WrappedScorer`.
    """
    columns = adapter.catalogue.codes(served.items.ids)
    if (columns < 0).any():
        unknown = served.items.ids.gather(np.flatnonzero(columns < 0)[:3]).to_list()
        raise InputError(
            f"{adapter.name} has no column for {int((columns < 0).sum()):,} of the "
            f"{len(columns):,} items, such as {', '.join(map(repr, unknown))}."
        )
    if adapter.users is None:
        rows = np.where(in_fit, np.arange(len(in_fit)), -1)
    else:
        rows = np.where(in_fit, adapter.users.codes(served.users.ids), -1)
    by_user = by_user and adapter.knows_users
    return WrappedScorer(adapter, columns, rows, by_user=by_user, knows_all=knows_all)
