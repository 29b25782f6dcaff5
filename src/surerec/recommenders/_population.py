"""Sets whose promise is calibrated over users: it holds in time order, and sets are smaller."""

from __future__ import annotations

import warnings
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Self, get_args

import numpy as np

from surerec._calendar import DAY, day_of
from surerec._checks import check_whole
from surerec.calibration import (
    NO_CHANCES,
    Cut,
    NamedItems,
    NobodyTook,
    PrecisionCalibration,
    UserCalibration,
    calibrate,
    cases_of,
    find_promise,
    from_parts,
    lists_from_parts,
    lists_to_parts,
    to_parts,
)
from surerec.errors import InputError, StaleModelWarning
from surerec.futures import SLATE_MOST, check_horizon, codes_in, profile_cases, window_cases
from surerec.measures import as_recipe
from surerec.precedence import count_precedence
from surerec.recommenders._base import Recommender
from surerec.recommenders._budget import budget_rows
from surerec.recommenders._measured import stored_measure
from surerec.recommenders._wanted import Wanted, check_fraction

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import polars as pl
    from numpy.typing import NDArray

    from surerec.calibration import Assessment, CalibrationUsers, ItemChances, Promise, Slate
    from surerec.futures import Cases, Horizon
    from surerec.interactions import Interactions
    from surerec.measures import Query, Recipe, RecipeLike, Scorer
    from surerec.precedence import PrecedenceStatistics


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
    promise : {"miss-rate", "hit", "precision"} or Promise, default="miss-rate"
        What is kept below ε: the mean share of a person's future items that is left out, or the
        probability that not one of them is in the set. Or how much of what is shown is taken, asked
        as ``recommend(user, precision=0.5)``. See :data:`surerec.calibration.PROMISES`.
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

    gives_probabilities = True
    _calibrated: UserCalibration
    _lists: dict[str, UserCalibration]

    def default_name(self) -> str:
        """Give a name such as "population-cm12" or "hit-cm12"."""
        return f"{find_promise(self.promise).prefix}-{self.recipe().name}".lower()

    def recipe(self) -> Recipe:
        """Give what makes its scorer."""
        return as_recipe(self.measure, seed=self.seed, horizon=self.horizon, window=self.window)

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
        self.recipe()
        find_promise(self.promise)
        if self.cut not in get_args(Cut):
            raise InputError(f"cut is {self.cut!r}; choose one of {', '.join(get_args(Cut))}.")
        check_horizon(self.horizon)
        for name, lowest in (("groups", 1), ("n_calibration", 1), ("min_known", 1), ("seed", 0)):
            check_whole(name, getattr(self, name), lowest=lowest)
        if self.window is not None and not (
            isinstance(self.window, (int, float)) and self.window > 0
        ):
            raise InputError(f"window is {self.window!r}; it must be a number of days above 0.")

    def fit(
        self,
        data: Interactions | PrecedenceStatistics,
        y: object = None,
        *,
        lists: Mapping[str, Iterable[Any]] | None = None,
    ) -> Self:
        """Count, fit the measure, and calibrate it on users' futures.

        Parameters
        ----------
        data, y
            As in :meth:`Recommender.fit`.
        lists : mapping of str to iterable of ids, optional
            Lists of items that may be shown, by name; see :meth:`allow`.
        """
        super().fit(data, y)
        for name, items in (lists or {}).items():
            self.allow(name, items)
        return self

    def _learn(self) -> None:
        """Fit the measure, and calibrate it on users' futures."""
        self._lists = {}
        now, recipe = self.statistics_, self.recipe()
        profiles = now.interactions
        if profiles is None:
            raise InputError("These counts were given without profiles: nobody can calibrate.")
        if self.window is None:
            cases = profile_cases(profiles, self.horizon, min_known=self.min_known)
            self._keep_scorer(self._calibrate(recipe, now, cases))
            return
        end = int(profiles.times.max()) + 1
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
        past, scorer = self.statistics_, self.scorer_
        assert past.interactions is not None  # noqa: S101  # it was fitted on profiles
        begin, end = int(past.interactions.times.max()) + 1, int(interactions.times.max()) + 1
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
        self._not_apart()

    def _not_apart(self) -> None:
        """Say that calibration users may have a part in what serves by now."""
        self._calibrated = replace(self._calibrated, apart=False)
        self._lists = {name: replace(each, apart=False) for name, each in self._lists.items()}

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
        self._calibrated = self._calibration_of(
            *calibrate(scorer, past, chosen, self.cut, self.statistics_, seed=self.seed)
        )
        for name, listed in self._lists.items():
            assert listed.listed is not None  # noqa: S101  # it is a list's
            self._lists[name] = self._calibrate_list(scorer, past, chosen, listed.listed)
        return scorer

    def _calibrate_list(
        self, scorer: Scorer, past: PrecedenceStatistics, cases: Cases, listed: NamedItems
    ) -> UserCalibration:
        """Calibrate on what the calibration users took among the items of a list."""
        assert past.interactions is not None  # noqa: S101  # they are profiles' counts
        then = listed.within(self.items_, past.interactions.items)
        try:
            kept = calibrate(
                scorer,
                past,
                cases,
                self.cut,
                self.statistics_,
                allowed=then.codes,
                seed=self.seed,
            )
        except NobodyTook:
            raise InputError(
                f"Nobody who calibrates took any item of the list {listed.name!r} next, so nothing "
                "can be promised on it: give a longer list."
            ) from None
        return self._calibration_of(*kept, listed=listed)

    def _calibration_of(
        self,
        users: CalibrationUsers,
        chances: ItemChances | None,
        listed: NamedItems | None = None,
    ) -> UserCalibration:
        promise = find_promise(self.promise)
        kind = PrecisionCalibration if promise.tested else UserCalibration
        self._warned = False
        return kind(
            users,
            promise,
            self.horizon,
            self.window,
            self.cut,
            self.groups,
            self.min_known,
            held_out=self.recipe().refits,
            apart=True,
            chances=chances,
            listed=listed,
        )

    def _stored_params(self, recipe: Recipe) -> dict[str, Any]:
        return {
            **self.get_params(),
            "measure": stored_measure(self.measure, recipe),
            "promise": find_promise(self.promise).name,
        }

    def _calibration_arrays(self) -> dict[str, NDArray[Any]]:
        return to_parts(self._calibrated) | lists_to_parts(self._lists.values())

    def _restore_calibration(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        lists, rest = lists_from_parts(arrays, self.statistics_.n_items)
        self._calibrated = self._calibration_of(*from_parts(rest))
        self._lists = {
            listed.name: self._calibration_of(*kept, listed=listed) for listed, kept in lists
        }

    def _restored_scorer(
        self, recipe: Recipe, arrays: Mapping[str, NDArray[Any]], texts: Mapping[str, str]
    ) -> Scorer:
        scorer = super()._restored_scorer(recipe, arrays, texts)
        users = self.calibration_.users
        if not arrays and not texts and scorer.leaves_users_out is False and recipe.refits:
            return recipe.fit(_without(self.statistics_, users[users >= 0]))
        # A stored scorer may have been fitted since it was calibrated.
        self._not_apart()
        return scorer

    def assess(
        self,
        query: Query,
        candidates: NDArray[np.int64] | None = None,
        *,
        wanted: Wanted | None = None,
    ) -> Assessment:
        """Evaluate candidates; see :meth:`Recommender.assess`. Warns once beyond its window."""
        self.require_fit()
        self._warn_if_stale()
        return super().assess(query, candidates, wanted=wanted)

    def _calibration_for(self, wanted: Wanted) -> UserCalibration:
        found = self._calibrated if wanted.among is None else self._lists[wanted.among]
        if wanted.precision is None or not isinstance(found, PrecisionCalibration):
            return found
        return found.at(wanted.precision)

    def _listed_of(self, candidates: NDArray[np.int64], wanted: Wanted | None) -> NDArray[np.int64]:
        if wanted is None or wanted.among is None:
            return candidates
        listed = self._lists[wanted.among].listed
        assert listed is not None  # noqa: S101  # it is a list's
        return np.intersect1d(candidates, listed.codes)

    @property
    def promises_precision(self) -> bool:
        """Whether a precision must be asked for."""
        return find_promise(self.promise).tested

    def _check_precision(self, precision: float) -> float:
        if not self.promises_precision:
            raise InputError(
                f"This recommender promises {find_promise(self.promise).name}, not precision: fit "
                'PopulationConformal(promise="precision"), on the command line precision-cm12.'
            )
        return check_fraction("precision", precision)

    def require_probabilities(self, among: str | None = None) -> None:
        """Refuse a model without probabilities of items, or with one for all of them."""
        chances = self._calibration_for(Wanted(among=among)).chances
        if chances is None:
            raise InputError(f"There are no probabilities: {NO_CHANCES}.")
        said = chances.by_bin(None).probability
        if said[0] == said[-1]:
            raise InputError(
                f"Every item has the same probability ({said[0]:.3g}): the scorer does not tell "
                "what people take from what they do not, so min_probability cannot choose."
            )

    def _check_chances(self, k: object, items: object) -> None:
        if k is None or check_whole("k", k) > SLATE_MOST:
            raise InputError(f"Chances are of lists of up to {SLATE_MOST} items: give such a k.")
        if items is not None:
            raise InputError(
                "Chances are of a person's best items: leave items out, or name a list of them by "
                "model.allow(…) and say among=."
            )

    def rows_of(self, users: NDArray[np.int64], wanted: Wanted) -> pl.DataFrame:
        """Give the rows of :meth:`recommend_many`; see :meth:`Recommender.rows_of`."""
        if not wanted.chances:
            return super().rows_of(users, wanted)
        return budget_rows(self, self._calibration_for(wanted), users, wanted)

    def _check_list(self, name: str) -> None:
        self.require_fit()
        if name not in self._lists:
            known = ", ".join(map(repr, self._lists)) or "none yet; name one by model.allow(…)"
            raise InputError(f"There is no list {name!r}; there is {known}.")

    @property
    def lists_(self) -> dict[str, list[Any]]:
        """The named lists, each with its items."""
        self.require_fit()
        return {
            name: self.items_.ids.gather(each.listed.codes).to_list()
            for name, each in self._lists.items()
            if each.listed is not None
        }

    def allow(self, name: str, items: Iterable[Any]) -> Self:
        """Name a list of the items that may be shown, and calibrate on it.

        ``recommend(…, among=name)`` then keeps every promise, for people who take at least one of
        the listed items. A list of the same name is replaced: no precedence is counted anew, the
        calibration users are only ranked again; by the calendar, their past is counted first.

        Parameters
        ----------
        name : str
            Letters, digits, ".", "_" and "-".
        items : iterable of ids
            What is in stock, or on tonight.

        Examples
        --------
        >>> import surerec as sr
        >>> films = sr.datasets.synthetic(n_users=300, n_items=60, n_rows=6000, seed=1)
        >>> model = sr.PopulationConformal("CM12").fit(films).allow("tonight", range(1, 20))
        >>> shown = model.recommend(user=7, confidence=0.8, among="tonight")
        >>> set(shown.items) <= set(range(1, 20)), "the list 'tonight'" in shown.guarantee
        (True, True)
        """
        self.require_fit()
        listed = NamedItems(name, self._codes_of(items))
        now, recipe, scorer = self.statistics_, self.recipe(), self.scorer_
        assert now.interactions is not None  # noqa: S101  # it was fitted on profiles
        cases = cases_of(self._calibrated, now.interactions)
        past = now
        if cases.moment is not None:
            past = count_precedence(now.interactions.until(cases.moment), ties=now.ties)
        if recipe.refits and scorer.leaves_users_out is False:
            assert past.interactions is not None  # noqa: S101  # as it has now
            users = codes_in(past, now.interactions)[0][cases.users]
            past = _without(past, users[users >= 0])
        if past is not now and past.interactions is not None:
            scorer = recipe.update(scorer, past, codes_in(now, past.interactions)[0])
        made = self._calibrate_list(scorer, past, cases, listed)
        self._lists = {**self._lists, name: replace(made, apart=self._calibrated.apart)}
        return self

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
        return self._calibrated.slate(self.scorer_, self.statistics_, query, self.items_, n)

    @property
    def valid_until_(self) -> datetime | None:
        """The end of the window that a calibration by the calendar was made for."""
        if self.window is None:
            return None
        return _instant(int(self.calibration_.period[1])) + timedelta(days=self.window)

    def age(self, at: datetime | None = None) -> timedelta:
        """Give how long ago the futures that calibrated it ended.

        Parameters
        ----------
        at : datetime, optional
            By default now.
        """
        return (at or _now()) - _instant(int(self.calibration_.period[1]))

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
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time)


def _now() -> datetime:
    return datetime.now(UTC)
