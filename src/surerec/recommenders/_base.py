"""What every recommender does alike: fitting, questions, answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import polars as pl

from surerec._checks import check_whole
from surerec._columns import Columns
from surerec._progress import progress
from surerec._threads import run_blocks
from surerec.conformal import significance_of
from surerec.errors import InputError, NotFittedError
from surerec.interactions import IdMap, Interactions
from surerec.precedence import PrecedenceStatistics, count_precedence
from surerec.recommenders._explanation import Explanation, explain
from surerec.recommenders._parameters import Parameters
from surerec.recommenders._query import Query, known_user, resolve
from surerec.recommenders._sets import (
    Assessment,
    RecommendationSet,
    result_columns,
    result_frame,
)
from surerec.storage import RecommenderSpec, save_model

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

__all__ = ["Recommender"]

_USERS_AT_ONCE = 256


class Recommender(Parameters, ABC):
    """Base of the recommenders: a scorer plus a calibration, behind one set of questions."""

    gives_confidence = True
    """Whether there are p-values, and so sets at a confidence."""

    statistics_: PrecedenceStatistics
    items_: IdMap

    def fit(self, data: Interactions | PrecedenceStatistics, y: object = None) -> Self:  # noqa: ARG002
        """Count who took what before what.

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
        return self

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

    @abstractmethod
    def _validate(self) -> None:
        """Refuse impossible hyper-parameters."""

    @abstractmethod
    def _assess(self, query: Query, candidates: NDArray[np.int64]) -> Assessment:
        """Say what is thought of every candidate."""

    @abstractmethod
    def _promise(self, significance: float, assessment: Assessment) -> str:
        """Say what the confidence promises, in one sentence, with its assumption."""

    @abstractmethod
    def _training(self, query: Query) -> NDArray[np.int64]:
        """Give the items of the known profile that the candidates are compared with."""

    @abstractmethod
    def default_name(self) -> str:
        """Give the paper's name for it, such as "icrs12"."""

    def _parts(self) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
        """Give the arrays and texts that were learned beside the statistics, to be saved."""
        return {}, {}

    def _restore(
        self,
        statistics: PrecedenceStatistics,
        arrays: Mapping[str, NDArray[Any]],
        texts: Mapping[str, str],
    ) -> Self:
        """Be as it was when saved; KeyError or ValueError if it has no use for these parts.

        A recommender with parts takes them instead of learning again. They come from a file:
        kernels must not believe their shapes and indices.
        """
        if arrays or texts:
            raise ValueError(f"{type(self).__name__} has none")
        return self.fit(statistics)

    def _spec(self) -> RecommenderSpec:
        """Give all that is stored of it but for the statistics."""
        self._require_fit()
        return RecommenderSpec(type(self).__name__, self.get_params(), *self._parts())

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
        specs = {name or self.default_name(): self._spec()}
        save_model(folder, self.statistics_, specs, overwrite=overwrite)

    def recommend(
        self,
        user: Any = None,
        *,
        history: Iterable[Any] | None = None,
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
        epsilon = self._significance(confidence, significance)
        limit = None if k is None else check_whole("k", k)
        query = self._query(user, history)
        assessment = self._assess(query, self._candidates(query))
        order = assessment.ordered(epsilon)
        full_size = len(order)
        if unwanted := list(exclude):
            codes = self.items_.codes(unwanted)
            order = order[~np.isin(assessment.candidates[order], codes)]
        is_whole = len(order) == full_size and (limit is None or limit >= full_size)
        interactions = self.statistics_.interactions
        return RecommendationSet(
            columns=result_columns(assessment, order[:limit]),
            item_ids=self.items_.ids,
            titles=None if interactions is None else interactions.titles,
            history=query.history,
            significance=epsilon,
            guarantee=self._guarantee(epsilon, assessment, is_whole=is_whole),
            full_size=full_size,
            n_candidates=len(assessment.candidates),
            highest_confidence=assessment.highest_confidence,
            everything_qualifies=assessment.everything_qualifies(epsilon),
            ignored=query.ignored,
        )

    def p_values(
        self,
        user: Any = None,
        *,
        history: Iterable[Any] | None = None,
        items: Iterable[Any] | None = None,
    ) -> pl.DataFrame:
        """Give the p-value of each candidate, or of the given items.

        Parameters
        ----------
        user, history
            As in :meth:`recommend`.
        items : iterable of ids, optional
            By default all items outside the known profile, the most popular first.

        Returns
        -------
        polars.DataFrame
            ``item_id``, ``p_value``, ``entry_confidence``.
        """
        self._require_confidence()
        query = self._query(user, history)
        candidates = self._candidates(query)
        if items is not None:
            candidates = self.items_.require(items)
            if (known := np.intersect1d(candidates, query.history)).size:
                item = self.items_[int(known[0])]
                raise InputError(f"Item {item!r} is in the known profile: it has no p-value.")
        assessment = self._assess(query, candidates)
        return pl.DataFrame(
            {
                Columns.Item: self.items_.ids.gather(candidates),
                Columns.PValue: assessment.p_values,
                Columns.EntryConfidence: assessment.entry_confidences,
            }
        )

    def explain(
        self, user: Any = None, *, history: Iterable[Any] | None = None, item: Any
    ) -> Explanation:
        """Say which earlier items speak for an item, with the counts in words.

        Parameters
        ----------
        user, history
            As in :meth:`recommend`.
        item : id
            The item to explain.
        """
        query = self._query(user, history)
        code = self.items_.code(item)
        if code in query.history:
            raise InputError(f"Item {item!r} is in the known profile: there is nothing to explain.")
        assessment = self._assess(query, np.array([code]))
        training = self._training(query)
        moved = self._moved(query, code)
        return explain(self.statistics_, self.items_, query, training, code, assessment, moved)

    def recommend_many(
        self,
        users: Sequence[Any] | None = None,
        *,
        confidence: float | None = None,
        significance: float | None = None,
        k: int | None = None,
    ) -> pl.DataFrame:
        """Recommend to many users, on all cores.

        Parameters
        ----------
        users : sequence of ids, optional
            By default all users of the data.
        confidence, significance, k
            As in :meth:`recommend`.

        Returns
        -------
        polars.DataFrame
            ``user_id`` and the columns of :meth:`RecommendationSet.to_frame` but for titles.
        """
        batches = self.iter_recommendations(
            users, confidence=confidence, significance=significance, k=k
        )
        return pl.concat(batches)

    def iter_recommendations(
        self,
        users: Sequence[Any] | None = None,
        *,
        confidence: float | None = None,
        significance: float | None = None,
        k: int | None = None,
    ) -> Iterator[pl.DataFrame]:
        """Recommend to many users, some at a time, so that results can be written as they come.

        Yields the rows of :meth:`recommend_many`, users in the order given.
        """
        self._require_fit()
        epsilon = self._significance(confidence, significance)
        limit = None if k is None else check_whole("k", k)
        interactions = self.statistics_.interactions
        if interactions is None:
            raise InputError("These statistics have no users to recommend to.")
        n_users = interactions.n_users
        codes = np.arange(n_users) if users is None else interactions.users.require(users)
        if not len(codes):
            raise InputError("There is nobody to recommend to: the list of users is empty.")

        def batch(start: int) -> pl.DataFrame:
            return self._rows(interactions, codes[start : start + _USERS_AT_ONCE], epsilon, limit)

        with progress("Recommending", total=len(codes)) as advance:
            for rows in run_blocks(batch, range(0, len(codes), _USERS_AT_ONCE)):
                yield rows
                advance(_USERS_AT_ONCE)

    def _rows(
        self,
        interactions: Interactions,
        users: NDArray[np.int64],
        epsilon: float | None,
        limit: int | None,
    ) -> pl.DataFrame:
        """Give the rows of some users: one frame for all, as frames cost more than rows."""
        if epsilon is not None and limit is not None:
            fast = self._best(interactions, users, epsilon, limit)
            if fast is not None:
                rows, columns = fast
                owners = interactions.users.ids.gather(users[rows]).alias(Columns.User)
                return result_frame(columns, self.items_.ids).select(owners, pl.all())
        parts = []
        for user in users:
            query = known_user(interactions, int(user))
            assessment = self._assess(query, self._candidates(query))
            parts.append(result_columns(assessment, assessment.ordered(epsilon)[:limit]))
        sizes = [len(part[Columns.Item]) for part in parts]
        joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        owners = interactions.users.ids.gather(np.repeat(users, sizes)).alias(Columns.User)
        return result_frame(joined, self.items_.ids).select(owners, pl.all())

    def _best(
        self,
        interactions: Interactions,  # noqa: ARG002
        users: NDArray[np.int64],  # noqa: ARG002
        epsilon: float,  # noqa: ARG002
        limit: int,  # noqa: ARG002
    ) -> tuple[NDArray[np.intp], dict[str, NDArray[Any]]] | None:
        """Give the best of many users at once, where there is a faster way than one by one.

        Which of the users each row is about, and the columns of the result.
        """
        return None

    def _moved(
        self,
        query: Query,  # noqa: ARG002
        item: int,  # noqa: ARG002
    ) -> tuple[tuple[str, float, float], ...]:
        """Say what moved a learned score: each feature in words, its value, what it moved."""
        return ()

    def _fitted_like(self, statistics: PrecedenceStatistics, **params: Any) -> Self:
        """Give another of its kind on statistics, with some settings changed.

        What was learned from these statistics is not learned anew.
        """
        if getattr(self, "statistics_", None) is statistics and not params:
            return self
        return type(self)(**{**self.get_params(), **params}).fit(statistics)

    def _query(self, user: Any, history: Iterable[Any] | None) -> Query:
        self._require_fit()
        return resolve(self.statistics_, self.items_, user, history)

    def _candidates(self, query: Query) -> NDArray[np.int64]:
        return self.statistics_.items_outside(query.history)

    def _significance(self, confidence: float | None, significance: float | None) -> float | None:
        if confidence is not None or significance is not None:
            self._require_confidence()
        elif not self.gives_confidence:
            return None
        return significance_of(confidence, significance)

    def _guarantee(self, epsilon: float | None, assessment: Assessment, *, is_whole: bool) -> str:
        if epsilon is None:
            return "None: this recommender ranks, and promises nothing about its ranking."
        if assessment.everything_qualifies(epsilon):
            return self._beyond(epsilon, assessment)
        promise = self._promise(epsilon, assessment)
        if is_whole:
            return promise
        return f"None for this list, from which items were left out. The whole set: {promise}"

    def _beyond(self, epsilon: float, assessment: Assessment) -> str:
        """Say why every item qualifies at a confidence that cannot be supported."""
        n, highest = assessment.n_calibration, assessment.highest_confidence
        return (
            f"Every item qualifies: with {n} calibration item{'' if n == 1 else 's'} this "
            f"profile supports a confidence of {highest:.4g} at most, not {1 - epsilon:.4g}."
        )

    def _require_confidence(self) -> None:
        if not self.gives_confidence:
            raise InputError(
                f"{type(self).__name__} ranks items and has no p-values; for a confidence use "
                "InductiveConformal or TransductiveConformal."
            )

    def _require_fit(self) -> None:
        if not hasattr(self, "statistics_"):
            raise NotFittedError(f"This {type(self).__name__} is not fitted yet: call fit first.")
