"""Calibrating on users' futures: when it is fitted, on what came since, and on named lists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from surerec._arguments import check_flag, check_kind
from surerec._calendar import DAY, day_of
from surerec._progress import stage
from surerec._shown import shown
from surerec.calibration import (
    LeftOut,
    NamedItems,
    NobodyTook,
    PrecisionCalibration,
    UserCalibration,
    calibrate,
    cases_of,
    find_promise,
)
from surerec.errors import InputError
from surerec.futures import check_horizon, codes_in, profile_cases, window_cases
from surerec.interactions import Interactions
from surerec.precedence import PrecedenceStatistics, count_like, count_precedence
from surerec.recommenders._fitted import timed
from surerec.recommenders._groups import Groups, parse_groups, renewed_groups
from surerec.recommenders._over_users import OverUsers

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np
    from numpy.typing import NDArray

    from surerec.calibration import CalibrationUsers, Coverage, Cut, ItemChances
    from surerec.futures import Cases, Horizon
    from surerec.interactions import IdMap
    from surerec.measures import Recipe, Scorer


class Calibrating(OverUsers):
    """Gives a recommender what calibrates it on users' futures."""

    horizon: Horizon
    cut: Cut | None
    groups: Groups
    n_calibration: int
    min_known: int
    seed: int

    def _cut_by(self) -> Cut:
        """Give where sets are cut."""
        return "score" if self.cut is None else self.cut

    def _learn(self) -> None:
        """Fit the measure, and calibrate it on users' futures."""
        self._lists = {}
        now, recipe = self.statistics_, self.recipe()
        profiles = now.interactions
        if profiles is None:
            raise InputError("These counts were given without profiles: nobody can calibrate.")
        if self.user_groups_ is None and (column := parse_groups(self.groups)[0]) is not None:
            raise InputError(
                f"groups is {self.groups!r}: fit needs the {column} of each user, "
                "fit(…, user_groups=…) with a mapping, a frame or a file (--groups-file on the "
                "command line)."
            )
        if self.window is None:
            cases = profile_cases(profiles, self.horizon, min_known=self.min_known)
            self._keep_scorer(self._calibrate(recipe, now, cases))
            return
        end = _end(profiles)
        begin = end - int(self.window * DAY)
        cases = window_cases(profiles, begin, end, self.horizon, min_known=self.min_known)
        past = count_like(now, profiles.until(begin))
        # Fitted on the past of what calibrates it, and nothing later.
        self._update(recipe, self._calibrate(recipe, past, cases))

    @timed("Recalibrated")
    def recalibrate(
        self,
        interactions: Interactions,
        *,
        refit: bool = True,
        counts: PrecedenceStatistics | None = None,
        user_groups: Any = None,
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
        user_groups : mapping, pandas Series, frame or path, optional
            As in :meth:`fit`; by default users keep the groups that they have, and new users have
            none.
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
        recipe, groups = self.recipe(), self.user_groups_
        if refit:
            self._take(counts or count_precedence(interactions, ties=past.ties))
            self._move_lists(past.interactions.items)
        now = self.statistics_.interactions
        if groups is not None and now is not None:
            self.user_groups_ = renewed_groups(groups, user_groups, past, now)
        scorer = self._calibrate(recipe, past, cases, scorer)
        if refit:
            self._update(recipe, scorer, codes_in(past, interactions)[0])
        else:
            self._keep_scorer(scorer)
        return self

    def _move_lists(self, before: IdMap) -> None:
        """Give the items of the named lists the codes that they have in what was taken."""
        self._lists = {
            name: replace(each, listed=each.listed.within(before, self.items_))
            for name, each in self._lists.items()
            if each.listed is not None
        }

    def _update(
        self, recipe: Recipe, scorer: Scorer, earlier_users: NDArray[np.int64] | None = None
    ) -> None:
        """Serve what was calibrated on all that is known now, whoever calibrated it included."""
        with stage("learning"):
            self._keep_scorer(recipe.update(scorer, self.statistics_, earlier_users))
        self._not_apart()

    def _not_apart(self) -> None:
        """Say that calibration users may have a part in what serves by now."""
        coverage = LeftOut(self.recipe().refits, apart=False)
        self._calibrated = replace(self._calibrated, coverage=coverage)
        self._lists = {name: replace(each, coverage=coverage) for name, each in self._lists.items()}

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
            scorer = self._checked_fit(recipe, past)
            can_leave_out = scorer.leaves_users_out
        if scorer is None or (recipe.refits and can_leave_out is False):
            chosen = cases.sample(min(self.n_calibration, max(1, len(cases) // 2)), self.seed)
            users = codes_in(past, chosen.interactions)[0][chosen.users]
            past = count_without(past, users[users >= 0])
            with stage("learning"):
                scorer = recipe.fit(past)
        self._calibrated = self._calibration_of(
            *calibrate(scorer, past, chosen, self._cut_by(), self.statistics_, seed=self.seed)
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
                self._cut_by(),
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

    def _says(self) -> tuple[Coverage, str, str]:
        """Give whom the promise covers; the future, and what no set can hold, in words."""
        return LeftOut(self.recipe().refits), "", UserCalibration.lacking

    def _calibration_of(
        self,
        users: CalibrationUsers,
        chances: ItemChances | None,
        listed: NamedItems | None = None,
    ) -> UserCalibration:
        promise = find_promise(self.promise)
        kind = PrecisionCalibration if promise.tested else UserCalibration
        self._warned = False
        coverage, about, lacking = self._says()
        return kind(
            users,
            promise,
            check_horizon(self.horizon),
            self.window,
            self._cut_by(),
            parse_groups(self.groups)[1],
            self.min_known,
            coverage,
            about,
            self.user_groups_,
            lacking,
            chances=chances,
            listed=listed,
        )

    def allow(self, name: str, items: Iterable[Any], *, unknown: str = "check") -> Self:
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
        unknown : {"check", "skip"}, default="check"
            Unknown ids of a list are skipped, with a ``LeftOutWarning`` that names the first five.
            A list of which more than half is unknown is refused, unless this is "skip".

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
        listed = NamedItems(name, self._codes_of(items, unknown))
        now, recipe, scorer = self.statistics_, self.recipe(), self.scorer_
        assert now.interactions is not None  # noqa: S101  # it was fitted on profiles
        cases = cases_of(self._calibrated, now.interactions)
        past = now
        if cases.moment is not None:
            past = count_like(now, now.interactions.until(cases.moment))
        if recipe.refits and scorer.leaves_users_out is False:
            assert past.interactions is not None  # noqa: S101  # as it has now
            users = codes_in(past, now.interactions)[0][cases.users]
            past = count_without(past, users[users >= 0])
        if past is not now and past.interactions is not None:
            scorer = recipe.update(scorer, past, codes_in(now, past.interactions)[0])
        made = self._calibrate_list(scorer, past, cases, listed)
        self._lists = {**self._lists, name: replace(made, coverage=self._calibrated.coverage)}
        return self

    def _allow_all(self, lists: Mapping[str, Iterable[Any]] | None) -> Self:
        if lists is None:
            return self
        if not isinstance(lists, Mapping):
            raise InputError(f"lists is {shown(lists)}; it must be a mapping of names to item ids.")
        for name, items in lists.items():
            self.allow(name, items)
        return self


def count_without(
    statistics: PrecedenceStatistics, users: NDArray[np.int64]
) -> PrecedenceStatistics:
    """Count again without some users."""
    assert statistics.interactions is not None  # noqa: S101  # it was fitted on profiles
    return count_like(statistics, statistics.interactions.without_users(users))


def _end(interactions: Interactions) -> int:
    """Give the instant after everything that happened."""
    if not interactions.n_rows:
        raise InputError("The data hold no interactions: there is nothing to calibrate on.")
    return int(interactions.times.max()) + 1
