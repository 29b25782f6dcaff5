"""Wrapped recommenders: models of other libraries with user-level calibration."""

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
    sizes_by_unit,
    window_cases,
)
from surerec.errors import InputError
from surerec.interactions import IdMap, Interactions, read_interactions
from surerec.precedence import PrecedenceStatistics
from surerec.recommenders import _wrapped_checks as checks
from surerec.recommenders._estimator import OWN, Recommender, timed
from surerec.recommenders._group_calibration import CalibratedGroups, Sample
from surerec.recommenders._set_sizes import compare_sizes, warn_of_large_sets
from surerec.recommenders._user_level import UserLevel, read_segments
from surerec.recommenders._wrapped_checks import About, Covers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import polars as pl
    from numpy.typing import NDArray

    from surerec.adapters import Adapter
    from surerec.calibration import (
        Calibration,
        Cases,
        GuaranteeKind,
        Horizon,
        NamedItems,
        ThresholdChoice,
    )
    from surerec.interactions import Segmentation
    from surerec.measures import Scorer
    from surerec.recommenders._model import FittedModel

Repeats: TypeAlias = Literal["error", "drop"]
"""How `calibrate` treats future items that the user has in the past."""

_WRAPPED: Final = "wrapped_"
_PROBE: Final = {"probe": ArraySchema("float64", (None, None))}


@dataclass(eq=False, repr=False)
class WrappedRecommender(Recommender):
    """Recommendation sets of a wrapped model, with user-level calibration; see :func:`wrap`.

    Attributes
    ----------
    model_ : FittedModel
        The fitted model.
    wrapped_ : object
        The wrapped model that serves: the given one after `calibrate`, a copy after `fit`.
    covers_ : {"both", "fit", "new-users"}
        The users whom the guarantee covers.
    threshold_ : {"rank", "score", "learned"}
        The threshold unit in use.
    threshold_sizes_ : dict of dict
        Mean set sizes by "rank" and "learned" thresholds at each confidence, cross-validated on the
        users who chose between them; empty if they were not compared.
    calibration_ : CalibrationUsers
        The calibration users with their outcomes.
    sizes_ : polars.DataFrame or None
        Mean set sizes of the model and of popularity at the same guarantee, by confidence. It tells
        whether the model is worth wrapping. None for a precision guarantee and for a loaded model.
    """

    _unfitted = (
        "This model is not calibrated. Call calibrate(past, future) or fit(interactions) first."
    )

    model: Any
    _: KW_ONLY
    items: Iterable[Any] | None = None
    users: Iterable[Any] | None = None
    covers: Covers | None = None
    guarantee: str | GuaranteeKind = "recall"
    horizon: Horizon = 0.4
    threshold: ThresholdChoice | None = None
    segments: int = 1
    window: float | None = None
    n_calibration: int = 2000
    min_history: int = 5
    random_state: int = 0
    refit: bool = False
    fallback: str | None = None
    name: str | None = None
    verbose: int = 0
    sizes_: pl.DataFrame | None = field(init=False, default=None)
    _about: About = field(init=False)
    _adapted: tuple[tuple[Any, ...], Adapter] | None = field(init=False, default=None)
    _cuts_profiles: bool = field(init=False, default=False)
    """Whether calibration users had shorter histories than served users, as after `fit`."""
    _sample: Sample | None = field(init=False, default=None)
    """The data to calibrate item lists and groups on; a folder does not store it."""

    @timed("Fitted")
    def fit(
        self,
        data: Any,
        y: object = None,  # noqa: ARG002
        *,
        user_segments: Any = None,
        item_lists: Mapping[str, Iterable[Any]] | None = None,
    ) -> Self:
        """Fit a copy of the model on the past, and calibrate it on held-out interactions.

        Parameters
        ----------
        data : Interactions, frame or path
            All interactions. Held out are the last items of the calibration users (at most half of
            the users), or with `window` the last days of all users.
        y : ignored
            For compatibility with scikit-learn.
        user_segments, item_lists
            Segments and item lists; see :meth:`PopulationConformal.fit`.

        Returns
        -------
        self
        """
        self._cuts_profiles = self.window is None
        self._validate()
        adapter, whole = self._adapter(), _interactions(data)
        covers = self._covers(adapter)
        measure = WrappedMeasure(adapter, by_user=covers != "new-users")
        if not measure.refits:
            raise InputError(
                f"{measure.name} is fitted already, and surerec cannot fit a copy. Call "
                "calibrate(past, future)."
            )
        if covers != "fit" and not adapter.folds_in:
            checks.refuse_new_users(adapter)
        chosen, served, about = self._cut_apart(whole, covers)
        about = replace(about, knows_all=adapter.knows_all)
        fitted = served if self.window is not None else served.keeping(~chosen.future_rows())
        if covers != "fit":
            new = chosen.users[:: 2 if covers == "both" else 1]
            fitted = fitted.without_users(new)
        with stage("learning"):
            known, scorer = self._fit_copy(measure, served, fitted)
        segments = read_segments(self.segments, user_segments, known.interactions)
        self.model_ = self._calibrated(Sample(scorer, known, chosen), about, segments)
        if self.refit:
            with stage("learning"):
                known, scorer = self._fit_copy(measure, whole, whole)
            segments = read_segments(self.segments, user_segments, known.interactions)
            assumes = f"{scorer.name} refitted on all data ranks like the calibrated model"
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
        self, measure: WrappedMeasure, served: Interactions, fitted: Interactions
    ) -> tuple[PrecedenceStatistics, WrappedScorer]:
        items = None if self.items is None else ids_of(self.items, None, "item", measure.name)
        known = on_catalogue(served, fitted, items)
        profiles = on_catalogue(fitted, fitted, items).interactions
        return known, measure.scorer(profiles, known.interactions)

    def _cut_apart(self, whole: Interactions, covers: Covers) -> tuple[Cases, Interactions, About]:
        """Return calibration users, the interactions that serve them, and their description."""
        about = About(covers)
        if self.window is None:
            cases = profile_cases(whole, self.horizon, min_history=self.min_history)
            # At most half calibrate, so that calibration users resemble the other users of the fit.
            chosen = self._sampled(cases, at_most_half=True)
            return chosen, whole, replace(about, set_aside=covers != "new-users")
        end = int(whole.times.max()) + 1
        begin = end - int(self.window * DAY)
        cases = window_cases(whole, begin, end, self.horizon, min_history=self.min_history)
        chosen = self._sampled(cases, at_most_half=covers != "fit")
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
        """Calibrate a fitted model on interactions that it was not fitted on.

        Parameters
        ----------
        past : Interactions, frame or path
            The interactions that the model was fitted on; or the histories of users who were not
            in its fit.
        future : Interactions, frame or path
            The later interactions of these users, unknown to the model.
        user_segments, item_lists
            Segments and item lists; see :meth:`PopulationConformal.fit`.
        repeats : {"error", "drop"}, default="error"
            How to treat future items that the user has in the past, as the guarantee is about new
            items. "drop" removes them, warns with their number, and states it in the guarantee.

        Returns
        -------
        self

        Raises
        ------
        InputError
            If the future repeats items of a user's past and `repeats` is "error", if ids do not
            match the model's, or if there are no calibration users.
        """
        self._cuts_profiles = False
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
        if covers != "both":
            cases = cases[in_fit[cases.users] == (covers == "fit")]
        if not len(cases):
            raise InputError(
                f"No user with future items {'was' if covers == 'fit' else 'was not'} in the fit "
                f"of {adapter.name}, so there are no calibration users. Check users= and covers=."
            )
        chosen = self._sampled(cases, at_most_half=False)
        statistics = on_catalogue(known, known, adapter.catalogue)
        by_user, knows_all = covers != "new-users", adapter.knows_all or covers != "fit"
        scorer = of_fitted(
            adapter, statistics.interactions, in_fit, by_user=by_user, knows_all=knows_all
        )
        about = About(
            covers,
            future=checks.what_follows(known, later, self.horizon),
            assumes=f"{adapter.name} was not trained on their future items{_without(dropped)}",
            knows_all=knows_all,
        )
        sample = Sample(self._completed(scorer, statistics), statistics, chosen)
        segments = read_segments(self.segments, user_segments, statistics.interactions)
        self.model_ = self._calibrated(sample, about, segments)
        return self._add_item_lists(item_lists)

    def _calibrated(
        self, sample: Sample, about: About, segments: Segmentation | None
    ) -> FittedModel:
        """Calibrate on a sample of users, and return the model."""
        known, scorer = sample.past, cast("WrappedScorer", sample.scorer)
        found = self._settings().calibrate(sample, about.says(scorer), known, segments)
        if not len(found.users):
            raise InputError(
                f"{scorer.name} knows no future item of the calibration users. Check the item ids."
            )
        checks.refuse_constant(scorer, known, found.users)
        self.sizes_ = None
        if not find_guarantee(self.guarantee).tested:
            with stage("comparing with popularity"):
                self.sizes_ = compare_sizes(found, sample)
            warn_of_large_sets(scorer.name, self.sizes_)
        self._sample, self._about = sample, about
        return self._fitted(known, scorer, found)

    def _calibrated_list(self, listed: NamedItems) -> UserCalibration:
        model, says = self.model_, self._about.says(self._wrapped_scorer())
        sample = _kept_sample(self._sample, model)
        return self._settings().calibrate(sample, says, model.statistics, model.segments, listed)

    def _measure(self) -> WrappedMeasure:
        adapter = self._adapter()
        covers = self._about.covers if self.__sklearn_is_fitted__() else self._covers(adapter)
        return WrappedMeasure(adapter, by_user=covers != "new-users")

    def _adapter(self, *, again: bool = False) -> Adapter:
        """Return the adapter of the model; `again` adapts it once more, but not lists."""
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
        """Return whom `fit` covers: all users if the model scores histories."""
        if self.covers is not None:
            return self.covers
        if self.refit:  # which moves calibration users into the fit
            return "fit" if adapter.knows_users else "new-users"
        return "both" if adapter.folds_in else "fit"

    def _default_name(self) -> str:
        return f"{find_guarantee(self.guarantee).prefix}-{self._measure().name}".lower()

    def _settings(self) -> UserLevel:
        threshold = self.threshold
        if threshold is None and self._adapter().has_value:
            threshold = "score"
        elif threshold is None and self._cuts_profiles:
            threshold = "rank"
        elif threshold == "learned" and self._cuts_profiles:
            raise InputError(
                "threshold='learned' depends on history lengths, and fit without window= is "
                "calibrated on shorter histories than it serves. Pass window=, or call "
                "calibrate(past, future)."
            )
        return UserLevel.of(self, threshold)

    def _validate(self) -> None:
        if self.covers is not None:
            check_choice("covers", self.covers, get_args(Covers))
        self._settings()
        if check_flag("refit", self.refit) and self.covers == "both":
            raise InputError(
                "covers='both' cannot be combined with refit=True, as calibration users would "
                "enter the fit. Pass covers='fit' or covers='new-users'."
            )
        if self.refit and self.window is None:
            raise InputError(
                "refit=True needs window=. Without it the model would be refitted on its own "
                "calibration items, and the guarantee would not hold."
            )
        if self.name is not None and not check_kind("name", self.name, str, "a text").strip():
            raise InputError("name is empty. Pass a name for guarantees and reports.")
        if self.fallback is not None:
            check_fallback(self.fallback)
            if not isinstance(self._adapter(), ListsAdapter):
                raise InputError("fallback= needs a frame or file of lists. Omit it.")

    @property
    def wrapped_(self) -> Any:
        """The wrapped model that serves."""
        return self._wrapped_scorer().adapter.model

    @property
    def threshold_(self) -> ThresholdChoice:
        """The threshold unit in use."""
        return self.model_.user_level.threshold

    @property
    def threshold_sizes_(self) -> dict[str, dict[float, float]]:
        """Mean set sizes of the users who chose the threshold, by unit and confidence."""
        return sizes_by_unit(self.model_.user_level.probabilities)

    @property
    def covers_(self) -> Covers:
        """The users whom the guarantee covers."""
        return self._about.covers

    def _wrapped_scorer(self) -> WrappedScorer:
        return cast("WrappedScorer", self.scorer_)

    def _completed(self, scorer: WrappedScorer, statistics: PrecedenceStatistics) -> WrappedScorer:
        """Return a scorer whose lists are completed by `fallback`, if it is given."""
        adapter = scorer.adapter
        if self.fallback is None or not isinstance(adapter, ListsAdapter):
            return scorer
        whole = adapter.completed(self.fallback, statistics, scorer.columns, scorer.rows)
        return WrappedScorer(whole, scorer.columns, scorer.rows, by_user=True, knows_all=True)

    @property
    def floor_(self) -> float:
        """The smallest ε that can be guaranteed, because no set contains unknown items."""
        if find_guarantee(self.guarantee).tested:
            raise InputError("A precision guarantee has no smallest ε. Use guarantee='recall'.")
        return self.model_.user_level.curve.lowest_level()

    def _in_words(self, value: Any) -> str:
        if value is self.model:
            return self._adapter().name
        for ids in (self.items, self.users):
            if ids is not None and value is ids:
                return f"<{len(list(ids)):,} ids>"
        return super()._in_words(value)

    def _stored_params(self) -> dict[str, Any]:
        adapter = self._wrapped_scorer().adapter
        model = {adapter.stored: adapter.name} if adapter.stored else {OWN: self._measure().name}
        # The statistics have the ids of items and users.
        return {**super()._stored_params(), "model": model, "items": None, "users": None}

    def _group_model(self, calibration: Calibration) -> CalibratedGroups:
        sample = partial(_kept_sample, self._sample)
        return self._settings().group_model(calibration, sample, held_out=True)

    def _state(self) -> State:
        scorer = self._wrapped_scorer()
        mine = State({}, {"about": self._about.to_text()})
        if scorer.adapter.stored is None:
            mine |= State({"probe": checks.probe(scorer, self.statistics_, self.calibration_)})
        return super()._state() | mine.under(_WRAPPED)

    def _restore(self, statistics: PrecedenceStatistics, state: State) -> Self:
        """Restore the model, and check that the given model is the calibrated one."""
        mine, state = state.split(_WRAPPED)
        is_stored = isinstance(self.model, dict)
        check_arrays("a wrapped model", {} if is_stored else _PROBE, mine.arrays)
        self._about, self._sample = About.from_text(mine.texts["about"]), None
        super()._restore(statistics, state)
        if not is_stored:
            before = mine.arrays["probe"]
            checks.check_same(self._wrapped_scorer(), self.statistics_, self.calibration_, before)
        return self

    def _scorer_from(self, statistics: PrecedenceStatistics, state: State) -> WrappedScorer:
        """Return the scorer of the given model, or of the saved arrays."""
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
        by_user = adapter.knows_users and self._about.covers != "new-users"
        scorer = WrappedScorer(adapter, columns, rows, by_user=by_user, knows_all=adapter.knows_all)
        return self._completed(scorer, statistics)

    def _calibration_from(
        self, statistics: PrecedenceStatistics, scorer: Scorer, state: State
    ) -> UserCalibration:
        says = self._about.says(cast("WrappedScorer", scorer))
        return self._settings().calibration_from(state, says, statistics)


def wrap(model: Any, **settings: Any) -> WrappedRecommender:
    """Wrap a model of any library in a recommender with user-level calibration.

    For a fitted model call `calibrate` with later interactions. Otherwise call `fit`, which fits
    and calibrates a copy. The model itself is never changed.

    Parameters
    ----------
    model : object
        A model of implicit (ALS, BPR, LMF, item-item), RecTools, LensKit or Cornac;
        ``(model, dataset)`` of RecBole; arrays in :class:`surerec.adapters.Factors` or
        :class:`surerec.adapters.ItemItem`; an object with ``score(history)``; a
        function that returns scores for one history or a list of them; or a
        frame or file of ``user_id``, ``item_id`` and ``score``, complete or with each user's best
        items. Histories are lists of item ids in time order; scores are in the order of `items`.
    items, users : iterable of ids, optional
        The ids of the columns and rows of a fitted model; by default their numbers. Item ids that
        cannot be column numbers raise an error; doubtful ones a warning
        (:class:`surerec.errors.AssumedIdsWarning`). With `fit`, `items` is the catalogue; by
        default all items of the data that the copy is fitted on.
    covers : {"both", "fit", "new-users"}, optional
        The users whom the guarantee covers: users of the fit, users whom the model scores by their
        history only, or both, each with their own thresholds. By default both, if the model scores
        histories. `calibrate` looks up the users of the past in `users`; a model that stores no
        users is assumed to be fitted on the past.
    guarantee : {"recall", "hit", "precision"} or GuaranteeKind, default="recall"
        The guarantee; see :class:`PopulationConformal`.
    horizon : float or int, default=0.4
        The held-out interactions: a share of a profile, or a number of next items. With
        `calibrate` a share means the whole future.
    threshold : {"rank", "score", "learned"}, optional
        "rank" gives all users the same number of items. "learned" cuts by an item's share of what
        the user is expected to consume, learned on one in four calibration users, who then do not
        calibrate. By default `calibrate`, and `fit` with `window`, use the one of these two that
        has the smaller sets on these users, and "rank" with fewer than 50 of them. `fit` on parts
        of profiles uses "rank": served histories are longer there, and "learned" depends on their
        length. A model with a method ``value(scores, history_length)`` uses "score".
    segments : int, default=1
        Separate thresholds for that many segments of users by history length.
    window : float, optional
        `fit` uses a temporal split: the last `window` days calibrate a fit on the data before.
    n_calibration : int, default=2000
        The maximum number of calibration users.
    min_history : int, default=5
        Users with fewer known items neither calibrate nor have a guarantee.
    random_state : int, default=0
        Seed of the random choice of calibration users.
    refit : bool, default=False
        Whether `fit` with `window` finally fits a copy on all data. The guarantee then assumes that
        it ranks like the calibrated model.
    fallback : str, optional
        Completes lists that lack items: "popularity", or one of the 17 measures, computed on the
        past. Without it, unlisted items are missed, and ``floor_`` is the smallest ε.
    name : str, optional
        The name of the model in guarantees, reports and messages; by default that of its class or
        function.
    verbose : int, default=0
        1 prints the stages of `fit` with their times on stderr, 2 also progress bars.

    Returns
    -------
    WrappedRecommender

    Raises
    ------
    InputError
        If the kind of the model is unknown, or a parameter is invalid.

    Examples
    --------
    >>> import numpy as np
    >>> import surerec as sr
    >>> films = sr.datasets.synthetic(n_users=300, n_items=60, n_rows=6000, random_state=1)
    >>> class Popular:
    ...     def fit(self, interactions):
    ...         codes = interactions.item_codes
    ...         self.counts = np.bincount(codes, minlength=interactions.n_items)
    ...     def score(self, history):
    ...         return self.counts
    >>> sure = sr.wrap(Popular()).fit(films)
    >>> picks = sure.recommend(history=films.profile(7)["item_id"], confidence=0.8)
    >>> print(picks.guarantee)
    Recall of at least 80% on average over users with no history in the fit: the set contains at
    least 80% of what a user consumes next (the last 40% of a history, without repeats). Assumes
    users exchangeable with the ... calibration users (... to ...) and no drift since. Scores used
    later interactions of other users.
    """
    kept: dict[str, Any] = {
        name: list(value) if isinstance(value, Iterator) else value
        for name, value in settings.items()
    }
    return WrappedRecommender(model, **kept).set_params()  # which validates them


def _kept_sample(sample: Sample | None, _: FittedModel) -> Sample:
    """Return the calibration users; a loaded model no longer has them."""
    if sample is None:
        raise InputError(
            "A loaded wrapped model lacks the interactions of its calibration users. Call "
            "add_item_list and calibrate_groups before saving it."
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
    """Build the adapter stored in a folder; raise ValueError if its rows are not its users."""
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
