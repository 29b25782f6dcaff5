"""Anybody's model behind the questions of surerec, with a guarantee calibrated over users."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeAlias, cast, get_args

import numpy as np

from surerec._arguments import check_choice, check_flag, check_kind
from surerec._progress import stage
from surerec._state import ArraySchema, State, check_arrays
from surerec._words import DAY
from surerec.adapters import (
    ListsAdapter,
    WrappedMeasure,
    WrappedScorer,
    adapt,
    check_fallback,
    ids_of,
    of_fitted,
    on_catalogue,
    read_lines,
    restored,
)
from surerec.calibration import (
    UserCalibration,
    drop_repeats,
    find_guarantee,
    following_cases,
    profile_cases,
    window_cases,
)
from surerec.errors import InputError
from surerec.interactions import IdMap, Interactions, read_interactions
from surerec.precedence import PrecedenceStatistics
from surerec.recommenders import _wrapped_checks as checks
from surerec.recommenders._estimator import OWN, Recommender, timed
from surerec.recommenders._group_calibration import CalibratedGroups, Sample
from surerec.recommenders._user_level import UserLevel, read_segments
from surerec.recommenders._wrapped_checks import About, Covers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from surerec.adapters import Adapter
    from surerec.calibration import (
        Calibration,
        Cases,
        GuaranteeKind,
        Horizon,
        NamedItems,
        ThresholdUnit,
    )
    from surerec.interactions import Segmentation
    from surerec.measures import Scorer
    from surerec.recommenders._model import FittedModel

Repeats: TypeAlias = Literal["error", "drop"]
"""How `calibrate` treats future rows of items that the user has in the past."""

_WRAPPED: Final = "wrapped_"
_PROBE: Final = {"probe": ArraySchema("float64", (None, None))}


@dataclass(eq=False, repr=False)
class WrappedRecommender(Recommender):
    """Recommendation sets of somebody's own model, calibrated over users; see :func:`wrap`.

    Attributes
    ----------
    model_ : FittedModel
        What answers.
    wrapped_ : object
        The wrapped model that serves: the given one after `calibrate`, a copy after `fit`.
    covers_ : {"fit", "newcomers"}
        Whom the promise is about.
    calibration_ : CalibrationUsers
        What is kept of the calibration users.
    """

    _unfitted = (
        "This model is not calibrated yet: call calibrate(past, future) or fit(interactions) first."
    )

    model: Any
    _: KW_ONLY
    items: Iterable[Any] | None = None
    users: Iterable[Any] | None = None
    covers: Covers | None = None
    guarantee: str | GuaranteeKind = "recall"
    horizon: Horizon = 0.4
    threshold: ThresholdUnit | None = None
    segments: int = 1
    window: float | None = None
    n_calibration: int = 2000
    min_history: int = 5
    random_state: int = 0
    refit: bool = False
    fallback: str | None = None
    name: str | None = None
    verbose: int = 0
    _about: About = field(init=False)
    _adapted: tuple[tuple[Any, ...], Adapter] | None = field(init=False, default=None)
    _sample: Sample | None = field(init=False, default=None)
    """What item lists and groups are calibrated on; a folder does not have it."""

    @timed("Fitted")
    def fit(
        self,
        data: Any,
        y: object = None,  # noqa: ARG002
        *,
        user_segments: Any = None,
        item_lists: Mapping[str, Iterable[Any]] | None = None,
    ) -> Self:
        """Fit a copy of the model on the past, and calibrate it on the future of some users.

        Parameters
        ----------
        data : Interactions, frame or path
            Everybody's profiles. The past of calibration users, at most half of the users, ends
            before their last part, or with `window` everybody's before the last days.
        y : ignored
            There for scikit-learn.
        user_segments, item_lists
            The group of each user, and named lists; see :meth:`PopulationConformal.fit`.

        Returns
        -------
        self
        """
        self._validate()
        adapter, whole = self._adapter(), _interactions(data)
        covers = self._covers(adapter)
        recipe = WrappedMeasure(adapter, by_user=covers == "fit")
        if not recipe.refits:
            raise InputError(
                f"{recipe.name} comes fitted, and no copy of it can be fitted: call "
                "calibrate(past, future)."
            )
        if covers == "newcomers" and not adapter.folds_in:
            checks.refuse_new_users(adapter)
        chosen, served, about = self._cut_apart(whole, covers)
        about = replace(about, knows_all=adapter.knows_all)
        fitted = served
        if covers == "newcomers":
            fitted = served.without_users(chosen.users)
        elif self.window is None:
            fitted = served.keeping(~chosen.future_rows())
        with stage("learning"):
            known, scorer = self._fit_copy(recipe, served, fitted)
        segments = read_segments(self.segments, user_segments, known.interactions)
        self.model_ = self._calibrated(Sample(scorer, known, chosen), about, segments)
        if self.refit:
            with stage("learning"):
                known, scorer = self._fit_copy(recipe, whole, whole)
            segments = read_segments(self.segments, user_segments, known.interactions)
            assumes = f"{scorer.name} as fitted on everything ranks as the calibrated one did"
            self._about = replace(about, future="", assumes=assumes)
            says = self._about.says(scorer)
            calibration = replace(
                self.model_.user_level,
                segmentation=segments,
                coverage=says.coverage,
                about=says.about,
            )
            self.model_ = self._fitted(known, scorer, calibration)
        return self._add_item_lists(item_lists)

    def _fit_copy(
        self, recipe: WrappedMeasure, served: Interactions, fitted: Interactions
    ) -> tuple[PrecedenceStatistics, WrappedScorer]:
        items = None
        if self.items is not None:
            items = ids_of(self.items, None, "item", recipe.name)
        known = on_catalogue(served, fitted, items)
        profiles = on_catalogue(fitted, fitted, items).interactions
        return known, recipe.scorer(profiles, known.interactions)

    def _cut_apart(self, whole: Interactions, covers: Covers) -> tuple[Cases, Interactions, About]:
        """Choose calibration users; give them, what is known when they are asked, and of what."""
        about = About(covers)
        if self.window is None:
            cases = profile_cases(whole, self.horizon, min_history=self.min_history)
            # People of the fit are treated alike only if few are treated as calibration users.
            chosen = self._sampled(cases, at_most_half=True)
            return chosen, whole, replace(about, set_aside=covers == "fit")
        end = int(whole.times.max()) + 1
        begin = end - int(self.window * DAY)
        cases = window_cases(whole, begin, end, self.horizon, min_history=self.min_history)
        chosen = self._sampled(cases, at_most_half=covers == "newcomers")
        about = replace(about, future=checks.days_from(begin, self.window, self.horizon))
        return chosen, whole.until(begin), about

    def _sampled(self, cases: Cases, *, at_most_half: bool) -> Cases:
        most = max(1, len(cases) // 2) if at_most_half else len(cases)
        return cases.sample(min(self.n_calibration, most), self.random_state)

    @timed("Calibrated")
    def calibrate(
        self,
        past: Any,
        future: Any,
        *,
        user_segments: Any = None,
        item_lists: Mapping[str, Iterable[Any]] | None = None,
        repeats: Repeats = "error",
    ) -> Self:
        """Calibrate a fitted model on what people took after what it was fitted on.

        Parameters
        ----------
        past : Interactions, frame or path
            What is known of people: what the model was fitted on, or, of people whom it was not
            fitted on, their histories.
        future : Interactions, frame or path
            What they took then, which the model must not know.
        user_segments, item_lists
            The group of each user, and named lists; see :meth:`PopulationConformal.fit`.

        repeats : {"error", "drop"}, default="error"
            How to treat rows of the future whose item the user has in the past. The guarantee is
            of items new to the user: "drop" leaves them out, warns with their count, and states it
            in the guarantee.

        Returns
        -------
        self

        Raises
        ------
        InputError
            If the future repeats items of a user's past and `repeats` is "error", if ids do not
            match the model's, or if nobody is left to calibrate.
        """
        self._validate()
        check_choice("repeats", repeats, get_args(Repeats))
        known, later = _interactions(past), _interactions(future)
        adapter = self._adapter(again=True)
        dropped = 0
        if repeats == "drop":
            later, dropped = drop_repeats(known, later)
        adapter.check_fitted()
        adapter = adapter.knowing(known)
        covers, in_fit = checks.who(adapter, known, self.covers)
        checks.check_catalogue(adapter, known, covers)
        cases = following_cases(known, later, self.horizon, min_history=self.min_history)
        cases = cases[in_fit[cases.users] == (covers == "fit")]
        if not len(cases):
            raise InputError(
                f"Nobody with a future {'was' if covers == 'fit' else 'was not'} in the fit of "
                f"{adapter.name}, so nobody calibrates it: users= or covers= may be wrong."
            )
        chosen = self._sampled(cases, at_most_half=False)
        statistics = on_catalogue(known, known, adapter.catalogue)
        by_user, knows_all = covers == "fit", adapter.knows_all or covers == "newcomers"
        scorer = of_fitted(
            adapter, statistics.interactions, in_fit, by_user=by_user, knows_all=knows_all
        )
        about = About(
            covers,
            future=checks.what_follows(known, later, self.horizon),
            assumes=f"{adapter.name} learned nothing from their future{_without(dropped)}",
            knows_all=knows_all,
        )
        sample = Sample(self._completed(scorer, statistics), statistics, chosen)
        segments = read_segments(self.segments, user_segments, statistics.interactions)
        self.model_ = self._calibrated(sample, about, segments)
        return self._add_item_lists(item_lists)

    def _calibrated(
        self, sample: Sample, about: About, segments: Segmentation | None
    ) -> FittedModel:
        """Return the model that a sample of users calibrates."""
        known, scorer = sample.past, cast("WrappedScorer", sample.scorer)
        found = self._settings().calibrate(sample, about.says(scorer), known, segments)
        if not len(found.users):
            raise InputError(
                f"Not one item that the calibration users took is known to {scorer.name}."
            )
        checks.refuse_constant(scorer, known, found.users)
        self._sample, self._about = sample, about
        return self._fitted(known, scorer, found)

    def _calibrated_list(self, listed: NamedItems) -> UserCalibration:
        model, says = self.model_, self._about.says(self._wrapped_scorer())
        sample = _kept_sample(self._sample, model)
        return self._settings().calibrate(sample, says, model.statistics, model.segments, listed)

    def recipe(self) -> WrappedMeasure:
        """Return what fits a copy of the model."""
        adapter = self._adapter()
        covers = self._about.covers if self.is_fitted else self._covers(adapter)
        return WrappedMeasure(adapter, by_user=covers == "fit")

    def _adapter(self, *, again: bool = False) -> Adapter:
        """Return the adapter of the model, or of the model as it is now (lists are read once)."""
        given = (self.model, self.items, self.users, self.name)
        kept = self._adapted
        if (
            kept is None
            or any(a is not b for a, b in zip(kept[0], given, strict=True))
            or (again and not isinstance(kept[1], ListsAdapter))
        ):
            adapter = adapt(*given[:3])
            if self.name is not None:
                adapter = copy(adapter)
                adapter.given_name = self.name
            kept = self._adapted = (given, adapter)
        return kept[1]

    def _covers(self, adapter: Adapter) -> Covers:
        """Return whom `fit` is to cover: users of the fit if the model keeps something of them."""
        if self.covers is not None:
            return self.covers
        return "fit" if adapter.knows_users else "newcomers"

    def default_name(self) -> str:
        """Return a name such as "recall-als"."""
        return f"{find_guarantee(self.guarantee).prefix}-{self.recipe().name}".lower()

    def _settings(self) -> UserLevel:
        threshold = self.threshold
        if threshold is None:
            threshold = "score" if self._adapter().has_value else "rank"
        return UserLevel.of(self, threshold)

    def _validate(self) -> None:
        if self.covers is not None:
            check_choice("covers", self.covers, get_args(Covers))
        self._settings()
        if check_flag("refit", self.refit) and self.window is None:
            raise InputError(
                "refit=True needs window=: fitted again on the items that calibrated it, nothing "
                "is known of how a model ranks."
            )
        if self.name is not None and not check_kind("name", self.name, str, "a text").strip():
            raise InputError("name is empty; name the model as its readers know it.")
        if self.fallback is not None:
            check_fallback(self.fallback)
            if not isinstance(self._adapter(), ListsAdapter):
                raise InputError("fallback= completes lists, and this model is not one of lists.")

    @property
    def wrapped_(self) -> Any:
        """The wrapped model that serves."""
        return self._wrapped_scorer().adapter.model

    @property
    def covers_(self) -> Covers:
        """Whom the guarantee is about."""
        self.require_fit()
        return self._about.covers

    def _wrapped_scorer(self) -> WrappedScorer:
        return cast("WrappedScorer", self.scorer_)

    def _completed(self, scorer: WrappedScorer, statistics: PrecedenceStatistics) -> WrappedScorer:
        """Return a scorer whose lists are completed by what is known, if that is asked for."""
        adapter = scorer.adapter
        if self.fallback is None or not isinstance(adapter, ListsAdapter):
            return scorer
        whole = adapter.completed(self.fallback, statistics, scorer.columns, scorer.rows)
        return WrappedScorer(whole, scorer.columns, scorer.rows, by_user=True, knows_all=True)

    @property
    def floor_(self) -> float:
        """The smallest ε that can be guaranteed: what no set can hold is missed at any."""
        if find_guarantee(self.guarantee).tested:
            raise InputError("What promises precision has no smallest ε: it tests each precision.")
        return self.calibration_.curve(self.guarantee).lowest_level()

    def _in_words(self, value: Any) -> str:
        if value is self.model:
            return self._adapter().name
        for ids in (self.items, self.users):
            if ids is not None and value is ids:
                return f"<{len(list(ids)):,} ids>"
        return super()._in_words(value)

    def _stored_params(self) -> dict[str, Any]:
        adapter = self._wrapped_scorer().adapter
        return {
            **super()._stored_params(),
            "model": {adapter.stored: adapter.name}
            if adapter.stored
            else {OWN: self.recipe().name},
            "items": None,  # the statistics have them
            "users": None,
        }

    def group_model(self, calibration: Calibration) -> CalibratedGroups:
        """Return what calibrates on groups of users."""
        sample = partial(_kept_sample, self._sample)
        return self._settings().group_model(calibration, sample, held_out=True)

    def _state(self) -> State:
        scorer = self._wrapped_scorer()
        mine = State({}, {"about": self._about.to_text()})
        if scorer.adapter.stored is None:
            mine |= State({"probe": checks.probe(scorer, self.statistics_, self.calibration_)})
        return super()._state() | mine.under(_WRAPPED)

    def restore(self, statistics: PrecedenceStatistics, state: State) -> Self:
        """Restore it as it was saved; refuse another model than the one that was calibrated."""
        mine, state = state.split(_WRAPPED)
        is_stored = isinstance(self.model, dict)
        check_arrays("a wrapped model", {} if is_stored else _PROBE, mine.arrays)
        self._about, self._sample = About.from_text(mine.texts["about"]), None
        super().restore(statistics, state)
        if not is_stored:
            before = mine.arrays["probe"]
            checks.check_same(self._wrapped_scorer(), self.statistics_, self.calibration_, before)
        return self

    def scorer_from(self, statistics: PrecedenceStatistics, state: State) -> WrappedScorer:
        """Return the scorer of the given model, or of the arrays that were saved."""
        columns, rows, of_model = read_lines(state, statistics)
        profiles = statistics.interactions
        items = IdMap(profiles.items.ids.gather(np.argsort(columns)), noun="item")
        if isinstance(self.model, dict):
            self.model = _stored(self.model, of_model, items, profiles, rows)
            adapter = copy(self.model)
        else:
            of_model.require_empty("a wrapped model")
            adapter = checks.same_kind(self.model, items.ids)
        adapter.given_name = self.name or adapter.given_name
        adapter.knows_all = self._about.knows_all
        by_user = adapter.knows_users and self._about.covers == "fit"
        scorer = WrappedScorer(adapter, columns, rows, by_user=by_user, knows_all=adapter.knows_all)
        return self._completed(scorer, statistics)

    def calibration_from(
        self, statistics: PrecedenceStatistics, scorer: Scorer, state: State
    ) -> UserCalibration:
        """Return the calibration that was saved."""
        says = self._about.says(cast("WrappedScorer", scorer))
        return self._settings().calibration_from(state, says, statistics)


def wrap(model: Any, **settings: Any) -> WrappedRecommender:
    """Return a recommender around anybody's model: its sets, with a promise calibrated over users.

    Then `calibrate` it, if the model is fitted, on the future of what it was fitted on; or `fit` a
    copy of it and calibrate that, in one go. The model itself is never changed.

    Parameters
    ----------
    model : object
        A model of implicit (ALS, BPR, LMF, item-item), of RecTools or LensKit;
        :class:`surerec.adapters.Factors` or :class:`surerec.adapters.ItemItem`, arrays of your
        own; something with ``score(history)``; a function of one history, or of a list of them,
        that returns scores; or a frame or file of ``user_id``, ``item_id`` and ``score``, complete
        or with the best of each user only, from any system. Histories are lists of item ids in time
        order, and scores are in the order of `items`.
    items, users : iterable of ids, optional
        Which ids the columns and rows of a fitted model are; by default their numbers: item ids
        that cannot be column numbers are refused, and those that seem not to be are warned of
        (:class:`surerec.errors.AssumedIdsWarning`). With `fit`, `items` is the catalogue: by
        default what somebody took in what the copy is fitted on.
    covers : {"fit", "newcomers"}, optional
        Whom the promise is about: people of the fit, of whose future nothing was in it, or people
        whom the model was not fitted on and scores by their history. By default whoever can
        calibrate it: `calibrate` looks for the users of the past in `users`, and takes the past for
        what the model was fitted on if it keeps none; `fit` covers people of the fit if the model
        keeps something of each (matrix factorisation), else newcomers.
    guarantee : {"recall", "hit"} or Promise, default="recall"
        What is kept below ε; see :class:`PopulationConformal`.
    horizon : float or int, default=0.4
        The future: a share of a profile, or so many next items. `calibrate` has it cut already: a
        share means all of it.
    threshold : {"rank", "score"}, optional
        By default "rank", unless the model has a ``value(scores, history_length)`` that compares
        between people.
    segments : int, default=1
        Separate thresholds for so many groups of people by the number of their known items.
    window : float, optional
        `fit` cuts by the calendar: the last so many days calibrate what was fitted before.
    n_calibration : int, default=2000
        How many calibration users at most.
    min_history : int, default=5
        People of whom less is known neither calibrate nor are promised anything.
    random_state : int, default=0
        Of the choice of calibration users.
    refit : bool, default=False
        Whether `fit` with a `window` ends by fitting a copy on everything. The guarantee then
        assumes that it ranks as the calibrated one did.
    fallback : str, optional
        What completes lists that do not hold every item, from the past that `calibrate` is given:
        "popularity", or one of the 17 measures. Without it what is in no list is missed, and
        ``floor_`` tells the smallest ε that can be promised.
    name : str, optional
        What guarantees, reports and messages call the model; by default the name of its class or
        function.
    verbose : int, default=0
        Print the stages of a fit with their times on stderr (1), and the loops in them (2).

    Returns
    -------
    WrappedRecommender

    Raises
    ------
    InputError
        If the model is of an unknown kind, or a setting is impossible.

    Examples
    --------
    >>> import numpy as np
    >>> import surerec as sr
    >>> films = sr.datasets.synthetic(n_users=300, n_items=60, n_rows=6000, random_state=1)
    >>> class Popular:
    ...     def fit(self, interactions):
    ...         taken = interactions.item_codes
    ...         self.counts = np.bincount(taken, minlength=interactions.n_items)
    ...     def score(self, history):
    ...         return self.counts
    >>> sure = sr.wrap(Popular()).fit(films)
    >>> picks = sure.recommend(history=films.profile(7)["item_id"], confidence=0.8)
    >>> print(picks.guarantee)
    Of the last 40% of items new to the user that they consume, at most 20% is left out on average
    over users whom the model was not fitted on. Assumes users exchangeable with the ... calibration
    users (... to ...) and no drift since. The scores also used later interactions of other users.
    """
    kept: dict[str, Any] = {
        name: list(value) if isinstance(value, Iterator) else value
        for name, value in settings.items()
    }
    return WrappedRecommender(model, **kept).set_params()  # which checks all of them


def _kept_sample(sample: Sample | None, _: FittedModel) -> Sample:
    """Return the calibration users, which only the process that calibrated on them has."""
    if sample is None:
        raise InputError(
            "A saved wrapped model does not hold what its calibration users consumed: add item "
            "lists (allow(…) or item_lists=) and groups (calibrate_groups(…)) before saving it."
        )
    return sample


def _without(dropped: int) -> str:
    if not dropped:
        return ""
    were = "repeat was" if dropped == 1 else "repeats were"
    return f", from which {dropped:,} {were} dropped"


def _stored(
    kind: Mapping[str, object],
    state: State,
    items: IdMap,
    profiles: Interactions,
    rows: NDArray[np.int64],
) -> Adapter:
    """Build the adapter that a folder holds; ValueError if its rows are not those of its users."""
    in_fit = np.flatnonzero(rows >= 0)
    order = np.argsort(rows[in_fit], kind="stable")
    users = IdMap(profiles.users.ids.gather(in_fit[order]), noun="user")
    [(stored, name)] = kind.items()
    found = restored(stored, name, state, items, users)
    if found.knows_users and not np.array_equal(rows[in_fit[order]], np.arange(len(in_fit))):
        raise ValueError("its rows are not those of its users")
    return found


def _interactions(given: Any) -> Interactions:
    if isinstance(given, PrecedenceStatistics):
        given = given.interactions
    return given if isinstance(given, Interactions) else read_interactions(given)
