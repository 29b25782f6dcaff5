"""Sets whose guarantee is calibrated over users: it holds in time order, and sets are smaller."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from surerec._arguments import check_flag, check_kind
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
from surerec.recommenders._estimator import Recommender, fit_scorer, timed
from surerec.recommenders._group_calibration import CalibratedGroups, Sample
from surerec.recommenders._parts import CALIBRATION, SCORER
from surerec.recommenders._user_level import (
    SegmentSpec,
    Statement,
    UserLevel,
    read_segments,
    renewed_segments,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from surerec._state import State
    from surerec.calibration import (
        Calibration,
        Cases,
        GuaranteeKind,
        Horizon,
        NamedItems,
        ThresholdUnit,
    )
    from surerec.interactions import Segmentation
    from surerec.measures import Measure, MeasureLike, Scorer
    from surerec.recommenders._model import FittedModel


@dataclass(eq=False, repr=False)
class PopulationConformal(Recommender):
    """Recommendation sets calibrated over users, by conformal risk control.

    A measure ranks all items by the whole known profile. How much of the ranking a set must hold is
    learned from calibration users, whose last items are set aside: at ε, the smallest cut with
    which they miss no more than ε. Unlike the paper's p-values this needs no exchangeable items
    within a profile, only people (and times) that are alike.

    Parameters
    ----------
    measure : str or object, default="CM12"
        One of the 17 measures, "learned" for one that is trained on the way (about half the set
        size), "als" for matrix factorisation, or anything that
        :func:`surerec.measures.as_measure` accepts: a scorer of your own, or a function that makes
        one from statistics.
    guarantee : {"recall", "hit", "precision"} or Promise, default="recall"
        What is kept below ε: the mean share of a person's future items that is left out, or the
        probability that not one of them is in the set. Or how much of what is shown is taken, asked
        as ``recommend(user, precision=0.5)``. See :data:`surerec.calibration.GUARANTEE_KINDS`.
    horizon : float or int, default=0.4
        What "future" means: that share of a profile, or that many next items.
    threshold : {"rank", "score"}, default="score"
        Cut at the same rank for everyone, or where an item's share of the person's scores gets too
        small, so that the size adapts to the person.
    segments : int, str, or (str, int), default=1
        Separate thresholds for groups of people (Mondrian); the promise then holds in each. A
        number: so many groups by the number of their known items. A name: by a column of the
        people's own, such as "country", which :meth:`fit` is given as `user_segments`. Both: each
        of these apart by the number of known items.
    window : float, optional
        Calibrate by the calendar: on what people took in the last so many days, with counts from
        before; then count up to the end. By default on the last part of each profile.
    n_calibration : int, default=2000
        How many calibration users at most.
    min_history : int, default=5
        People of whom less is known neither calibrate nor are promised anything.
    random_state : int, default=0
        Of the choice of calibration users.
    verbose : int, default=0
        Print the stages of a fit with their times on stderr (1), and the loops in them (2).

    Attributes
    ----------
    calibration_ : CalibrationUsers
        What is kept of the calibration users.
    scorer_ : Scorer
        What the measure became on these data; ``scorer_.learned`` of a learned one.

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
    threshold: ThresholdUnit = "score"
    segments: SegmentSpec = 1
    window: float | None = None
    n_calibration: int = 2000
    min_history: int = 5
    random_state: int = 0
    verbose: int = 0

    @timed("Fitted")
    def fit(
        self,
        data: Any,
        y: object = None,  # noqa: ARG002
        *,
        user_segments: Any = None,
        item_lists: Mapping[str, Iterable[Any]] | None = None,
    ) -> Self:
        """Count who took what before what, fit the measure, and calibrate it on users' futures.

        Parameters
        ----------
        data, y
            As in :meth:`Recommender.fit`.
        user_segments : mapping, pandas Series, frame or path, optional
            The segment of each user, for ``segments="country"``: by id (the index of a Series), or
            in a frame or a file with a column of users and one of this name. Users of
            whom it says nothing do not calibrate, and are promised nothing.
        item_lists : mapping of str to iterable of ids, optional
            Lists of items that may be shown, by name; see :meth:`allow`.

        Returns
        -------
        self

        Examples
        --------
        >>> import surerec as sr
        >>> films = sr.datasets.synthetic(n_users=300, n_items=60, n_rows=6000, random_state=1)
        >>> country = {user: "AT" if user % 3 else "DE" for user in films.users.ids}
        >>> model = sr.PopulationConformal(segments="country").fit(films, user_segments=country)
        >>> taken = films.items.ids[:6].to_list()
        >>> print(model.recommend(history=taken, segment="DE", confidence=0.8).guarantee)
        Of the last 40% of items new to the user that they consume, at most 20% is left out on
        average over users with country 'DE'. Assumes users exchangeable with the 75 calibration
        users (2020-03-10 to 2021-12-30) and no drift since. The scores also used later
        interactions of other users.
        """
        self._validate()
        statistics = as_statistics("fit", data)
        profiles = statistics.require_profiles("nobody can calibrate")
        segments = read_segments(self.segments, user_segments, profiles)
        self.model_ = self._learned(statistics, segments)
        return self._add_item_lists(item_lists)

    def _learned(
        self, statistics: PrecedenceStatistics, segments: Segmentation | None
    ) -> FittedModel:
        """Fit the measure, and calibrate it on held-out interactions."""
        profiles, recipe = statistics.interactions, self.recipe()
        if self.window is None:
            cases = profile_cases(profiles, self.horizon, min_history=self.min_history)
            sample = self._sample(recipe, statistics, cases)
            return self._calibrated(recipe, statistics, sample, segments)
        end = _end(profiles)
        begin = end - int(self.window * DAY)
        cases = window_cases(profiles, begin, end, self.horizon, min_history=self.min_history)
        past = count_like(statistics, profiles.until(begin))
        # Fitted on the past of what calibrates it, and nothing later.
        sample = self._sample(recipe, past, cases)
        return self._updated(recipe, self._calibrated(recipe, statistics, sample, segments), None)

    def _sample(
        self,
        recipe: Measure,
        past: PrecedenceStatistics,
        cases: Cases,
        scorer: Scorer | None = None,
    ) -> Sample:
        """Return a scorer fitted on the past, unless it is given, and who calibrates it.

        Users who cannot be left out of what was learned must not be in it: then some of them, half
        at the most, calibrate it and have no part in the fit.
        """
        chosen = cases.sample(self.n_calibration, self.random_state)
        can_leave_out = recipe.leaves_users_out if scorer is None else scorer.leaves_users_out
        if scorer is None and not (recipe.refits and can_leave_out is False):
            scorer = fit_scorer(recipe, past)
            can_leave_out = scorer.leaves_users_out
        if scorer is None or (recipe.refits and can_leave_out is False):
            chosen = cases.sample(
                min(self.n_calibration, max(1, len(cases) // 2)), self.random_state
            )
            past = count_without(past, codes_in(past, chosen.interactions)[0][chosen.users])
            with stage("learning"):
                scorer = recipe.fit(past)
        return Sample(scorer, past, chosen)

    def _calibrated(
        self,
        recipe: Measure,
        statistics: PrecedenceStatistics,
        sample: Sample,
        segments: Segmentation | None,
        lists: Iterable[NamedItems] = (),
    ) -> FittedModel:
        """Return the model that a sample of users calibrates, on the statistics that serve."""
        settings, says = self._settings(), Statement(UserCoverage(held_out=recipe.refits))
        calibration = settings.calibrate(sample, says, statistics, segments)
        made = {
            each.name: settings.calibrate(sample, says, statistics, segments, each)
            for each in lists
        }
        return self._fitted(statistics, sample.scorer, calibration, made)

    def _updated(
        self, recipe: Measure, model: FittedModel, earlier_users: NDArray[np.int64] | None
    ) -> FittedModel:
        """Return a model whose scorer knows all of its statistics, calibration users included."""
        with stage("learning"):
            scorer = recipe.update(model.scorer, model.statistics, earlier_users)
        return replace(_not_apart(model, recipe), scorer=scorer)

    @timed("Recalibrated")
    def recalibrate(
        self,
        interactions: Interactions,
        *,
        refit: bool = True,
        counts: PrecedenceStatistics | None = None,
        user_segments: Any = None,
    ) -> Self:
        """Renew the threshold on what has happened since the counts were made.

        The counts that exist are the past of that window, so nothing has to be counted for it.

        Parameters
        ----------
        interactions : Interactions
            All profiles as they are now: what was known, and what came later.
        refit : bool, default=True
            Count them too, after calibrating, so that the next window is served with all that is
            known. Without it only the threshold is renewed, and no count is made.
        counts : PrecedenceStatistics, optional
            Of these interactions, if they were made before, for several recommenders.
        user_segments : mapping, pandas Series, frame or path, optional
            As in :meth:`fit`; by default users keep the groups that they have, and new users have
            none.
        """
        check_kind("interactions", interactions, Interactions, "Interactions, all as they are now")
        check_flag("refit", refit)
        if counts is not None:
            check_kind("counts", counts, PrecedenceStatistics, "counts of the interactions")
            if counts.interactions is not interactions:
                raise InputError("The counts are not of these interactions: leave counts= out.")
        before = self.model_
        past, segments, recipe = before.statistics, before.segments, self.recipe()
        known = before.profiles()
        begin, end = _end(known), _end(interactions)
        if begin >= end:
            raise InputError(
                f"Nothing has happened since {day_of(begin)}, up to which was counted: there is "
                "nothing to recalibrate on."
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
        sample = self._sample(recipe, past, cases, before.scorer)
        model = self._calibrated(recipe, now, sample, segments, lists)
        if refit:
            model = self._updated(recipe, model, codes_in(past, interactions)[0])
        else:
            model = replace(model, groups=before.groups)
        self.model_ = replace(model, name=before.name)
        return self

    def _calibrated_list(self, listed: NamedItems) -> UserCalibration:
        model, says = self.model_, Statement(self.model_.user_level.coverage)
        sample = calibration_users(self.recipe(), model)
        return self._settings().calibrate(sample, says, model.statistics, model.segments, listed)

    def default_name(self) -> str:
        """Return a name such as "recall-cm12" or "hit-cm12"."""
        return f"{find_guarantee(self.guarantee).prefix}-{self.recipe().name}".lower()

    def recipe(self) -> Measure:
        """Return what makes the scorer."""
        return as_measure(
            self.measure, random_state=self.random_state, horizon=self.horizon, window=self.window
        )

    def _settings(self) -> UserLevel:
        return UserLevel.of(self, "score" if self.threshold is None else self.threshold)

    def _validate(self) -> None:
        self._settings()
        self.recipe()

    def group_model(self, calibration: Calibration) -> CalibratedGroups:
        """Return what calibrates on groups of users."""
        settings, recipe = self._settings(), self.recipe()
        sample = partial(group_users, recipe, settings)
        return settings.group_model(calibration, sample, held_out=recipe.refits)

    def calibration_from(
        self,
        statistics: PrecedenceStatistics,
        scorer: Scorer,  # noqa: ARG002
        state: State,
    ) -> UserCalibration:
        """Return the calibration that was saved."""
        says = Statement(UserCoverage(held_out=self.recipe().refits))
        return self._settings().calibration_from(state, says, statistics)

    def _restored(self, statistics: PrecedenceStatistics, state: State) -> FittedModel:
        model, recipe = super()._restored(statistics, state), self.recipe()
        is_saved = not state.split(SCORER)[0].is_empty
        if is_saved or model.scorer.leaves_users_out is not False or not recipe.refits:
            # A saved scorer may have been fitted since it was calibrated.
            return _not_apart(model, recipe)
        apart = recipe.fit(count_without(statistics, state.arrays[f"{CALIBRATION}users"]))
        return replace(model, scorer=as_scorer(apart, statistics.n_items))


def calibration_users(recipe: Measure, model: FittedModel) -> Sample:
    """Return the scorer of a model as it was calibrated, and its calibration users."""
    now, scorer, profiles = model.statistics, model.scorer, model.profiles()
    cases = cases_of(model.user_level, profiles)
    past = now
    if cases.moment is not None:
        past = count_like(now, profiles.until(cases.moment))
    if recipe.refits and scorer.leaves_users_out is False:
        past = count_without(past, codes_in(past, profiles)[0][cases.users])
    if past is not now:
        scorer = recipe.update(scorer, past, codes_in(now, past.interactions)[0])
    return Sample(scorer, past, cases)


def group_users(recipe: Measure, settings: UserLevel, model: FittedModel) -> Sample:
    """Return all users where the scorer leaves users out now, else the calibration users."""
    if settings.window is not None or model.scorer.leaves_users_out is not True:
        return calibration_users(recipe, model)
    cases = profile_cases(model.profiles(), settings.horizon, min_history=settings.min_history)
    return Sample(model.scorer, model.statistics, cases)


def _not_apart(model: FittedModel, recipe: Measure) -> FittedModel:
    """Return a model whose calibration users may have a part in what serves by now."""
    coverage = UserCoverage(held_out=recipe.refits, apart=False)
    lists = {name: replace(each, coverage=coverage) for name, each in model.item_lists.items()}
    calibration = replace(model.user_level, coverage=coverage)
    return replace(model, calibration=calibration, item_lists=lists)


def count_without(
    statistics: PrecedenceStatistics, users: NDArray[np.int64]
) -> PrecedenceStatistics:
    """Count again without some users, by code or −1."""
    return count_like(statistics, statistics.interactions.without_users(users[users >= 0]))


def _end(interactions: Interactions) -> int:
    """Return the instant after everything that happened."""
    if not interactions.n_rows:
        raise InputError("The data hold no interactions: there is nothing to calibrate on.")
    return int(interactions.times.max()) + 1
