"""Lists of which most is wanted: the precision promise, by learning then testing over users."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from surerec.calibration._assessment import Assessment
from surerec.calibration._groups import LengthGroups
from surerec.calibration._users import NO_CHANCES, SWAYED, UserCalibration
from surerec.conformal import ServedPrecision, bets_needed
from surerec.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.calibration._chances import ItemChances
    from surerec.conformal import Passed
    from surerec.measures import Query, Scorer
    from surerec.precedence import PrecedenceStatistics

_SEED: Final = 5  # of the order in which people test, which must know nothing of what they took


class ServedLists:
    """Tested thresholds for each group of people by the number of known items; each found once."""

    def __init__(self, chances: ItemChances, n_known: NDArray[np.int64], n_groups: int) -> None:
        self.groups = LengthGroups.equal(n_known, n_groups)
        order = np.random.default_rng(_SEED).permutation(len(n_known))
        group_of = self.groups.of(n_known)
        self._members = [order[group_of[order] == group] for group in range(self.groups.n)]
        self._tests = [
            ServedPrecision(chances.counts[some], chances.hits[some], chances.chooses[some])
            for some in self._members
        ]
        self._passed: dict[tuple[int, float, float, int | None], Passed | None] = {}

    def place(self, group: int, calibration_user: int | None) -> int | None:
        """Give where a calibration user is among those of a group, if they are."""
        if calibration_user is None:
            return None
        found = np.flatnonzero(self._members[group] == calibration_user)
        return int(found[0]) if len(found) else None

    def passed(
        self, group: int, precision: float, delta: float, without: int | None
    ) -> Passed | None:
        """Give the loosest threshold that keeps the precision, or refuse what cannot be reached."""
        key = group, precision, delta, without
        if key not in self._passed:
            self._passed[key] = self._tests[group].passed(precision, delta=delta, without=without)
        if self._passed[key] is None and without is None:
            raise InputError(self._refusal(group, precision, delta))
        return self._passed[key]

    def _refusal(self, group: int, precision: float, delta: float) -> str:
        test = self._tests[group]
        people = f"people with {self.groups.in_words(group)}" if self.groups.n > 1 else "people"
        n, needed = int((~test.chooses).sum()), bets_needed(1 - precision, delta)
        asked = (
            f"A precision of {precision:.4g} cannot be promised to {people} here with confidence "
            f"{1 - delta:.4g}"
        )
        if n < needed:
            return (
                f"{asked}: it takes {needed:,} calibration users at the least to test it, and "
                f"there are {n:,}."
            )
        best = test.best(delta=delta)
        if best is None:
            return f"{asked}, nor can any other: too little of what is ranked highest is taken."
        return f"{asked}; the best that can is {best:.2f}."


@dataclass(frozen=True, kw_only=True)
class PrecisionAssessment(Assessment):
    """The candidates by bin; the set is what lies above a tested threshold."""

    bins: NDArray[np.int64]
    lists: ServedLists
    precision: float
    group: int
    own: int | None
    """Which of the group's calibration users this person is."""

    @property
    def highest_confidence(self) -> float:
        """There is none: what cannot be reached is refused."""
        return 1.0

    def passed(self, significance: float) -> Passed | None:
        """Give the tested threshold; None where it was reached only with this person's help."""
        self.lists.passed(self.group, self.precision, significance, None)
        return self.lists.passed(self.group, self.precision, significance, self.own)

    def included(self, significance: float) -> NDArray[np.bool_]:
        """Tell which candidates are in the set; `significance` is δ."""
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

    def at(self, precision: float) -> PrecisionCalibration:
        """Give the same for a precision."""
        other = replace(self, precision=precision)
        other.__dict__["_lists"] = self._lists  # tested once, however often it is asked for
        return other

    @cached_property
    def _lists(self) -> ServedLists:
        if self.chances is None:
            raise InputError(f"No precision can be promised: {NO_CHANCES}.")
        return ServedLists(self.chances, self.users.n_known, self.n_groups)

    def assess(  # type: ignore[override]  # it has no levels below which items are in
        self,
        scorer: Scorer,
        statistics: PrecedenceStatistics,
        query: Query,
        candidates: NDArray[np.int64],
    ) -> Assessment:
        """Give every candidate's bin; without a precision they are only ranked."""
        scores, values, ranking = self.rank(scorer, statistics, query)
        gap, place = self._gap(scorer, query), self.users.place_of(query.user)
        chances, about = self.probabilities(statistics, query, ranking, candidates, gap)
        if not gap and place is not None and self.chances and self.chances.swayed[place]:
            gap = SWAYED
        shared: dict[str, Any] = {
            "candidates": candidates,
            "score": scores[candidates],
            "shown": values[candidates].__getitem__,
            "popularity": statistics.popularity,
            "gap": gap,
            "chances": chances,
            "about_chances": about,
            "ranking": ranking,
        }
        if self.precision is None:
            return Assessment(**shared)
        lists, n_known = self._lists, len(query.history)
        assert self.chances is not None  # noqa: S101  # or there were no lists
        group = int(lists.groups.of(np.array([n_known]))[0])
        return PrecisionAssessment(
            **shared,
            n_calibration=len(self.users) - (place is not None),
            bins=self.chances.bins_of(ranking, n_known, statistics.n_items)[candidates],
            lists=lists,
            precision=self.precision,
            group=group,
            own=lists.place(group, place),
        )

    def promise(self, significance: float, assessment: PrecisionAssessment) -> str:  # type: ignore[override]
        """Say what is promised, with its assumption; `significance` is δ."""
        lists, found = assessment.lists, assessment.passed(significance)
        if found is None:
            return "None for this person: the precision was reached only with their own future."
        group = lists.groups.in_words(assessment.group) if lists.groups.n > 1 else ""
        return self._terms.of_precision(
            assessment.precision, significance, found.n_testing, found.share_served, group
        )
