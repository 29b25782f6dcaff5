"""The inductive conformal recommender system, ICRS1 … ICRS17."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from surerec._checks import check_whole
from surerec._columns import Columns
from surerec.conformal import left_out_up_to, smoothed_p_values
from surerec.conformal._kernels import judge
from surerec.errors import NotFittedError
from surerec.measures import MeasureScorer, find_measure, is_learned
from surerec.measures.learned import LearnedMeasure, LearnedScorer, from_parts, to_parts
from surerec.recommenders._base import Recommender
from surerec.recommenders._batch import Best, as_columns, best_of_users
from surerec.recommenders._fused import judge_profile, pays, plan
from surerec.recommenders._kernels import uniforms
from surerec.recommenders._sets import Assessment
from surerec.recommenders._split import check_share, split, training_size

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from surerec.interactions import Interactions
    from surerec.precedence import PrecedenceStatistics
    from surerec.recommenders._fused import Plan
    from surerec.recommenders._query import Query

__all__ = ["InductiveConformal"]


class InductiveConformal(Recommender):
    """Recommendation sets by inductive conformal prediction (paper, section 5).

    The known profile is split in time order into proper training items T and calibration items C.
    A measure says how well each calibration item and each candidate fits T; the p-value of a
    candidate is the share of calibration items, itself included, that fit no better. The set at
    confidence 1 − ε holds the candidates with p > ε.

    Parameters
    ----------
    measure : str, default="CM12"
        One of the 17 measures, such as "CM3", "ICRS3" or "median-count"; ``surerec measures`` lists
        them. Or "learned": trees trained when it is fitted (docs/learned.md), which needs the extra
        ``surerec[learn]``.
    top : int, default=1
        For CM1: how many of the largest factors are multiplied.
    literal : bool, default=False
        For CM6–9: read the paper's formula, not its text.
    train_share : float, default=0.5
        The share of the known profile that is training; the rest calibrates.
    smoothed : bool, default=False
        Break ties in p-values at random. Sets are smaller, and p-values exactly uniform where items
        are exchangeable.
    seed : int, default=0
        Of the random numbers for that: the same for the same user and item, always. And of the
        training of a learned measure.

    Attributes
    ----------
    learned_ : LearnedMeasure
        What was learned, with ``measure="learned"``.

    Examples
    --------
    >>> import surerec as sr
    >>> films = sr.datasets.synthetic(n_users=200, n_items=60, n_rows=4000, seed=1)
    >>> model = sr.InductiveConformal(measure="CM12").fit(films)
    >>> picks = model.recommend(user=7, confidence=0.8)
    >>> picks.to_frame().columns
    ['item_id', 'rank', 'score', 'p_value', 'entry_confidence', 'title']
    >>> len(picks) <= len(model.recommend(user=7, confidence=0.9))
    True
    """

    learned_: LearnedMeasure
    _made_scorer: MeasureScorer | LearnedScorer
    _plan: Plan | None

    def __init__(
        self,
        measure: str = "CM12",
        *,
        top: int = 1,
        literal: bool = False,
        train_share: float = 0.5,
        smoothed: bool = False,
        seed: int = 0,
    ) -> None:
        self.measure = measure
        self.top = top
        self.literal = literal
        self.train_share = train_share
        self.smoothed = smoothed
        self.seed = seed

    def default_name(self) -> str:
        """Give the paper's name for it."""
        if is_learned(self.measure):
            return "icrs-learned"
        return f"icrs{find_measure(self.measure).number}"

    def fit(self, data: Interactions | PrecedenceStatistics, y: object = None) -> Self:
        """Count who took what before what, and train the measure if it is a learned one.

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
        super().fit(data, y)
        if is_learned(self.measure):
            self._use(LearnedMeasure.train(self.statistics_, seed=self.seed))
        return self

    def fit_learned(
        self, data: Interactions | PrecedenceStatistics, learned: LearnedMeasure
    ) -> Self:
        """Fit with a measure that was learned before, on these data or on others.

        Parameters
        ----------
        data : Interactions or PrecedenceStatistics
            As in :meth:`fit`.
        learned : LearnedMeasure
            What was learned. Its folds are of users by code: if it was learned from other data,
            only people who were in neither are surely scored by what was not learned from them.
        """
        super().fit(data)
        self._use(learned)
        return self

    def _use(self, learned: LearnedMeasure) -> None:
        self.learned_ = learned
        self._scorer()  # made here, once, as questions may come from many threads

    def _parts(self) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
        scorer = self._scorer()
        return to_parts(scorer) if isinstance(scorer, LearnedScorer) else ({}, {})

    def _restore(
        self,
        statistics: PrecedenceStatistics,
        arrays: Mapping[str, NDArray[Any]],
        texts: Mapping[str, str],
    ) -> Self:
        if not is_learned(self.measure):
            return super()._restore(statistics, arrays, texts)
        super().fit(statistics)
        scorer = from_parts(statistics, arrays, texts)
        self.learned_ = scorer.learned
        self._made_scorer, self._plan = scorer, None
        self._scorer_key = self._key_of_scorer()
        return self

    def _fitted_like(self, statistics: PrecedenceStatistics, **params: Any) -> Self:
        learned = is_learned(self.measure) and hasattr(self, "learned_")
        if not learned or self.statistics_ is not statistics:
            return super()._fitted_like(statistics, **params)
        other = copy(self)  # and so with the scorer that was made of what was learned
        return other.set_params(**params)

    def _validate(self) -> None:
        if not is_learned(self.measure):
            find_measure(self.measure)
        check_whole("top", self.top)
        check_whole("seed", self.seed, lowest=0)
        check_share(self.train_share)

    def _scorer(self) -> MeasureScorer | LearnedScorer:
        key = self._key_of_scorer()
        if getattr(self, "_scorer_key", None) != key:  # looked up once, asked thousands of times
            self._made_scorer = scorer = self._make_scorer()
            self._plan = plan(scorer) if isinstance(scorer, MeasureScorer) else None
            self._scorer_key = key
        return self._made_scorer

    def _key_of_scorer(self) -> tuple[object, ...]:
        if not is_learned(self.measure):
            return id(self.statistics_), self.measure, self.top, self.literal
        if not hasattr(self, "learned_"):
            raise NotFittedError("The measure is to be learned: call fit again.")
        return id(self.statistics_), id(self.learned_)

    def _make_scorer(self) -> MeasureScorer | LearnedScorer:
        if is_learned(self.measure):
            return LearnedScorer(self.statistics_, self.learned_)
        return MeasureScorer(self.statistics_, self.measure, top=self.top, literal=self.literal)

    def _moved(self, query: Query, item: int) -> tuple[tuple[str, float, float], ...]:
        scorer = self._scorer()
        if isinstance(scorer, MeasureScorer):
            return ()
        training = self._training(query)
        return tuple(scorer.contributions(training, item, without_user=query.user))

    def _training(self, query: Query) -> NDArray[np.int64]:
        return split(query.history, self.train_share)[0]

    def _assess(self, query: Query, candidates: NDArray[np.int64]) -> Assessment:
        scorer = self._scorer()
        n_training = training_size(len(query.history), self.train_share)
        training, calibration = query.history[:n_training], query.history[n_training:]
        smoothed = None
        if not self.smoothed and self._plan is not None and pays(self._plan, n_training):
            own, times = self.statistics_.taken_by(query.user)
            new, counts = judge_profile(
                self._plan, query.history, n_training, own, times, candidates
            )
        else:
            scores = scorer.score(training, without_user=query.user)
            new, counts = np.empty(len(candidates)), np.empty(len(candidates), dtype=np.int64)
            judge(scores, calibration, candidates, new, counts)
            if self.smoothed:
                chances = uniforms(np.uint64(self.seed), self._key(query), candidates)
                smoothed = smoothed_p_values(scores[calibration], new, chances)
        n_users = max(self.statistics_.n_users - (query.user is not None), 1)

        def shown(order: NDArray[np.intp]) -> NDArray[np.float64]:
            values = scorer.value(new[order], n_training, n_users)
            return -values if _is_nonconformity(scorer) else values

        return Assessment(
            candidates,
            score=new,
            shown=shown,
            counts=counts,
            levels=len(calibration) + 1,
            smoothed=smoothed,
            n_calibration=len(calibration),
        )

    def _best(
        self, interactions: Interactions, users: NDArray[np.int64], epsilon: float, limit: int
    ) -> tuple[NDArray[np.intp], dict[str, NDArray[Any]]] | None:
        scorer = self._scorer()
        if self.smoothed or self._plan is None or isinstance(scorer, LearnedScorer):
            return None
        measure = scorer.measure
        starts, stops = interactions.offsets[users], interactions.offsets[users + 1]
        n_training = np.array([training_size(n, self.train_share) for n in stops - starts])
        levels = stops - starts - n_training + 1
        best = Best.empty(len(users), min(limit, self.statistics_.n_items))
        best_of_users(
            self._plan,
            starts,
            stops,
            n_training,
            interactions.items_taken,
            interactions.times,
            left_out_up_to(epsilon, levels),
            *best,
        )
        owners, items, counts, scores, ranks = as_columns(best)
        n_others = max(self.statistics_.n_users - 1, 1)
        values = scorer.value(scores, n_training[owners], n_others)
        levels = levels[owners]
        return owners, {
            Columns.Item: items,
            Columns.Rank: ranks,
            Columns.Score: -values if measure.is_nonconformity else values,
            Columns.PValue: counts / levels,
            Columns.EntryConfidence: (levels - counts) / levels,
        }

    def _key(self, query: Query) -> NDArray[np.int64]:
        """Identify the person: a user by code, anybody else by their history."""
        return query.history if query.user is None else np.array([-1 - query.user])

    def _promise(self, significance: float, assessment: Assessment) -> str:
        n = assessment.n_calibration
        calibration = f"{n} calibration item{'' if n == 1 else 's'}"
        return (
            f"An item that this person will take is left out with probability at most "
            f"{significance:.4g}, if the {calibration} and what they take next "
            f"are exchangeable: it holds less well the more their taste drifts."
        )


def _is_nonconformity(scorer: MeasureScorer | LearnedScorer) -> bool:
    return isinstance(scorer, MeasureScorer) and scorer.measure.is_nonconformity
