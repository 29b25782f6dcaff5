"""Calibrating over groups of people who choose together: formed at random, alike, or given."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from surerec._arguments import check_choice, check_list
from surerec._checks import check_whole
from surerec.errors import InputError, NotOffered
from surerec.futures import check_horizon
from surerec.interactions import read_members
from surerec.recommenders._calibrating import Calibrating
from surerec.together import (
    FORMED,
    GROUP_PROMISES,
    MOST_MEMBERS,
    GroupCalibration,
    find_aggregation,
    find_group_promise,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from surerec.together import Aggregation, KeptPromise

_GIVEN: Final = 0  # of groups that were given, whatever their sizes
_CALIBRATING: Final = Lock()


class OverGroups(Calibrating):
    """Gives a recommender that is calibrated over users a calibration over groups of them."""

    _companies: dict[int, GroupCalibration]

    def _by_size(self) -> dict[int, GroupCalibration]:
        return getattr(self, "_companies", {})  # a wrapped model never has any

    def calibrate_groups(
        self,
        sizes: int | Iterable[int] = (2, 3, 4),
        *,
        formed: str = "random",
        aggregation: str | Aggregation = "average",
        groups: Any = None,
    ) -> Self:
        """Calibrate on groups of users, so that ``recommend(group=[…])`` can promise them anything.

        Calibration groups must be as the groups to be served will be. They are disjoint, formed
        once over all users from what is known of them, and scored with all members left out. What
        was calibrated for groups of these sizes is replaced. A size that was not calibrated is,
        at random and by the average, when a group of it is first asked for.

        Parameters
        ----------
        sizes : int or iterable of int, default=(2, 3, 4)
            How many members, 2 to 8; not for given groups.
        formed : {"random", "similar"}, default="random"
            At random, or of people whose known items are alike.
        aggregation : str or Aggregation, default="average"
            What makes one ranking of the members': one of :data:`surerec.together.AGGREGATIONS`.
        groups : mapping, frame or path, optional
            Groups of your own instead: members by group, or rows of ``user_id`` and ``group``.
            They are disjoint, and may be of any size. They then serve groups of all sizes.

        Examples
        --------
        >>> import surerec as sr
        >>> films = sr.datasets.synthetic(n_users=300, n_items=60, n_rows=6000, seed=1)
        >>> model = sr.PopulationConformal("CM12").fit(films)
        >>> model.calibrate_groups(2, formed="similar", aggregation="least-misery").group_sizes_
        (2,)
        >>> model.recommend(group=[7, 3], confidence=0.8).together
        'any'
        """
        self.require_fit()
        how, by = check_choice("formed", formed, FORMED), find_aggregation(aggregation)
        if groups is not None:
            self._companies = {
                _GIVEN: self._group_calibration("given", _GIVEN, by, self._given(groups))
            }
            return self
        wanted = (
            [sizes]
            if isinstance(sizes, (int, np.integer))
            else check_list("sizes", sizes, "numbers")
        )
        for size in wanted:
            n = check_whole("size", size, lowest=2, highest=MOST_MEMBERS)
            self._companies = {**self._by_size(), n: self._group_calibration(how, n, by)}
        return self

    @property
    def group_sizes_(self) -> tuple[int, ...]:
        """The sizes of groups that were calibrated; with given groups, up to the largest."""
        self.require_fit()
        if _GIVEN in self._by_size():
            return tuple(range(2, self._by_size()[_GIVEN].size + 1))
        return tuple(sorted(self._by_size()))

    @property
    def group_calibrations_(self) -> tuple[GroupCalibration, ...]:
        """What was calibrated on groups, by size."""
        self.require_fit()
        return tuple(each for _, each in sorted(self._by_size().items()))

    def calibrates(self, user: int) -> bool:
        """Return whether a user, by code, calibrates: all items, an item list, or groups."""
        self.require_fit()
        over_users = (self._calibrated, *self._lists.values())
        return any(each.users.place_of(user) is not None for each in over_users) or any(
            user in each.outcomes.users for each in self._by_size().values()
        )

    def _group_calibration(
        self,
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
            self.scorer_,
            self.statistics_,
            formed=formed,
            size=size,
            aggregation=aggregation,
            horizon=check_horizon(self.horizon),
            min_known=self.min_known,
            most_groups=self.n_calibration,
            seed=self.seed,
            given=given,
        )

    def _given(self, groups: Any) -> list[NDArray[np.int64]]:
        """Give the members of given groups by code; disjoint, and known, each two at the least."""
        profiles = self.statistics_.interactions
        assert profiles is not None  # noqa: S101  # it was fitted on profiles
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

    def offers_together(self) -> tuple[str, ...]:
        """Give what can be promised to groups, by name."""
        self.require_fit()
        offered = self.window is None and self.scorer_.leaves_users_out is True
        return tuple(GROUP_PROMISES) if offered and not self.promises_precision else ()

    def _for_groups(self, n_members: int, together: str | None) -> KeptPromise:
        promise = find_group_promise("any" if together is None else together)
        given = self._by_size().get(_GIVEN)
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
            if n_members not in self._by_size():
                self.calibrate_groups(n_members)
            return self._companies[n_members].at(promise)
