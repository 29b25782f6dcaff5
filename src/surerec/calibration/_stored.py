"""What is kept of calibration users: enough for any ε, asked for later."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from surerec._state import ArraySchema, State, check_arrays
from surerec.calibration._promises import find_promise
from surerec.conformal import RiskCurve
from surerec.futures import LIST_MOST, codes_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from surerec.calibration._promises import Cut, Promise
    from surerec.futures import Outcomes
    from surerec.measures import Query
    from surerec.precedence import PrecedenceStatistics

_SCHEMAS: Final = {
    "users": ArraySchema("int64", ("n_calibration",), low=-1, below="n_users"),
    "n_before": ArraySchema("int64", ("n_calibration",), low=0),
    "n_known": ArraySchema("int64", ("n_calibration",), low=0),
    "entries": ArraySchema("float64", ("n_entries",), holds="numbers"),
    "owners": ArraySchema("int64", ("n_entries",), low=0, below="n_calibration"),
    "first_ranks": ArraySchema("float64", ("n_calibration",), holds="numbers"),
    "values": ArraySchema("float32", ("n_calibration", LIST_MOST), holds="finite"),
    "masses": ArraySchema("float32", ("n_calibration", LIST_MOST), holds="finite"),
    "period": ArraySchema("int64", (2,)),
}


@dataclass(frozen=True)
class CalibrationUsers:
    """Calibration users' futures as they entered sets of growing size.

    Attributes
    ----------
    users : array of int
        Each calibration user's code in the model's data; −1 for somebody it does not know.
    n_before : array of int
        How many of their interactions came before the held-out ones.
    n_known : array of int
        How many of these items somebody else consumed.
    entries, owners : array
        For each future item the cut that lets it in, and whose it is.
    first_ranks : array of float
        The rank of each user's best-ranked future item.
    values, masses : array of float32
        For each user, the mean value and the share of all scores of the k best items, k to 100.
    period : array of int
        The first and the last instant of the futures, in microseconds since 1970.
    """

    users: NDArray[np.int64]
    n_before: NDArray[np.int64]
    n_known: NDArray[np.int64]
    entries: NDArray[np.float64]
    owners: NDArray[np.int64]
    first_ranks: NDArray[np.float64]
    values: NDArray[np.float32]
    masses: NDArray[np.float32]
    period: NDArray[np.int64]

    @classmethod
    def of(cls, outcomes: Outcomes, cut: Cut, statistics: PrecedenceStatistics) -> CalibrationUsers:
        """Take what the promise needs from outcomes; users by their code in these statistics."""
        cases = outcomes.cases
        return cls(
            users=codes_in(statistics, cases.interactions)[0][cases.users],
            n_before=cases.n_known,
            n_known=outcomes.n_known,
            entries=outcomes.entries(cut),
            owners=outcomes.owners,
            first_ranks=RiskCurve.of_first(outcomes.ranks, outcomes.owners, len(cases)).entries,
            values=outcomes.values,
            masses=outcomes.masses,
            period=np.array(cases.period()),
        )

    def __len__(self) -> int:
        return len(self.users)

    def curve(self, promise: str | Promise) -> RiskCurve:
        """Give what they lose as sets grow."""
        return find_promise(promise).curve(self.entries, self.owners, len(self))

    def place_of(self, user: int | None) -> int | None:
        """Give which calibration user this user of the data is, if any."""
        return None if user is None else self._places.get(user)

    def places_of(self, people: Sequence[Query]) -> NDArray[np.int64]:
        """Give the same for several people; −1 for whoever is none of them."""
        found = [self.place_of(query.user) for query in people]
        return np.array([-1 if place is None else place for place in found], dtype=np.int64)

    def without(self, place: int | None) -> CalibrationUsers:
        """Return the others, as if that calibration user had never been one; all for None."""
        if place is None:
            return self
        stays = np.arange(len(self)) != place
        kept = stays[self.owners]
        return CalibrationUsers(
            users=self.users[stays],
            n_before=self.n_before[stays],
            n_known=self.n_known[stays],
            entries=self.entries[kept],
            owners=(np.cumsum(stays) - 1)[self.owners[kept]],
            first_ranks=self.first_ranks[stays],
            values=self.values[stays],
            masses=self.masses[stays],
            period=self.period,
        )

    @cached_property
    def _places(self) -> dict[int, int]:
        return {int(user): place for place, user in enumerate(self.users) if user >= 0}

    @property
    def unknown_share(self) -> float:
        """Mean over calibration users of the share of their held-out items that no set holds."""
        return self.curve("miss-rate").unknown_loss

    def state(self) -> State:
        """Return all arrays by name."""
        return State.of(self)

    @classmethod
    def from_state(cls, state: State, n_users: int) -> CalibrationUsers:
        """Read it back; KeyError or ValueError if these are not its arrays.

        `n_users` is the number of users of the data.
        """
        n = check_arrays("a calibration", _SCHEMAS, state.arrays, n_users=n_users)["n_calibration"]
        found = cls(**state.arrays)
        every = np.array_equal(np.unique(found.owners), np.arange(n))
        if found.period[0] > found.period[1] or not every:
            raise ValueError("its calibration users are not whole")
        return found
