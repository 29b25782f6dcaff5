"""User-level calibration as an estimator: guarantees that hold in time order."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from surerec._arguments import MOST, check_flag, check_kind, check_number
from surerec._progress import stage
from surerec._words import DAY, day_of
from surerec.calibration import (
    UserCalibration,
    UserCoverage,
    cases_of,
    codes_in,
    find_guarantee,
    profile_cases,
    window_cases,
)
from surerec.errors import InputError
from surerec.interactions import Interactions
from surerec.measures import as_measure, as_scorer
from surerec.precedence import PrecedenceStatistics, as_statistics, count_like, count_precedence
from surerec.recommenders._choice import AUTO, CANDIDATES, MeasureChoice, choose_measure
from surerec.recommenders._estimator import Recommender, fit_scorer, timed
from surerec.recommenders._group_calibration import CalibratedGroups, Sample
from surerec.recommenders._parts import CALIBRATION, CHOICE, SCORER
from surerec.recommenders._user_level import (
    SegmentSpec,
    Statement,
    UserLevel,
    read_segments,
    renewed_segments,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import polars as pl
    from numpy.typing import NDArray

    from surerec._state import State
    from surerec.calibration import (
        Calibration,
        Cases,
        GuaranteeKind,
        Horizon,
        NamedItems,
        ThresholdChoice,
    )
    from surerec.interactions import Segmentation
    from surerec.measures import Measure, MeasureLike, Scorer
    from surerec.recommenders._choice import Tried
    from surerec.recommenders._model import FittedModel


@dataclass(eq=False, repr=False)
class PopulationConformal(Recommender):
    """Recommendation sets with user-level calibration, by conformal risk control.

    A measure ranks all items for the user's whole history. The threshold is chosen on calibration
    users, whose last items are held out: at ε, the smallest sets with which they miss no more than
    ε. Unlike the paper's p-values, this assumes exchangeable users, not exchangeable items.

    Parameters
    ----------
    measure : str or object, default="CM12"
        One of the 17 measures, "learned" (gradient-boosted trees, about half the set size), "als"
        (matrix factorisation), a custom scorer, or a function that builds one from statistics; see
        :func:`surerec.measures.as_measure`. "auto" tries CM12, als and learned, and keeps the one
        with the smallest sets; see Notes.
    guarantee : {"recall", "hit", "precision"} or GuaranteeKind, default="recall"
        "recall": mean recall of held-out items at least 1 − ε. "hit": at least one held-out item in
        the set with probability 1 − ε. "precision": a share of the shown items is consumed, as in
        ``recommend(user, precision=0.5)``. See :data:`surerec.calibration.GUARANTEE_KINDS`.
    horizon : float or int, default=0.4
        The held-out interactions: that share of a profile, or that many next items.
    threshold : {"rank", "score", "learned"}, default="score"
        "rank" truncates all rankings at the same rank. "score" truncates where an item's share of
        the user's scores becomes too small, so that set sizes adapt to users. "learned" does so by
        the share of what the user is expected to consume; see :func:`surerec.wrap`.
    segments : int, str, or (str, int), default=1
        Separate thresholds for segments of users (Mondrian); the guarantee then holds in each. A
        number: that many segments by history length. A name: a column such as "country", which
        :meth:`fit` receives as `user_segments`. Both: that column, then history length.
    window : float, optional
        Use a temporal split: calibrate on the last `window` days with statistics from before, then
        refit on all data. By default a per-user split: the last part of each profile.
    n_calibration : int, default=2000
        The maximum number of calibration users.
    min_history : int, default=5
        Users with fewer known items neither calibrate nor have a guarantee.
    random_state : int, default=0
        Seed of the random choice of calibration users, and of training.
    max_seconds : float, optional
        With ``measure="auto"``, no further measure is tried after this time. CM12 is always tried.
    verbose : int, default=0
        1 prints the stages of `fit` with their times on stderr, 2 also progress bars.

    Attributes
    ----------
    calibration_ : CalibrationUsers
        The calibration users with their outcomes.
    scorer_ : Scorer
        The fitted measure; ``scorer_.learned`` has the trees of a learned one.
    measure_ : str
        The name of the fitted measure, which "auto" has chosen.
    choice_ : tuple
        With ``measure="auto"``, what each measure gave and cost.

    Notes
    -----
    With ``measure="auto"``, a quarter of the users, at most 500, choose. The measures are tried on
    all users; of larger data on 10,000, or more with short histories (2 million interactions). Each
    choosing user is left out of their own scores. Sets within 1% of the smallest count as equal;
    the faster measure is kept.

    Choosing users do not calibrate, so no outcome that sets a threshold was compared. Interactions
    of calibration users only trained the tried measures, as they train the kept one. The guarantee
    therefore holds for new users as with a given measure. Choosing users are served and covered as
    others, but only approximately: their own held-out items had one vote among many.

    Examples
    --------
    >>> import surerec as sr
    >>> films = sr.datasets.synthetic(n_users=300, n_items=60, n_rows=6000, random_state=1)
    >>> model = sr.PopulationConformal("CM12").fit(films)
    >>> picks = model.recommend(user=7, confidence=0.8)
    >>> len(picks) <= len(model.recommend(user=7, confidence=0.9))
    True
    >>> hits = sr.PopulationConformal("CM12", guarantee="hit", horizon=5).fit(films)
    >>> len(hits.recommend(user=7, confidence=0.8)) < len(picks)
    True
    """

    measure: MeasureLike = "CM12"
    _: KW_ONLY
    guarantee: str | GuaranteeKind = "recall"
    horizon: Horizon = 0.4
    threshold: ThresholdChoice = "score"
    segments: SegmentSpec = 1
    window: float | None = None
    n_calibration: int = 2000
    min_history: int = 5
    random_state: int = 0
    max_seconds: float | None = None
    verbose: int = 0
    _choice: MeasureChoice | None = field(default=None, init=False)

    @timed("Fitted")
    def fit(
        self,
        data: Any,
        y: object = None,  # noqa: ARG002
        *,
        user_segments: Any = None,
        item_lists: Mapping[str, Iterable[Any]] | None = None,
    ) -> Self:
        """Compute the statistics, fit the measure, and calibrate it on held-out interactions.

        Parameters
        ----------
        data, y
            As in :meth:`Recommender.fit`.
        user_segments : mapping, pandas Series, frame or path, optional
            The segment of each user, for ``segments="country"``: by user id (the index of a
            Series), or a frame or file with a user column and this column. Users without a segment
            neither calibrate nor have a guarantee.
        item_lists : mapping of str to iterable of ids, optional
            Item lists to calibrate on, by name; see :meth:`add_item_list`.

        Returns
        -------
        self

        Examples
        --------
        >>> import surerec as sr
        >>> films = sr.datasets.synthetic(n_users=300, n_items=60, n_rows=6000, random_state=1)
        >>> country = {user: "AT" if user % 3 else "DE" for user in films.users.ids}
        >>> model = sr.PopulationConformal(segments="country").fit(films, user_segments=country)
        >>> history = films.items.ids[:6].to_list()
        >>> print(model.recommend(history=history, segment="DE", confidence=0.8).guarantee)
        Recall of at least 80% on average over users with country 'DE': the set contains at least
        80% of what a user consumes next (the last 40% of a history, without repeats). Assumes
        users exchangeable with the 75 calibration users (2020-03-10 to 2021-12-30) and no drift
        since. Scores used later interactions of other users.
        """
        self._validate()
        statistics = as_statistics("fit", data)
        profiles = statistics.require_profiles("there are no calibration users")
        segments = read_segments(self.segments, user_segments, profiles)
        past = statistics
        if self.window is None:
            cases = profile_cases(profiles, self.horizon, min_history=self.min_history)
        else:  # the calibrated scorer is fitted on data from before the window only
            end = _end(profiles)
            begin = end - int(self.window * DAY)
            cases = window_cases(profiles, begin, end, self.horizon, min_history=self.min_history)
            past = count_like(statistics, profiles.until(begin))
        measure, sample = self._chosen(past, cases)
        model = self._calibrated(measure, statistics, sample, segments)
        if self.window is not None:
            model = self._updated(measure, model, None)
        self.model_ = model
        return self._add_item_lists(item_lists)

    def _chosen(self, past: PrecedenceStatistics, cases: Cases) -> tuple[Measure, Sample]:
        """Return the measure, chosen if it is "auto", and its scorer and calibration users."""
        self._choice, scorer = None, None
        if self._is_auto:
            self._choice, cases, scorer = choose_measure(
                past, cases, self._settings(), self._named, self.max_seconds
            )
        measure = self._measure()
        return measure, self._sample(measure, past, cases, scorer)

    def _sample(
        self,
        measure: Measure,
        past: PrecedenceStatistics,
        cases: Cases,
        scorer: Scorer | None = None,
    ) -> Sample:
        """Return a scorer, fitted on the past unless given, with its calibration users.

        If a scorer cannot leave users out, at most half of the users calibrate it, and these are
        excluded from the fit.
        """
        chosen = cases.sample(self.n_calibration, self.random_state)
        can_leave_out = measure.leaves_users_out if scorer is None else scorer.leaves_users_out
        if scorer is None and not (measure.refits and can_leave_out is False):
            scorer = fit_scorer(measure, past)
            can_leave_out = scorer.leaves_users_out
        if scorer is None or (measure.refits and can_leave_out is False):
            chosen = cases.sample(
                min(self.n_calibration, max(1, len(cases) // 2)), self.random_state
            )
            past = count_without(past, codes_in(past, chosen.interactions)[0][chosen.users])
            with stage("learning"):
                scorer = measure.fit(past)
        return Sample(scorer, past, chosen)

    def _calibrated(
        self,
        measure: Measure,
        statistics: PrecedenceStatistics,
        sample: Sample,
        segments: Segmentation | None,
        lists: Iterable[NamedItems] = (),
    ) -> FittedModel:
        """Calibrate on a sample of users, and return the model on the serving statistics."""
        settings, says = self._settings(), Statement(UserCoverage(held_out=measure.refits))
        calibration = settings.calibrate(sample, says, statistics, segments)
        made = {
            each.name: settings.calibrate(sample, says, statistics, segments, each)
            for each in lists
        }
        return self._fitted(statistics, sample.scorer, calibration, made)

    def _updated(
        self, measure: Measure, model: FittedModel, earlier_users: NDArray[np.int64] | None
    ) -> FittedModel:
        """Return a model whose scorer is updated to all data, calibration users included."""
        with stage("learning"):
            scorer = measure.update(model.scorer, model.statistics, earlier_users)
        return replace(_not_apart(model, measure), scorer=scorer)

    @timed("Recalibrated")
    def recalibrate(
        self,
        interactions: Interactions,
        *,
        refit: bool = True,
        counts: PrecedenceStatistics | None = None,
        user_segments: Any = None,
    ) -> Self:
        """Recalibrate the threshold on interactions since the last fit.

        The existing statistics are the past of that window, so they are not computed again.

        Parameters
        ----------
        interactions : Interactions
            All interactions, old and new.
        refit : bool, default=True
            Also refit on all interactions after the recalibration. Without it only the threshold
            changes.
        counts : PrecedenceStatistics, optional
            The statistics of these interactions, to share them between recommenders.
        user_segments : mapping, pandas Series, frame or path, optional
            As in :meth:`fit`; by default users keep their segments, and new users have none.

        Returns
        -------
        self
        """
        check_kind("interactions", interactions, Interactions, "all Interactions, old and new")
        check_flag("refit", refit)
        if counts is not None:
            check_kind(
                "counts", counts, PrecedenceStatistics, "PrecedenceStatistics of the interactions"
            )
            if counts.interactions is not interactions:
                raise InputError("counts= belongs to other interactions. Omit it.")
        before = self.model_
        past, segments, measure = before.statistics, before.segments, self._measure()
        known = before.profiles()
        begin, end = _end(known), _end(interactions)
        if begin >= end:
            raise InputError(
                f"There are no interactions after {day_of(begin)}, the end of the fitted data. "
                "Pass newer interactions."
            )
        cases = window_cases(interactions, begin, end, self.horizon, min_history=self.min_history)
        now = past
        if refit:
            now = counts or count_precedence(interactions, ties=past.ties)
        served = now.interactions
        if segments is not None:
            segments = renewed_segments(segments, user_segments, past, served)
        listed = (each.listed for each in before.item_lists.values())
        lists = [each.within(known.items, served.items) for each in listed if each is not None]
        sample = self._sample(measure, past, cases, before.scorer)
        model = self._calibrated(measure, now, sample, segments, lists)
        if refit:
            model = self._updated(measure, model, codes_in(past, interactions)[0])
        else:
            model = replace(model, groups=before.groups)
        self.model_ = replace(model, name=before.name)
        return self

    def _calibrated_list(self, listed: NamedItems) -> UserCalibration:
        model, says = self.model_, Statement(self.model_.user_level.coverage)
        sample = calibration_users(self._measure(), model)
        return self._settings().calibrate(sample, says, model.statistics, model.segments, listed)

    def _default_name(self) -> str:
        return f"{find_guarantee(self.guarantee).prefix}-{self._measure().name}".lower()

    @property
    def measure_(self) -> str:
        """The name of the fitted measure, which "auto" has chosen."""
        _ = self.model_  # raises NotFittedError
        return self._measure().name

    @property
    def choice_(self) -> tuple[Tried, ...]:
        """The measures that "auto" tried; empty if the measure was given or the model loaded.

        Each has ``measure``, ``mean_size``, ``sizes``, ``seconds``, and a ``note`` that says why it
        was not tried. ``sizes`` has the mean set sizes by confidence, 0.9 to 0.5; for a precision,
        by recall, 0.1 to 0.5. Their geometric mean ``mean_size`` decides.
        """
        return () if self._choice is None else self._choice.tried

    @property
    def _is_auto(self) -> bool:
        return isinstance(self.measure, str) and self.measure.strip().lower() == AUTO

    def _measure(self) -> Measure:
        if not self._is_auto:
            return self._named(self.measure)
        return self._named(next(iter(CANDIDATES)) if self._choice is None else self._choice.kept)

    def _named(self, measure: MeasureLike) -> Measure:
        return as_measure(
            measure, random_state=self.random_state, horizon=self.horizon, window=self.window
        )

    def _settings(self) -> UserLevel:
        return UserLevel.of(self, "score" if self.threshold is None else self.threshold)

    def _validate(self) -> None:
        self._settings()
        self._measure()
        if self.max_seconds is not None:
            check_number("max_seconds", self.max_seconds, 0, MOST, "a number of seconds above 0")

    def _group_model(self, calibration: Calibration) -> CalibratedGroups:
        settings, measure = self._settings(), self._measure()
        choosing = None if self._choice is None else self._choice.users
        sample = partial(group_users, measure, settings, choosing)
        return settings.group_model(calibration, sample, held_out=measure.refits)

    def _calibration_from(
        self,
        statistics: PrecedenceStatistics,
        scorer: Scorer,  # noqa: ARG002
        state: State,
    ) -> UserCalibration:
        says = Statement(UserCoverage(held_out=self._measure().refits))
        return self._settings().calibration_from(state, says, statistics)

    def _stored_params(self) -> dict[str, Any]:
        found = super()._stored_params()
        if self._is_auto:
            found |= {"measure": self._measure().stored, "max_seconds": None}
        return found

    def _state(self) -> State:
        found = super()._state()
        if self._choice is None:
            return found
        return found | self._choice.state(self.model_.profiles().users).under(CHOICE)

    def _restored(self, statistics: PrecedenceStatistics, state: State) -> FittedModel:
        choice, state = state.split(CHOICE)
        if not choice.is_empty:
            users = statistics.interactions.users
            self._choice = MeasureChoice.from_state(choice, self._measure().name, users)
        model, measure = super()._restored(statistics, state), self._measure()
        is_saved = not state.split(SCORER)[0].is_empty
        if is_saved or model.scorer.leaves_users_out is not False or not measure.refits:
            # A saved scorer may have been refitted since its calibration.
            return _not_apart(model, measure)
        apart = measure.fit(count_without(statistics, state.arrays[f"{CALIBRATION}users"]))
        return replace(model, scorer=as_scorer(apart, statistics.n_items))


def calibration_users(measure: Measure, model: FittedModel) -> Sample:
    """Return the scorer of a model as it was at calibration, and its calibration users."""
    now, scorer, profiles = model.statistics, model.scorer, model.profiles()
    cases = cases_of(model.user_level, profiles)
    past = now
    if cases.moment is not None:
        past = count_like(now, profiles.until(cases.moment))
    if measure.refits and scorer.leaves_users_out is False:
        past = count_without(past, codes_in(past, profiles)[0][cases.users])
    if past is not now:
        scorer = measure.update(scorer, past, codes_in(now, past.interactions)[0])
    return Sample(scorer, past, cases)


def group_users(
    measure: Measure, settings: UserLevel, choosing: pl.Series | None, model: FittedModel
) -> Sample:
    """Return the calibration users; all but the choosing users if the scorer leaves users out."""
    if settings.window is not None or model.scorer.leaves_users_out is not True:
        return calibration_users(measure, model)
    cases = profile_cases(model.profiles(), settings.horizon, min_history=settings.min_history)
    if choosing is not None:
        cases = cases[~np.isin(cases.users, model.profiles().users.codes(choosing))]
    return Sample(model.scorer, model.statistics, cases)


def _not_apart(model: FittedModel, measure: Measure) -> FittedModel:
    """Return a model whose scorer may include its calibration users."""
    coverage = UserCoverage(held_out=measure.refits, apart=False)
    lists = {name: replace(each, coverage=coverage) for name, each in model.item_lists.items()}
    calibration = replace(model.user_level, coverage=coverage)
    return replace(model, calibration=calibration, item_lists=lists)


def count_without(
    statistics: PrecedenceStatistics, users: NDArray[np.int64]
) -> PrecedenceStatistics:
    """Compute statistics without some users, by code or −1."""
    return count_like(statistics, statistics.interactions.without_users(users[users >= 0]))


def _end(interactions: Interactions) -> int:
    """Return the first instant after all interactions."""
    if not interactions.n_rows:
        raise InputError("The data have no interactions to calibrate on. Pass at least one.")
    return int(interactions.times.max()) + 1
