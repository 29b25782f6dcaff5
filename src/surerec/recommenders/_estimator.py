"""The base of the estimators: constructors store parameters, ``fit`` builds the model."""

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

NOT_SETTINGS: Final = frozenset({"verbose"})
"""Parameters that no answer depends on."""
OWN: Final = "own"
"""The key under which a model folder has the name of a scorer that it does not hold."""


def timed(done: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator of methods that log the time of their stages, as `verbose` asks.

    Parameters
    ----------
    done : str
        How the closing line begins, such as "Fitted".
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
    question: Callable[Concatenate[FittedModel, P], R],
) -> Callable[Concatenate[Recommender, P], R]:
    """Return a method of the estimator that asks its fitted model."""

    def ask(self: Recommender, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return question(self.model_, *args, **kwargs)

    update_wrapper(ask, question)
    return ask


class Recommender(ABC):
    """Base of the estimators; fitted, they answer every question through :attr:`model_`."""

    verbose: int = 0
    model_: FittedModel
    """What answers; :meth:`fit` makes it."""
    _fitted_with: Mapping[str, Any]
    _unfitted = "This {kind} is not fitted yet: call fit first."

    # What is fitted.

    @abstractmethod
    def recipe(self) -> Measure:
        """Return what makes the scorer, by the parameters as they are."""

    @abstractmethod
    def default_name(self) -> str:
        """Return the name in answers, such as "icrs12"."""

    @abstractmethod
    def _validate(self) -> None:
        """Refuse impossible parameters."""

    @timed("Fitted")
    def fit(self, data: Any, y: object = None) -> Self:  # noqa: ARG002
        """Count who consumed what before what, and fit the measure if it learns.

        Parameters
        ----------
        data : Interactions, PrecedenceStatistics, frame or path
            Profiles, or counts that were made before and may serve several recommenders; or a
            pandas, polars or Arrow frame or a file, as :func:`surerec.read_interactions` reads it.
        y : ignored
            There for scikit-learn.

        Returns
        -------
        self
        """
        self._validate()
        statistics = as_statistics("fit", data)
        scorer = fit_scorer(self.recipe(), statistics)
        self.model_ = self._fitted(statistics, scorer, self._item_level())
        return self

    def _item_level(self) -> Calibration:
        """Return the calibration of an item-level estimator; others calibrate in `fit`."""
        raise NotImplementedError

    def group_model(self, calibration: Calibration) -> CalibratedGroups | None:  # noqa: ARG002
        """Return what calibrates on groups, with no calibration yet; by default nothing does."""
        return None

    def scorer_from(self, statistics: PrecedenceStatistics, state: State) -> Scorer:
        """Check the parameters, and return the scorer that was saved."""
        self._validate()
        return self.recipe().from_state(statistics, state)

    def calibration_from(
        self,
        statistics: PrecedenceStatistics,  # noqa: ARG002
        scorer: Scorer,  # noqa: ARG002
        state: State,
    ) -> Calibration:
        """Return the calibration that was saved; by default the parameters are all of it."""
        state.require_empty(type(self).__name__)
        return self._item_level()

    def __getattr__(self, name: str) -> Any:
        """Raise NotFittedError for what only a fitted one has."""
        if name in ("model_", "_fitted_with"):
            raise NotFittedError(self._unfitted.format(kind=type(self).__name__))
        raise AttributeError(
            f"{type(self).__name__} has no attribute {name!r}", name=name, obj=self
        )

    @property
    def is_fitted(self) -> bool:
        """Whether it was fitted."""
        return "model_" in vars(self)

    def require_fit(self) -> None:
        """Raise NotFittedError if it is not fitted."""
        _ = self.model_

    def _fitted(
        self,
        statistics: PrecedenceStatistics,
        scorer: Scorer,
        calibration: Calibration,
        item_lists: Mapping[str, UserCalibration] | None = None,
    ) -> FittedModel:
        """Return a fitted model composed of these parts, of the parameters as they are."""
        self._fitted_with = self.settings()
        return FittedModel(
            kind=type(self).__name__,
            name=self.default_name(),
            statistics=statistics,
            scorer=as_scorer(scorer, statistics.n_items),
            calibration=calibration,
            groups=self.group_model(calibration),
            item_lists=item_lists or {},
        )

    @property
    def statistics_(self) -> PrecedenceStatistics:
        """The statistics that it was fitted on."""
        return self.model_.statistics

    @property
    def items_(self) -> IdMap:
        """The ids of the items, by code."""
        return self.model_.items

    @property
    def scorer_(self) -> Scorer:
        """What scores the items."""
        return self.model_.scorer

    @property
    def calibration_(self) -> CalibrationUsers:
        """What is kept of the calibration users, of a user-level calibration."""
        return self.model_.user_level.users

    @property
    def name_(self) -> str:
        """The name in its answers: that of the model folder, else :meth:`default_name`."""
        return self.model_.name

    @property
    def item_lists_(self) -> dict[str, list[Any]]:
        """The calibrated item lists, each with its items."""
        return self.model_.lists

    def named(self, name: str) -> Self:
        """Set the name that a model folder knows it by."""
        self.model_ = replace(self.model_, name=name)
        return self

    # Questions.

    recommend = _delegated(FittedModel.recommend)
    recommend_many = _delegated(FittedModel.recommend_many)
    recommend_groups = _delegated(FittedModel.recommend_groups)
    iter_recommendations = _delegated(FittedModel.iter_recommendations)
    p_values = _delegated(FittedModel.p_values)
    explain = _delegated(FittedModel.explain)
    explain_group = _delegated(FittedModel.explain_group)
    guarantee_to_all = _delegated(FittedModel.guarantee_to_all)
    guarantee_to_groups = _delegated(FittedModel.guarantee_to_groups)
    histories = _delegated(FittedModel.histories)
    age = _delegated(FittedModel.age)
    query = _delegated(FittedModel.query)
    options = _delegated(FittedModel.options)

    def headline(self, confidence: float = 0.9) -> str:
        """Return what is guaranteed in a few words, without the assumption.

        Examples
        --------
        >>> import surerec as sr
        >>> films = sr.datasets.synthetic(n_users=200, n_items=60, n_rows=4000, random_state=1)
        >>> sr.PrecedenceMining().fit(films).headline()
        'only ranks, and promises nothing'
        """
        return self.model_.calibration.headline(confidence)

    # Calibrating further.

    def add_item_list(self, name: str, items: Iterable[Any], *, unknown: str = "check") -> Self:
        """Calibrate on a named list of the items that may be shown.

        ``recommend(…, item_list=name)`` then has every guarantee, for users who consume at least
        one of the listed items. A list of the same name is replaced. Nothing is counted again: the
        calibration users are only ranked again; by the calendar, their past is counted first.

        Parameters
        ----------
        name : str
            Letters, digits, ".", "_" and "-".
        items : iterable of ids
            What is in stock, or on tonight.
        unknown : {"check", "skip"}, default="check"
            Unknown ids of a list are skipped, with a ``LeftOutWarning`` that names the first five.
            A list of which more than half is unknown is refused, unless this is "skip".

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
        """Calibrate on named item item_lists."""
        if not isinstance(item_lists, Mapping | None):
            raise InputError(
                f"item_lists is {shown(item_lists)}; it must be a mapping of names to item ids."
            )
        for name, items in (item_lists or {}).items():
            self.add_item_list(name, items)
        return self

    def _calibrated_list(self, listed: NamedItems) -> UserCalibration:
        """Return the calibration on an item list; asked only where there are item lists."""
        raise NotImplementedError

    def calibrate_groups(
        self,
        sizes: int | Iterable[int] = (2, 3, 4),
        *,
        formed: str = "random",
        aggregation: str | Aggregation = "average",
        groups: Any = None,
    ) -> Self:
        """Calibrate on groups of users, so that ``recommend(group=[…])`` can promise them anything.

        Calibration groups must be as the groups to be served will be. They are disjoint, formed
        once over all users from what is known of them, and scored with all members left out. What
        was calibrated for groups of these sizes is replaced. A size that was not calibrated is,
        at random and by the average, when a group of it is first asked for.

        Parameters
        ----------
        sizes : int or iterable of int, default=(2, 3, 4)
            How many members, 2 to 8; not for given groups.
        formed : {"random", "similar"}, default="random"
            At random, or of people whose known items are alike.
        aggregation : str or Aggregation, default="average"
            What makes one ranking of the members', of :data:`surerec.recommenders.AGGREGATIONS`.
        groups : mapping, frame or path, optional
            Groups of your own instead: members by group, or rows of ``user_id`` and ``group``.
            They are disjoint, and may be of any size. They then serve groups of all sizes.

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
        """The calibrations on groups, by size."""
        groups = self.model_.groups
        return () if groups is None else tuple(each for _, each in sorted(groups.by_size.items()))

    # Parameters, in the manner of scikit-learn.

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002, FBT001, FBT002
        """Return the parameters by name.

        Parameters
        ----------
        deep : bool, default=True
            There for scikit-learn; no parameter is itself an estimator.
        """
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def settings(self) -> dict[str, Any]:
        """Return the parameters that a model is saved with: all but `verbose`."""
        return {
            name: value for name, value in self.get_params().items() if name not in NOT_SETTINGS
        }

    def set_params(self, **params: Any) -> Self:
        """Change parameters, which take effect at the next fit; impossible values are refused."""
        before = self.get_params()
        for name, value in params.items():
            if name not in before:
                raise InputError(
                    f"{type(self).__name__} has no parameter {name!r}; it has {', '.join(before)}."
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

    def fitted_on(self, statistics: PrecedenceStatistics, **params: Any) -> Self:
        """Return this recommender on statistics, with some parameters changed.

        It is itself where nothing changes. Its users keep their segments.
        """
        if self.is_fitted and self.model_.statistics is statistics and not params:
            return self
        more: dict[str, Any] = {}
        if self.is_fitted and (segments := self.model_.segments) is not None:
            users = self.model_.profiles().users.ids
            more["user_segments"] = {user: segments.label(code) for code, user in enumerate(users)}
        return type(self)(**{**self.get_params(), **params}).fit(statistics, **more)

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

    # On disk.

    def _stored_params(self) -> dict[str, Any]:
        """Return the parameters as a model folder keeps them."""
        found = self.settings()
        if "guarantee" in found:
            found["guarantee"] = find_guarantee(found["guarantee"]).name
        if isinstance(found.get("segments"), tuple):
            found["segments"] = list(found["segments"])  # as JSON has it
        if not isinstance(found.get("measure", ""), (str, int)):  # else it will come back as it is
            recipe = self.recipe()
            found["measure"] = {OWN: recipe.name} if recipe.stored is None else recipe.stored
        return found

    def _state(self) -> State:
        """Return all that is saved of the model but for the statistics."""
        return self.model_.state()

    def to_spec(self) -> RecommenderSpec:
        """Return all that is saved of it but for the statistics."""
        self.require_fit()
        for name, value in self.settings().items():
            if not _is_same(value, self._fitted_with[name]):
                raise InputError(f"{name} was changed after fit: call fit again before saving.")
        return RecommenderSpec(type(self).__name__, self._stored_params(), self._state())

    def restore(self, statistics: PrecedenceStatistics, state: State) -> Self:
        """Restore it as it was saved; KeyError or ValueError if this is not its state."""
        self.model_ = self._restored(as_statistics("fit", statistics), state)
        return self

    def _restored(self, statistics: PrecedenceStatistics, state: State) -> FittedModel:
        kind = type(self).__name__
        of_scorer, state = state.split(SCORER)
        of_calibration, state = state.split(CALIBRATION)
        of_groups, state = state.split(GROUPS)
        of_lists, state = state.split_numbered(LIST)
        state.require_empty(kind)
        scorer = as_scorer(self.scorer_from(statistics, of_scorer), statistics.n_items)
        calibration, *lists = (
            self.calibration_from(statistics, scorer, each) for each in (of_calibration, *of_lists)
        )
        by_name = {
            each.listed.name: each
            for each in lists
            if isinstance(each, UserCalibration) and each.listed is not None
        }
        if calibration.listed is not None or len(by_name) < len(lists):
            raise ValueError("its item lists have no names, or one name twice")
        model = self._fitted(statistics, scorer, calibration, by_name)
        if model.groups is None:
            of_groups.require_empty(kind)
            return model
        return replace(model, groups=model.groups.from_state(of_groups, statistics.n_user_codes))

    def save(
        self, folder: str | os.PathLike[str], name: str | None = None, *, overwrite: bool = False
    ) -> None:
        """Save it in a model folder, which :func:`surerec.load` opens.

        Parameters
        ----------
        folder : path-like
            A new folder, or a model folder with the same statistics, to which it is added. The
            folder holds people's histories: keep it as you keep those.
        name : str, optional
            Its name in the folder; by default the paper's, such as "icrs12".
        overwrite : bool, default=False
            Replace what a model folder with other statistics holds.
        """
        place, replaces = check_path("folder", folder), check_flag("overwrite", overwrite)
        specs = {check_text("name", self.default_name() if name is None else name): self.to_spec()}
        save_model(place, self.statistics_, specs, overwrite=replaces)


def fit_scorer(recipe: Measure, statistics: PrecedenceStatistics) -> Scorer:
    """Fit a scorer, and refuse one that declares falsely that it leaves users out."""
    with stage("learning"):
        scorer = recipe.fit(statistics)
    refuse_false_declaration(recipe, scorer, statistics)
    return scorer


def _is_same(value: object, other: object) -> bool:
    """Compare without asking an array whether it is equal, which has no answer."""
    return value is other or (type(value) is type(other) and value == other)
