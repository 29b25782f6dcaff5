"""The precision guarantee: thresholds by Learn-then-Test over calibration users."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from surerec.calibration._calibration import Assessment
from surerec.calibration._guarantee import level_of
from surerec.calibration._users import NO_PROBABILITIES, SWAYED, UserCalibration
from surerec.conformal import ServedPrecision, bets_needed
from surerec.errors import NotSupportedError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.calibration._guarantee import Guarantee
    from surerec.calibration._probabilities import ItemProbabilities
    from surerec.conformal import Passed
    from surerec.measures import Query, Scorer
    from surerec.precedence import PrecedenceStatistics

OWN_FUTURE: Final = "the precision is reached only with this user's own held-out interactions"
_SEED: Final = 5  # of the order in which users test, which must not depend on their outcomes


class ServedList:
    """Tested thresholds for one segment of users, each computed once.

    Parameters
    ----------
    probabilities : ItemProbabilities
        The items that calibration users would have been shown, and consumed.
    members : array of int
        The calibration users of the segment, in an order independent of their outcomes.
    users : str
        Who is covered, as text.
    segment : str
        The segment as text; empty for all users.
    """

    def __init__(
        self, probabilities: ItemProbabilities, members: NDArray[np.int64], users: str, segment: str
    ) -> None:
        self.segment = segment
        self._users = users
        self._members = members
        self._test = ServedPrecision(
            probabilities.counts[members],
            probabilities.hits[members],
            probabilities.chooses[members],
        )
        self._passed: dict[tuple[float, float, int | None], Passed | None] = {}

    def place(self, calibration_user: int | None) -> int | None:
        """Return the place of a calibration user in the segment; None for others."""
        if calibration_user is None:
            return None
        found = np.flatnonzero(self._members == calibration_user)
        return int(found[0]) if len(found) else None

    def passed(self, precision: float, delta: float, without: int | None) -> Passed | None:
        """Return the loosest threshold that passes; raise NotSupportedError if none does."""
        key = precision, delta, without
        if key not in self._passed:
            self._passed[key] = self._test.passed(precision, delta=delta, without=without)
        if self._passed[key] is None and without is None:
            raise NotSupportedError(self._refusal(precision, delta))
        return self._passed[key]

    def _refusal(self, precision: float, delta: float) -> str:
        n, needed = int((~self._test.chooses).sum()), bets_needed(1 - precision, delta)
        refused = (
            f"A precision of {precision:.4g} cannot be guaranteed to {self._users} with "
            f"{100 * (1 - delta):.6g}% confidence"
        )
        if n < needed:
            return (
                f"{refused}: its test needs at least {needed:,} calibration users, and there "
                f"{'is' if n == 1 else 'are'} {n:,}. Fit on more users."
            )
        best = self._test.best(delta=delta)
        if best is None:
            return (
                f"{refused}, nor can any other: too few of the highest-ranked items are consumed."
            )
        return f"{refused}. Request at most {best:.2f}."


def order_of_tests(n_users: int) -> NDArray[np.int64]:
    """Return the order in which users test, which is independent of their outcomes."""
    return np.random.default_rng(_SEED).permutation(n_users)


@dataclass(frozen=True, kw_only=True)
class PrecisionAssessment(Assessment):
    """The bin of each candidate; the set contains the bins above a tested threshold."""

    bins: NDArray[np.int64]
    served: ServedList
    precision: float
    own: int | None
    """The user's place among the calibration users of the segment."""

    @property
    def highest_confidence(self) -> float:
        """Always 1, as a precision that cannot be reached raises an error."""
        return 1.0

    def passed(self, significance: float) -> Passed | None:
        """Return the tested threshold; None if it passes only with this user's own outcomes."""
        self.served.passed(self.precision, significance, None)
        return self.served.passed(self.precision, significance, self.own)

    def covers(self, significance: float | None) -> bool:
        """Return whether the guarantee covers this user, without using their own outcomes."""
        if significance is None or not super().covers(significance):
            return False
        return self.passed(significance) is not None

    def included(self, significance: float) -> NDArray[np.bool_]:
        """Return which candidates are in the set; `significance` is δ."""
        found = self.passed(significance)
        if found is None:
            return np.zeros(len(self.candidates), dtype=bool)
        return self.bins >= found.threshold


@dataclass(frozen=True)
class PrecisionCalibration(UserCalibration):
    """Shows as many items as possible at a given precision; see :class:`UserCalibration`.

    Parameters
    ----------
    precision : float or None
        Share of shown items that are consumed.
    """

    precision: float | None = None

    def __post_init__(self) -> None:
        """Accept a guarantee that is tested, not controlled."""

    @cached_property
    def features(self) -> frozenset[str]:  # type: ignore[override]
        """What a request may ask for."""
        return super().features - {"levels"} | {"precision"}

    def at(self, precision: float) -> PrecisionCalibration:
        """Return this calibration for a precision."""
        other = replace(self, precision=precision)
        # Share the tests, which are made once.
        other.__dict__.update(_segments=self._segments, _lists=self._lists)
        return other

    @cached_property
    def _lists(self) -> list[ServedList]:
        """The tested thresholds of each segment."""
        if self.probabilities is None:
            raise NotSupportedError(
                f"No precision can be guaranteed without probabilities: {NO_PROBABILITIES}."
            )
        order = order_of_tests(len(self.users))
        return [
            ServedList(self.probabilities, order[some[order]], self._covered(words), words)
            for some, words in zip(self._segments.members, self._segments.words, strict=True)
        ]

    def _passed(self, delta: float) -> list[Passed]:
        """Return the thresholds of the segments that reach the precision; raise if none does."""
        assert self.precision is not None  # noqa: S101  # options require it
        found, refusals = [], []
        for segment in self._segments.stated:
            try:
                found.append(self._lists[segment].passed(self.precision, delta, None))
            except NotSupportedError as error:
                refusals.append(error)
        if not any(found):
            raise refusals[0]
        return [each for each in found if each is not None]

    def assess(  # type: ignore[override]  # no levels
        self,
        scorer: Scorer,
        statistics: PrecedenceStatistics,
        query: Query,
        candidates: NDArray[np.int64],
    ) -> Assessment:
        """Return the bin of each candidate; without a precision, only the ranking."""
        query = query.known_to(statistics)
        fields, _ = self._assessed(scorer, statistics, query, candidates)
        place, of = self.users.place_of(query.user), self.probabilities
        swayed = of is not None and place is not None and of.swayed[place]
        fields["gap"] = fields["gap"] or (SWAYED if swayed else "")
        if self.precision is None:
            return Assessment(**fields)
        served, n_known = self._lists[self._segments.of(query)], len(query.history)
        assert of is not None  # noqa: S101  # _lists requires it
        bins = of.bins_of(fields["ranking"], n_known, statistics.n_items)
        return PrecisionAssessment(
            **fields,
            n_calibration=len(self.users) - (place is not None),
            bins=bins[candidates],
            served=served,
            precision=self.precision,
            own=served.place(place),
        )

    def guarantee(  # type: ignore[override]  # a narrower type
        self, significance: float, assessment: PrecisionAssessment | None = None
    ) -> Guarantee:
        """Return what is guaranteed; `significance` is δ."""
        assert self.precision is not None  # noqa: S101  # options require it
        if assessment is None:
            found, covers = self._passed(significance), self._covered(all_segments=True)
        else:
            one = assessment.passed(significance)
            found = [] if one is None else [one]
            covers = self._covered(assessment.served.segment)
        n = sum(each.n_testing for each in found)
        share = sum(each.n_served for each in found) / max(n, 1)
        claim = self.guarantee_kind.sentence(1 - self.precision, self._future, covers)
        stated = self._stated(
            n,
            assumption=(
                "Assumes users drawn independently, as the {n} calibration users who tested it "
                "({period}), and no drift since"
            ),
            kind="precision",
            level=level_of(significance),
            precision=self.precision,
            claim=(
                f"{claim} ({share:.1%} are), with {100 * (1 - significance):.6g}% confidence for "
                "each level and segment separately"
            ),
            covers=f"{covers} who are shown any",
        )
        return stated.broken("" if found else OWN_FUTURE)

    def best_of_many(self, *_: Any, **__: Any) -> None:
        """Return None, as lists are computed one user at a time."""
