"""The base of the estimators: constructors store parameters, ``fit`` builds the model."""
# ruff: noqa: SLF001  # measure_of, to_spec and refitted read the estimators of this package

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from functools import update_wrapper, wraps
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, Self, TypeVar

from surerec._arguments import check_flag, check_path, check_text, check_whole
from surerec._progress import stage, time_stages
from surerec._words import shown
from surerec.calibration import (
    NamedItems,
    UserCalibration,
    find_guarantee,
    refuse_false_declaration,
)
from surerec.errors import InputError, NotFittedError, NotSupportedError
from surerec.measures import as_scorer
from surerec.precedence import as_statistics
from surerec.recommenders._model import FittedModel
from surerec.recommenders._options import how_to_get, require
from surerec.recommenders._parts import CALIBRATION, GROUPS, LIST, SCORER
from surerec.storage import RecommenderSpec, save_model

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable

    from surerec._state import State
    from surerec.calibration import Calibration, CalibrationUsers
    from surerec.interactions import IdMap
    from surerec.measures import Measure, Scorer
    from surerec.precedence import PrecedenceStatistics
    from surerec.recommenders._group_calibration import CalibratedGroups, GroupCalibration
    from surerec.recommenders._group_rankings import Aggregation

P = ParamSpec("P")
R = TypeVar("R")

OWN: Final = "own"
"""The key under which a model folder stores the name of a scorer that it does not hold."""


def timed(done: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that prints the stages of a method with their times, if `verbose`.

    `done` is the first word of the closing line, such as "Fitted".
    """

    def around(method: Callable[P, R]) -> Callable[P, R]:
        @wraps(method)
        def inside(*args: P.args, **kwargs: P.kwargs) -> R:
            verbose: object = args[0].verbose  # type: ignore[attr-defined]
            with time_stages(done, _checked(verbose)):
                return method(*args, **kwargs)

        return inside

    return around


def _checked(verbose: object) -> int:
    return int(verbose) if isinstance(verbose, bool) else check_whole("verbose", verbose, lowest=0)


def _delegated(
    method: Callable[Concatenate[FittedModel, P], R],
) -> Callable[Concatenate[Recommender, P], R]:
    """Return an estimator method that calls the method of its fitted model."""

    def call(self: Recommender, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return method(self.model_, *args, **kwargs)

    update_wrapper(call, method)
    return call


class Recommender(ABC):
    """Base class of the estimators. :meth:`fit` builds :attr:`model_`, which answers requests."""

    verbose: int = 0
    model_: FittedModel
    """The fitted model."""
    _fitted_with: Mapping[str, Any]
    _unfitted = "This {kind} is not fitted. Call fit first."

    @abstractmethod
    def _measure(self) -> Measure:
        """Return the measure that the current parameters describe."""

    @abstractmethod
    def _default_name(self) -> str:
        """Return the recommender's name, such as "icrs12"."""

    @abstractmethod
    def _validate(self) -> None:
        """Raise InputError for invalid parameters."""

    @timed("Fitted")
    def fit(self, data: Any, y: object = None) -> Self:  # noqa: ARG002
        """Compute the precedence statistics and fit the measure.

        Parameters
        ----------
        data : Interactions, PrecedenceStatistics, frame or path
            Interactions, or statistics that several recommenders may share. Frames (pandas, polars
            or Arrow) and files are read with :func:`surerec.read_interactions`.
        y : ignored
            For compatibility with scikit-learn.

        Returns
        -------
        self
        """
        self._validate()
        statistics = as_statistics("fit", data)
        scorer = fit_scorer(self._measure(), statistics)
        self.model_ = self._fitted(statistics, scorer, self._item_level())
        return self

    def _item_level(self) -> Calibration:
        """Return the calibration of an item-level estimator; user-level ones override `fit`."""
        raise NotImplementedError

    def _group_model(self, calibration: Calibration) -> CalibratedGroups | None:  # noqa: ARG002
        """Return the model for groups of users, or None if there is none."""
        return None

    def _scorer_from(self, statistics: PrecedenceStatistics, state: State) -> Scorer:
        """Check the parameters and restore the scorer from its state."""
        self._validate()
        return self._measure().from_state(statistics, state)

    def _calibration_from(
        self,
        statistics: PrecedenceStatistics,  # noqa: ARG002
        scorer: Scorer,  # noqa: ARG002
        state: State,
    ) -> Calibration:
        """Restore the calibration from its state; an item-level one has only parameters."""
        state.require_empty(type(self).__name__)
        return self._item_level()

    def __getattr__(self, name: str) -> Any:
        """Raise NotFittedError for attributes that `fit` sets."""
        if name in ("model_", "_fitted_with", "_about"):
            raise NotFittedError(self._unfitted.format(kind=type(self).__name__))
        raise AttributeError(
            f"{type(self).__name__} has no attribute {name!r}", name=name, obj=self
        )

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether the estimator is fitted."""
        return "model_" in vars(self)

    def _fitted(
        self,
        statistics: PrecedenceStatistics,
        scorer: Scorer,
        calibration: Calibration,
        item_lists: Mapping[str, UserCalibration] | None = None,
    ) -> FittedModel:
        """Compose a fitted model of these parts, and remember the parameters."""
        self._fitted_with = self._fit_params()
        return FittedModel(
            kind=type(self).__name__,
            name=self._default_name(),
            statistics=statistics,
            scorer=as_scorer(scorer, statistics.n_items),
            calibration=calibration,
            groups=self._group_model(calibration),
            item_lists=item_lists or {},
        )

    @property
    def statistics_(self) -> PrecedenceStatistics:
        """The precedence statistics of the data."""
        return self.model_.statistics

    @property
    def items_(self) -> IdMap:
        """The item ids, by code."""
        return self.model_.items

    @property
    def scorer_(self) -> Scorer:
        """The fitted scorer."""
        return self.model_.scorer

    @property
    def calibration_(self) -> CalibrationUsers:
        """The calibration users of a user-level calibration, with their outcomes."""
        return self.model_.user_level.users

    @property
    def name_(self) -> str:
        """The name in results and in a model folder, such as "icrs12"."""
        return self.model_.name

    @property
    def item_lists_(self) -> dict[str, list[Any]]:
        """The item ids of each calibrated item list, by name."""
        return self.model_.lists

    recommend = _delegated(FittedModel.recommend)
    recommend_many = _delegated(FittedModel.recommend_many)
    recommend_groups = _delegated(FittedModel.recommend_groups)
    iter_recommendations = _delegated(FittedModel.iter_recommendations)
    p_values = _delegated(FittedModel.p_values)
    explain = _delegated(FittedModel.explain)
    explain_group = _delegated(FittedModel.explain_group)
    histories = _delegated(FittedModel.histories)
    age = _delegated(FittedModel.age)

    def add_item_list(self, name: str, items: Iterable[Any], *, unknown: str = "check") -> Self:
        """Calibrate on a named list of items, such as the items in stock.

        ``recommend(…, item_list=name)`` then carries a guarantee for users who consume at least one
        of the listed items. A list of the same name is replaced. The calibration users are ranked
        again; the statistics stay as they are. A temporal split recomputes those of the past.

        Parameters
        ----------
        name : str
            Letters, digits, ".", "_" and "-".
        items : iterable of ids
            The items that may be shown.
        unknown : {"check", "skip"}, default="check"
            Unknown ids are skipped with a ``LeftOutWarning`` that names the first five. If more
            than half are unknown, "check" raises an error and "skip" does not.

        Returns
        -------
        self

        Examples
        --------
        >>> import surerec as sr
        >>> films = sr.datasets.synthetic(n_users=300, n_items=60, n_rows=6000, random_state=1)
        >>> model = sr.PopulationConformal("CM12").fit(films).add_item_list("tonight", range(1, 20))
        >>> shown = model.recommend(user=7, confidence=0.8, item_list="tonight")
        >>> set(shown.items) <= set(range(1, 20)), shown.guarantee.holds
        (True, True)
        """
        model = self.model_
        require(model.calibration, "item_lists", model.kind)
        listed = NamedItems(name, model.codes_of(items, unknown))
        self.model_ = replace(
            model, item_lists={**model.item_lists, name: self._calibrated_list(listed)}
        )
        return self

    def _add_item_lists(self, item_lists: Mapping[str, Iterable[Any]] | None) -> Self:
        """Calibrate on each named item list."""
        if not isinstance(item_lists, Mapping | None):
            raise InputError(
                f"item_lists is {shown(item_lists)}. Pass a mapping of names to item ids."
            )
        for name, items in (item_lists or {}).items():
            self.add_item_list(name, items)
        return self

    def _calibrated_list(self, listed: NamedItems) -> UserCalibration:
        """Return the calibration on an item list; user-level estimators implement it."""
        raise NotImplementedError

    def calibrate_groups(
        self,
        sizes: int | Iterable[int] = (2, 3, 4),
        *,
        formed: str = "random",
        aggregation: str | Aggregation = "average",
        groups: Any = None,
    ) -> Self:
        """Calibrate ``recommend(group=[…])`` on groups of users who choose together.

        Calibration groups must resemble the groups to be served. They are disjoint, formed from the
        users' histories, and scored with all members left out. Calibrations of the same sizes are
        replaced. Other sizes are calibrated on first use, on random groups and with the average.

        Parameters
        ----------
        sizes : int or iterable of int, default=(2, 3, 4)
            Numbers of members, 2 to 8; ignored with `groups`.
        formed : {"random", "similar"}, default="random"
            Group users at random, or by the similarity of their histories.
        aggregation : str or Aggregation, default="average"
            How the members' rankings become one; see :data:`surerec.recommenders.AGGREGATIONS`.
        groups : mapping, frame or path, optional
            Your own groups: members by group, or rows of ``user_id`` and ``group``. They must be
            disjoint. They calibrate groups of all sizes up to the largest.

        Returns
        -------
        self

        Examples
        --------
        >>> import surerec as sr
        >>> films = sr.datasets.synthetic(n_users=300, n_items=60, n_rows=6000, random_state=1)
        >>> model = sr.PopulationConformal("CM12").fit(films)
        >>> model = model.calibrate_groups(2, formed="similar", aggregation="least-misery")
        >>> model.recommend(group=[7, 3], confidence=0.8).group_guarantee
        'any'
        """
        model = self.model_
        if model.groups is None:
            raise NotSupportedError(how_to_get("groups", model.kind))
        found = model.groups.calibrated(model, sizes, formed, aggregation, groups)
        self.model_ = replace(model, groups=found)
        return self

    @property
    def group_calibrations_(self) -> tuple[GroupCalibration, ...]:
        """The group calibrations, ordered by group size."""
        groups = self.model_.groups
        return () if groups is None else tuple(each for _, each in sorted(groups.by_size.items()))

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002, FBT001, FBT002
        """Return the parameters by name.

        Parameters
        ----------
        deep : bool, default=True
            For compatibility with scikit-learn; no parameter is itself an estimator.
        """
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def _fit_params(self) -> dict[str, Any]:
        """Return the parameters that answers depend on: all but `verbose`."""
        return {name: value for name, value in self.get_params().items() if name != "verbose"}

    def set_params(self, **params: Any) -> Self:
        """Set parameters for the next `fit`, and return self; invalid values raise InputError."""
        before = self.get_params()
        for name, value in params.items():
            if name not in before:
                raise InputError(
                    f"{type(self).__name__} has no parameter {name!r}. Use one of "
                    f"{', '.join(before)}."
                )
            setattr(self, name, value)
        try:
            _checked(self.verbose)
            self._validate()
        except InputError:
            for name, value in before.items():
                setattr(self, name, value)
            raise
        return self

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self)).parameters
        changed = (
            f"{name}={self._in_words(value)}"
            for name, value in self.get_params().items()
            if not _is_same(value, defaults[name].default)
        )
        return f"{type(self).__name__}({', '.join(changed)})"

    def _in_words(self, value: Any) -> str:
        return shown(value)

    def _stored_params(self) -> dict[str, Any]:
        """Return the parameters as JSON values for a model folder."""
        found = self._fit_params()
        if "guarantee" in found:
            found["guarantee"] = find_guarantee(found["guarantee"]).name
        if isinstance(found.get("segments"), tuple):
            found["segments"] = list(found["segments"])  # as JSON has it
        if not isinstance(found.get("measure", ""), (str, int)):  # else JSON restores it
            measure = self._measure()
            found["measure"] = {OWN: measure.name} if measure.stored is None else measure.stored
        return found

    def _state(self) -> State:
        """Return the saved state of the model, without the statistics."""
        return self.model_.state()

    def _restore(self, statistics: PrecedenceStatistics, state: State) -> Self:
        """Restore the model from its state; raise KeyError or ValueError if they do not match."""
        self.model_ = self._restored(as_statistics("fit", statistics), state)
        return self

    def _restored(self, statistics: PrecedenceStatistics, state: State) -> FittedModel:
        kind = type(self).__name__
        of_scorer, state = state.split(SCORER)
        of_calibration, state = state.split(CALIBRATION)
        of_groups, state = state.split(GROUPS)
        of_lists, state = state.split_numbered(LIST)
        state.require_empty(kind)
        scorer = as_scorer(self._scorer_from(statistics, of_scorer), statistics.n_items)
        calibration, *lists = (
            self._calibration_from(statistics, scorer, each) for each in (of_calibration, *of_lists)
        )
        by_name = {
            each.listed.name: each
            for each in lists
            if isinstance(each, UserCalibration) and each.listed is not None
        }
        if calibration.listed is not None or len(by_name) < len(lists):
            raise ValueError("its item lists lack names or share one")
        model = self._fitted(statistics, scorer, calibration, by_name)
        if model.groups is None:
            of_groups.require_empty(kind)
            return model
        return replace(model, groups=model.groups.from_state(of_groups, statistics.n_user_codes))

    def save(
        self, folder: str | os.PathLike[str], name: str | None = None, *, overwrite: bool = False
    ) -> None:
        """Save the recommender in a model folder, which :func:`surerec.load` opens.

        Parameters
        ----------
        folder : path-like
            A new folder, or a model folder with the same statistics, to which the recommender is
            added. The folder contains users' histories: protect it as you protect the data.
        name : str, optional
            The name in the folder; by default the paper's, such as "icrs12".
        overwrite : bool, default=False
            Replace the contents of a model folder with other statistics.
        """
        place, replaces = check_path("folder", folder), check_flag("overwrite", overwrite)
        specs = {check_text("name", self._default_name() if name is None else name): to_spec(self)}
        save_model(place, self.statistics_, specs, overwrite=replaces)


def measure_of(model: Recommender) -> Measure:
    """Return the measure that a recommender's parameters describe."""
    return model._measure()


def to_spec(model: Recommender) -> RecommenderSpec:
    """Return what is saved of a fitted recommender, without the statistics."""
    fitted = model.model_
    for name, value in model._fit_params().items():
        if not _is_same(value, model._fitted_with[name]):
            raise InputError(f"{name} was changed after fit. Call fit again before saving.")
    return RecommenderSpec(fitted.kind, model._stored_params(), model._state())


def refitted(model: Recommender, statistics: PrecedenceStatistics, **params: Any) -> Recommender:
    """Return a recommender of the same kind fitted on statistics, with some parameters changed.

    Returns the model itself if nothing changes. Its users keep their segments.
    """
    more: dict[str, Any] = {}
    if model.__sklearn_is_fitted__():
        if model.statistics_ is statistics and not params:
            return model
        if (segments := model.model_.segments) is not None:
            users = model.model_.profiles().users.ids
            more["user_segments"] = {user: segments.label(code) for code, user in enumerate(users)}
    return type(model)(**{**model.get_params(), **params}).fit(statistics, **more)


def fit_scorer(measure: Measure, statistics: PrecedenceStatistics) -> Scorer:
    """Fit a scorer, and check its declaration that it leaves users out."""
    with stage("learning"):
        scorer = measure.fit(statistics)
    refuse_false_declaration(measure, scorer, statistics)
    return scorer


def _is_same(value: object, other: object) -> bool:
    """Return whether two parameter values are the same object, or equal and of one type."""
    return value is other or (type(value) is type(other) and value == other)
