"""What is audited: a way to score, with the settings of what is promised on it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from surerec.evaluation import Shares
from surerec.measures import OwnRecipe, Query, Scorer, as_recipe

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from surerec.calibration import Horizon, Promise
    from surerec.interactions import UserGroups
    from surerec.measures import Recipe, RecipeLike
    from surerec.precedence import PrecedenceStatistics
    from surerec.recommenders import FittedModel, Recommender

_KNOWN = 0.6
"""The share of a profile that is known under the paper's protocol."""


@dataclass(frozen=True)
class Subject:
    """What is audited.

    Attributes
    ----------
    name : str
        What the report calls it.
    recipe : Recipe
        What makes a scorer from statistics; over the calendar it is fitted anew at each date.
    scorer : Scorer or None
        What it became on the audited data, if it was fitted on them before.
    item_level : bool
        Whether p-values of items are part of it.
    judge : FittedModel or None
        A model whose own p-values are audited, where they are not those of the scorer.
    train_share : float
        The share of the known profile that is training, for p-values of items.
    smoothed : bool
        Whether ties in those are broken at random.
    comparable : bool
        Whether scores mean the same for everyone, so that a cut by score makes sense.
    horizons : mapping of str to float or int
        The future that each promise is about, by its name; a promise's own if it is not there.
    window : float or None
        Length of the calendar's windows, in days.
    groups : int
        How many groups by profile length.
    min_known : int
        People of whom less is known are promised nothing.
    of_the_fit : bool
        Whether people are promised something whom it was fitted on: then it is audited on them,
        fitted on what was known of them.
    kind : str
        The kind of coverage that is its own guarantee; empty if it has none of its own.
    segments : UserGroups or None
        The segments in which it is calibrated, if it was fitted with a column of them.
    """

    name: str
    recipe: Recipe
    scorer: Scorer | None = None
    item_level: bool = True
    judge: FittedModel | None = None
    train_share: float = 0.5
    smoothed: bool = False
    comparable: bool = True
    horizons: Mapping[str, Horizon] = field(default_factory=dict)
    window: float | None = None
    groups: int = 3
    min_known: int = 5
    of_the_fit: bool = False
    kind: str = ""
    segments: UserGroups | None = None

    def horizon(self, promise: Promise) -> Horizon:
        """Give the future that a promise is about."""
        return self.horizons.get(promise.name, promise.horizon)

    def scorer_on(self, statistics: PrecedenceStatistics) -> Scorer:
        """Give the scorer for the audited data."""
        return self.recipe.fit(statistics) if self.scorer is None else self.scorer

    @property
    def shares(self) -> Shares:
        """The shares of a profile that train and calibrate, where the rest is tested."""
        return Shares(_KNOWN * self.train_share, _KNOWN * (1 - self.train_share))

    @property
    def min_length(self) -> int:
        """The shortest profile with an item to train and one to calibrate, at least 10."""
        smallest = min(self.shares.training, self.shares.calibration)
        return max(10, math.ceil(0.5 / smallest))


def of_recipe(recipe: RecipeLike, name: str | None = None) -> Subject:
    """Audit a measure, or whatever else makes a scorer.

    Examples
    --------
    >>> of_recipe("icrs3").name, of_recipe("learned").name
    ('CM3', 'learned')
    """
    made = as_recipe(recipe)
    return Subject(name or made.title, made)


def of_recommender(name: str, model: Recommender) -> Subject:
    """Audit a recommender with its own settings.

    Examples
    --------
    >>> import surerec as sr
    >>> films = sr.datasets.synthetic(n_users=50, n_items=30, n_rows=600, seed=1)
    >>> model = sr.InductiveConformal("CM3", train_share=0.25).fit(films)
    >>> of_recommender("mine", model).shares.sizes(100)
    (15, 45)
    """
    fitted, recipe = model.model_, model.recipe()
    if "period" in fitted.features:
        mine, scorer = fitted.user_level, fitted.scorer
        return Subject(
            name,
            recipe,
            scorer,
            item_level=scorer.takes_user_histories,
            comparable=scorer.takes_user_histories or mine.cut == "score",
            horizons={mine.promised.name: mine.horizon},
            window=mine.window,
            groups=max(mine.n_groups, Subject.groups),
            min_known=mine.min_known,
            of_the_fit=mine.coverage.of_the_fit,
            kind=f"{mine.promised.kind}-{mine.cut}",
            segments=mine.people,
        )
    calibration, has_levels = fitted.calibration, "confidence" in fitted.features
    settings = Subject(
        name,
        recipe,
        fitted.scorer,
        item_level=has_levels,
        train_share=calibration.train_share,
        smoothed=calibration.smoothed,
        kind="item-time" if has_levels else "",
    )
    if calibration.compares_scores:
        return settings
    return replace(
        settings,
        recipe=OwnRecipe(lambda statistics: _RanksOf(model, statistics)),
        scorer=None,
        judge=fitted if has_levels else None,
        comparable=False,
    )


class _RanksOf(Scorer):
    """A recommender's ranking as a scorer: its scores may be infinite, their order is not."""

    leaves_users_out = True
    checked = True

    def __init__(self, model: Recommender, statistics: PrecedenceStatistics) -> None:
        self._statistics = statistics
        self._model = model.fitted_on(statistics)

    def score_query(self, query: Query) -> NDArray[np.float64]:
        """Give the place of each item from the end of the ranking; equal for a tie."""
        assessed = self._model.model_.assess(query)
        scores = np.zeros(self._statistics.n_items)
        scores[assessed.candidates] = np.unique(assessed.score, return_inverse=True)[1]
        return scores
