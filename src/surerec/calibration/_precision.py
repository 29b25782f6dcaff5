"""Lists of which most is wanted: the precision promise, by learning then testing over users."""

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

OWN_FUTURE: Final = "the precision was reached only with this user's own future"
_SEED: Final = 5  # of the order in which people test, which must know nothing of what they took


class ServedList:
    """Tested thresholds for one group of people; each is found once.

    Parameters
    ----------
    chances : ItemProbabilities
        What calibration users would have been shown, and took.
    members : array of int
        Which of the calibration users are of the group, in an order that knows nothing of them.
    people : str
        Whom it is about, in words.
    group : str
        The group in words; empty for everybody.
    """

    def __init__(
        self, probabilities: ItemProbabilities, members: NDArray[np.int64], people: str, group: str
    ) -> None:
        self.group = group
        self._people = people
        self._members = members
        self._test = ServedPrecision(
            probabilities.counts[members],
            probabilities.hits[members],
            probabilities.chooses[members],
        )
        self._passed: dict[tuple[float, float, int | None], Passed | None] = {}

    def place(self, calibration_user: int | None) -> int | None:
        """Return where a calibration user is among those of the group, if they are."""
        if calibration_user is None:
            return None
        found = np.flatnonzero(self._members == calibration_user)
        return int(found[0]) if len(found) else None

    def passed(self, precision: float, delta: float, without: int | None) -> Passed | None:
        """Return the loosest threshold that keeps the precision; refuse what none reaches."""
        key = precision, delta, without
        if key not in self._passed:
            self._passed[key] = self._test.passed(precision, delta=delta, without=without)
        if self._passed[key] is None and without is None:
            raise NotSupportedError(self._refusal(precision, delta))
        return self._passed[key]

    def _refusal(self, precision: float, delta: float) -> str:
        n, needed = int((~self._test.chooses).sum()), bets_needed(1 - precision, delta)
        asked = (
            f"A precision of {precision:.4g} cannot be promised to {self._people} here with "
            f"confidence {1 - delta:.4g}"
        )
        if n < needed:
            return (
                f"{asked}: it takes {needed:,} calibration users at the least to test it, and "
                f"there {'is' if n == 1 else 'are'} {n:,}."
            )
        best = self._test.best(delta=delta)
        if best is None:
            return f"{asked}, nor can any other: too little of what is ranked highest is taken."
        return f"{asked}; the best that can is {best:.2f}."


@dataclass(frozen=True, kw_only=True)
class PrecisionAssessment(Assessment):
    """The candidates by bin; the set is what lies above a tested threshold."""

    bins: NDArray[np.int64]
    served: ServedList
    precision: float
    own: int | None
    """Which of the group's calibration users this person is."""

    @property
    def highest_confidence(self) -> float:
        """There is none: what cannot be reached is refused."""
        return 1.0

    def passed(self, significance: float) -> Passed | None:
        """Return the tested threshold; None where it was reached only with this person's help."""
        self.served.passed(self.precision, significance, None)
        return self.served.passed(self.precision, significance, self.own)

    def covers(self, significance: float | None) -> bool:
        """Return whether the guarantee covers this user, without help of their own future."""
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
    """As many items as possible of which enough are taken; see :class:`UserCalibration`.

    Parameters
    ----------
    precision : float or None
        The share of what is shown that is to be taken.
    """

    precision: float | None = None

    def __post_init__(self) -> None:
        """Take a promise that is tested, not controlled."""

    @cached_property
    def features(self) -> frozenset[str]:  # type: ignore[override]
        """What a request may ask for."""
        return super().features - {"levels"} | {"precision"}

    def at(self, precision: float) -> PrecisionCalibration:
        """Return the same for a precision."""
        other = replace(self, precision=precision)
        # Tested once, however often it is asked for.
        other.__dict__.update(_segments=self._segments, _lists=self._lists)
        return other

    @cached_property
    def _lists(self) -> list[ServedList]:
        """The tested thresholds of each segment."""
        if self.probabilities is None:
            raise NotSupportedError(
                f"No precision can be promised without probabilities: {NO_PROBABILITIES}."
            )
        order = np.random.default_rng(_SEED).permutation(len(self.users))
        return [
            ServedList(self.probabilities, order[some[order]], self._covered(words), words)
            for some, words in zip(self._segments.members, self._segments.words, strict=True)
        ]

    def _passed(self, delta: float) -> list[Passed]:
        """Return the thresholds of all segments that reach the precision; refuse if none does."""
        assert self.precision is not None  # noqa: S101  # it is always asked for
        found, refusals = [], []
        for segment in self._segments.stated:
            try:
                found.append(self._lists[segment].passed(self.precision, delta, None))
            except NotSupportedError as error:
                refusals.append(error)
        if not any(found):
            raise refusals[0]
        return [each for each in found if each is not None]

    def assess(  # type: ignore[override]  # it has no levels below which items are in
        self,
        scorer: Scorer,
        statistics: PrecedenceStatistics,
        query: Query,
        candidates: NDArray[np.int64],
    ) -> Assessment:
        """Return every candidate's bin; without a precision they are only ranked."""
        query = query.known_to(statistics)
        fields, _ = self._assessed(scorer, statistics, query, candidates)
        place = self.users.place_of(query.user)
        if (
            not fields["gap"]
            and place is not None
            and self.probabilities
            and self.probabilities.swayed[place]
        ):
            fields["gap"] = SWAYED
        if self.precision is None:
            return Assessment(**fields)
        served, n_known = self._lists[self._segments.of(query)], len(query.history)
        assert self.probabilities is not None  # noqa: S101  # or there were no lists
        return PrecisionAssessment(
            **fields,
            n_calibration=len(self.users) - (place is not None),
            bins=self.probabilities.bins_of(fields["ranking"], n_known, statistics.n_items)[
                candidates
            ],
            served=served,
            precision=self.precision,
            own=served.place(place),
        )

    def guarantee(  # type: ignore[override]  # as of the assessment
        self, significance: float, assessment: PrecisionAssessment | None = None
    ) -> Guarantee:
        """Return what is guaranteed; `significance` is δ."""
        assert self.precision is not None  # noqa: S101  # it is always asked for
        if assessment is None:
            found, segment = self._passed(significance), ""
        else:
            one = assessment.passed(significance)
            found, segment = [] if one is None else [one], assessment.served.group
        n = sum(each.n_testing for each in found)
        share = sum(each.n_served for each in found) / max(n, 1)
        covers = self._covered(segment)
        claim = self.guarantee_kind.sentence(1 - self.precision, self._future, covers)
        stated = self._stated(
            n,
            alike=(
                "Assumes users drawn independently (exchangeable is not enough), as the {n} "
                "calibration users who tested it were ({period}), and no drift since."
            ),
            kind="precision",
            level=level_of(significance),
            precision=self.precision,
            claim=f"{claim}, with confidence {1 - significance:.4g} over the draw of these users",
            covers=f"{covers} who are shown anything",
        ).assuming(
            "The confidence is of each level and segment singly.",
            f"{share:.1%} of these users are shown something.",
            self._by_segment if assessment is None else "",
        )
        return stated.broken("" if found else OWN_FUTURE)

    def best_of_many(self, *_: Any, **__: Any) -> None:
        """Return nothing: what is tested is found one by one."""
