"""Anybody's model behind the questions of surerec: sets whose promise is calibrated over users."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn, Self, get_args

import numpy as np

from surerec._calendar import DAY
from surerec.adapters import (
    WrappedRecipe,
    WrappedScorer,
    adapt,
    ids_of,
    of_fitted,
    on_catalogue,
)
from surerec.calibration import CalibrationUsers, find_promise
from surerec.errors import InputError, NotFittedError
from surerec.futures import following_cases, observe, profile_cases, window_cases
from surerec.interactions import Interactions, read_interactions
from surerec.precedence import PrecedenceStatistics
from surerec.recommenders._fingerprint import check_same, probe, refuse_constant, same_kind
from surerec.recommenders._measured import stored_measure
from surerec.recommenders._population import PopulationConformal
from surerec.recommenders._wrapped_about import About, Covers, days_from, what_follows
from surerec.recommenders._wrapped_people import check_catalogue, refuse_newcomers, who

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from surerec.adapters import Adapter
    from surerec.calibration import Cut, Promise
    from surerec.futures import Cases, Horizon
    from surerec.measures import Query
    from surerec.storage import RecommenderSpec

_PROBE = "wrapped_probe"
_ABOUT = "wrapped_about"


class WrappedRecommender(PopulationConformal):
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

    _about: About

    def recipe(self) -> WrappedRecipe:
        """Give what fits a copy of the model."""
        adapter = self._adapter()
        covers = self.covers_ if hasattr(self, "_about") else self._covers(adapter)
        return WrappedRecipe(adapter, by_user=covers == "fit")

    def _adapter(self) -> Adapter:
        return adapt(self.model, self.items, self.users)

    def _covers(self, adapter: Adapter) -> Covers:
        """Give whom `fit` is to cover: people of the fit if it keeps something of them."""
        return self.covers or ("newcomers" if not adapter.knows_users else "fit")

    def _recipe_key(self) -> tuple[object, ...]:
        return (self.model,)

    def _cut_by(self) -> Cut:
        return self.cut or ("score" if self._adapter().has_value else "rank")

    def _validate(self) -> None:
        super()._validate()
        if self.covers is not None and self.covers not in get_args(Covers):
            raise InputError(
                f"covers is {self.covers!r}; choose one of {', '.join(get_args(Covers))}."
            )

    def check(self) -> None:
        """Refuse an unknown kind of model, ids that are not its own, and impossible settings."""
        self._validate()

    @property
    def model_(self) -> Any:
        """The model that serves."""
        return self._wrapped_scorer().adapter.model

    @property
    def covers_(self) -> Covers:
        """Whom the promise is about."""
        self.require_fit()
        return self._about.covers

    @property
    def cut_(self) -> Cut:
        """Where sets are cut."""
        self.require_fit()
        return self._about.cut

    def _wrapped_scorer(self) -> WrappedScorer:
        scorer = self.scorer_
        assert isinstance(scorer, WrappedScorer)  # noqa: S101  # of its own recipe
        return scorer

    def fit(self, data: Any, y: object = None) -> Self:  # noqa: ARG002
        """Fit a copy of the model on the past, and calibrate it on the future of some users.

        Parameters
        ----------
        data : Interactions, frame or path
            Everybody's profiles. The past of calibration users, at most half of the users, ends
            before their last part, or with `window` everybody's before the last days.
        y : ignored
            There for scikit-learn.

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
        known, scorer = self._fit_copy(recipe, served, fitted)
        self._calibrate_model(scorer, known, chosen, about)
        if self.refit:
            self._fit_copy(recipe, whole, whole)
            self._keep_about(self.calibration_, self._refitted(about))
        return self

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

    def calibrate(self, past: Any, future: Any) -> Self:
        """Calibrate a fitted model on what people took after what it was fitted on.

        Parameters
        ----------
        past : Interactions, frame or path
            What is known of people: what the model was fitted on, or, of people whom it was not
            fitted on, their histories.
        future : Interactions, frame or path
            What they took then, which the model must not know.

        Returns
        -------
        self

        Raises
        ------
        InputError
            If something of the future is in the past too, if ids do not match the model's, or if
            nobody is left to calibrate.
        """
        self._validate()
        known, later, adapter = _interactions(past), _interactions(future), self._adapter()
        adapter.check_fitted()
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
        self._keep_scorer(scorer)
        about = About(
            covers,
            self._cut_by(),
            future=what_follows(known, later, self.horizon),
            assumes=f"{adapter.name} learned nothing from those futures",
        )
        self._calibrate_model(scorer, statistics, chosen, about)
        return self

    def _calibrate_model(
        self, scorer: WrappedScorer, known: PrecedenceStatistics, chosen: Cases, about: About
    ) -> None:
        outcomes = observe(scorer, known, chosen)
        if not len(outcomes):
            raise InputError(
                f"Not one item that the calibration users took is known to {scorer.name}."
            )
        users = CalibrationUsers.of(outcomes, about.cut, known)
        refuse_constant(scorer, known, users)
        self._keep_about(users, about)

    def _keep_about(self, users: CalibrationUsers, about: About) -> None:
        self._about = about
        self._keep(users, about.coverage(self._wrapped_scorer().rows >= 0), about.future)

    def recalibrate(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse: a wrapped model is calibrated by `fit` or by `calibrate`."""
        raise InputError(
            "A wrapped model is renewed by fit(interactions) or calibrate(past, future)."
        )

    def query(self, user: Any = None, *, history: Iterable[Any] | None = None) -> Query:
        """Turn ids into a query; see :meth:`Recommender.query`."""
        if user is not None and history is not None:
            raise InputError(
                "Give user= or history=, not both: a wrapped model scores a user by what is known "
                "of them here."
            )
        return super().query(user, history=history)

    def require_fit(self) -> None:
        """Refuse a model that was not calibrated."""
        if not hasattr(self, "statistics_"):
            raise NotFittedError(
                "This model is not calibrated yet: call calibrate(past, future) or "
                "fit(interactions) first."
            )

    def to_spec(self) -> RecommenderSpec:
        """Give all that is stored of it but for the statistics and the model."""
        spec = super().to_spec()
        found = probe(self._wrapped_scorer(), self.statistics_, self.calibration_)
        return replace(
            spec,
            arrays={**spec.arrays, _PROBE: found},
            texts={**spec.texts, _ABOUT: self._about.to_text()},
        )

    def _stored_params(self, recipe: Any) -> dict[str, Any]:
        return {
            **self.get_params(),
            "model": stored_measure(self.model, recipe),
            "promise": find_promise(self.promise).name,
            "items": None,  # the statistics have them
            "users": None,
        }

    def restore(
        self,
        statistics: PrecedenceStatistics,
        arrays: Mapping[str, NDArray[Any]],
        texts: Mapping[str, str],
    ) -> Self:
        """Be as it was when saved, with the model that was calibrated; another one is refused."""
        about = About.from_text(texts[_ABOUT])
        columns, rows = arrays["wrapped_columns"], arrays["wrapped_rows"]
        n_users, profiles = statistics.n_users, statistics.interactions
        n_items = statistics.n_items
        if (
            profiles is None
            or not np.array_equal(np.sort(columns), np.arange(n_items))
            or rows.shape != (n_users,)
        ):
            raise ValueError("they are not those of a wrapped model")
        by_column = profiles.items.ids.gather(np.argsort(columns))
        adapter = same_kind(self.model, by_column)
        by_user = adapter.knows_users and about.covers == "fit"
        scorer = WrappedScorer(adapter, columns, rows, by_user=by_user, knows_all=False)
        self.statistics_, self.items_ = statistics, profiles.items
        self._keep_scorer(scorer)
        own = {name: arrays[name] for name in arrays if not name.startswith("wrapped_")}
        users = CalibrationUsers.from_arrays(own)
        check_same(scorer, statistics, users, arrays[_PROBE])
        self._keep_about(users, about)
        return self


def _interactions(given: Any) -> Interactions:
    if isinstance(given, PrecedenceStatistics):
        given = given.interactions
    return given if isinstance(given, Interactions) else read_interactions(given)
