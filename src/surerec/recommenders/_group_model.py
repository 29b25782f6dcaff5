"""Calibrations for groups of users who choose together: by merged p-values, or on other groups."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from surerec._arguments import check_choice, check_list
from surerec._checks import check_whole
from surerec.conformal import MERGERS
from surerec.errors import InputError, NotOffered
from surerec.interactions import read_members
from surerec.together import (
    FORMED,
    GROUP_PROMISES,
    MOST_MEMBERS,
    GroupCalibration,
    MergedPValues,
    check_leaves_out,
    find_aggregation,
    find_group_promise,
    find_merger,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from surerec.calibration import ItemCalibration
    from surerec.futures import Horizon
    from surerec.interactions import Interactions
    from surerec.measures import Scorer
    from surerec.precedence import PrecedenceStatistics
    from surerec.together import Aggregation, KeptPromise

GIVEN: Final = 0  # the key of given groups, whatever their sizes
_CALIBRATING: Final = Lock()


class GroupModel(Protocol):
    """What a fitted model serves groups with."""

    @property
    def sizes(self) -> tuple[int, ...] | None:
        """The sizes of groups that can be served at once; None for all."""

    def offers(self, scorer: Scorer) -> tuple[str, ...]:
        """Return the names of the guarantees that groups can be given."""

    def of(
        self,
        scorer: Scorer,
        statistics: PrecedenceStatistics,
        n_members: int,
        together: str | None,
    ) -> KeptPromise | MergedPValues:
        """Return the calibration for groups of a size, with the guarantee of that name."""

    def has_user(self, user: int) -> bool:
        """Return whether a user, by code, calibrates."""

    def cleared(self) -> GroupModel:
        """Return the same without what was calibrated on groups."""


@dataclass(frozen=True)
class MergedGroups:
    """Members' p-values are merged into one for the group."""

    calibration: ItemCalibration
    sizes: tuple[int, ...] | None = None

    def offers(self, scorer: Scorer) -> tuple[str, ...]:
        """Return the names of the ways to merge p-values."""
        return tuple(MERGERS) if scorer.leaves_users_out is True else ()

    def of(
        self,
        scorer: Scorer,
        statistics: PrecedenceStatistics,  # noqa: ARG002
        n_members: int,  # noqa: ARG002
        together: str | None,
    ) -> MergedPValues:
        """Return the merged p-values; any size of group has them."""
        check_leaves_out(scorer)
        return MergedPValues(find_merger(together), self.calibration)

    def has_user(self, user: int) -> bool:  # noqa: ARG002
        """Return False: p-values are those of the members' own items."""
        return False

    def cleared(self) -> MergedGroups:
        """Return itself: it is not calibrated on groups."""
        return self


@dataclass(frozen=True)
class CalibratedGroups:
    """Thresholds calibrated on groups of calibration users, by size.

    A size that was not calibrated is calibrated when a group of it first asks: on random groups,
    with the average.
    """

    horizon: Horizon
    min_known: int
    n_calibration: int
    seed: int
    window: float | None
    tested: bool
    """Whether the model guarantees precision, which groups are not given."""
    by_size: dict[int, GroupCalibration] = field(default_factory=dict)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The calibrated sizes; with given groups, up to the largest."""
        if GIVEN in self.by_size:
            return tuple(range(2, self.by_size[GIVEN].size + 1))
        return tuple(sorted(self.by_size))

    @property
    def calibrations(self) -> tuple[GroupCalibration, ...]:
        """The calibrations by size."""
        return tuple(each for _, each in sorted(self.by_size.items()))

    def offers(self, scorer: Scorer) -> tuple[str, ...]:
        """Return the names of the group guarantees."""
        offered = self.window is None and not self.tested and scorer.leaves_users_out is True
        return tuple(GROUP_PROMISES) if offered else ()

    def of(
        self,
        scorer: Scorer,
        statistics: PrecedenceStatistics,
        n_members: int,
        together: str | None,
    ) -> KeptPromise:
        """Return the calibration for groups of a size; calibrate it if nobody has yet."""
        promise = find_group_promise("any" if together is None else together)
        given = self.by_size.get(GIVEN)
        if given is not None:
            if n_members > given.size:
                raise NotOffered(
                    f"This group has {n_members} members, and the largest that was calibrated on "
                    f"has {given.size}."
                )
            return given.at(promise)
        if n_members > MOST_MEMBERS:
            raise NotOffered(
                f"This group has {n_members} members, and groups are calibrated up to "
                f"{MOST_MEMBERS}; larger ones if they are given: "
                "model.calibrate_groups(groups=…)."
            )
        with _CALIBRATING:  # several threads may ask for the first group of a size
            if n_members not in self.by_size:
                by = find_aggregation("average")
                made = self._calibrate(scorer, statistics, "random", n_members, by)
                self.by_size[n_members] = made
            return self.by_size[n_members].at(promise)

    def has_user(self, user: int) -> bool:
        """Return whether a user, by code, is in a calibration group."""
        return any(user in each.outcomes.users for each in self.by_size.values())

    def cleared(self) -> CalibratedGroups:
        """Return the same with no size calibrated yet."""
        return replace(self, by_size={})

    def calibrated(
        self,
        scorer: Scorer,
        statistics: PrecedenceStatistics,
        sizes: int | Iterable[int],
        formed: str,
        aggregation: str | Aggregation,
        groups: Any,
    ) -> CalibratedGroups:
        """Return the same with some sizes calibrated, or with given groups only."""
        how, by = check_choice("formed", formed, FORMED), find_aggregation(aggregation)
        if groups is not None:
            given = given_groups(statistics.interactions, groups)
            made = self._calibrate(scorer, statistics, "given", GIVEN, by, given)
            return replace(self, by_size={GIVEN: made})
        wanted = (
            [sizes]
            if isinstance(sizes, (int, np.integer))
            else check_list("sizes", sizes, "numbers")
        )
        found = dict(self.by_size)
        for size in wanted:
            n = check_whole("size", size, lowest=2, highest=MOST_MEMBERS)
            found[n] = self._calibrate(scorer, statistics, how, n, by)
        return replace(self, by_size=found)

    def _calibrate(
        self,
        scorer: Scorer,
        statistics: PrecedenceStatistics,
        formed: str,
        size: int,
        aggregation: Aggregation,
        given: list[NDArray[np.int64]] | None = None,
    ) -> GroupCalibration:
        if self.window is not None:
            raise NotOffered(
                "Groups are calibrated on the last part of profiles, not by the calendar: fit a "
                "model without window= for them."
            )
        return GroupCalibration.of(
            scorer,
            statistics,
            formed=formed,
            size=size,
            aggregation=aggregation,
            horizon=self.horizon,
            min_known=self.min_known,
            most_groups=self.n_calibration,
            seed=self.seed,
            given=given,
        )


def given_groups(profiles: Interactions | None, groups: Any) -> list[NDArray[np.int64]]:
    """Return the members of given groups by code: disjoint, and two or more each."""
    if profiles is None:
        raise InputError("These counts were given without profiles: they have no groups.")
    found, seen = [], dict[int, Any]()
    for name, members in read_members(groups).items():
        codes = profiles.users.require(members)
        if len(np.unique(codes)) < len(codes) or len(codes) < 2:  # noqa: PLR2004
            raise InputError(f"Group {name!r} needs two members or more, each of them once.")
        for code in codes.tolist():
            if code in seen:
                raise InputError(
                    f"User {profiles.users[code]!r} is in two groups, {seen[code]!r} and "
                    f"{name!r}: give disjoint ones."
                )
            seen[code] = name
        found.append(codes)
    return found
