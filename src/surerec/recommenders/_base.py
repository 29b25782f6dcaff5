"""What every recommender does alike: fitting, questions, answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import polars as pl

from surerec._columns import Columns
from surerec.conformal import significance_of
from surerec.errors import InProfile, InputError, NoConfidence, NotFittedError
from surerec.interactions import IdMap, Interactions
from surerec.precedence import PrecedenceStatistics, count_precedence
from surerec.recommenders._asking import Asking
from surerec.recommenders._explanation import Explanation, explain
from surerec.recommenders._many import iter_batches, rows_of
from surerec.recommenders._parameters import Parameters
from surerec.recommenders._query import resolve
from surerec.recommenders._sets import RecommendationSet, result_columns
from surerec.recommenders._wanted import Wanted
from surerec.storage import RecommenderSpec, save_model

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from surerec.calibration import Assessment, Calibration
    from surerec.measures import Query, Recipe, Scorer


class Recommender(Asking, Parameters, ABC):
    """Base of the recommenders: a recipe and a calibration, behind one set of questions."""

    gives_confidence = True
    """Whether there are sets at a confidence."""

    statistics_: PrecedenceStatistics
    items_: IdMap
    _scorer: Scorer
    _scorer_key: tuple[object, ...]

    @abstractmethod
    def recipe(self) -> Recipe:
        """Give what makes its scorer, by its parameters as they are."""

    @abstractmethod
    def _recipe_key(self) -> tuple[object, ...]:
        """Give the parameters that the recipe depends on."""

    @abstractmethod
    def _calibration(self) -> Calibration:
        """Give what turns scores into sets."""

    @abstractmethod
    def _validate(self) -> None:
        """Refuse impossible hyper-parameters."""

    @abstractmethod
    def default_name(self) -> str:
        """Give the paper's name for it, such as "icrs12"."""

    def fit(self, data: Interactions | PrecedenceStatistics, y: object = None) -> Self:  # noqa: ARG002
        """Count who took what before what, and fit the measure if it learns.

        Parameters
        ----------
        data : Interactions or PrecedenceStatistics
            Profiles, or counts that were made before and may serve several recommenders.
        y : ignored
            There for scikit-learn.

        Returns
        -------
        self
        """
        self._take(data)
        self._learn()
        return self

    def _take(self, data: Interactions | PrecedenceStatistics) -> None:
        self._validate()
        if isinstance(data, Interactions):
            data = count_precedence(data)
        if not isinstance(data, PrecedenceStatistics):
            raise InputError(
                f"fit takes Interactions (see read_interactions), not {type(data).__name__}."
            )
        self.statistics_ = data
        interactions = self.statistics_.interactions
        if interactions is not None:
            self.items_ = interactions.items
        else:
            self.items_ = IdMap(pl.Series(np.arange(self.statistics_.n_items)), noun="item")

    def _learn(self) -> None:
        """Learn from the statistics that were taken."""
        self._keep_scorer(self.recipe().fit(self.statistics_))

    def _keep_scorer(self, scorer: Scorer) -> None:
        self._scorer, self._scorer_key = scorer, self._recipe_key()

    @property
    def scorer_(self) -> Scorer:
        """What scores the items, made by the recipe."""
        self.require_fit()
        if self._scorer_key != self._recipe_key():  # made once, asked thousands of times
            recipe = self.recipe()
            if not self._may_change(recipe):
                raise NotFittedError("The measure is to be learned: call fit again.")
            self._keep_scorer(recipe.fit(self.statistics_))
        return self._scorer

    def _may_change(self, recipe: Recipe) -> bool:
        """Tell whether another recipe may take the place of the fitted one without a new fit."""
        return not recipe.learns

    def fitted_on(self, statistics: PrecedenceStatistics, **params: Any) -> Self:
        """Give another of its kind on statistics, with some settings changed.

        What was learned from these statistics is not learned anew.
        """
        if getattr(self, "statistics_", None) is statistics and not params:
            return self
        return type(self)(**{**self.get_params(), **params}).fit(statistics)

    def set_params(self, **params: Any) -> Self:
        """Change hyper-parameters; what was learned stays, and impossible values are refused."""
        before = self.get_params()
        super().set_params(**params)
        try:
            self._validate()
        except InputError:
            super().set_params(**before)
            raise
        return self

    def to_spec(self) -> RecommenderSpec:
        """Give all that is stored of it but for the statistics."""
        recipe, scorer = self.recipe(), self.scorer_
        parts = recipe.parts(scorer)
        params = self._stored_params(recipe)
        arrays = {**parts.arrays, **self._calibration_arrays()}
        return RecommenderSpec(type(self).__name__, params, arrays, parts.texts)

    def _stored_params(self, recipe: Recipe) -> dict[str, Any]:  # noqa: ARG002
        return self.get_params()

    def _calibration_arrays(self) -> dict[str, NDArray[Any]]:
        """Give the arrays that its calibration is made of, to be saved."""
        return {}

    def restore(
        self,
        statistics: PrecedenceStatistics,
        arrays: Mapping[str, NDArray[Any]],
        texts: Mapping[str, str],
    ) -> Self:
        """Be as it was when saved; KeyError or ValueError if it has no use for these parts.

        A recommender with parts takes them instead of learning again.
        """
        recipe = self.recipe()
        self._take(statistics)
        if not all(map(recipe.owns, texts)):
            raise ValueError(f"{type(self).__name__} has no such texts")
        of_scorer = {name: array for name, array in arrays.items() if recipe.owns(name)}
        rest = {name: array for name, array in arrays.items() if name not in of_scorer}
        self._restore_calibration(rest)
        self._keep_scorer(self._restored_scorer(recipe, of_scorer, texts))
        return self

    def _restored_scorer(
        self, recipe: Recipe, arrays: Mapping[str, NDArray[Any]], texts: Mapping[str, str]
    ) -> Scorer:
        return recipe.restore(self.statistics_, arrays, texts)

    def _restore_calibration(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        if arrays:
            raise ValueError(f"{type(self).__name__} has none")

    def save(
        self, folder: str | os.PathLike[str], name: str | None = None, *, overwrite: bool = False
    ) -> None:
        """Save it in a model folder, which :func:`surerec.load` opens.

        Parameters
        ----------
        folder : path-like
            A new folder, or a model folder with the same statistics, to which it is added. The
            folder holds people's histories: keep it as you keep those.
        name : str, optional
            Its name in the folder; by default the paper's, such as "icrs12".
        overwrite : bool, default=False
            Replace what a model folder with other statistics holds.
        """
        specs = {name or self.default_name(): self.to_spec()}
        save_model(folder, self.statistics_, specs, overwrite=overwrite)

    def query(self, user: Any = None, *, history: Iterable[Any] | None = None) -> Query:
        """Turn ids into a query, as all questions do; one query may be asked several of them.

        Parameters
        ----------
        user, history
            As in :meth:`recommend`.
        """
        self.require_fit()
        return resolve(self.statistics_, self.items_, user, history)

    def candidates(self, query: Query) -> NDArray[np.int64]:
        """Give the codes of the items that may be recommended."""
        outside = self.statistics_.items_outside(query.history)
        return outside if query.allowed is None else np.intersect1d(outside, query.allowed)

    def assess(
        self,
        query: Query,
        candidates: NDArray[np.int64] | None = None,
        *,
        wanted: Wanted | None = None,
    ) -> Assessment:
        """Evaluate candidates: the confidence at which each enters the set, by code.

        Parameters
        ----------
        query : Query
            Whom it is about.
        candidates : array of int, optional
            Item codes outside the history; by default all that may be recommended.
        wanted : Wanted, optional
            What is asked for, where that says by which calibration.
        """
        scorer = self.scorer_
        if candidates is None:
            candidates = self._listed_of(self.candidates(query), wanted)
        calibration = self._calibration_for(wanted or Wanted())
        return calibration.assess(scorer, self.statistics_, query, candidates)

    def _calibration_for(self, wanted: Wanted) -> Calibration:  # noqa: ARG002
        """Give the calibration that serves what is wanted."""
        return self._calibration()

    def _listed_of(
        self,
        candidates: NDArray[np.int64],
        wanted: Wanted | None,  # noqa: ARG002
    ) -> NDArray[np.int64]:
        """Give the candidates that are in the list that is asked for."""
        return candidates

    def recommend(
        self,
        user: Any = None,
        *,
        history: Iterable[Any] | None = None,
        query: Query | None = None,
        confidence: float | None = None,
        significance: float | None = None,
        k: int | None = None,
        exclude: Iterable[Any] = (),
        min_probability: float | None = None,
        precision: float | None = None,
        items: Iterable[Any] | None = None,
        among: str | None = None,
    ) -> RecommendationSet:
        """Recommend a set of items.

        Parameters
        ----------
        user : id, optional
            A user of the data; their own profile is left out of all counts that score them.
        history : iterable of ids, optional
            What a person took, in order; beside `user`, what is known of that user.
        query : Query, optional
            Instead of these, what :meth:`query` made of them.
        confidence, significance : float, optional
            1 − ε, or ε itself: one of the two, in (0, 1).
        k : int, optional
            Cut the set to the k best. This voids the guarantee, and the result says so.
        exclude : iterable of ids, default=()
            Items to leave out; with the same effect on the guarantee.
        min_probability : float, optional
            Only items that are taken with this probability at least; with the same effect. For
            recommenders that are calibrated over users.
        precision : float, optional
            For a recommender that promises precision: which share of what is shown must be taken;
            `confidence` is then that of the promise, 0.9 if nothing is said.
        items : iterable of ids, optional
            Only these may be recommended; with the same effect on the guarantee as excluding.
        among : str, optional
            Only the items of this list, which was named by
            :meth:`surerec.PopulationConformal.allow`: what is promised is promised for them.

        Returns
        -------
        RecommendationSet
            Ordered by p-value, then by conformity, then by popularity. It may be empty: nothing
            conforms well enough at that confidence.
        """
        wanted = self.wanted(
            confidence,
            significance,
            k=k,
            min_probability=min_probability,
            precision=precision,
            items=items,
            among=among,
        )
        epsilon, limit = wanted.significance, wanted.limit
        asked = self.query(user, history=history) if query is None else query
        asked = wanted.limited(asked)
        assessment = self.assess(asked, wanted=wanted)
        order, full_size = wanted.chosen(assessment)
        if unwanted := list(exclude):
            codes = self.items_.codes(unwanted)
            order = order[~np.isin(assessment.candidates[order], codes)]
        is_whole = len(order) == full_size and (limit is None or limit >= full_size)
        interactions = self.statistics_.interactions
        return RecommendationSet(
            columns=result_columns(assessment, order[:limit]),
            item_ids=self.items_.ids,
            titles=None if interactions is None else interactions.titles,
            history=asked.history,
            significance=epsilon,
            guarantee=self._guarantee(
                wanted, assessment, is_whole=is_whole and asked.allowed is None
            ),
            full_size=full_size,
            n_candidates=len(assessment.candidates),
            highest_confidence=assessment.highest_confidence,
            everything_qualifies=assessment.everything_qualifies(epsilon),
            ignored=asked.ignored,
            about_probability=assessment.about_chances,
            precision=wanted.precision,
        )

    def p_values(
        self,
        user: Any = None,
        *,
        history: Iterable[Any] | None = None,
        query: Query | None = None,
        items: Iterable[Any] | None = None,
    ) -> pl.DataFrame:
        """Give the p-value of each candidate, or of the given items.

        Parameters
        ----------
        user, history, query
            As in :meth:`recommend`.
        items : iterable of ids, optional
            By default all items outside the known profile, the most popular first.

        Returns
        -------
        polars.DataFrame
            ``item_id``, ``p_value``, ``entry_confidence``.
        """
        self.require_confidence()
        asked = self.query(user, history=history) if query is None else query
        if items is None:
            candidates = self.candidates(asked)
            candidates = candidates[np.argsort(self.statistics_.popularity[candidates])]
        else:
            candidates = self.items_.require(items)
            self._refuse_known(asked, candidates, "it has no p-value")
        assessment = self.assess(asked, candidates)
        return pl.DataFrame(
            {
                Columns.Item: self.items_.ids.gather(candidates),
                Columns.PValue: assessment.p_values,
                Columns.EntryConfidence: assessment.entry_confidences,
            }
        )

    def explain(
        self,
        user: Any = None,
        *,
        history: Iterable[Any] | None = None,
        query: Query | None = None,
        item: Any,
    ) -> Explanation:
        """Say which earlier items speak for an item, with the counts in words.

        Parameters
        ----------
        user, history, query
            As in :meth:`recommend`.
        item : id
            The item to explain.
        """
        asked = self.query(user, history=history) if query is None else query
        code = self.items_.code(item)
        self._refuse_known(asked, np.array([code]), "there is nothing to explain")
        assessment = self.assess(asked, np.array([code]))
        scored = self._calibration().scored(asked)
        return explain(self.statistics_, self.items_, scored, code, assessment, self.scorer_)

    def recommend_many(
        self,
        users: Sequence[Any] | None = None,
        *,
        confidence: float | None = None,
        significance: float | None = None,
        k: int | None = None,
        min_probability: float | None = None,
        precision: float | None = None,
        items: Iterable[Any] | None = None,
        among: str | None = None,
        chances: bool = False,
    ) -> pl.DataFrame:
        """Recommend to many users, on all cores.

        Parameters
        ----------
        users : sequence of ids, optional
            By default all users of the data.
        confidence, significance, k, min_probability, precision, items, among
            As in :meth:`recommend`.
        chances : bool, default=False
            Say of each user's list, of at most k items, how likely at least one, two and three of
            them are taken, and how many are to be expected; for what is calibrated over users.

        Returns
        -------
        polars.DataFrame
            ``user_id`` and the columns of :meth:`RecommendationSet.to_frame` but for titles; with
            `chances` also ``at_least_1``, ``at_least_2``, ``at_least_3`` and ``expected_hits``.
        """
        batches = self.iter_recommendations(
            users,
            confidence=confidence,
            significance=significance,
            k=k,
            min_probability=min_probability,
            precision=precision,
            items=items,
            among=among,
            chances=chances,
        )
        return pl.concat(batches)

    def iter_recommendations(
        self,
        users: Sequence[Any] | None = None,
        *,
        confidence: float | None = None,
        significance: float | None = None,
        k: int | None = None,
        min_probability: float | None = None,
        precision: float | None = None,
        items: Iterable[Any] | None = None,
        among: str | None = None,
        chances: bool = False,
    ) -> Iterator[pl.DataFrame]:
        """Recommend to many users, some at a time, so that results can be written as they come.

        Yields the rows of :meth:`recommend_many`, users in the order given.
        """
        self.require_fit()
        wanted = self.wanted(
            confidence,
            significance,
            k=k,
            min_probability=min_probability,
            precision=precision,
            items=items,
            among=among,
            chances=chances,
        )
        yield from iter_batches(self, users, wanted)

    def rows_of(self, users: NDArray[np.int64], wanted: Wanted) -> pl.DataFrame:
        """Give the rows of :meth:`recommend_many` for some users by code.

        Parameters
        ----------
        users : array of int
            Their codes.
        wanted : Wanted
            As :meth:`wanted` gives it.
        """
        best = None
        is_plain = wanted.allowed is None and wanted.among is None
        if wanted.significance is not None and wanted.limit is not None and is_plain:
            best = self._calibration_for(wanted).best_of_many(
                self.scorer_, self.statistics_, users, wanted.significance, wanted.limit
            )
        return rows_of(self, users, best, wanted)

    def significance(self, confidence: float | None, significance: float | None) -> float | None:
        """Give ε from either way to say it; None for a recommender that has no confidence."""
        if confidence is not None or significance is not None:
            self.require_confidence()
        elif not self.gives_confidence:
            return None
        return significance_of(confidence, significance)

    def _guarantee(self, wanted: Wanted, assessment: Assessment, *, is_whole: bool) -> str:
        epsilon = wanted.significance
        if epsilon is None:
            return "None: this recommender ranks, and promises nothing about its ranking."
        calibration = self._calibration_for(wanted)
        if assessment.everything_qualifies(epsilon):
            return calibration.beyond(epsilon, assessment)
        if assessment.gap:
            promise = f"None for this person: {assessment.gap}."
        else:
            promise = calibration.promise(epsilon, assessment)
        if is_whole:
            return promise
        return f"None for this list, from which items were left out. The whole set: {promise}"

    def _refuse_known(self, query: Query, codes: NDArray[np.int64], why: str) -> None:
        taken = np.isin(codes, query.history)
        if taken.any():
            raise InProfile(self.items_[int(codes[int(np.argmax(taken))])], why)

    def require_confidence(self) -> None:
        """Refuse a recommender that has no sets at a confidence."""
        if not self.gives_confidence:
            raise NoConfidence(
                f"{type(self).__name__} ranks items and has no p-values; for a confidence use "
                "InductiveConformal or TransductiveConformal."
            )

    def require_fit(self) -> None:
        """Refuse a recommender that was not fitted."""
        if not hasattr(self, "statistics_"):
            raise NotFittedError(f"This {type(self).__name__} is not fitted yet: call fit first.")
