"""Anybody's model behind the questions of surerec: sets whose promise is calibrated over users."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, get_args

from surerec._arguments import check_choice
from surerec._calendar import DAY
from surerec._progress import stage
from surerec.adapters import (
    WrappedRecipe,
    WrappedScorer,
    ids_of,
    of_fitted,
    on_catalogue,
)
from surerec.calibration import calibrate
from surerec.errors import InputError
from surerec.futures import drop_repeats, following_cases, profile_cases, window_cases
from surerec.interactions import Interactions, read_interactions
from surerec.precedence import PrecedenceStatistics
from surerec.recommenders._fingerprint import refuse_constant
from surerec.recommenders._fitted import timed
from surerec.recommenders._wrapped_about import About, Covers, days_from, what_follows
from surerec.recommenders._wrapped_model import WrappedModel
from surerec.recommenders._wrapped_people import check_catalogue, refuse_newcomers, who

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from surerec.calibration import CalibrationUsers, Cut, ItemChances, Promise
    from surerec.futures import Cases, Horizon

Repeats: TypeAlias = Literal["error", "drop"]
"""How `calibrate` treats future rows of items that the user has in the past."""


class WrappedRecommender(WrappedModel):
    """Recommendation sets of somebody's own model, calibrated over users; see :func:`wrap`.

    Attributes
    ----------
    model_ : object
        The model that serves: the given one after `calibrate`, a copy after `fit`.
    covers_ : {"fit", "newcomers"}
        Whom the promise is about.
    cut_ : {"rank", "score"}
        Where sets are cut.
    calibration_ : CalibrationUsers
        What is kept of the calibration users.
    """

    def __init__(
        self,
        model: Any,
        *,
        items: Iterable[Any] | None = None,
        users: Iterable[Any] | None = None,
        covers: Covers | None = None,
        promise: str | Promise = "miss-rate",
        horizon: Horizon = 0.4,
        cut: Cut | None = None,
        groups: int = 1,
        window: float | None = None,
        n_calibration: int = 2000,
        min_known: int = 5,
        seed: int = 0,
        refit: bool = False,
        fallback: str | None = None,
        name: str | None = None,
        verbose: int = 0,
    ) -> None:
        self.model = model
        self.items = items
        self.users = users
        self.covers = covers
        self.promise = promise
        self.horizon = horizon
        self.cut = cut
        self.groups = groups
        self.window = window
        self.n_calibration = n_calibration
        self.min_known = min_known
        self.seed = seed
        self.refit = refit
        self.fallback = fallback
        self.name = name
        self.verbose = verbose

    @timed("Fitted")
    def fit(
        self,
        data: Any,
        y: object = None,  # noqa: ARG002
        *,
        user_groups: Any = None,
        lists: Mapping[str, Iterable[Any]] | None = None,
    ) -> Self:
        """Fit a copy of the model on the past, and calibrate it on the future of some users.

        Parameters
        ----------
        data : Interactions, frame or path
            Everybody's profiles. The past of calibration users, at most half of the users, ends
            before their last part, or with `window` everybody's before the last days.
        y : ignored
            There for scikit-learn.
        user_groups, lists
            The group of each user, and named lists; see :meth:`PopulationConformal.fit`.

        Returns
        -------
        self
        """
        self._validate()
        adapter, whole = self._adapter(), _interactions(data)
        recipe = WrappedRecipe(adapter, by_user=self._covers(adapter) == "fit")
        if not recipe.refits:
            raise InputError(
                f"{recipe.name} comes fitted, and no copy of it can be fitted: call "
                "calibrate(past, future)."
            )
        covers: Covers = self._covers(recipe.adapter)
        if covers == "newcomers" and not recipe.adapter.folds_in:
            refuse_newcomers(recipe.adapter)
        chosen, served, about = self._cut_apart(whole, covers)
        fitted = served
        if covers == "newcomers":
            fitted = served.without_users(chosen.users)
        elif self.window is None:
            fitted = served.keeping(~chosen.future_rows())
        with stage("learning"):
            known, scorer = self._fit_copy(recipe, served, fitted)
        self._keep_groups(user_groups)
        self._calibrate_model(scorer, known, chosen, about)
        if self.refit:
            with stage("learning"):
                self._fit_copy(recipe, whole, whole)
            self._keep_groups(user_groups)
            self._keep_about(self._kept_calibration(), self._refitted(about))
        return self._allow_all(lists)

    def _fit_copy(
        self, recipe: WrappedRecipe, served: Interactions, fitted: Interactions
    ) -> tuple[PrecedenceStatistics, WrappedScorer]:
        items = None
        if self.items is not None:
            items = ids_of(self.items, None, "item", recipe.name)
        known = on_catalogue(served, fitted, items)
        profiles = on_catalogue(fitted, fitted, items).interactions
        assert profiles is not None  # noqa: S101  # made of profiles
        assert known.interactions is not None  # noqa: S101
        scorer = recipe.scorer(profiles, known.interactions)
        self.statistics_, self.items_ = known, known.interactions.items
        self._keep_scorer(scorer)
        return known, scorer

    def _cut_apart(self, whole: Interactions, covers: Covers) -> tuple[Cases, Interactions, About]:
        """Choose calibration users; give them, what is known when they are asked, and of what."""
        about = About(covers, self._cut_by())
        if self.window is None:
            cases = profile_cases(whole, self.horizon, min_known=self.min_known)
            # People of the fit are treated alike only if few are treated as calibration users.
            chosen = self._sample(cases, at_most_half=True)
            return chosen, whole, replace(about, set_aside=covers == "fit")
        end = int(whole.times.max()) + 1
        begin = end - int(self.window * DAY)
        cases = window_cases(whole, begin, end, self.horizon, min_known=self.min_known)
        chosen = self._sample(cases, at_most_half=covers == "newcomers")
        about = replace(about, future=days_from(begin, self.window, self.horizon))
        return chosen, whole.until(begin), about

    def _sample(self, cases: Cases, *, at_most_half: bool) -> Cases:
        most = max(1, len(cases) // 2) if at_most_half else len(cases)
        return cases.sample(min(self.n_calibration, most), self.seed)

    def _refitted(self, about: About) -> About:
        name = self._wrapped_scorer().name
        if self.window is None:
            reason = (
                f"{name} was fitted again on the items that had calibrated it, so that nothing is "
                "known of how it ranks now (refit=True needs a window=)"
            )
            return replace(about, set_aside=False, nobody=reason)
        assumes = f"{name} as fitted up to their end ranks as the one that they calibrated did"
        return replace(about, future="", assumes=assumes)

    @timed("Calibrated")
    def calibrate(
        self,
        past: Any,
        future: Any,
        *,
        user_groups: Any = None,
        lists: Mapping[str, Iterable[Any]] | None = None,
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
        user_groups, lists
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
        known, later, adapter = _interactions(past), _interactions(future), self._adapter()
        dropped = 0
        if repeats == "drop":
            later, dropped = drop_repeats(known, later)
        adapter.check_fitted()
        adapter = adapter.knowing(known)
        covers, in_fit = who(adapter, known, self.covers)
        check_catalogue(adapter, known, covers)
        cases = following_cases(known, later, self.horizon, min_known=self.min_known)
        cases = cases[in_fit[cases.users] == (covers == "fit")]
        if not len(cases):
            raise InputError(
                f"Nobody with a future {'was' if covers == 'fit' else 'was not'} in the fit of "
                f"{adapter.name}, so nobody calibrates it: users= or covers= may be wrong."
            )
        chosen = self._sample(cases, at_most_half=False)
        statistics = on_catalogue(known, known, adapter.catalogue)
        assert statistics.interactions is not None  # noqa: S101  # made of profiles
        by_user, knows_all = covers == "fit", adapter.knows_all or covers == "newcomers"
        scorer = of_fitted(
            adapter, statistics.interactions, in_fit, by_user=by_user, knows_all=knows_all
        )
        self.statistics_, self.items_ = statistics, statistics.interactions.items
        self._keep_scorer(self._completed(scorer))
        self._keep_groups(user_groups)
        about = About(
            covers,
            self._cut_by(),
            future=what_follows(known, later, self.horizon),
            assumes=f"{adapter.name} learned nothing from those futures{_without(dropped)}",
        )
        self._calibrate_model(self._wrapped_scorer(), statistics, chosen, about)
        return self._allow_all(lists)

    def _calibrate_model(
        self, scorer: WrappedScorer, known: PrecedenceStatistics, chosen: Cases, about: About
    ) -> None:
        kept = calibrate(scorer, known, chosen, about.cut, known, seed=self.seed)
        if not len(kept[0]):
            raise InputError(
                f"Not one item that the calibration users took is known to {scorer.name}."
            )
        refuse_constant(scorer, known, kept[0])
        self._calibrated_on = scorer, known, chosen
        self._keep_about(kept, about)

    def _kept_calibration(self) -> tuple[CalibrationUsers, ItemChances | None]:
        return self._calibrated.users, self._calibrated.chances

    def _keep_about(self, kept: tuple[CalibrationUsers, ItemChances | None], about: About) -> None:
        self._about, self._lists = about, {}
        self._calibrated = self._calibration_of(*kept)


def _without(dropped: int) -> str:
    if not dropped:
        return ""
    were = "repeat was" if dropped == 1 else "repeats were"
    return f", from which {dropped:,} {were} dropped"


def _interactions(given: Any) -> Interactions:
    if isinstance(given, PrecedenceStatistics):
        given = given.interactions
    return given if isinstance(given, Interactions) else read_interactions(given)
