"""Sets whose promise is calibrated over users: it holds in time order, and sets are smaller."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Self, get_args

import numpy as np

from surerec._arguments import check_choice, check_flag, check_kind, check_number, check_seed
from surerec._calendar import DAY, day_of
from surerec._checks import check_whole
from surerec.calibration import (
    NO_CHANCES,
    Cut,
    LeftOut,
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
from surerec.errors import InputError, NotOffered, StaleModelWarning
from surerec.futures import SLATE_MOST, check_horizon, codes_in, profile_cases, window_cases
from surerec.interactions import Interactions, UserGroups, read_user_groups
from surerec.measures import as_recipe
from surerec.precedence import PrecedenceStatistics, count_precedence
from surerec.recommenders._base import Recommender
from surerec.recommenders._budget import budget_rows
from surerec.recommenders._groups import Groups, parse_groups
from surerec.recommenders._measured import stored_measure
from surerec.recommenders._wanted import Wanted, check_fraction

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import polars as pl
    from numpy.typing import NDArray

    from surerec.calibration import (
        Assessment,
        CalibrationUsers,
        Coverage,
        ItemChances,
        Promise,
        Slate,
    )
    from surerec.futures import Cases, Horizon
    from surerec.interactions import IdMap
    from surerec.measures import Queries, Query, Recipe, RecipeLike, Scorer

_GROUPS = "user_groups"  # the name of the parts that hold them
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
        size), "als" for matrix factorisation, or anything that
        :func:`surerec.measures.as_recipe` takes: a scorer of your own, or a function that makes one
        from statistics.
    promise : {"miss-rate", "hit", "precision"} or Promise, default="miss-rate"
        What is kept below ε: the mean share of a person's future items that is left out, or the
        probability that not one of them is in the set. Or how much of what is shown is taken, asked
        as ``recommend(user, precision=0.5)``. See :data:`surerec.calibration.PROMISES`.
    horizon : float or int, default=0.4
        What "future" means: that share of a profile, or that many next items.
    cut : {"rank", "score"}, default="score"
        Cut at the same rank for everyone, or where an item's share of the person's scores gets too
        small, so that the size adapts to the person.
    groups : int, str, or (str, int), default=1
        Separate thresholds for groups of people (Mondrian); the promise then holds in each. A
        number: so many groups by the number of their known items. A name: by a column of the
        people's own, such as "country", which :meth:`fit` is given as `user_groups`. Both: each
        of these apart by the number of known items.
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
    user_groups_ : UserGroups or None
        The users' groups by a column of their own.

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
        groups: Groups = 1,
        window: float | None = None,
        n_calibration: int = 2000,
        min_known: int = 5,
        seed: int = 0,
    ) -> None:
        self.measure = measure
        self.promise = promise
        self.horizon = horizon
        self.cut: Cut | None = cut
        self.groups = groups
        self.window = window
        self.n_calibration = n_calibration
        self.min_known = min_known
        self.seed = seed

    gives_probabilities = True
    _calibrated: UserCalibration
    _lists: dict[str, UserCalibration]
    user_groups_: UserGroups | None

    def fit(
        self,
        data: Interactions | PrecedenceStatistics,
        y: object = None,
        *,
        user_groups: Any = None,
        lists: Mapping[str, Iterable[Any]] | None = None,
    ) -> Self:
        """Count who took what before what, fit the measure, and calibrate it on users' futures.

        Parameters
        ----------
        data, y
            As in :meth:`Recommender.fit`.
        user_groups : mapping, frame or path, optional
            The group of each user, for ``groups="country"``: by id, or in a frame or a file with a
            column of users and one of this name. Users of whom it says nothing do not calibrate,
            and are promised nothing.
        lists : mapping of str to iterable of ids, optional
            Lists of items that may be shown, by name; see :meth:`allow`.

        Returns
        -------
        self

        Examples
        --------
        >>> import surerec as sr
        >>> films = sr.datasets.synthetic(n_users=300, n_items=60, n_rows=6000, seed=1)
        >>> country = {user: "AT" if user % 3 else "DE" for user in films.users.ids}
        >>> model = sr.PopulationConformal(groups="country").fit(films, user_groups=country)
        >>> taken = films.items.ids[:6].to_list()
        >>> print(model.recommend(history=taken, group="DE", confidence=0.8).guarantee)
        Of the last 40% of what they take, a share of at most 0.2 is left out on average over people
        with country 'DE', if they are exchangeable with the 75 calibration users, whose futures lie
        between 2020-03-10 and 2021-12-30: as the calendar moves on it holds less well.
        """
        self._given_groups = user_groups
        try:
            super().fit(data, y)
        finally:
            del self._given_groups
        return self._allow_all(lists)

    def _allow_all(self, lists: Mapping[str, Iterable[Any]] | None) -> Self:
        for name, items in (lists or {}).items():
            self.allow(name, items)
        return self

    def fitted_on(self, statistics: PrecedenceStatistics, **params: Any) -> Self:
        """Give another of its kind on statistics, with some settings changed.

        Its users' groups go with it.
        """
        mine = getattr(self, "user_groups_", None)
        if mine is None or (self.statistics_ is statistics and not params):
            return super().fitted_on(statistics, **params)
        made = type(self)(**{**self.get_params(), **params})
        return made.fit(statistics, user_groups=self._groups_by_id())

    @property
    def n_length_groups(self) -> int:
        """How many groups by the number of known items are asked for."""
        return parse_groups(self.groups)[1]

    def _groups_by_id(self) -> dict[Any, str | None]:
        mine, interactions = self.user_groups_, self.statistics_.interactions
        assert mine is not None  # noqa: S101  # asked only where there are groups
        assert interactions is not None  # noqa: S101  # it was fitted on profiles
        return {user: mine.label(code) for code, user in enumerate(interactions.users.ids)}

    def _user_groups(self) -> UserGroups | None:
        return self.user_groups_

    def _take(self, data: Interactions | PrecedenceStatistics) -> None:
        super()._take(data)
        self._keep_groups(getattr(self, "_given_groups", None))

    def _keep_groups(self, given: Any) -> None:
        """Look up the group of each user of the statistics that were taken."""
        column = parse_groups(self.groups)[0]
        if column is None and given is not None:
            raise InputError(
                "user_groups was given, and groups is a number: name their column, as in "
                'groups="country".'
            )
        self.user_groups_ = None
        interactions = self.statistics_.interactions
        if column is not None and given is not None and interactions is not None:
            self.user_groups_ = read_user_groups(given, column, interactions.users)

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
        check_seed(self.seed)
        self.recipe()
        find_promise(self.promise)
        check_choice("cut", self._cut_by(), get_args(Cut))
        check_horizon(self.horizon)
        parse_groups(self.groups)
        check_whole("n_calibration", self.n_calibration)
        check_whole("min_known", self.min_known)
        if self.window is not None:
            must = f"a number of days above 0, and {_MOST_DAYS:,} at the most"
            check_number("window", self.window, 0, _MOST_DAYS, must, ends=(False, True))

    def _cut_by(self) -> Cut:
        """Give where sets are cut."""
        return self.cut or "score"

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
        past = count_precedence(profiles.until(begin), ties=now.ties)
        # Fitted on the past of what calibrates it, and nothing later.
        self._update(recipe, self._calibrate(recipe, past, cases))

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
        user_groups : mapping, frame or path, optional
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
        self._renew_groups(groups, user_groups, past)
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

    def _renew_groups(
        self, before: UserGroups | None, given: Any, past: PrecedenceStatistics
    ) -> None:
        now = self.statistics_.interactions
        if before is None or now is None:
            return
        if given is not None:
            self.user_groups_ = read_user_groups(given, before.column, now.users)
        elif self.statistics_ is not past:
            self.user_groups_ = before.moved(codes_in(past, now)[0])

    def _update(
        self, recipe: Recipe, scorer: Scorer, earlier_users: NDArray[np.int64] | None = None
    ) -> None:
        """Serve what was calibrated on all that is known now, whoever calibrated it included."""
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
            scorer = recipe.fit(past)
            can_leave_out = scorer.leaves_users_out
        if scorer is None or (recipe.refits and can_leave_out is False):
            chosen = cases.sample(min(self.n_calibration, max(1, len(cases) // 2)), self.seed)
            users = codes_in(past, chosen.interactions)[0][chosen.users]
            past = _without(past, users[users >= 0])
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

    def _stored_params(self, recipe: Recipe) -> dict[str, Any]:
        return {
            **self.get_params(),
            "measure": stored_measure(self.measure, recipe),
            "promise": find_promise(self.promise).name,
            "groups": self._stored_groups(),
        }

    def _stored_groups(self) -> object:
        return list(self.groups) if isinstance(self.groups, tuple) else self.groups

    def _calibration_arrays(self) -> dict[str, NDArray[Any]]:
        arrays = to_parts(self._calibrated) | lists_to_parts(self._lists.values())
        groups = self.user_groups_
        return arrays if groups is None else {**arrays, _GROUPS: groups.codes}

    def _calibration_texts(self) -> dict[str, str]:
        groups = self.user_groups_
        return {} if groups is None else {_GROUPS: json.dumps(groups.names, ensure_ascii=False)}

    def _restore_texts(self, texts: Mapping[str, str]) -> None:
        rest = {name: text for name, text in texts.items() if name != _GROUPS}
        super()._restore_texts(rest)
        column = parse_groups(self.groups)[0]
        if (column is None) != (_GROUPS not in texts):
            raise ValueError("its groups are missing, or not its own")
        if column is not None:
            names = json.loads(texts[_GROUPS])
            if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
                raise ValueError("the names of its groups are not a list of texts")
            self.user_groups_ = UserGroups(column, tuple(names), np.empty(0, dtype=np.int32))

    def _restore_calibration(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        now = self.statistics_
        lists, rest = lists_from_parts(self._restored_groups(arrays), now.n_users, now.n_items)
        self._calibrated = self._calibration_of(*from_parts(rest, now.n_users))
        self._lists = {
            listed.name: self._calibration_of(*kept, listed=listed) for listed, kept in lists
        }

    def _restored_groups(self, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Read everybody's groups, whose names were read before, and give the other arrays."""
        rest = dict(arrays)
        if self.user_groups_ is not None:
            codes, n_groups = rest.pop(_GROUPS), len(self.user_groups_.names)
            if (
                codes.shape != (self.statistics_.n_users,)
                or codes.dtype.kind != "i"
                or codes.min(initial=0) < -1
                or codes.max(initial=-1) >= n_groups
            ):
                raise ValueError("the groups are not those of its users")
            self.user_groups_ = replace(self.user_groups_, codes=codes)
        return rest

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
            raise NotOffered(
                f"This recommender promises {find_promise(self.promise).name}, not precision: fit "
                'PopulationConformal(promise="precision"), on the command line precision-cm12.'
            )
        return check_fraction("precision", precision)

    def require_probabilities(self, among: str | None = None) -> None:
        """Refuse a model without probabilities of items, or with one for all of them."""
        chances = self._calibration_for(Wanted(among=among)).chances
        if chances is None:
            raise NotOffered(f"There are no probabilities: {NO_CHANCES}.")
        said = chances.by_bin(None).probability
        if said[0] == said[-1]:
            raise NotOffered(
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

    def rows_for(self, queries: Queries, people: pl.Series, wanted: Wanted) -> pl.DataFrame:
        """Give the rows of :meth:`recommend_many`; see :meth:`Recommender.rows_for`."""
        self._warn_if_stale()
        if not wanted.chances:
            return super().rows_for(queries, people, wanted)
        return budget_rows(self, self._calibration_for(wanted), queries, people, wanted)

    def _check_list(self, name: str) -> None:
        self.require_fit()
        if name not in self._lists:
            known = ", ".join(map(repr, self._lists)) or "none yet; name one by model.allow(…)"
            raise NotOffered(f"There is no list {name!r}; there is {known}.")

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
        self._lists = {**self._lists, name: replace(made, coverage=self._calibrated.coverage)}
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
