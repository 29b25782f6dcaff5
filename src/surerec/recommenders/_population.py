"""Sets whose promise is calibrated over users: it holds in time order, and sets are smaller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Self, get_args

from surerec._arguments import check_choice, check_number, check_seed
from surerec._checks import check_whole
from surerec.calibration import (
    Cut,
    find_promise,
    from_parts,
    lists_from_parts,
    lists_to_parts,
    to_parts,
)
from surerec.futures import check_horizon
from surerec.measures import as_recipe
from surerec.recommenders._calibrating import count_without
from surerec.recommenders._fitted import timed
from surerec.recommenders._groups import (
    Groups,
    groups_by_id,
    groups_from_arrays,
    groups_from_texts,
    groups_to_parts,
    parse_groups,
    read_groups,
)
from surerec.recommenders._measured import stored_measure
from surerec.recommenders._over_groups import OverGroups
from surerec.together import companies_from_parts, companies_to_parts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from surerec.calibration import Promise
    from surerec.futures import Horizon
    from surerec.measures import Recipe, RecipeLike, Scorer
    from surerec.precedence import PrecedenceStatistics

_MOST_DAYS: Final = 1_000_000
"""Of a window: it ends in the calendar, which has hardly four times as many."""


class PopulationConformal(OverGroups):
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
    verbose : int, default=0
        Print the stages of a fit with their times on stderr (1), and the loops in them (2).

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
        verbose: int = 0,
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
        self.verbose = verbose

    @timed("Fitted")
    def fit(
        self,
        data: Any,
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
        user_groups : mapping, pandas Series, frame or path, optional
            The group of each user, for ``groups="country"``: by id, which is the index of a Series,
            or in a frame or a file with a column of users and one of this name. Users of
            whom it says nothing do not calibrate, and are promised nothing.
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
        Of the last 40% of items new to the user that they consume, at most 20% is left out on
        average over people with country 'DE', if they are exchangeable with the 75 calibration
        users, whose futures lie between 2020-03-10 and 2021-12-30: as the calendar moves on it
        holds less well, and the scores also used what other people did later.
        """
        self._given_groups = user_groups
        try:
            super().fit(data, y)
        finally:
            del self._given_groups
        return self._allow_all(lists)

    def fitted_on(self, statistics: PrecedenceStatistics, **params: Any) -> Self:
        """Give another of its kind on statistics, with some settings changed.

        Its users' groups go with it.
        """
        mine = getattr(self, "user_groups_", None)
        if mine is None or (self.statistics_ is statistics and not params):
            return super().fitted_on(statistics, **params)
        known = self.statistics_.interactions
        assert known is not None  # noqa: S101  # it was fitted on profiles
        made = type(self)(**{**self.get_params(), **params})
        return made.fit(statistics, user_groups=groups_by_id(mine, known))

    @property
    def n_length_groups(self) -> int:
        """How many groups by the number of known items are asked for."""
        return parse_groups(self.groups)[1]

    def _take(self, data: Any) -> None:
        super()._take(data)
        self._companies = {}
        self._keep_groups(getattr(self, "_given_groups", None))

    def _keep_groups(self, given: Any) -> None:
        """Look up the group of each user of the statistics that were taken."""
        self.user_groups_ = read_groups(self.groups, given, self.statistics_.interactions)

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

    def _stored_params(self, recipe: Recipe) -> dict[str, Any]:
        return {
            **self.settings(),
            "measure": stored_measure(self.measure, recipe),
            "promise": find_promise(self.promise).name,
            "groups": self._stored_groups(),
        }

    def _stored_groups(self) -> object:
        return list(self.groups) if isinstance(self.groups, tuple) else self.groups

    def _calibration_arrays(self) -> dict[str, NDArray[Any]]:
        arrays = to_parts(self._calibrated) | lists_to_parts(self._lists.values())
        arrays |= companies_to_parts(self._by_size().values())
        return arrays | groups_to_parts(self.user_groups_)[0]

    def _calibration_texts(self) -> dict[str, str]:
        return groups_to_parts(self.user_groups_)[1]

    def _restore_texts(self, texts: Mapping[str, str]) -> None:
        self.user_groups_, rest = groups_from_texts(self.groups, texts)
        super()._restore_texts(rest)

    def _restore_calibration(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        now = self.statistics_
        self.user_groups_, rest = groups_from_arrays(self.user_groups_, arrays, now.n_user_codes)
        companies, rest = companies_from_parts(
            rest, now.n_user_codes, check_horizon(self.horizon), self.min_known
        )
        self._companies = {0 if c.formed == "given" else c.size: c for c in companies}
        lists, rest = lists_from_parts(rest, now.n_user_codes, now.n_items)
        self._calibrated = self._calibration_of(*from_parts(rest, now.n_user_codes))
        self._lists = {
            listed.name: self._calibration_of(*kept, listed=listed) for listed, kept in lists
        }

    def _restored_scorer(
        self, recipe: Recipe, arrays: Mapping[str, NDArray[Any]], texts: Mapping[str, str]
    ) -> Scorer:
        scorer = super()._restored_scorer(recipe, arrays, texts)
        users = self.calibration_.users
        if not arrays and not texts and scorer.leaves_users_out is False and recipe.refits:
            return recipe.fit(count_without(self.statistics_, users[users >= 0]))
        # A stored scorer may have been fitted since it was calibrated.
        self._not_apart()
        return scorer
