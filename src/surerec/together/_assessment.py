"""What is evaluated for a group: beside each candidate's place, what it is to each member."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from surerec.calibration import UserAssessment
from surerec.together._aggregations import values_of

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class OfMembers:
    """Gives an assessment what every candidate is to every member."""

    member_ranks: NDArray[np.float64]
    """The rank of every candidate for every member, members × candidates."""

    def values(self, places: NDArray[np.intp]) -> NDArray[np.float64]:
        """Give what some candidates are worth to every member, from 1 for the best down to 0."""
        n = int(self.member_ranks.max(initial=2))
        return values_of(self.member_ranks[:, places], n)

    def satisfaction(self, places: NDArray[np.intp]) -> NDArray[np.float64]:
        """Give, for every member, the share of their own best items that is among some candidates.

        Of as many best items as there are: 1 for somebody who would have got the same set alone.
        NaN if there are none.
        """
        n = len(places)
        if not n:
            return np.full(len(self.member_ranks), np.nan)
        own = np.argsort(np.argsort(self.member_ranks, axis=1), axis=1)
        return np.asarray((own[:, places] < n).mean(axis=1))


@dataclass(frozen=True, kw_only=True)
class GroupAssessment(OfMembers, UserAssessment):
    """The ε below which each candidate is in a group's set, and what each member makes of it."""

    n_without: int = 0
    """How many groups could not calibrate, as they took no such item."""
