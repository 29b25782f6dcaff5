"""The second seam: a calibration turns scores into the confidences at which items enter sets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from surerec.calibration._assessment import Assessment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from surerec.calibration._chances import ItemChances
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
    period: tuple[int, int] = (0, 0)
    """The times between which calibration users' held-out interactions lie."""
    valid_until: int | None = None
    """The time up to which it was calibrated; None if it says nothing of that."""

    def headline(self, confidence: float) -> str:  # noqa: ARG002
        """Return what is guaranteed in a few words, without the assumption."""
        return "only ranks, and promises nothing"

    def at(self, precision: float) -> Calibration:  # noqa: ARG002
        """Return the calibration for a precision; by default all have the same."""
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

    @abstractmethod
    def promise(self, significance: float, assessment: Any) -> str:
        """Say what the confidence promises, in one sentence, with its assumption.

        Asked only where the promise covers the person: see :attr:`Assessment.gap`.
        """

    @abstractmethod
    def promise_to_all(self, significance: float) -> str:
        """Return what the confidence guarantees to every covered user, with the assumption."""

    def has_user(self, user: int) -> bool:  # noqa: ARG002
        """Return whether a user, by code, calibrates; by default nobody does."""
        return False

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
        """Say why every item qualifies at a confidence that cannot be supported."""
        n, highest = assessment.n_calibration, assessment.highest_confidence
        return (
            f"Every item qualifies: with {n} calibration item{'' if n == 1 else 's'} this "
            f"profile supports a confidence of {highest:.4g} at most, not {1 - significance:.4g}."
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


def leaves_out_at_most(significance: float, known: str) -> str:
    """Return the item-level guarantee of any user; `known` names the items it is based on."""
    return (
        "An item new to a user that the user will consume is left out of that user's set with "
        f"probability at most {significance:.4g}, if the user's {known} items and the items "
        "consumed next are exchangeable"
    )


def cannot_have_seen(scorer: Scorer, users: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return for which users, by code or −1, :func:`seen_before` has nothing to say."""
    if scorer.leaves_users_out is None:
        return np.zeros(len(users), dtype=bool)
    return (users < 0) | scorer.leaves_users_out


def seen_before(scorer: Scorer, query: Query) -> str:
    """Say why a scorer may know the person's future already; empty if it surely does not."""
    if scorer.leaves_users_out is None:
        return (
            f"{scorer.called} does not say whether it leaves users out "
            "(leaves_users_out = True or False), so nobody is promised anything"
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

    def promise(self, significance: float, assessment: Any) -> str:
        """There is no confidence to promise anything at."""
        raise NotImplementedError

    def promise_to_all(self, significance: float) -> str:
        """There is no confidence to guarantee anything at."""
        raise NotImplementedError
