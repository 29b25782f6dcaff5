"""What is checked: a way to make a recommender, and data to try it on."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from surerec._arguments import check_kind
from surerec.datasets import synthetic
from surerec.interactions import Interactions
from surerec.recommenders import Recommender, WrappedRecommender

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import polars as pl
    from numpy.typing import NDArray

    from surerec.measures import RecipeLike
    from surerec.recommenders import RecommendationSet


def expect(condition: object, sentence: str) -> None:
    """Fail with a sentence, under ``python -O`` too."""
    if not condition:
        raise AssertionError(sentence)


@dataclass(frozen=True, eq=False)
class Subject:
    """What is checked.

    Parameters
    ----------
    make : callable
        Gives a recommender that is not fitted, the same each time.
    data : Interactions, optional
        To fit it on: made-up data by default. Users with ten items or more are needed.
    future : Interactions, optional
        What calibrates a wrapped model that comes fitted on the data.
    scorer : object, optional
        What :func:`surerec.load` must be given, if a model folder cannot hold the scorer.
    spark : SparkSession, optional
        To try it on Spark, too.
    fit_params : mapping, optional
        What fit or calibrate is given beside the data, such as ``user_groups``.
    """

    make: Callable[[], Recommender]
    data: Interactions | None = None
    scorer: RecipeLike | None = None
    spark: Any = None
    fit_params: Mapping[str, Any] = field(default_factory=dict)
    future: Interactions | None = None

    @cached_property
    def interactions(self) -> Interactions:
        """The data."""
        if self.data is not None:
            expect(isinstance(self.data, Interactions), "the data are no Interactions")
            return self.data
        return synthetic(n_users=300, n_items=60, n_rows=6_000, seed=1)

    @cached_property
    def fitted(self) -> Recommender:
        """The recommender, fitted once for all checks."""
        return self.fit(self.made(), self.interactions)

    def fit(self, model: Recommender, data: Any) -> Recommender:
        """Fit a recommender, or calibrate a wrapped model that comes fitted."""
        if self.future is None:
            return model.fit(data, **self.fit_params)
        wrapped = check_kind("make()", model, WrappedRecommender, "a wrapped model to take future=")
        return wrapped.calibrate(data, self.future, **self.fit_params)

    @property
    def takes_histories(self) -> bool:
        """Whether people who are not in the data can be asked about."""
        return self.fitted.scorer_.takes_histories

    def made(self) -> Recommender:
        """Make one, and see that it is a recommender."""
        found = self.make() if callable(self.make) else None
        expect(isinstance(found, Recommender), "what is checked makes no recommender")
        return found

    @cached_property
    def users(self) -> list[Any]:
        """Some users of whom enough is known, by id."""
        lengths = np.diff(self.interactions.offsets)
        enough = np.flatnonzero((lengths >= 10) & (lengths < self.interactions.n_items))[:6]  # noqa: PLR2004
        expect(len(enough), "the data have no user with ten items or more")
        return self.interactions.users.ids.gather(enough).to_list()

    def history(self, user: Any) -> list[Any]:
        """Give what a user took, by id."""
        code = self.interactions.users.code(user)
        return self.interactions.items.ids.gather(self.interactions.taken(code)).to_list()

    def times(self, user: Any) -> NDArray[np.datetime64]:
        """Return when a user consumed the items of :meth:`history`."""
        code = self.interactions.users.code(user)
        return self.interactions.times_of(code).astype("datetime64[us]")

    def level(self, confidence: float = 0.8) -> dict[str, Any]:
        """Give the confidence to ask at, if it has any."""
        return {"confidence": confidence} if "confidence" in self.fitted.model_.features else {}

    def ask(self, model: Recommender, user: Any, confidence: float = 0.8) -> RecommendationSet:
        """Recommend to a user."""
        return model.recommend(user, **self.level(confidence))

    def answers(self, model: Recommender) -> list[pl.DataFrame]:
        """Give what a model answers to some users and to a history, to compare it by."""
        found = [self.ask(model, user).to_frame() for user in self.users[:3]]
        if self.takes_histories:
            history = self.history(self.users[0])[:8]
            found.append(model.recommend(history=history, **self.level()).to_frame())
        found.append(model.recommend_many(self.users, k=5, **self.level()))
        return found
