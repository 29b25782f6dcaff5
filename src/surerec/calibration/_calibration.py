"""The second extension point: calibrations turn scores into sets and state who is covered."""

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
    """The score of each candidate and, if calibrated, the confidence at which it enters the set.

    This base class has no calibration: it ranks candidates, without sets.
    """

    candidates: NDArray[np.int64]
    """Item codes."""
    score: NDArray[np.float64]
    """How well each candidate conforms."""
    shown: Callable[[NDArray[np.intp]], NDArray[np.float64]]
    """Returns the scores at some places in the unit that users see; higher conforms more."""
    popularity: NDArray[np.int64]
    """The place of each item by popularity, which breaks ties."""
    n_calibration: int = 0
    """Number of calibration items or calibration users."""
    gap: str = ""
    """Why the guarantee does not cover this user; empty if it does."""
    probabilities: Callable[[NDArray[np.intp]], CalibratedProbability] | None = None
    """Returns the probabilities at some places; None without calibrated probabilities."""
    about_probabilities: str = ""
    """What the probabilities mean, or why they are missing, as text."""
    ranking: Ranking | None = None
    """All candidates of the calibration in order, if short lists are calibrated."""

    @property
    def lasts(self) -> bool:
        """Whether it stays valid when the data change, so that it can be read later."""
        return False

    @property
    def key(self) -> NDArray[np.float64]:
        """The values that rank the candidates; equal values are ties."""
        return self.score

    @property
    def p_values(self) -> NDArray[np.float64] | None:
        """The p-value of each candidate; None without p-values."""
        return None

    @property
    def counted(self) -> tuple[NDArray[np.int64], int] | None:
        """The p-values as counts and their denominator; None if they are no such fractions."""
        return None

    @property
    def entry_confidences(self) -> NDArray[np.float64]:
        """The confidence above which each candidate is in the set; NaN without sets."""
        return np.full(len(self.candidates), np.nan)

    @property
    def highest_confidence(self) -> float:
        """The highest confidence at which the set can exclude an item."""
        return 0.0

    def everything_qualifies(self, significance: float | None) -> bool:
        """Return whether ε is too small to exclude any item."""
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
        raise NotImplementedError  # only calibrated recommenders have sets

    def size(self, significance: float) -> int:
        """Return the number of candidates in the set."""
        return int(np.count_nonzero(self.included(significance)))

    def ordered(self, significance: float | None) -> NDArray[np.intp]:
        """Return the places of the candidates in the set (or of all), best first.

        By conformity, then popularity.
        """
        order = best_first(self.score, self.popularity[self.candidates])
        return order if significance is None else order[self.included(significance)[order]]

    def ranked(self) -> NDArray[np.intp]:
        """Return the places of all ranked candidates, best first, whatever their level."""
        if self.ranking is None:
            return self.ordered(None)
        places = np.full(len(self.popularity), -1)
        places[self.candidates] = np.arange(len(self.candidates))
        order = places[self.ranking.items]
        return order[order >= 0]


@dataclass(frozen=True, kw_only=True)
class ItemAssessment(Assessment):
    """p-values from the user's own calibration items."""

    counts: NDArray[np.int64]
    """Numerators of the p-values; `levels` is the denominator."""
    levels: int
    smoothed: NDArray[np.float64] | None = None
    """p-values with ties broken at random, if requested."""
    rises_with_score: bool = True
    """Whether p-values never fall as the score rises."""

    @property
    def lasts(self) -> bool:
        """Always True, as it owns its arrays."""
        return True

    @property
    def key(self) -> NDArray[np.float64]:
        """The p-values, which rank the candidates."""
        return self.counts.astype(np.float64) if self.smoothed is None else self.smoothed

    @property
    def p_values(self) -> NDArray[np.float64]:
        """The p-value of each candidate."""
        return self.counts / self.levels if self.smoothed is None else self.smoothed

    @property
    def counted(self) -> tuple[NDArray[np.int64], int] | None:
        """The p-values as counts and their denominator; None if ties are broken at random."""
        return (self.counts, self.levels) if self.smoothed is None else None

    @property
    def entry_confidences(self) -> NDArray[np.float64]:
        """The confidence above which each candidate is in the set."""
        if self.smoothed is not None:
            return 1 - self.smoothed
        return entry_confidence(self.counts, self.levels)

    @property
    def highest_confidence(self) -> float:
        """The highest confidence at which the set can exclude an item; 1 if smoothed."""
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
    """The ε below which each candidate is in the set, from calibration users."""

    levels_below: NDArray[np.float64]
    lowest_level: float
    """The smallest ε that the calibration users support."""
    segment: str = ""
    """The segment of the user as text; empty for all users."""
    at: NDArray[np.int64] | None = None
    """The place of each candidate in the ranking; −1 for unranked items."""

    @property
    def lasts(self) -> bool:
        """Whether the ranking orders all candidates, as the popularity of a live model changes."""
        return self.at is not None and self.at.min(initial=0) >= 0

    @property
    def entry_confidences(self) -> NDArray[np.float64]:
        """The confidence above which each candidate is in the set."""
        return 1 - self.levels_below

    @property
    def highest_confidence(self) -> float:
        """The highest confidence that the calibration users support."""
        return 1 - self.lowest_level

    def included(self, significance: float) -> NDArray[np.bool_]:
        """Return which candidates are in the set."""
        return self.levels_below > significance + TOLERANCE

    def ordered(self, significance: float | None) -> NDArray[np.intp]:
        """Return the places of the candidates in the set (or of all), best first.

        Uses the order of the ranking if it holds all candidates.
        """
        if self.at is None or self.at.min(initial=0) < 0:
            return super().ordered(significance)
        order = np.argsort(self.at, kind="stable")
        return order if significance is None else order[self.included(significance)[order]]


class BestOfMany(NamedTuple):
    """The best items of many users, one row per item."""

    owners: NDArray[np.intp]
    """The user of each row, as an index."""
    items: NDArray[np.int64]
    ranks: NDArray[np.int64]
    scores: NDArray[np.float64]
    """In the unit that users see."""
    p_values: NDArray[np.float64] | None
    """None without p-values."""
    entry_confidences: NDArray[np.float64]
    covered: NDArray[np.bool_]
    """Whether the guarantee covers each user; one value per user, not per row."""
    probabilities: CalibratedProbability | None = None
    """The probability of each item; None without calibrated probabilities."""


class Calibration(ABC):
    """Turns scores into sets and states what a confidence guarantees.

    Attributes
    ----------
    features : frozenset of str
        What a request may ask for: "confidence", "levels", "probability", "min_probability",
        "precision", "hits", "item_lists", "segments", "period".
    reasons : mapping of str to str
        Why a feature is missing, if the kind of calibration does not explain it.
    segmentation : Segmentation or None
        The segment of each user, if thresholds are calibrated by segment.
    """

    features: frozenset[str] = frozenset()
    reasons: Mapping[str, str] = MappingProxyType({})
    segmentation: Segmentation | None = None
    probabilities: ItemProbabilities | None = None
    """Calibrates the probabilities of items; None without them."""
    listed: NamedItems | None = None
    """The item list it was calibrated on: only these items are candidates."""
    period: tuple[int, int] = (0, 0)
    """The times between which calibration users' held-out interactions lie."""
    about: str = ""
    """Text for the held-out interactions, if neither horizon nor window describes them."""
    valid_until: int | None = None
    """The time until which the calibration holds; None if unlimited."""
    min_history: int
    """User-level calibrations do not cover users with fewer known items."""
    unadapted: str = ""
    """A sentence for guarantees of fitted thresholds, if this calibration adapts its own."""

    @property
    def fitted(self) -> Calibration:
        """The calibration with its fitted thresholds; another object only if they are adapted."""
        return self

    compares_scores: bool = False
    """Whether an item's p-value compares its score with those of calibration items."""
    train_share: float = 0.5
    """For item-level calibrations, the share of a history that is training."""
    smoothed: bool = False
    """Whether ties in p-values are broken at random."""

    def headline(self, confidence: float) -> str:  # noqa: ARG002
        """Return a short description of the guarantee, without the assumption."""
        return "ranks items, without a guarantee"

    @property
    def covers(self) -> str:
        """Who is covered, as text."""
        return "users"

    @property
    def assumes(self) -> str:
        """What is assumed besides exchangeable users, as text; empty if nothing."""
        return ""

    def gap(self, scorer: Scorer, query: Query) -> str:  # noqa: ARG002
        """Return why the guarantee does not cover a user; empty if it does."""
        return ""

    def at(self, precision: float) -> Calibration:  # noqa: ARG002
        """Return the calibration for a precision; by default this one."""
        return self

    def splitting(self, train_share: float) -> Calibration:  # noqa: ARG002
        """Return the calibration with another training share; by default this one."""
        return self

    def within_list(self, candidates: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the candidates in the item list; all of them without a list."""
        return candidates if self.listed is None else np.intersect1d(candidates, self.listed.codes)

    def scored(self, query: Query) -> Query:
        """Return the part of the history that candidates are scored by; by default all."""
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
            Scores the items.
        statistics : PrecedenceStatistics
            Statistics of all items.
        query : Query
            The user and the history.
        candidates : array of int
            Codes of the items to evaluate.
        """

    def guarantee(self, significance: float, assessment: Any = None) -> Guarantee:  # noqa: ARG002
        """Return what the confidence guarantees.

        Parameters
        ----------
        significance : float
            ε.
        assessment : Assessment, optional
            The assessment of one user; without it, the guarantee to all covered users.
        """
        return RANKING

    def has_user(self, user: int) -> bool:  # noqa: ARG002
        """Return whether a user, by code, is a calibration user; by default False."""
        return False

    def state(self) -> State:
        """Return the state to save besides the settings; by default empty."""
        return State()

    def without(self, user: int) -> Calibration:  # noqa: ARG002
        """Return the calibration without a user, by code; by default this one."""
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
        """Return the probabilities of at least one, two and three hits in lists, 3 × users.

        Only for calibrations with the feature "hits".
        """
        raise NotImplementedError

    def about_hits(self, query: Query, n_items: int) -> str:  # noqa: ARG002
        """Return what the probability of at least one hit means, as text."""
        return ""

    def beyond(self, significance: float, assessment: Assessment) -> str:
        """Return why a confidence cannot be supported, so that every item qualifies."""
        n, highest = assessment.n_calibration, assessment.highest_confidence
        return (
            f"{counted(n, 'calibration items')} can support at most {100 * highest:.4g}% "
            f"confidence, not {100 * (1 - significance):.6g}%, so every item qualifies"
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
        """Return the best items of many users; None if that is not faster than one by one.

        Parameters
        ----------
        significance : float
            ε.
        k : int or None
            Number of items per user; None for full sets.
        in_set : bool, default=True
            Whether to return only items in the sets at ε, or the k best whatever their level.
        """
        return None


def cannot_have_seen(scorer: Scorer, users: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return for which users (codes or −1) :func:`seen_before` returns an empty text."""
    if scorer.leaves_users_out is None:
        return np.zeros(len(users), dtype=bool)
    return (users < 0) | scorer.leaves_users_out


def seen_before(scorer: Scorer, query: Query) -> str:
    """Return why a scorer may know the user's future; empty if it cannot."""
    if scorer.leaves_users_out is None:
        return (
            f"{scorer.called} does not declare whether it leaves users out "
            "(leaves_users_out = True or False), so no user is covered"
        )
    if query.users and not scorer.leaves_users_out:
        return "the scorer was fitted on this user and cannot leave them out"
    return ""


def guarantee_of(
    calibration: Any, significance: float | None, assessment: Assessment | None = None
) -> Guarantee:
    """Return the guarantee of an assessment's set at ε; without one, that of covered users.

    `calibration` is a :class:`Calibration` or a calibration on groups.
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
    """Ranks candidates by their scores, without a guarantee."""

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
    """Who a user-level guarantee covers: users that are treated as the calibration users were.

    Parameters
    ----------
    users : str
        Who is covered, as text.
    assumes : str
        What it assumes besides exchangeable users, as text; empty if nothing.
    in_fit : array of bool or None
        Whether the scorer was fitted on each user, by code. None if that does not matter, as for a
        scorer that can leave users out.
    of_the_fit : bool or None
        Whether the scorer was fitted on the calibration users. None if it was fitted on some of
        them; users of the fit and new users then have their own thresholds.
    set_aside : bool
        Whether the calibration users' last items are known now but were not in the fit.
    held_out : bool
        Whether a scorer that cannot leave users out was fitted without the calibration users. If
        not, it may know their held-out items, and no user is covered.
    apart : bool
        Whether the same is true of the served scorer, which may have been refitted.
    """

    users: str = "users"
    assumes: str = ""
    in_fit: NDArray[np.bool_] | None = None
    of_the_fit: bool | None = False
    set_aside: bool = False
    held_out: bool = True
    apart: bool = True

    def gap(self, scorer: Scorer, query: Query, place: int | None) -> str:
        """Return why a user is not covered; empty if they are.

        Parameters
        ----------
        scorer : Scorer
            Scores the user.
        query : Query
            The user and the history.
        place : int or None
            The user's place among the calibration users, if any.
        """
        if self.in_fit is None:
            return self._gap_by_declaration(scorer, query, place)
        in_fit = query.user is not None and bool(self.in_fit[query.user])
        if self.of_the_fit is not None and in_fit != self.of_the_fit:
            this, those = ("was", "was not") if in_fit else ("was not", "was")
            return f"{scorer.name} {this} fitted on this user, but {those} on the calibration users"
        if place is not None and in_fit and self.set_aside:
            return (
                "the last items of this user were held out for calibration and are not in the fit"
            )
        return ""

    def _gap_by_declaration(self, scorer: Scorer, query: Query, place: int | None) -> str:
        """Return why a user is not covered, given what the scorer declares."""
        if scorer.leaves_users_out is False and not self.held_out:
            return (
                f"{scorer.called} is already fitted and cannot leave users out, so it may have "
                "learned from the held-out interactions"
            )
        is_apart = self.apart and place is not None and scorer.leaves_users_out is False
        return "" if is_apart else seen_before(scorer, query)
