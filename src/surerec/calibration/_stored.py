"""What is kept of calibration users: enough for any ε, asked for later."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from surerec.calibration.promises import find_promise
from surerec.conformal import RiskCurve
from surerec.futures import LIST_MOST, codes_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from surerec.calibration.promises import Cut, Promise
    from surerec.futures import Outcomes
    from surerec.measures import Query
    from surerec.precedence import PrecedenceStatistics

_TYPES: Final = {
    "users": np.int64,
    "n_before": np.int64,
    "n_known": np.int64,
    "entries": np.float64,
    "owners": np.int64,
    "first_ranks": np.float64,
    "values": np.float32,
    "masses": np.float32,
    "period": np.int64,
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

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> CalibrationUsers:
        """Read it back; KeyError or ValueError if these are not the arrays of a calibration."""
        found = cls(**{name: arrays[name] for name in cls.__dataclass_fields__})
        if len(arrays) != len(cls.__dataclass_fields__) or any(
            arrays[name].dtype != kind or not arrays[name].ndim for name, kind in _TYPES.items()
        ):
            raise ValueError("they are not those of a calibration")
        n = len(found.users)
        if (
            found.users.shape != (n,)
            or found.users.min(initial=0) < -1
            or min(found.n_known.min(initial=0), found.n_before.min(initial=0)) < 0
            or not found.n_known.shape == found.n_before.shape == (n,)
            or found.first_ranks.shape != (n,)
            or {found.values.shape, found.masses.shape} != {(n, LIST_MOST)}
            or found.period.shape != (2,)
            or found.period[0] > found.period[1]
            or not found.entries.shape == found.owners.shape == (len(found.owners),)
            or found.owners.min(initial=0) < 0
            or not np.array_equal(np.unique(found.owners), np.arange(n))
            or np.isnan(found.entries).any()
            or np.isnan(found.first_ranks).any()
            or not (np.isfinite(found.values).all() and np.isfinite(found.masses).all())
        ):
            raise ValueError("they are not those of a calibration")
        return found

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Give all arrays by name, for a model folder."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}
