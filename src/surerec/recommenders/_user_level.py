"""User-level calibration: its settings, and how a scorer is calibrated on held-out interactions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from surerec._arguments import check_choice, check_number, check_seed
from surerec._checks import check_whole
from surerec.calibration import (
    Coverage,
    NamedItems,
    NobodyTook,
    PrecisionCalibration,
    UserCalibration,
    calibrate,
    find_promise,
    from_parts,
    lists_from_parts,
    lists_to_parts,
    to_parts,
)
from surerec.errors import InputError
from surerec.futures import check_horizon
from surerec.recommenders._group_model import GIVEN, CalibratedGroups, HeldOut, Sample
from surerec.recommenders._segments import (
    groups_from_arrays,
    groups_from_texts,
    groups_to_parts,
    parse_groups,
)
from surerec.together import companies_from_parts, companies_to_parts, members_future

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from surerec.calibration import CalibrationUsers, Cut, ItemChances, Promise
    from surerec.futures import Horizon
    from surerec.interactions import IdMap, UserGroups
    from surerec.precedence import PrecedenceStatistics
    from surerec.recommenders._model import FittedModel
    from surerec.recommenders._segments import Groups
    from surerec.together import GroupCalibration

    Kept = tuple[CalibrationUsers, ItemChances | None]

_MOST_DAYS: Final = 1_000_000
"""Of a window: it ends in the calendar, which has hardly four times as many."""


@dataclass(frozen=True)
class Statement:
    """What a guarantee says beside its numbers: whom it covers, and of which future it speaks."""

    coverage: Coverage
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
        promise = find_promise(self.promise)
        kind = PrecisionCalibration if promise.tested else UserCalibration
        return kind(
            users,
            promise,
            check_horizon(self.horizon),
            self.window,
            self.cut,
            parse_groups(self.groups)[1],
            self.min_known,
            says.coverage,
            says.about,
            segments,
            says.lacking,
            chances=chances,
            listed=listed,
        )

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

    def group_model(
        self,
        held_out: HeldOut,
        says: Statement,
        by_size: dict[int, GroupCalibration] | None = None,
    ) -> CalibratedGroups:
        """Return what calibrates on groups of users, with what is calibrated already."""
        return CalibratedGroups(
            self.members_future(says),
            self.min_known,
            self.n_calibration,
            self.seed,
            held_out,
            find_promise(self.promise).tested,
            members_words(says),
            by_size or {},
        )

    def members_future(self, says: Statement) -> str:
        """Return the held-out interactions of a group's members in words."""
        if says.about:
            return f"of each member, {says.about}"
        return members_future(check_horizon(self.horizon), self.window)


def members_words(says: Statement) -> str:
    """Return who the members of groups are, where not everybody is covered."""
    people = says.coverage.people
    return "" if people == Coverage.people else f" of {people}"


@dataclass(eq=False)
class SavedLevel:
    """What a model folder has of a user-level calibration, read step by step."""

    settings: UserLevel
    statistics: PrecedenceStatistics
    says: Statement
    segments: UserGroups | None
    arrays: dict[str, NDArray[Any]]
    by_size: dict[int, GroupCalibration] = field(default_factory=dict)

    @classmethod
    def read(
        cls,
        settings: UserLevel,
        statistics: PrecedenceStatistics,
        arrays: dict[str, NDArray[Any]],
        texts: dict[str, str],
        says: Statement,
    ) -> SavedLevel:
        """Read segments and groups; ValueError if something is left over or does not fit."""
        segments, others = groups_from_texts(settings.groups, texts)
        if others:
            raise ValueError("it has no such texts")
        segments, rest = groups_from_arrays(segments, arrays, statistics.n_user_codes)
        found, rest = companies_from_parts(
            rest,
            statistics.n_user_codes,
            settings.members_future(says),
            settings.min_known,
            members_words(says),
        )
        by_size = {GIVEN if each.formed == "given" else each.size: each for each in found}
        return cls(settings, statistics, says, segments, rest, by_size)

    def calibrations(self) -> tuple[UserCalibration, dict[str, UserCalibration]]:
        """Return the calibration, and those on item lists."""
        n_users, n_items = self.statistics.n_user_codes, self.statistics.n_items
        lists, rest = lists_from_parts(self.arrays, n_users, n_items)
        make = self.settings.calibration
        return make(from_parts(rest, n_users), self.says, self.segments), {
            listed.name: make(kept, self.says, self.segments, listed) for listed, kept in lists
        }


def saved_state(model: FittedModel) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Return the arrays and texts of a user-level calibration, its item lists and groups."""
    arrays, texts = groups_to_parts(model.segments)
    arrays |= to_parts(model.user_level) | lists_to_parts(model.item_lists.values())
    return arrays | companies_to_parts(model.calibrated_groups.by_size.values()), texts


def moved_lists(
    lists: Mapping[str, UserCalibration], before: IdMap, now: IdMap
) -> list[NamedItems]:
    """Return the item lists by the codes of other data."""
    return [each.listed.within(before, now) for each in lists.values() if each.listed is not None]


def _items(statistics: PrecedenceStatistics) -> IdMap:
    return statistics.interactions.items
