"""The second seam: a calibration turns scores into the confidences at which items enter sets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from surerec._shown import counted
from surerec._state import State
from surerec.calibration._assessment import Assessment
from surerec.calibration._chances import ItemChances
from surerec.calibration._guarantee import RANKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from surerec.calibration._chances import ItemChances
    from surerec.calibration._guarantee import Guarantee
    from surerec.calibration._listed import NamedItems
    from surerec.conformal import CalibratedProbability
    from surerec.interactions import UserGroups
    from surerec.measures import Queries, Query, Scorer
    from surerec.precedence import PrecedenceStatistics


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
    chances: CalibratedProbability | None = None
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
        """Give the part of what is known that candidates are scored by: all, or the beginning."""
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


class Uncalibrated(Calibration):
    """Ranks candidates by their scores, and promises nothing."""

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
