"""What every recommender does alike: fitting, questions, answers."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import polars as pl

from surerec._arguments import (
    check_codes,
    check_flag,
    check_kind,
    check_list,
    check_path,
    check_text,
)
from surerec._checks import check_whole
from surerec._columns import Columns
from surerec.conformal import significance_of
from surerec.errors import (
    HistoriesWarning,
    InProfile,
    InputError,
    NoConfidence,
    NotFittedError,
    NotOffered,
    NoUsers,
)
from surerec.interactions import IdMap
from surerec.measures import Queries, Query, as_scorer
from surerec.precedence import PrecedenceStatistics, as_statistics
from surerec.recommenders._explanation import Explanation, explain
from surerec.recommenders._histories import Histories, read_histories
from surerec.recommenders._many import frame_of, iter_histories, iter_users
from surerec.recommenders._parameters import Parameters
from surerec.recommenders._query import resolve
from surerec.recommenders._sets import RecommendationSet, result_columns
from surerec.storage import RecommenderSpec, save_model

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from surerec.calibration import Assessment, BestOfMany, Calibration
    from surerec.interactions import Interactions, UserGroups
    from surerec.measures import Recipe, Scorer


class Recommender(Parameters, ABC):
    """Base of the recommenders: a recipe and a calibration, behind one set of questions."""

    gives_confidence = True
    """Whether there are sets at a confidence."""

    statistics_: PrecedenceStatistics
    items_: IdMap
    _scorer: Scorer
    _scorer_key: tuple[object, ...]
    _name: str | None = None
    _own_name: str | None = None

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
        data = as_statistics("fit", data)
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
        self._scorer = as_scorer(scorer, self.statistics_.n_items)
        self._scorer_key = self._recipe_key()
        self._own_name = None

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
        self._own_name = None
        super().set_params(**params)
        self._name = None  # of other settings
        try:
            self._validate()
        except InputError:
            super().set_params(**before)
            raise
        return self

    @property
    def name_(self) -> str:
        """What its answers call it: the name it was loaded by, else :meth:`default_name`."""
        if self._name is not None:
            return self._name
        if self._own_name is None:
            self._own_name = self.default_name()  # once: it looks measures up, and answers are many
        return self._own_name

    def named(self, name: str) -> Self:
        """Take the name that a model folder knows it by."""
        self._name = name
        return self

    def to_spec(self) -> RecommenderSpec:
        """Give all that is stored of it but for the statistics."""
        recipe, scorer = self.recipe(), self.scorer_
        parts = recipe.parts(scorer)
        params = self._stored_params(recipe)
        arrays = {**parts.arrays, **self._calibration_arrays()}
        texts = {**parts.texts, **self._calibration_texts()}
        return RecommenderSpec(type(self).__name__, params, arrays, texts)

    def _stored_params(self, recipe: Recipe) -> dict[str, Any]:  # noqa: ARG002
        return self.get_params()

    def _calibration_arrays(self) -> dict[str, NDArray[Any]]:
        """Give the arrays that its calibration is made of, to be saved."""
        return {}

    def _calibration_texts(self) -> dict[str, str]:
        """Give the texts that its calibration is made of, to be saved."""
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
        self._restore_texts({name: text for name, text in texts.items() if not recipe.owns(name)})
        of_scorer = {name: array for name, array in arrays.items() if recipe.owns(name)}
        rest = {name: array for name, array in arrays.items() if name not in of_scorer}
        self._restore_calibration(rest)
        said = {name: text for name, text in texts.items() if recipe.owns(name)}
        self._keep_scorer(self._restored_scorer(recipe, of_scorer, said))
        return self

    def _restored_scorer(
        self, recipe: Recipe, arrays: Mapping[str, NDArray[Any]], texts: Mapping[str, str]
    ) -> Scorer:
        return recipe.restore(self.statistics_, arrays, texts)

    def _restore_texts(self, texts: Mapping[str, str]) -> None:
        if texts:
            raise ValueError(f"{type(self).__name__} has no such texts")

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
        place, replaces = check_path("folder", folder), check_flag("overwrite", overwrite)
        specs = {check_text("name", self.default_name() if name is None else name): self.to_spec()}
        save_model(place, self.statistics_, specs, overwrite=replaces)

    def query(
        self, user: Any = None, *, history: Iterable[Any] | None = None, group: Any = None
    ) -> Query:
        """Turn ids into a query, as all questions do; one query may be asked several of them.

        Parameters
        ----------
        user, history, group
            As in :meth:`recommend`.
        """
        self.require_fit()
        found = resolve(self.statistics_, self.items_, user, history)
        if group is None:
            return found
        if self._user_groups() is None:
            raise NotOffered(
                f"This {type(self).__name__} has no groups by a column of people's own: ask "
                "without group=."
            )
        return replace(found, group=str(group))

    def candidates(self, query: Query) -> NDArray[np.int64]:
        """Give the codes of the items that may be recommended."""
        self._within(query)
        outside = self.statistics_.items_outside(query.history)
        return outside if query.allowed is None else np.intersect1d(outside, query.allowed)

    def assess(self, query: Query, candidates: NDArray[np.int64] | None = None) -> Assessment:
        """Evaluate candidates: the confidence at which each enters the set, by code.

        Parameters
        ----------
        query : Query
            Whom it is about.
        candidates : array of int, optional
            Item codes outside the history; by default all that may be recommended.
        """
        scorer = self.scorer_
        if candidates is None:
            candidates = self.candidates(query)
        else:
            self._within(query)
            candidates = check_codes("candidates", candidates, self.statistics_.n_items)
        return self._calibration().assess(scorer, self.statistics_, query, candidates)

    def recommend(
        self,
        user: Any = None,
        *,
        history: Iterable[Any] | None = None,
        group: Any = None,
        query: Query | None = None,
        confidence: float | None = None,
        significance: float | None = None,
        k: int | None = None,
        exclude: Iterable[Any] = (),
    ) -> RecommendationSet:
        """Recommend a set of items.

        Parameters
        ----------
        user : id, optional
            A user of the data; their own profile is left out of all counts that score them.
        history : iterable of ids, optional
            What a person took, in order; beside `user`, what is known of that user.
        group : str, optional
            The person's group, where people are calibrated in groups by a column of their own; a
            user of the data has theirs.
        query : Query, optional
            Instead of these, what :meth:`query` made of them.
        confidence, significance : float, optional
            1 − ε, or ε itself: one of the two, in (0, 1).
        k : int, optional
            Cut the set to the k best. This voids the guarantee, and the result says so.
        exclude : iterable of ids, default=()
            Items to leave out; with the same effect on the guarantee.

        Returns
        -------
        RecommendationSet
            Ordered by p-value, then by conformity, then by popularity. It may be empty: nothing
            conforms well enough at that confidence.
        """
        epsilon = self.significance(confidence, significance)
        limit = None if k is None else check_whole("k", k)
        unwanted = check_list("exclude", exclude, "item ids")
        asked = self._asked(user, history, group, query)
        assessment = self.assess(asked)
        order = assessment.ordered(epsilon)
        full_size = len(order)
        if unwanted:
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
                epsilon, assessment, is_whole=is_whole and asked.allowed is None
            ),
            full_size=full_size,
            n_candidates=len(assessment.candidates),
            highest_confidence=assessment.highest_confidence,
            everything_qualifies=assessment.everything_qualifies(epsilon),
            ignored=asked.ignored,
            recommender=self.name_,
        )

    def p_values(
        self,
        user: Any = None,
        *,
        history: Iterable[Any] | None = None,
        group: Any = None,
        query: Query | None = None,
        items: Iterable[Any] | None = None,
        codes: NDArray[np.int64] | None = None,
    ) -> pl.DataFrame:
        """Give the p-value of each candidate, or of the given items.

        Parameters
        ----------
        user, history, group, query
            As in :meth:`recommend`.
        items : iterable of ids, optional
            By default all items outside the known profile, the most popular first.
        codes : array of int, optional
            Instead of `items`, their codes, if they were looked up before.

        Returns
        -------
        polars.DataFrame
            ``item_id``, ``p_value``, ``entry_confidence``.
        """
        self.require_confidence()
        asked = self._asked(user, history, group, query)
        if codes is None and items is not None:
            codes = self.items_.require(items)
        if codes is None:
            candidates = self.candidates(asked)
            candidates = candidates[np.argsort(self.statistics_.popularity[candidates])]
        else:
            candidates = check_codes("codes", codes, self.statistics_.n_items)
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
        group: Any = None,
        query: Query | None = None,
        item: Any,
    ) -> Explanation:
        """Say which earlier items speak for an item, with the counts in words.

        Parameters
        ----------
        user, history, group, query
            As in :meth:`recommend`.
        item : id
            The item to explain.
        """
        asked = self._asked(user, history, group, query)
        code = self.items_.code(item)
        self._refuse_known(asked, np.array([code]), "there is nothing to explain")
        assessment = self.assess(asked, np.array([code]))
        scored = self._calibration().scored(asked)
        found = explain(self.statistics_, self.items_, scored, code, assessment, self.scorer_)
        return replace(found, recommender=self.name_)

    def recommend_many(
        self,
        users: Sequence[Any] | None = None,
        *,
        histories: Any = None,
        leave_out: bool = False,
        confidence: float | None = None,
        significance: float | None = None,
        k: int | None = None,
    ) -> pl.DataFrame:
        """Recommend to many people, on all cores.

        Parameters
        ----------
        users : sequence of ids, optional
            By default all users of the data.
        histories : frame, Interactions, mapping or Histories, optional
            Instead of these, people who need not be in the data: what :meth:`histories` takes or
            gives. Whoever is left out is told by a ``HistoriesWarning``.
        leave_out : bool, default=False
            Whether people of these histories whose ids are users' of the data are these users, and
            left out of all that scores them; see :meth:`histories`.
        confidence, significance, k
            As in :meth:`recommend`.

        Returns
        -------
        polars.DataFrame
            ``user_id`` and the columns of :meth:`RecommendationSet.to_frame` but for titles.

        Examples
        --------
        >>> import surerec as sr
        >>> films = sr.datasets.synthetic(n_users=50, n_items=30, n_rows=600, seed=1)
        >>> model = sr.InductiveConformal().fit(films)
        >>> new = {"ann": films.items.ids[:4], "bob": films.items.ids[6:9]}
        >>> model.recommend_many(histories=new, confidence=0.5, k=2)["user_id"].to_list()
        ['ann', 'ann', 'bob', 'bob']
        """
        batches = self.iter_recommendations(
            users,
            histories=histories,
            leave_out=leave_out,
            confidence=confidence,
            significance=significance,
            k=k,
        )
        return pl.concat(batches)

    def iter_recommendations(
        self,
        users: Sequence[Any] | None = None,
        *,
        histories: Any = None,
        leave_out: bool = False,
        confidence: float | None = None,
        significance: float | None = None,
        k: int | None = None,
    ) -> Iterator[pl.DataFrame]:
        """Recommend to many people, some at a time, so that results can be written as they come.

        Yields the rows of :meth:`recommend_many`, people in the order given.
        """
        self.require_fit()
        epsilon = self.significance(confidence, significance)
        limit = None if k is None else check_whole("k", k)
        if histories is None:
            if leave_out:
                raise InputError(
                    "leave_out is about histories=: users of the data are always left out."
                )
            yield from iter_users(self, users, epsilon, limit)
            return
        if users is not None:
            raise InputError("Say for whom once: give users or histories=, not both.")
        if not isinstance(histories, Histories):
            histories = self.histories(histories, leave_out=leave_out)
            for sentence in histories.warnings():
                warnings.warn(sentence, HistoriesWarning, stacklevel=3)
        yield from iter_histories(self, histories, epsilon, limit)

    def histories(self, source: Any, *, leave_out: bool = False, **reading: Any) -> Histories:
        """Take what is known of many people who need not be in the data; it says what is not used.

        Parameters
        ----------
        source : frame, path, Interactions or mapping
            Who took what when: whatever :func:`surerec.read_interactions` reads, with or without a
            column of times (without, the order of the rows counts); or a mapping of ids to lists of
            items. With groups of people's own, it needs their column too.
        leave_out : bool, default=False
            These people are newcomers: nobody is left out of the counts, and an id that a user of
            the data has too means nothing. With True it is that user, known by what is given here,
            as in ``recommend(user=…, history=…)``: for newer histories of people of the data.
        **reading
            As in :func:`surerec.read_interactions`: ``user``, ``item``, ``time``, ``threshold``, …

        Returns
        -------
        Histories
            For :meth:`recommend_many`; its ``ignored`` and ``left_out`` say what is not used.

        Examples
        --------
        >>> import surerec as sr
        >>> films = sr.datasets.synthetic(n_users=50, n_items=30, n_rows=600, seed=1)
        >>> model = sr.InductiveConformal().fit(films)
        >>> new = model.histories({"ann": films.items.ids[:4], "bob": ["no such film"]})
        >>> new, new.left_out.to_list(), len(new.ignored)
        (Histories(1 people, 1 left out), ['bob'], 1)
        """
        self.require_fit()
        interactions = self.statistics_.interactions
        users = None if interactions is None or not leave_out else interactions.users
        return read_histories(source, self.items_, users, self._user_groups(), reading)

    def _user_groups(self) -> UserGroups | None:
        """Give the groups by a column of people's own that it was calibrated in."""
        return None

    def best_of(
        self, queries: Queries, significance: float | None, limit: int | None
    ) -> BestOfMany | None:
        """Find the best items of many people at once, where there is a faster way than one by one.

        Parameters
        ----------
        queries : Queries
            Whom it is about.
        significance, limit
            As in :meth:`rows_of`.
        """
        if significance is None:
            return None
        return self._calibration().best_of_many(
            self.scorer_, self.statistics_, queries, significance, limit
        )

    def rows_of(
        self, users: NDArray[np.int64], significance: float | None, limit: int | None
    ) -> pl.DataFrame:
        """Give the rows of :meth:`recommend_many` for some users by code.

        Parameters
        ----------
        users : array of int
            Their codes.
        significance : float or None
            ε, as :meth:`significance` gives it.
        limit : int or None
            The k best only.
        """
        interactions = self.statistics_.interactions
        if interactions is None:
            raise NoUsers("These statistics have no users to recommend to.")
        asked = Queries.of_users(interactions, users)
        people = interactions.users.ids.gather(users)
        return frame_of(self, asked, people, significance, limit)

    def significance(self, confidence: float | None, significance: float | None) -> float | None:
        """Give ε from either way to say it; None for a recommender that has no confidence."""
        if confidence is not None or significance is not None:
            self.require_confidence()
        elif not self.gives_confidence:
            return None
        return significance_of(confidence, significance)

    def _guarantee(self, epsilon: float | None, assessment: Assessment, *, is_whole: bool) -> str:
        if epsilon is None:
            return "None: this recommender ranks, and promises nothing about its ranking."
        calibration = self._calibration()
        if assessment.everything_qualifies(epsilon):
            return calibration.beyond(epsilon, assessment)
        if assessment.gap:
            promise = f"None for this person: {assessment.gap}."
        else:
            promise = calibration.promise(epsilon, assessment)
        if is_whole:
            return promise
        return f"None for this list, from which items were left out. The whole set: {promise}"

    def _asked(
        self, user: Any, history: Iterable[Any] | None, group: Any, query: Query | None
    ) -> Query:
        """Give what is asked: the query that was made before, or one of ids."""
        if query is None:
            return self.query(user, history=history, group=group)
        return self._within(query)

    def _within(self, query: Query) -> Query:
        """Refuse what is no query, or has codes that are not there."""
        self.require_fit()
        check_kind("query", query, Query, "a Query, as Recommender.query makes it")
        profiles = self.statistics_.interactions
        return query.within(self.statistics_.n_items, 0 if profiles is None else profiles.n_users)

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
