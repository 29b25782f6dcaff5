"""The second extension point: a calibration turns scores into sets, and says who is covered."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from surerec._kernels import best_first
from surerec._state import State
from surerec._words import counted
from surerec.calibration._guarantee import RANKING
from surerec.conformal import TOLERANCE, entry_confidence, highest_confidence, in_set

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from surerec.calibration._calibration_users import NamedItems
    from surerec.calibration._guarantee import Guarantee
    from surerec.calibration._probabilities import ItemProbabilities
    from surerec.calibration._ranking import Ranking
    from surerec.conformal import CalibratedProbability
    from surerec.interactions import Segmentation
    from surerec.measures import Queries, Query, Scorer
    from surerec.precedence import PrecedenceStatistics


@dataclass(frozen=True, kw_only=True)
class Assessment:
    """Every candidate's score; with a calibration, the confidence at which it enters the set.

    This one has no calibration: candidates are ranked, and there are no sets.
    """

    candidates: NDArray[np.int64]
    """Item codes."""
    score: NDArray[np.float64]
    """How well each candidate conforms."""
    shown: Callable[[NDArray[np.intp]], NDArray[np.float64]]
    """Returns it for some places in a unit for people, higher for what conforms more."""
    popularity: NDArray[np.int64]
    """The place of every item in the order of popularity, which orders equal scores."""
    n_calibration: int = 0
    """How many calibration items, or calibration users, there are."""
    gap: str = ""
    """Why the promise does not cover this person; empty if it does."""
    probabilities: Callable[[NDArray[np.intp]], CalibratedProbability] | None = None
    """Returns how likely some places are consumed; None where no probabilities are calibrated."""
    about_probabilities: str = ""
    """What these mean, or why they are missing, in words."""
    ranking: Ranking | None = None
    """All candidates of the calibration in order, where lists of the best are calibrated."""

    @property
    def lasts(self) -> bool:
        """Whether it stays as it is whatever becomes of the data: it may be looked at later."""
        return False

    @property
    def key(self) -> NDArray[np.float64]:
        """What ranks the candidates, where equal is a tie."""
        return self.score

    @property
    def p_values(self) -> NDArray[np.float64] | None:
        """The p-value of each candidate; None where there are none."""
        return None

    @property
    def counted(self) -> tuple[NDArray[np.int64], int] | None:
        """The p-values as counts, and of how many levels; None where they are no such fractions."""
        return None

    @property
    def entry_confidences(self) -> NDArray[np.float64]:
        """The confidence above which each candidate is in the set; NaN where there are no sets."""
        return np.full(len(self.candidates), np.nan)

    @property
    def highest_confidence(self) -> float:
        """The highest confidence at which anything can be left out."""
        return 0.0

    def everything_qualifies(self, significance: float | None) -> bool:
        """Return whether ε is so small that nothing can be left out."""
        if significance is None:
            return False
        return significance + TOLERANCE < 1 - self.highest_confidence

    def covers(self, significance: float | None) -> bool:
        """Return whether the guarantee at ε covers this user."""
        if significance is None or self.gap:
            return False
        return not self.everything_qualifies(significance)

    def included(self, significance: float) -> NDArray[np.bool_]:
        """Return which candidates are in the set."""
        raise NotImplementedError  # asked only of calibrated recommenders

    def size(self, significance: float) -> int:
        """Return how many candidates are in the set."""
        return int(np.count_nonzero(self.included(significance)))

    def ordered(self, significance: float | None) -> NDArray[np.intp]:
        """Return the places of the candidates in the set (or of all), best first.

        By conformity, then popularity.
        """
        order = best_first(self.score, self.popularity[self.candidates])
        return order if significance is None else order[self.included(significance)[order]]

    def ranked(self) -> NDArray[np.intp]:
        """Return the places of all candidates that are ranked, best first, whatever their level."""
        if self.ranking is None:
            return self.ordered(None)
        places = np.full(len(self.popularity), -1)
        places[self.candidates] = np.arange(len(self.candidates))
        order = places[self.ranking.items]
        return order[order >= 0]


@dataclass(frozen=True, kw_only=True)
class ItemAssessment(Assessment):
    """p-values by the person's own calibration items."""

    counts: NDArray[np.int64]
    """p-values as counts of `levels`."""
    levels: int
    smoothed: NDArray[np.float64] | None = None
    """p-values with ties broken at random, where that is asked for."""
    rises_with_score: bool = True
    """Whether no p-value falls as the score rises."""

    @property
    def lasts(self) -> bool:
        """Whether it stays as it is: always, as it is made of arrays of its own."""
        return True

    @property
    def key(self) -> NDArray[np.float64]:
        """What ranks the candidates: the p-value."""
        return self.counts.astype(np.float64) if self.smoothed is None else self.smoothed

    @property
    def p_values(self) -> NDArray[np.float64]:
        """The p-value of each candidate."""
        return self.counts / self.levels if self.smoothed is None else self.smoothed

    @property
    def counted(self) -> tuple[NDArray[np.int64], int] | None:
        """The p-values as counts, and of how many levels; None where ties are broken at random."""
        return (self.counts, self.levels) if self.smoothed is None else None

    @property
    def entry_confidences(self) -> NDArray[np.float64]:
        """The confidence above which each candidate is in the set."""
        if self.smoothed is not None:
            return 1 - self.smoothed
        return entry_confidence(self.counts, self.levels)

    @property
    def highest_confidence(self) -> float:
        """The highest confidence at which anything can be left out; smoothed p-values know none."""
        return 1.0 if self.smoothed is not None else highest_confidence(self.n_calibration)

    def included(self, significance: float) -> NDArray[np.bool_]:
        """Return which candidates are in the set."""
        if self.smoothed is not None:
            return self.smoothed > significance + TOLERANCE
        return in_set(self.counts, self.levels, significance)

    def ordered(self, significance: float | None) -> NDArray[np.intp]:
        """Return the places of the candidates in the set (or of all), best first.

        By p-value, then conformity, then popularity.
        """
        inside = np.arange(len(self.candidates))
        if significance is not None:
            inside = np.flatnonzero(self.included(significance))
        popularity = self.popularity[self.candidates[inside]]
        if self.smoothed is None and self.rises_with_score:
            return inside[best_first(self.score[inside], popularity)]
        keys = (popularity, -self.score[inside], -self.key[inside])
        return inside[np.lexsort(keys)]


@dataclass(frozen=True, kw_only=True)
class UserAssessment(Assessment):
    """The ε below which each candidate is in the set, by calibration users."""

    levels_below: NDArray[np.float64]
    lowest_level: float
    """The smallest ε that so many calibration users support."""
    group: str = ""
    """Which people the promise is about, in words; empty for all."""
    at: NDArray[np.int64] | None = None
    """Where in the ranking each candidate is; −1 for what is not ranked."""

    @property
    def lasts(self) -> bool:
        """Whether the ranking orders all candidates: popularity changes with a live model."""
        return self.at is not None and self.at.min(initial=0) >= 0

    @property
    def entry_confidences(self) -> NDArray[np.float64]:
        """The confidence above which each candidate is in the set."""
        return 1 - self.levels_below

    @property
    def highest_confidence(self) -> float:
        """The highest confidence that so many calibration users support."""
        return 1 - self.lowest_level

    def included(self, significance: float) -> NDArray[np.bool_]:
        """Return which candidates are in the set."""
        return self.levels_below > significance + TOLERANCE

    def ordered(self, significance: float | None) -> NDArray[np.intp]:
        """Return the places of the candidates in the set (or of all), best first.

        The ranking that calibrated them has found their order.
        """
        if self.at is None or self.at.min(initial=0) < 0:
            return super().ordered(significance)
        order = np.argsort(self.at, kind="stable")
        return order if significance is None else order[self.included(significance)[order]]


class BestOfMany(NamedTuple):
    """The best items of many users, in rows."""

    owners: NDArray[np.intp]
    """Which of the users each row is about."""
    items: NDArray[np.int64]
    ranks: NDArray[np.int64]
    scores: NDArray[np.float64]
    """In the unit for people."""
    p_values: NDArray[np.float64] | None
    """None where there are none."""
    entry_confidences: NDArray[np.float64]
    covered: NDArray[np.bool_]
    """Whether the guarantee covers each of the users; one value a user, not a row."""
    probabilities: CalibratedProbability | None = None
    """How likely each item is taken; None where no probabilities are calibrated."""


class Calibration(ABC):
    """Turns scores into sets, and states what a confidence guarantees.

    Attributes
    ----------
    features : frozenset of str
        What a request may ask for: "confidence", "levels", "probability", "min_probability",
        "precision", "hits", "item_lists", "segments", "period".
    reasons : mapping of str to str
        Why a feature is missing, where that is not simply the kind of calibration.
    people : Segmentation or None
        The segment of each user, where thresholds are calibrated by segment.
    """

    features: frozenset[str] = frozenset()
    reasons: Mapping[str, str] = MappingProxyType({})
    people: Segmentation | None = None
    probabilities: ItemProbabilities | None = None
    """What probabilities of items are calibrated on; None where there are none."""
    listed: NamedItems | None = None
    """The only items that are candidates, where it was calibrated on an item list."""
    period: tuple[int, int] = (0, 0)
    """The times between which calibration users' held-out interactions lie."""
    about: str = ""
    """The held-out interactions in words, where neither horizon nor window says it."""
    valid_until: int | None = None
    """The time up to which it was calibrated; None if it says nothing of that."""
    min_history: int
    """Of a user-level calibration: users with fewer known items are not covered."""
    unadapted: str = ""
    """A sentence for guarantees of thresholds as fitted, where this calibration adapts its own."""

    @property
    def fitted(self) -> Calibration:
        """The calibration with its thresholds as fitted: another one only if they are adapted."""
        return self

    compares_scores: bool = False
    """Whether an item's p-value compares its score with those of calibration items."""
    train_share: float = 0.5
    """The share of a history that scores the rest of it, of an item-level calibration."""
    smoothed: bool = False
    """Whether ties in p-values are broken at random."""

    def headline(self, confidence: float) -> str:  # noqa: ARG002
        """Return what is guaranteed in a few words, without the assumption."""
        return "only ranks, and promises nothing"

    @property
    def covers(self) -> str:
        """Who is covered, in words."""
        return "users"

    @property
    def assumes(self) -> str:
        """What is assumed beside exchangeable users, in words; empty if nothing."""
        return ""

    def gap(self, scorer: Scorer, query: Query) -> str:  # noqa: ARG002
        """Return why the guarantee does not cover a user; empty if it does, as by default."""
        return ""

    def at(self, precision: float) -> Calibration:  # noqa: ARG002
        """Return the calibration for a precision; by default all have the same."""
        return self

    def splitting(self, train_share: float) -> Calibration:  # noqa: ARG002
        """Return the calibration that splits a history elsewhere; by default none splits it."""
        return self

    def within_list(self, candidates: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the candidates that are in the item list, if it is calibrated on one."""
        return candidates if self.listed is None else np.intersect1d(candidates, self.listed.codes)

    def scored(self, query: Query) -> Query:
        """Return the part of what is known that candidates are scored by: all, or the beginning."""
        return query

    @abstractmethod
    def assess(
        self,
        scorer: Scorer,
        statistics: PrecedenceStatistics,
        query: Query,
        candidates: NDArray[np.int64],
    ) -> Assessment:
        """Evaluate every candidate.

        Parameters
        ----------
        scorer : Scorer
            What scores the items.
        statistics : PrecedenceStatistics
            What is known of all items.
        query : Query
            Whom it is about.
        candidates : array of int
            The items to evaluate, by code.
        """

    def guarantee(self, significance: float, assessment: Any = None) -> Guarantee:  # noqa: ARG002
        """Return what the confidence guarantees.

        Parameters
        ----------
        significance : float
            ε.
        assessment : Assessment, optional
            Of whom; without it, what is guaranteed to every covered user.
        """
        return RANKING

    def has_user(self, user: int) -> bool:  # noqa: ARG002
        """Return whether a user, by code, calibrates; by default nobody does."""
        return False

    def state(self) -> State:
        """Return what is saved of it beside its settings; by default nothing."""
        return State()

    def without(self, user: int) -> Calibration:  # noqa: ARG002
        """Return the calibration without a user, by code; by default nobody calibrates."""
        return self

    def level(
        self, scorer: Scorer, statistics: PrecedenceStatistics, query: Query, item: int
    ) -> float:
        """Return the ε below which one candidate is in the set."""
        found = self.assess(scorer, statistics, query, np.array([item]))
        return float(1 - found.entry_confidences[0])

    def list_hits(
        self,
        queries: Sequence[Query],
        assessments: Sequence[Assessment],
        lengths: Sequence[int],
    ) -> CalibratedProbability:
        """Return the probabilities of at least one, two, three hits in lists, 3 × users.

        Asked only of a calibration with the feature "hits".
        """
        raise NotImplementedError

    def about_hits(self, query: Query, n_items: int) -> str:  # noqa: ARG002
        """Return what the probability of at least one hit means, in words."""
        return ""

    def beyond(self, significance: float, assessment: Assessment) -> str:
        """Return why a confidence cannot be supported, so that every item qualifies."""
        n, highest = assessment.n_calibration, assessment.highest_confidence
        return (
            f"{counted(n, 'calibration items')} can support a confidence of at most {highest:.4g}, "
            f"not {1 - significance:.4g}, so every item qualifies"
        )

    def best_of_many(
        self,
        scorer: Scorer,  # noqa: ARG002
        statistics: PrecedenceStatistics,  # noqa: ARG002
        queries: Queries,  # noqa: ARG002
        significance: float,  # noqa: ARG002
        k: int | None,  # noqa: ARG002
        in_set: bool = True,  # noqa: ARG002, FBT001, FBT002
    ) -> BestOfMany | None:
        """Return the best items of many users, where that is faster than one by one.

        Parameters
        ----------
        significance : float
            ε, at which users are covered or not.
        k : int or None
            How many items for each user; None for whole sets.
        in_set : bool, default=True
            Only items of the sets at ε; otherwise the k best of the ranking, whatever their level.
        """
        return None


def cannot_have_seen(scorer: Scorer, users: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return for which users, by code or −1, :func:`seen_before` has nothing to say."""
    if scorer.leaves_users_out is None:
        return np.zeros(len(users), dtype=bool)
    return (users < 0) | scorer.leaves_users_out


def seen_before(scorer: Scorer, query: Query) -> str:
    """Return why a scorer may know the user's future already; empty if it surely does not."""
    if scorer.leaves_users_out is None:
        return (
            f"{scorer.called} does not say whether it leaves users out "
            "(leaves_users_out = True or False), so nothing is guaranteed to anybody"
        )
    if query.users and not scorer.leaves_users_out:
        return "this user was part of what the scorer learned from, and cannot be left out"
    return ""


def guarantee_of(
    calibration: Any, significance: float | None, assessment: Assessment | None = None
) -> Guarantee:
    """Return what the set of an assessment guarantees at ε; without one, that of covered users.

    `calibration` is a :class:`Calibration`, or one on groups.
    """
    if significance is None:
        return RANKING
    found: Guarantee = calibration.guarantee(significance, assessment)
    if assessment is None:
        return found
    if assessment.everything_qualifies(significance):
        return found.broken(calibration.beyond(significance, assessment))
    return found.broken(assessment.gap)


class Uncalibrated(Calibration):
    """Ranks candidates by their scores, and guarantees nothing."""

    def assess(
        self,
        scorer: Scorer,
        statistics: PrecedenceStatistics,
        query: Query,
        candidates: NDArray[np.int64],
    ) -> Assessment:
        """Score every candidate."""
        scores = scorer.score_query(query)[candidates]
        return Assessment(
            candidates=candidates,
            score=scores,
            shown=scores.__getitem__,
            popularity=statistics.popularity,
        )


@dataclass(frozen=True, kw_only=True)
class UserCoverage:
    """Who is covered by a user-level guarantee: users treated as the calibration users were.

    Parameters
    ----------
    people : str
        Who is covered, in the words of the guarantee.
    assumes : str
        What it assumes beside exchangeable users, in words; empty if nothing.
    nobody : str
        Why nobody is covered, in words; empty if somebody is.
    in_fit : array of bool or None
        Of each user, by code, whether the scorer was fitted on them. None if that decides nothing,
        as for a scorer that can leave users out of what scores them.
    of_the_fit : bool
        Whether the scorer was fitted on the calibration users.
    set_aside : bool
        Whether calibration users' last items are known now, and were kept out of the fit.
    held_out : bool
        Whether the calibration users had no part in what the scorer learned when it was calibrated,
        if it cannot leave users out: else it knew their futures, and nobody is covered.
    apart : bool
        Whether they still have none in the scorer that serves, which may have been fitted since.
    """

    people: str = "users"
    assumes: str = ""
    nobody: str = ""
    in_fit: NDArray[np.bool_] | None = None
    of_the_fit: bool = False
    set_aside: bool = False
    held_out: bool = True
    apart: bool = True

    def gap(self, scorer: Scorer, query: Query, place: int | None) -> str:
        """Return why a user is not covered; empty if they are.

        Parameters
        ----------
        scorer : Scorer
            What scores them.
        query : Query
            Of whom.
        place : int or None
            Which of the calibration users it is, if any.
        """
        if self.nobody or self.in_fit is None:
            return self.nobody or self._gap_by_declaration(scorer, query, place)
        in_fit = query.user is not None and bool(self.in_fit[query.user])
        if in_fit != self.of_the_fit:
            this, those = ("was", "was not") if in_fit else ("was not", "was")
            return (
                f"{scorer.name} {this} fitted on this user, as it {those} on those who calibrated "
                "it"
            )
        if place is not None and self.set_aside:
            return "the last items of this user were set aside to calibrate, and are not in the fit"
        return ""

    def _gap_by_declaration(self, scorer: Scorer, query: Query, place: int | None) -> str:
        """Return what follows from what the scorer declares."""
        if scorer.leaves_users_out is False and not self.held_out:
            return (
                f"{scorer.called} comes fitted and users cannot be left out of it, so it "
                "may have learned from the futures that calibrate it"
            )
        is_apart = self.apart and place is not None and scorer.leaves_users_out is False
        return "" if is_apart else seen_before(scorer, query)
