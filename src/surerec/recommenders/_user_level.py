"""User-level calibration: its settings, and how a scorer is calibrated on held-out interactions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from surerec._arguments import check_choice, check_number, check_seed
from surerec._checks import check_whole
from surerec.calibration import (
    NamedItems,
    NobodyTook,
    PrecisionCalibration,
    UserCalibration,
    UserCoverage,
    calibrate,
    check_horizon,
    find_promise,
)
from surerec.errors import InputError
from surerec.recommenders._group_model import CalibratedGroups, HeldOut, Sample
from surerec.recommenders._segments import parse_groups
from surerec.together import members_future

if TYPE_CHECKING:
    from collections.abc import Mapping

    from surerec._state import State
    from surerec.calibration import (
        Calibration,
        CalibrationUsers,
        Cut,
        Horizon,
        ItemChances,
        Promise,
    )
    from surerec.interactions import IdMap, UserGroups
    from surerec.precedence import PrecedenceStatistics
    from surerec.recommenders._segments import Groups

    Kept = tuple[CalibrationUsers, ItemChances | None]

_MOST_DAYS: Final = 1_000_000
"""Of a window: it ends in the calendar, which has hardly four times as many."""


@dataclass(frozen=True)
class Statement:
    """What a guarantee says beside its numbers: whom it covers, and of which future it speaks."""

    coverage: UserCoverage
    about: str = ""
    """The held-out interactions in words, where neither horizon nor window says it."""
    lacking: str = UserCalibration.lacking
    """What an item was that no set can hold, in words."""


@dataclass(frozen=True)
class UserLevel:
    """The settings of a user-level calibration; see :class:`PopulationConformal`."""

    promise: str | Promise
    horizon: Horizon
    cut: Cut
    groups: Groups
    window: float | None
    n_calibration: int
    min_known: int
    seed: int

    def __post_init__(self) -> None:
        """Refuse impossible settings."""
        check_seed(self.seed)
        find_promise(self.promise)
        check_choice("cut", self.cut, ("rank", "score"))
        check_horizon(self.horizon)
        parse_groups(self.groups)
        check_whole("n_calibration", self.n_calibration)
        check_whole("min_known", self.min_known)
        if self.window is not None:
            must = f"a number of days above 0, and {_MOST_DAYS:,} at the most"
            check_number("window", self.window, 0, _MOST_DAYS, must, ends=(False, True))

    def calibration(
        self,
        kept: Kept,
        says: Statement,
        segments: UserGroups | None,
        listed: NamedItems | None = None,
    ) -> UserCalibration:
        """Return the calibration on what is kept of calibration users."""
        users, chances = kept
        return self._kind(
            users=users, chances=chances, people=segments, listed=listed, **self._stated(says)
        )

    def calibration_from(
        self, state: State, says: Statement, statistics: PrecedenceStatistics
    ) -> UserCalibration:
        """Return the calibration that was saved; KeyError or ValueError if it is not its state."""
        column = parse_groups(self.groups)[0]
        return self._kind.from_state(state, statistics, column, **self._stated(says))

    @property
    def _kind(self) -> type[UserCalibration]:
        return PrecisionCalibration if find_promise(self.promise).tested else UserCalibration

    def _stated(self, says: Statement) -> dict[str, Any]:
        return {
            "promised": find_promise(self.promise),
            "horizon": check_horizon(self.horizon),
            "window": self.window,
            "cut": self.cut,
            "n_groups": parse_groups(self.groups)[1],
            "min_known": self.min_known,
            "coverage": says.coverage,
            "about": says.about,
            "lacking": says.lacking,
        }

    def calibrate(
        self,
        sample: Sample,
        says: Statement,
        serving: PrecedenceStatistics,
        segments: UserGroups | None,
    ) -> UserCalibration:
        """Return a scorer's calibration on a sample of users; `serving` has the users' codes."""
        kept = calibrate(
            sample.scorer, sample.past, sample.cases, self.cut, serving, seed=self.seed
        )
        return self.calibration(kept, says, segments)

    def calibrate_list(
        self,
        sample: Sample,
        says: Statement,
        serving: PrecedenceStatistics,
        segments: UserGroups | None,
        listed: NamedItems,
    ) -> UserCalibration:
        """Return the calibration on what the sample's users consumed of an item list."""
        then = listed.within(_items(serving), _items(sample.past))
        try:
            kept = calibrate(
                sample.scorer,
                sample.past,
                sample.cases,
                self.cut,
                serving,
                allowed=then.codes,
                seed=self.seed,
            )
        except NobodyTook:
            raise InputError(
                f"Nobody who calibrates took any item of the list {listed.name!r} next, so nothing "
                "can be promised on it: give a longer list."
            ) from None
        return self.calibration(kept, says, segments, listed)

    def group_model(self, held_out: HeldOut, calibration: Calibration) -> CalibratedGroups:
        """Return what calibrates on groups of the users whom a calibration covers."""
        future = members_future(check_horizon(self.horizon), self.window)
        return CalibratedGroups(
            f"of each member, {calibration.about}" if calibration.about else future,
            self.min_known,
            self.n_calibration,
            self.seed,
            held_out,
            find_promise(self.promise).tested,
            "" if calibration.covers == UserCoverage.people else f" of {calibration.covers}",
        )


def moved_lists(
    lists: Mapping[str, UserCalibration], before: IdMap, now: IdMap
) -> list[NamedItems]:
    """Return the item lists by the codes of other data."""
    return [each.listed.within(before, now) for each in lists.values() if each.listed is not None]


def _items(statistics: PrecedenceStatistics) -> IdMap:
    return statistics.interactions.items
