"""Sets whose promise is calibrated over users: it holds in time order, and sets are smaller."""

from __future__ import annotations

import warnings
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Self, get_args

import numpy as np

from surerec._checks import check_whole
from surerec.conformal import users_needed
from surerec.errors import InputError, StaleModelWarning
from surerec.futures import (
    SLATE_MOST,
    Ranking,
    check_horizon,
    codes_in,
    day_of,
    observe,
    profile_cases,
    value_of,
    window_cases,
)
from surerec.measures import MeasureScorer, find_measure, is_learned
from surerec.measures.learned import (
    LearnedMeasure,
    LearnedScorer,
    from_parts,
    is_learned_part,
    to_parts,
)
from surerec.precedence import count_precedence
from surerec.recommenders._base import Recommender
from surerec.recommenders._calibration import Calibration, Cut, Promise
from surerec.recommenders._promises import Terms
from surerec.recommenders._slates import Slate, slate_features
from surerec.recommenders._thresholds import PopulationAssessment, Thresholds

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from surerec.futures import Cases, Horizon
    from surerec.interactions import Interactions
    from surerec.measures import Scorer
    from surerec.precedence import PrecedenceStatistics
    from surerec.recommenders._query import Query
    from surerec.recommenders._sets import Assessment

__all__ = ["PopulationConformal"]

_DAY = 86_400_000_000  # microseconds


class PopulationConformal(Recommender):
    """Recommendation sets calibrated over users, by conformal risk control.

    A measure ranks all items by the whole known profile. How much of the ranking a set must hold is
    learned from calibration users, whose last items are set aside: at ε, the smallest cut with
    which they miss no more than ε. Unlike the paper's p-values this needs no exchangeable items
    within a profile, only people (and times) that are alike.

    Parameters
    ----------
    measure : str or Scorer, default="CM12"
        One of the 17 measures, "learned" for one that is trained on the way (about half the set
        size), or anything that scores (see :class:`surerec.measures.Scorer`).
    promise : {"miss-rate", "hit"}, default="miss-rate"
        What is kept below ε: the mean share of a person's future items that is left out, or the
        probability that not one of them is in the set.
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
    calibration_ : Calibration
        What is kept of the calibration users.
    learned_ : LearnedMeasure
        What was learned, with ``measure="learned"``.

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
        measure: Any = "CM12",
        *,
        promise: Promise = "miss-rate",
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

    calibration_: Calibration
    learned_: LearnedMeasure
    _made_scorer: Scorer

    def default_name(self) -> str:
        """Give a name such as "population-cm12" or "hit-cm12"."""
        kind = "population" if self.promise == "miss-rate" else "hit"
        return f"{kind}-{self._measure_name().lower()}"

    def _measure_name(self) -> str:
        if is_learned(self.measure):
            return "learned"
        if _scores(self.measure):
            return type(self.measure).__name__
        return find_measure(self.measure).name

    def _validate(self) -> None:
        if not _scores(self.measure) and not is_learned(self.measure):
            find_measure(self.measure)
        for name, allowed in (("promise", get_args(Promise)), ("cut", get_args(Cut))):
            if getattr(self, name) not in allowed:
                raise InputError(
                    f"{name} is {getattr(self, name)!r}; choose one of {', '.join(allowed)}."
                )
        check_horizon(self.horizon)
        for name, lowest in (("groups", 1), ("n_calibration", 1), ("min_known", 1), ("seed", 0)):
            check_whole(name, getattr(self, name), lowest=lowest)
        if self.window is not None and not (
            isinstance(self.window, (int, float)) and self.window > 0
        ):
            raise InputError(f"window is {self.window!r}; it must be a number of days above 0.")

    def fit(self, data: Interactions | PrecedenceStatistics, y: object = None) -> Self:
        """Count who took what before what, and calibrate on users' futures.

        Parameters
        ----------
        data : Interactions or PrecedenceStatistics
            Profiles, or counts that were made from them.
        y : ignored
            There for scikit-learn.
        """
        super().fit(data, y)
        profiles = self.statistics_.interactions
        if profiles is None:
            raise InputError("These counts were given without profiles: nobody can calibrate.")
        if self.window is None:
            cases = profile_cases(profiles, self.horizon, min_known=self.min_known)
            self._learn(self.statistics_)
            return self._calibrate(self.statistics_, cases)
        end = int(profiles.times.max()) + 1
        begin = end - int(self.window * _DAY)
        cases = window_cases(profiles, begin, end, self.horizon, min_known=self.min_known)
        past = count_precedence(profiles.until(begin), ties=self.statistics_.ties)
        self._learn(past)
        return self._calibrate(past, cases)

    def _learn(self, past: PrecedenceStatistics) -> None:
        """Train the measure if it is a learned one, on what calibrates it and nothing later."""
        if is_learned(self.measure):
            self.learned_ = LearnedMeasure.train(past, seed=self.seed)

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
        self._require_fit()
        past = self.statistics_
        assert past.interactions is not None  # noqa: S101  # it was fitted on profiles
        begin, end = int(past.interactions.times.max()) + 1, int(interactions.times.max()) + 1
        if begin >= end:
            raise InputError(
                f"Nothing has happened since {day_of(begin)}, up to which was counted: there is "
                "nothing to recalibrate on."
            )
        cases = window_cases(interactions, begin, end, self.horizon, min_known=self.min_known)
        if refit:
            super().fit(counts or count_precedence(interactions, ties=past.ties))
        self._calibrate(past, cases)
        if refit and is_learned(self.measure):
            # The trees stay as they are; users go by other codes now.
            self.learned_ = self.learned_.renumbered(codes_in(past, interactions)[0])
        return self

    def _calibrate(self, past: PrecedenceStatistics, cases: Cases) -> Self:
        chosen = cases.sample(self.n_calibration, self.seed)
        scorer = self._scorer() if past is self.statistics_ else self._scorer_on(past)
        outcomes = observe(scorer, past, chosen)
        self._keep(Calibration.of(outcomes, self.cut, self.statistics_))
        return self

    def _keep(self, calibration: Calibration) -> None:
        self.calibration_ = calibration
        self._thresholds = Thresholds(calibration, self.promise, self.groups)
        self._warned = False

    def _parts(self) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
        scorer = self._scorer()
        arrays, texts = to_parts(scorer) if isinstance(scorer, LearnedScorer) else ({}, {})
        return {**arrays, **self.calibration_.to_arrays()}, texts

    def _restore(
        self,
        statistics: PrecedenceStatistics,
        arrays: Mapping[str, NDArray[Any]],
        texts: Mapping[str, str],
    ) -> Self:
        super().fit(statistics)
        if is_learned(self.measure):
            scorer = from_parts(statistics, arrays, texts)
            self.learned_ = scorer.learned
            self._made_scorer = scorer
            self._scorer_key = (id(statistics), id(scorer.learned))
            arrays = {name: part for name, part in arrays.items() if not is_learned_part(name)}
        elif texts:
            raise ValueError("it has no texts")
        self._keep(Calibration.from_arrays(arrays))
        return self

    def _scorer_on(self, statistics: PrecedenceStatistics) -> Scorer:
        if _scores(self.measure):
            scorer: Scorer = self.measure
            return scorer
        if is_learned(self.measure):
            return LearnedScorer(statistics, self.learned_)
        return MeasureScorer(statistics, self.measure)

    def _scorer(self) -> Scorer:
        key = (id(self.statistics_), id(getattr(self, "learned_", self.measure)))
        if getattr(self, "_scorer_key", None) != key:  # looked up once, asked thousands of times
            self._made_scorer, self._scorer_key = self._scorer_on(self.statistics_), key
        return self._made_scorer

    def _moved(self, query: Query, item: int) -> tuple[tuple[str, float, float], ...]:
        scorer = self._scorer()
        if not isinstance(scorer, LearnedScorer):
            return ()
        return tuple(scorer.contributions(query.history, item, without_user=query.user))

    def _training(self, query: Query) -> NDArray[np.int64]:
        return query.history

    def _assess(self, query: Query, candidates: NDArray[np.int64]) -> Assessment:
        self._warn_if_stale()
        scores, values, ranking = self._rank(query)
        ranks, shares = ranking.by_item(self.statistics_.n_items)
        entries = ranks if self.cut == "rank" else -shares
        threshold = self._thresholds.of(query.user, len(query.history))
        return PopulationAssessment(
            candidates,
            score=scores[candidates],
            shown=values[candidates].__getitem__,
            n_calibration=threshold.n_users,
            levels_below=threshold.levels(entries[candidates]),
            lowest_level=float(threshold.levels(np.array([np.inf]))[0]),
            group=threshold.group,
            gap=self._gap(query),
        )

    def _rank(self, query: Query) -> tuple[NDArray[np.float64], NDArray[np.float64], Ranking]:
        """Give every item's score and value, and the candidates ranked by them."""
        scorer = self._scorer()
        scores = scorer.score(query.history, without_user=query.user)
        values = value_of(scorer, scores, len(query.history), self.statistics_.n_users)
        return scores, values, Ranking.of(self._candidates(query), scores, values)

    def _gap(self, query: Query) -> str:
        if query.user is not None and not getattr(self._scorer(), "leaves_users_out", True):
            return "this user was part of what the scorer learned from, and cannot be left out"
        if len(query.history) < self.min_known:
            n = len(query.history)
            return (
                f"only {n} item{' is' if n == 1 else 's are'} known of this person, and the "
                f"calibration users had {self.min_known} or more"
            )
        return ""

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
        n = check_whole("k", k)
        if n > SLATE_MOST:
            raise InputError(f"k is {n}; slates are calibrated up to {SLATE_MOST} items.")
        query = self._query(user, history)
        ranking = self._rank(query)[2]
        order = ranking.items[:n]
        place = self.calibration_.place_of(query.user)
        best, mass = ranking.of_the_best()
        features = slate_features(np.array([len(query.history)]), best[[n - 1]], mass[[n - 1]])
        found = self.calibration_.hit_probability(n, features, without=place)
        gap, n_others = self._gap(query), len(self.calibration_) - (place is not None)
        return Slate(
            items=self.items_.ids.gather(order).to_list(),
            probability=float(found.probability[0]),
            low=float(found.low[0]),
            high=float(found.high[0]),
            guarantee=f"None: {gap}." if gap else self._terms.of_slate(n, n_others),
        )

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
        self._require_fit()
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

    @property
    def _terms(self) -> Terms:
        begin, end = (int(time) for time in self.calibration_.period)
        return Terms(self.promise, self.horizon, self.window, (begin, end))

    def _promise(self, significance: float, assessment: Assessment) -> str:
        assert isinstance(assessment, PopulationAssessment)  # noqa: S101  # as _assess gives
        if assessment.gap:
            return f"None for this person: {assessment.gap}."
        return self._terms.in_words(significance, assessment.n_calibration, assessment.group)

    def _beyond(self, epsilon: float, assessment: Assessment) -> str:
        n, needed = assessment.n_calibration, users_needed(epsilon)
        if n < needed:
            return (
                f"Every item qualifies: a confidence of {1 - epsilon:.4g} needs at least "
                f"{needed:,} calibration users, and there {'is' if n == 1 else 'are'} {n:,}."
            )
        return (
            f"None: {self.calibration_.unknown_share:.1%} of what calibration users took next was "
            f"unknown to the model, so no set of known items supports a confidence above "
            f"{assessment.highest_confidence:.4g}; every item is in the set."
        )


def _scores(measure: object) -> bool:
    return callable(getattr(measure, "score", None))


def _instant(time: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time)


def _now() -> datetime:
    return datetime.now(UTC)
