"""The second extension point: a calibration turns scores into sets, and says who is covered."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from surerec._shown import counted
from surerec._state import State
from surerec.calibration._assessment import Assessment
from surerec.calibration._guarantee import RANKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from surerec.calibration._assessment import BestOfMany
    from surerec.calibration._calibration_users import NamedItems
    from surerec.calibration._guarantee import Guarantee
    from surerec.calibration._probabilities import ItemChances
    from surerec.conformal import CalibratedProbability
    from surerec.interactions import UserGroups
    from surerec.measures import Queries, Query, Scorer
    from surerec.precedence import PrecedenceStatistics


class Calibration(ABC):
    """Turns scores into sets, and states what a confidence guarantees.

    Attributes
    ----------
    features : frozenset of str
        What a request may ask for: "confidence", "levels", "probability", "min_probability",
        "precision", "hits", "item_lists", "segments", "period".
    reasons : mapping of str to str
        Why a feature is missing, where that is not simply the kind of calibration.
    people : UserGroups or None
        The segment of each user, where thresholds are calibrated by segment.
    """

    features: frozenset[str] = frozenset()
    reasons: Mapping[str, str] = MappingProxyType({})
    people: UserGroups | None = None
    chances: ItemChances | None = None
    """What probabilities of items are calibrated on; None where there are none."""
    listed: NamedItems | None = None
    """The only items that are candidates, where it was calibrated on an item list."""
    period: tuple[int, int] = (0, 0)
    """The times between which calibration users' held-out interactions lie."""
    about: str = ""
    """The held-out interactions in words, where neither horizon nor window says it."""
    valid_until: int | None = None
    """The time up to which it was calibrated; None if it says nothing of that."""
    min_known: int
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
        """Return the candidates that this calibration is about; by default all."""
        return candidates

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


class UserCoverage(ABC):
    """Who is covered by a user-level guarantee: users treated as the calibration users were.

    Attributes
    ----------
    people : str
        Who is covered, in the words of the guarantee.
    assumes : str
        What it assumes beside exchangeable users, in words; empty if nothing.
    of_the_fit : bool
        Whether the calibration users are among those the model was fitted on.
    """

    people: str = "users"
    assumes: str = ""
    of_the_fit: bool = False

    @abstractmethod
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


@dataclass(frozen=True)
class LeftOutUsers(UserCoverage):
    """Users who can be left out of what scores them; else those held out of the fit.

    Parameters
    ----------
    held_out : bool
        Whether the calibration users had no part in what the scorer learned when it was calibrated,
        if it cannot leave users out: else it knew their futures, and nobody is covered.
    apart : bool
        Whether they still have none in the scorer that serves, which may have been fitted since.
    """

    held_out: bool
    apart: bool = True

    def gap(self, scorer: Scorer, query: Query, place: int | None) -> str:
        """Return what follows from what the scorer declares."""
        if scorer.leaves_users_out is False and not self.held_out:
            return (
                f"{scorer.called} comes fitted and users cannot be left out of it, so it "
                "may have learned from the futures that calibrate it"
            )
        seen = seen_before(scorer, query)
        is_apart = self.apart and place is not None and scorer.leaves_users_out is False
        return "" if is_apart else seen


@dataclass(frozen=True)
class OfTheFit(UserCoverage):
    """Users whom the model was fitted on, as the calibration users were.

    Parameters
    ----------
    in_fit : array of bool
        Of each user, by code, whether they were in the fit.
    set_aside : bool
        Whether calibration users' last items are known now, and were kept out of the fit.
    assumes : str
        What else is assumed.
    """

    in_fit: NDArray[np.bool_]
    set_aside: bool = False
    assumes: str = ""
    people: str = "users of the fit"
    of_the_fit: bool = True

    def gap(self, scorer: Scorer, query: Query, place: int | None) -> str:
        """Return it by whether they were in the fit."""
        if query.user is None or not self.in_fit[query.user]:
            return (
                f"{scorer.name} was not fitted on this user, as it was on those who calibrated it"
            )
        if place is not None and self.set_aside:
            return "the last items of this user were set aside to calibrate, and are not in the fit"
        return ""


@dataclass(frozen=True)
class Newcomers(UserCoverage):
    """Users whom the model was not fitted on, as the calibration users were not.

    Parameters
    ----------
    in_fit : array of bool
        Of each user, by code, whether they were in the fit.
    assumes : str
        What else is assumed.
    """

    in_fit: NDArray[np.bool_]
    assumes: str = ""
    people: str = "users whom the model was not fitted on"

    def gap(self, scorer: Scorer, query: Query, place: int | None) -> str:  # noqa: ARG002
        """Return it by whether they were in the fit."""
        if query.user is not None and self.in_fit[query.user]:
            return (
                f"{scorer.name} was fitted on this user, as it was not on those who calibrated it"
            )
        return ""


@dataclass(frozen=True)
class Nobody(UserCoverage):
    """Nobody, for one reason.

    Parameters
    ----------
    reason : str
        Why, in words.
    of_the_fit : bool
        Whether the calibration users are among those the model was fitted on.
    """

    reason: str
    of_the_fit: bool = False

    def gap(self, scorer: Scorer, query: Query, place: int | None) -> str:  # noqa: ARG002
        """Return the reason."""
        return self.reason
