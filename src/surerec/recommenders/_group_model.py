"""Calibrations for groups of users who choose together: by merged p-values, or on other groups."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from surerec._arguments import check_choice, check_list
from surerec._checks import check_whole
from surerec._state import State
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

    from surerec.calibration import Cases, ItemCalibration, UserCalibration
    from surerec.interactions import Interactions
    from surerec.measures import Scorer
    from surerec.precedence import PrecedenceStatistics
    from surerec.together import Aggregation, KeptPromise

GROUP_PRECISION: Final = (
    "Groups have no guarantee of precision, only of recall: fit promise='miss-rate' or 'hit' for "
    "them."
)
GIVEN: Final = 0  # the key of given groups, whatever their sizes
_SIZE: Final = "size"
_CALIBRATING: Final = Lock()


@dataclass(frozen=True, eq=False)
class Sample:
    """A scorer, what was known when it was calibrated, and the users who calibrate it."""

    scorer: Scorer
    past: PrecedenceStatistics
    cases: Cases


class CalibratedModel(Protocol):
    """What group calibrations need of a fitted model."""

    @property
    def scorer(self) -> Scorer:
        """What scores."""

    @property
    def statistics(self) -> PrecedenceStatistics:
        """What is known."""

    @property
    def user_level(self) -> UserCalibration:
        """The calibration on users."""

    def profiles(self) -> Interactions:
        """Return the users' profiles."""


class HeldOut(Protocol):
    """Finds the users on whom a fitted model is calibrated, with their held-out interactions."""

    def allows(self, scorer: Scorer) -> bool:
        """Return whether a scorer leaves users out, or knows nothing of what is held out of it."""

    def calibration_users(self, model: CalibratedModel) -> Sample:
        """Return the scorer as it was calibrated, and its calibration users."""

    def group_users(self, model: CalibratedModel) -> Sample:
        """Return the same for everybody who may be in a calibration group."""


class GroupModel(Protocol):
    """What a fitted model serves groups with."""

    @property
    def sizes(self) -> tuple[int, ...] | None:
        """The sizes of groups that can be served at once; None for all."""

    def offers(self, scorer: Scorer) -> tuple[str, ...]:
        """Return the names of the guarantees that groups can be given."""

    def of(
        self, model: CalibratedModel, n_members: int, together: str | None
    ) -> KeptPromise | MergedPValues:
        """Return a model's calibration for groups of a size, with the guarantee of that name."""

    def has_user(self, user: int) -> bool:
        """Return whether a user, by code, calibrates."""

    def state(self) -> State:
        """Return what is saved of it."""

    def from_state(self, state: State, n_users: int) -> GroupModel:
        """Return the same with what was saved; KeyError or ValueError if it is not its own."""

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
        model: CalibratedModel,
        n_members: int,  # noqa: ARG002
        together: str | None,
    ) -> MergedPValues:
        """Return the merged p-values; any size of group has them."""
        check_leaves_out(model.scorer)
        return MergedPValues(find_merger(together), self.calibration)

    def has_user(self, user: int) -> bool:  # noqa: ARG002
        """Return False: p-values are those of the members' own items."""
        return False

    def state(self) -> State:
        """Return nothing: groups are calibrated by their members' items."""
        return State()

    def from_state(self, state: State, n_users: int) -> MergedGroups:  # noqa: ARG002
        """Return itself."""
        state.require_empty("a model without calibration groups")
        return self

    def cleared(self) -> MergedGroups:
        """Return itself: it is not calibrated on groups."""
        return self


@dataclass(frozen=True)
class CalibratedGroups:
    """Thresholds calibrated on groups of calibration users, by size.

    A size that was not calibrated is calibrated when a group of it first asks: on random groups,
    with the average.
    """

    future: str
    """The held-out interactions of each member, in words."""
    min_known: int
    n_calibration: int
    seed: int
    held_out: HeldOut
    tested: bool
    """Whether the model guarantees precision, which groups are not given."""
    whom: str = ""
    """Who the members are, in words, where not everybody is covered."""
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
        offered = not self.tested and self.held_out.allows(scorer)
        return tuple(GROUP_PROMISES) if offered else ()

    def of(self, model: CalibratedModel, n_members: int, together: str | None) -> KeptPromise:
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
                made = self._calibrate(model, "random", n_members, by)
                self.by_size[n_members] = made
            return self.by_size[n_members].at(promise)

    def has_user(self, user: int) -> bool:
        """Return whether a user, by code, is in a calibration group."""
        return any(user in each.outcomes.users for each in self.by_size.values())

    def state(self) -> State:
        """Return all calibrations."""
        return State.numbered(_SIZE, (each.state() for each in self.by_size.values()))

    def from_state(self, state: State, n_users: int) -> CalibratedGroups:
        """Return the same with what was saved; KeyError or ValueError if it is not its own."""
        states, rest = state.split_numbered(_SIZE)
        rest.require_empty("a calibration on groups")
        found = [
            GroupCalibration.from_state(each, n_users, self.future, self.min_known, self.whom)
            for each in states
        ]
        by_size = {GIVEN if each.formed == "given" else each.size: each for each in found}
        return replace(self, by_size=by_size)

    def cleared(self) -> CalibratedGroups:
        """Return the same with no size calibrated yet."""
        return replace(self, by_size={})

    def calibrated(
        self,
        model: CalibratedModel,
        sizes: int | Iterable[int],
        formed: str,
        aggregation: str | Aggregation,
        groups: Any,
    ) -> CalibratedGroups:
        """Return the same with some sizes calibrated, or with given groups only."""
        how, by = check_choice("formed", formed, FORMED), find_aggregation(aggregation)
        if groups is not None:
            made = self._calibrate(model, "given", GIVEN, by, groups)
            return replace(self, by_size={GIVEN: made})
        wanted = (
            [sizes]
            if isinstance(sizes, (int, np.integer))
            else check_list("sizes", sizes, "numbers")
        )
        found = dict(self.by_size)
        for size in wanted:
            n = check_whole("size", size, lowest=2, highest=MOST_MEMBERS)
            found[n] = self._calibrate(model, how, n, by)
        return replace(self, by_size=found)

    def _calibrate(
        self,
        model: CalibratedModel,
        formed: str,
        size: int,
        aggregation: Aggregation,
        groups: Any = None,
    ) -> GroupCalibration:
        if self.tested:
            raise NotOffered(GROUP_PRECISION)
        if not self.held_out.allows(model.scorer):
            check_leaves_out(model.scorer)
        sample = self.held_out.group_users(model)
        given = None if groups is None else given_groups(sample.cases.interactions, groups)
        return GroupCalibration.of(
            sample.scorer,
            sample.past,
            sample.cases,
            serving=model.statistics,
            formed=formed,
            size=size,
            aggregation=aggregation,
            future=self.future,
            whom=self.whom,
            min_known=self.min_known,
            most_groups=self.n_calibration,
            seed=self.seed,
            given=given,
        )


def given_groups(profiles: Interactions, groups: Any) -> list[NDArray[np.int64]]:
    """Return the members of given groups by code: disjoint, and two or more each."""
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
