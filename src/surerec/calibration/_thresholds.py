"""From calibration users to the levels of items, in one group of people or in several."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from surerec.calibration._groups import LengthGroups

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.calibration._stored import CalibrationUsers
    from surerec.calibration.promises import Promise
    from surerec.conformal import RiskCurve


@dataclass(frozen=True)
class Threshold:
    """The calibration that serves one person."""

    curve: RiskCurve
    own_place: int | None
    """Which of the curve's users this person is, whose own future must not count."""
    group: str

    @property
    def n_users(self) -> int:
        """How many calibration users count."""
        return self.curve.n_users - (self.own_place is not None)

    def levels(self, entries: NDArray[np.float64]) -> NDArray[np.float64]:
        """Give the ε below which an item of each entry is in the set."""
        return self.curve.levels(entries, without=self.own_place)

    def levels_by_rank(self, n: int) -> NDArray[np.float64]:
        """Give the ε below which the items of rank 1 to n are in the set, cut by rank."""
        return self.curve.levels_of_ranks(n, without=self.own_place)


class Thresholds:
    """A risk curve for each group of people by the number of known items (Mondrian)."""

    def __init__(self, calibration: CalibrationUsers, promise: Promise, n_groups: int) -> None:
        self._calibration = calibration
        self.groups = LengthGroups.equal(calibration.n_known, n_groups)
        self._group_of = self.groups.of(calibration.n_known)
        whole = calibration.curve(promise)
        members = [self._group_of == group for group in range(self.groups.n)]
        self._curves = [whole.of_owners(some) for some in members]
        self._place_in_group = np.empty(len(calibration), dtype=np.int64)
        for some in members:
            self._place_in_group[some] = np.arange(int(some.sum()))

    def of(self, user: int | None, n_known: int) -> Threshold:
        """Give the threshold of a person of whom so many items are known."""
        group = int(self.groups.of(np.array([n_known]))[0])
        place = self._calibration.place_of(user)
        mine = place is not None and self._group_of[place] == group
        return Threshold(
            self._curves[group],
            int(self._place_in_group[place]) if mine else None,
            self.groups.in_words(group) if self.groups.n > 1 else "",
        )
