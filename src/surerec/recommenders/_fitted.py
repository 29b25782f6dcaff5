"""What is fitted: counts, the scorer that a recipe made of them, and what it is called."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

import numpy as np
import polars as pl

from surerec._checks import check_whole
from surerec._compiling import compile_progress
from surerec._progress import stage, time_stages
from surerec.calibration import refuse_false_declaration
from surerec.errors import InputError, NotFittedError
from surerec.interactions import IdMap
from surerec.measures import as_scorer
from surerec.precedence import PrecedenceStatistics, as_statistics
from surerec.recommenders._parameters import NOT_SETTINGS, Parameters

if TYPE_CHECKING:
    from collections.abc import Callable

    from surerec.calibration import Calibration
    from surerec.measures import Recipe, Scorer

_Self = TypeVar("_Self", bound="Fitted")
_Given = ParamSpec("_Given")


def timed(
    done: str,
) -> Callable[
    [Callable[Concatenate[_Self, _Given], _Self]], Callable[Concatenate[_Self, _Given], _Self]
]:
    """Return a decorator of methods that log the time of their stages, as `verbose` asks.

    Parameters
    ----------
    done : str
        How the closing line begins, such as "Fitted".
    """

    def around(
        method: Callable[Concatenate[_Self, _Given], _Self],
    ) -> Callable[Concatenate[_Self, _Given], _Self]:
        @wraps(method)
        def inside(self: _Self, /, *args: _Given.args, **kwargs: _Given.kwargs) -> _Self:
            with compile_progress(), time_stages(done, _checked(self.verbose)):
                return method(self, *args, **kwargs)

        return inside

    return around


def _checked(verbose: object) -> int:
    return int(verbose) if isinstance(verbose, bool) else check_whole("verbose", verbose, lowest=0)


class Fitted(Parameters, ABC):
    """Gives a recommender `fit`, its scorer and its name."""

    verbose: int = 0
    statistics_: PrecedenceStatistics
    items_: IdMap
    _scorer: Scorer
    _scorer_key: tuple[object, ...]
    _name: str | None = None
    _own_name: str | None = None

    @abstractmethod
    def recipe(self) -> Recipe:
        """Give what makes its scorer, by its parameters as they are."""

    @abstractmethod
    def _recipe_key(self) -> tuple[object, ...]:
        """Give the parameters that the recipe depends on."""

    @abstractmethod
    def _calibration(self) -> Calibration:
        """Give what turns scores into sets."""

    @abstractmethod
    def _validate(self) -> None:
        """Refuse impossible hyper-parameters."""

    @abstractmethod
    def default_name(self) -> str:
        """Give the paper's name for it, such as "icrs12"."""

    @timed("Fitted")
    def fit(self, data: Any, y: object = None) -> Self:  # noqa: ARG002
        """Count who took what before what, and fit the measure if it learns.

        Parameters
        ----------
        data : Interactions, PrecedenceStatistics, frame or path
            Profiles, or counts that were made before and may serve several recommenders; or a
            pandas, polars or Arrow frame or a file, as :func:`surerec.read_interactions` takes it.
        y : ignored
            There for scikit-learn.

        Returns
        -------
        self
        """
        self._take(data)
        self._learn()
        return self

    def _take(self, data: Any) -> None:
        self._validate()
        data = as_statistics("fit", data)
        self.statistics_ = data
        interactions = self.statistics_.interactions
        if interactions is not None:
            self.items_ = interactions.items
        else:
            self.items_ = IdMap(pl.Series(np.arange(self.statistics_.n_items)), noun="item")

    @property
    def titles_(self) -> pl.Series | None:
        """The title of each item by code, null where there is none; None without titles."""
        self.require_fit()
        interactions = self.statistics_.interactions
        return None if interactions is None else interactions.titles

    def _learn(self) -> None:
        """Learn from the statistics that were taken."""
        self._keep_scorer(self._checked_fit(self.recipe(), self.statistics_))

    def _checked_fit(self, recipe: Recipe, statistics: PrecedenceStatistics) -> Scorer:
        """Fit a scorer, and refuse one that declares falsely that it leaves users out."""
        with stage("learning"):
            scorer = recipe.fit(statistics)
        refuse_false_declaration(recipe, scorer, statistics)
        return scorer

    def _keep_scorer(self, scorer: Scorer) -> None:
        self._scorer = as_scorer(scorer, self.statistics_.n_items)
        self._scorer_key = self._recipe_key()
        self._own_name = None

    @property
    def scorer_(self) -> Scorer:
        """What scores the items, made by the recipe."""
        self.require_fit()
        if self._scorer_key != self._recipe_key():  # made once, asked thousands of times
            recipe = self.recipe()
            if not self._may_change(recipe):
                raise NotFittedError("The measure is to be learned: call fit again.")
            self._keep_scorer(self._checked_fit(recipe, self.statistics_))
        return self._scorer

    def _may_change(self, recipe: Recipe) -> bool:
        """Tell whether another recipe may take the place of the fitted one without a new fit."""
        return not recipe.learns

    def fitted_on(self, statistics: PrecedenceStatistics, **params: Any) -> Self:
        """Give another of its kind on statistics, with some settings changed.

        What was learned from these statistics is not learned anew.
        """
        if getattr(self, "statistics_", None) is statistics and not params:
            return self
        return type(self)(**{**self.get_params(), **params}).fit(statistics)

    def set_params(self, **params: Any) -> Self:
        """Change hyper-parameters; what was learned stays, and impossible values are refused."""
        before = self.get_params()
        super().set_params(**params)
        if params.keys() - NOT_SETTINGS:
            self._own_name = self._name = None  # of other settings
        try:
            _checked(self.verbose)
            self._validate()
        except InputError:
            super().set_params(**before)
            raise
        return self

    @property
    def name_(self) -> str:
        """What its answers call it: the name it was loaded by, else :meth:`default_name`."""
        if self._name is not None:
            return self._name
        if self._own_name is None:
            self._own_name = self.default_name()  # once: it looks measures up, and answers are many
        return self._own_name

    def named(self, name: str) -> Self:
        """Take the name that a model folder knows it by."""
        self._name = name
        return self

    def require_fit(self) -> None:
        """Refuse a recommender that was not fitted."""
        if not hasattr(self, "statistics_"):
            raise NotFittedError(f"This {type(self).__name__} is not fitted yet: call fit first.")
