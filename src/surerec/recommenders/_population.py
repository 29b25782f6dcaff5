"""Sets whose promise is calibrated over users: it holds in time order, and sets are smaller."""

from __future__ import annotations

import warnings
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Self, get_args

from surerec._arguments import check_choice, check_flag, check_kind, check_number, check_seed
from surerec._calendar import DAY, day_of
from surerec._checks import check_whole
from surerec.calibration import CalibrationUsers, Cut, UserCalibration, find_promise
from surerec.errors import InputError, StaleModelWarning
from surerec.futures import check_horizon, codes_in, observe, profile_cases, window_cases
from surerec.interactions import Interactions
from surerec.measures import as_recipe
from surerec.precedence import PrecedenceStatistics, count_precedence
from surerec.recommenders._base import Recommender
from surerec.recommenders._measured import stored_measure

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from surerec.calibration import Assessment, Promise, Slate
    from surerec.futures import Cases, Horizon
    from surerec.measures import Query, Recipe, RecipeLike, Scorer

_MOST_GROUPS: Final = 10_000
_MOST_DAYS: Final = 1_000_000
"""Of a window: it ends in the calendar, which has hardly four times as many."""


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
        size), or anything that :func:`surerec.measures.as_recipe` takes: a scorer of your own, or a
        function that makes one from statistics.
    promise : {"miss-rate", "hit"} or Promise, default="miss-rate"
        What is kept below ε: the mean share of a person's future items that is left out, or the
        probability that not one of them is in the set. See :data:`surerec.calibration.PROMISES`.
    horizon : float or int, default=0.4
        What "future" means: that share of a profile, or that many next items.
    cut : {"rank", "score"}, default="score"
        Cut at the same rank for everyone, or where an item's share of the person's scores gets too
        small, so that the size adapts to the person.
    groups : int, default=1
        Separate thresholds for so many groups of people by the number of their known items; the
        promise then holds in each group.
    window : float, optional
        Calibrate by the calendar: on what people took in the last so many days, with counts from
        before; then count up to the end. By default on the last part of each profile.
    n_calibration : int, default=2000
        How many calibration users at most.
    min_known : int, default=5
        People of whom less is known neither calibrate nor are promised anything.
    seed : int, default=0
        Of the choice of calibration users.

    Attributes
    ----------
    calibration_ : CalibrationUsers
        What is kept of the calibration users.
    scorer_ : Scorer
        What the measure became on these data; ``scorer_.learned`` of a learned one.

    Examples
    --------
    >>> import surerec as sr
    >>> films = sr.datasets.synthetic(n_users=300, n_items=60, n_rows=6000, seed=1)
    >>> model = sr.PopulationConformal("CM12").fit(films)
    >>> picks = model.recommend(user=7, confidence=0.8)
    >>> len(picks) <= len(model.recommend(user=7, confidence=0.9))
    True
    >>> hits = sr.PopulationConformal("CM12", promise="hit", horizon=5, cut="rank").fit(films)
    >>> len(hits.recommend(user=7, confidence=0.8)) < len(picks)
    True
    """

    def __init__(
        self,
        measure: RecipeLike = "CM12",
        *,
        promise: str | Promise = "miss-rate",
        horizon: Horizon = 0.4,
        cut: Cut = "score",
        groups: int = 1,
        window: float | None = None,
        n_calibration: int = 2000,
        min_known: int = 5,
        seed: int = 0,
    ) -> None:
        self.measure = measure
        self.promise = promise
        self.horizon = horizon
        self.cut = cut
        self.groups = groups
        self.window = window
        self.n_calibration = n_calibration
        self.min_known = min_known
        self.seed = seed

    _calibrated: UserCalibration

    def default_name(self) -> str:
        """Give a name such as "population-cm12" or "hit-cm12"."""
        return f"{find_promise(self.promise).prefix}-{self.recipe().name}".lower()

    def recipe(self) -> Recipe:
        """Give what makes its scorer."""
        return as_recipe(self.measure, seed=self.seed)

    def _recipe_key(self) -> tuple[object, ...]:
        return (self.measure,)

    def _may_change(self, recipe: Recipe) -> bool:  # noqa: ARG002
        return False  # it was calibrated with the one that was fitted

    def _calibration(self) -> UserCalibration:
        return self._calibrated

    @property
    def calibration_(self) -> CalibrationUsers:
        """What is kept of the calibration users."""
        self.require_fit()
        return self._calibrated.users

    def _validate(self) -> None:
        check_seed(self.seed)
        self.recipe()
        find_promise(self.promise)
        check_choice("cut", self.cut, get_args(Cut))
        check_horizon(self.horizon)
        check_whole("groups", self.groups, highest=_MOST_GROUPS)
        check_whole("n_calibration", self.n_calibration)
        check_whole("min_known", self.min_known)
        if self.window is not None:
            must = f"a number of days above 0, and {_MOST_DAYS:,} at the most"
            check_number("window", self.window, 0, _MOST_DAYS, must, ends=(False, True))

    def _learn(self) -> None:
        """Fit the measure, and calibrate it on users' futures."""
        now, recipe = self.statistics_, self.recipe()
        profiles = now.interactions
        if profiles is None:
            raise InputError("These counts were given without profiles: nobody can calibrate.")
        if self.window is None:
            cases = profile_cases(profiles, self.horizon, min_known=self.min_known)
            self._keep_scorer(self._calibrate(recipe, now, cases))
            return
        end = _end(profiles)
        begin = end - int(self.window * DAY)
        cases = window_cases(profiles, begin, end, self.horizon, min_known=self.min_known)
        past = count_precedence(profiles.until(begin), ties=now.ties)
        # Fitted on the past of what calibrates it, and nothing later.
        self._update(recipe, self._calibrate(recipe, past, cases))

    def recalibrate(
        self,
        interactions: Interactions,
        *,
        refit: bool = True,
        counts: PrecedenceStatistics | None = None,
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
        """
        self.require_fit()
        check_kind("interactions", interactions, Interactions, "Interactions, all as they are now")
        check_flag("refit", refit)
        if counts is not None:
            check_kind("counts", counts, PrecedenceStatistics, "counts of the interactions")
            if counts.interactions is not interactions:
                raise InputError("The counts are not of these interactions: leave counts= out.")
        past, scorer = self.statistics_, self.scorer_
        assert past.interactions is not None  # noqa: S101  # it was fitted on profiles
        begin, end = _end(past.interactions), _end(interactions)
        if begin >= end:
            raise InputError(
                f"Nothing has happened since {day_of(begin)}, up to which was counted: there is "
                "nothing to recalibrate on."
            )
        cases = window_cases(interactions, begin, end, self.horizon, min_known=self.min_known)
        recipe = self.recipe()
        if refit:
            self._take(counts or count_precedence(interactions, ties=past.ties))
        scorer = self._calibrate(recipe, past, cases, scorer)
        if refit:
            self._update(recipe, scorer, codes_in(past, interactions)[0])
        else:
            self._keep_scorer(scorer)
        return self

    def _update(
        self, recipe: Recipe, scorer: Scorer, earlier_users: NDArray[np.int64] | None = None
    ) -> None:
        """Serve what was calibrated on all that is known now, whoever calibrated it included."""
        self._keep_scorer(recipe.update(scorer, self.statistics_, earlier_users))
        self._calibrated = replace(self._calibrated, apart=False)

    def _calibrate(
        self,
        recipe: Recipe,
        past: PrecedenceStatistics,
        cases: Cases,
        scorer: Scorer | None = None,
    ) -> Scorer:
        """Fit the measure on the past, unless it is, and calibrate it on what came then.

        Whoever cannot be left out of what was learned must not be in it: then some users, half of
        them at the most, calibrate it and have no part in the fit.
        """
        chosen = cases.sample(self.n_calibration, self.seed)
        can_leave_out = recipe.leaves_users_out if scorer is None else scorer.leaves_users_out
        if scorer is None and not (recipe.refits and can_leave_out is False):
            scorer = recipe.fit(past)
            can_leave_out = scorer.leaves_users_out
        if scorer is None or (recipe.refits and can_leave_out is False):
            chosen = cases.sample(min(self.n_calibration, max(1, len(cases) // 2)), self.seed)
            users = codes_in(past, chosen.interactions)[0][chosen.users]
            past = _without(past, users[users >= 0])
            scorer = recipe.fit(past)
        outcomes = observe(scorer, past, chosen)
        self._keep(CalibrationUsers.of(outcomes, self.cut, self.statistics_))
        return scorer

    def _keep(self, users: CalibrationUsers) -> None:
        self._calibrated = UserCalibration(
            users,
            find_promise(self.promise),
            check_horizon(self.horizon),
            self.window,
            self.cut,
            self.groups,
            self.min_known,
            held_out=self.recipe().refits,
            apart=True,
        )
        self._warned = False

    def _stored_params(self, recipe: Recipe) -> dict[str, Any]:
        return {
            **self.get_params(),
            "measure": stored_measure(self.measure, recipe),
            "promise": find_promise(self.promise).name,
        }

    def _calibration_arrays(self) -> dict[str, NDArray[Any]]:
        return self.calibration_.to_arrays()

    def _restore_calibration(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._keep(CalibrationUsers.from_arrays(arrays))

    def _restored_scorer(
        self, recipe: Recipe, arrays: Mapping[str, NDArray[Any]], texts: Mapping[str, str]
    ) -> Scorer:
        scorer = super()._restored_scorer(recipe, arrays, texts)
        users = self.calibration_.users
        if not arrays and not texts and scorer.leaves_users_out is False and recipe.refits:
            return recipe.fit(_without(self.statistics_, users[users >= 0]))
        # A stored scorer may have been fitted since it was calibrated.
        self._calibrated = replace(self._calibrated, apart=False)
        return scorer

    def assess(self, query: Query, candidates: NDArray[np.int64] | None = None) -> Assessment:
        """Evaluate candidates; see :meth:`Recommender.assess`. Warns once beyond its window."""
        self.require_fit()
        self._warn_if_stale()
        return super().assess(query, candidates)

    def hit_probability(
        self, user: Any = None, *, history: Iterable[Any] | None = None, k: int = 10
    ) -> Slate:
        """Give the k best items, and this person's probability that at least one is a hit.

        Calibrated on the calibration users by Venn–Abers: among people with such a probability,
        that share takes one of their k best items within the horizon.

        Parameters
        ----------
        user, history
            As in :meth:`recommend`.
        k : int, default=10
            Length of the slate, up to 100.
        """
        n, query = check_whole("k", k), self.query(user, history=history)
        found = self._calibrated.slate(self.scorer_, self.statistics_, query, self.items_, n)
        return replace(found, recommender=self.name_)

    @property
    def valid_until_(self) -> datetime | None:
        """The end of the window that a calibration by the calendar was made for."""
        if self.window is None:
            return None
        return _instant(int(self.calibration_.period[1]) + int(self.window * DAY))

    def age(self, at: datetime | None = None) -> timedelta:
        """Give how long ago the futures that calibrated it ended.

        Parameters
        ----------
        at : datetime, optional
            By default now.
        """
        moment = _now() if at is None else check_kind("at", at, datetime, "a datetime")
        if moment.tzinfo is None:
            raise InputError(f"at is {moment}; it must have a time zone, such as UTC.")
        return moment - _instant(int(self.calibration_.period[1]))

    def _warn_if_stale(self) -> None:
        until = self.valid_until_
        if until is None or self._warned or _now() <= until:
            return
        self._warned = True
        warnings.warn(
            f"This model was calibrated for the {self.window:g} days after "
            f"{day_of(int(self.calibration_.period[1]))}, and {self.age().days:,} have passed: "
            "its promise may not hold any more; call recalibrate with newer data.",
            StaleModelWarning,
            stacklevel=4,
        )


def _without(statistics: PrecedenceStatistics, users: NDArray[np.int64]) -> PrecedenceStatistics:
    """Count again without some users."""
    assert statistics.interactions is not None  # noqa: S101  # it was fitted on profiles
    return count_precedence(statistics.interactions.without_users(users), ties=statistics.ties)


def _instant(time: int) -> datetime:
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time)
    except OverflowError:  # beyond the years that datetimes know
        return datetime.max.replace(tzinfo=UTC) if time > 0 else datetime.min.replace(tzinfo=UTC)


def _end(interactions: Interactions) -> int:
    """Give the instant after everything that happened."""
    if not interactions.n_rows:
        raise InputError("The data hold no interactions: there is nothing to calibrate on.")
    return int(interactions.times.max()) + 1


def _now() -> datetime:
    return datetime.now(UTC)
