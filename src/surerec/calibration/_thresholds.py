"""From calibration users to the levels of items, in one group of people or in several."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from surerec.calibration._groups import LengthGroups

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from surerec.calibration._labels import Labels
    from surerec.calibration._promises import Promise
    from surerec.calibration._stored import CalibrationUsers
    from surerec.conformal import RiskCurve
    from surerec.measures import Query


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


class _Group:
    """The calibration users of one group of people, apart by the number of known items."""

    def __init__(
        self, calibration: CalibrationUsers, whole: RiskCurve, members: NDArray[np.bool_], n: int
    ) -> None:
        self._lengths = LengthGroups.equal(calibration.n_known[members], n)
        of = self._lengths.of(calibration.n_known)
        apart = [members & (of == group) for group in range(self._lengths.n)]
        self._curves = [whole.of_owners(some) for some in apart]
        self._places = [np.where(some, np.cumsum(some) - 1, -1) for some in apart]

    def of(self, place: int | None, n_known: int, words: str) -> Threshold:
        """Give the threshold of a person, who may be the calibration user at a place."""
        group = int(self._lengths.of(np.array([n_known]))[0])
        own = -1 if place is None else int(self._places[group][place])
        known = self._lengths.in_words(group) if self._lengths.n > 1 else ""
        said = " and ".join(filter(None, (words, known)))
        return Threshold(self._curves[group], None if own < 0 else own, said)

    def of_many(
        self, places: NDArray[np.int64], n_known: NDArray[np.int64]
    ) -> Iterator[tuple[RiskCurve, NDArray[np.intp], NDArray[np.int64]]]:
        """Give each curve, which of several people it serves, and who of its users they are.

        Places and users are −1 for somebody who did not calibrate.
        """
        of = self._lengths.of(n_known)
        for group, curve in enumerate(self._curves):
            served = np.flatnonzero(of == group)
            own, at = np.full(len(served), -1), places[served]
            own[at >= 0] = self._places[group][at[at >= 0]]
            yield curve, served, own


class Thresholds:
    """A risk curve for each group of people (Mondrian).

    Parameters
    ----------
    calibration : CalibrationUsers
        Where calibration users' futures had been ranked.
    promise : Promise
        What they lose as sets grow.
    n_groups : int
        How many groups by the number of known items.
    labels : Labels
        Groups by a column of people's own, each of which is then apart by the number of items.
    """

    def __init__(
        self, calibration: CalibrationUsers, promise: Promise, n_groups: int, labels: Labels
    ) -> None:
        self._calibration = calibration
        self._labels = labels
        whole, everybody = calibration.curve(promise), np.ones(len(calibration), dtype=bool)
        self._everybody = _Group(calibration, whole, everybody, n_groups)
        self._groups = {
            name: _Group(calibration, whole, members, n_groups)
            for name, members in labels.members(calibration.users).items()
        }

    def of(self, query: Query) -> Threshold:
        """Give the threshold of a person; that of everybody if their group is not known."""
        place, n_known = self._calibration.place_of(query.user), len(query.history)
        label = self._labels.of(query)
        group = self._everybody if label is None else self._groups[label]
        return group.of(place, n_known, self._labels.in_words(label))

    def by_rank(
        self, people: Sequence[Query], lengths: Sequence[int]
    ) -> Iterator[NDArray[np.float64]]:
        """Give for each person the ε below which so many of the best items are in the set."""
        for query, n in zip(people, lengths, strict=True):
            found = self.of(query)
            yield found.curve.levels_of_ranks(n, without=found.own_place)

    def levels(
        self, people: Sequence[Query], owners: NDArray[np.int64], entries: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Give the ε below which items of several people are in their sets.

        Parameters
        ----------
        people : sequence of Query
            Whom it is about.
        owners : array of int
            Which of them each entry is about, in ascending order.
        entries : array of float
            The cuts at which the items enter.
        """
        levels, own = np.empty(len(entries)), np.empty(len(people), dtype=np.int64)
        places = self._calibration.places_of(people)
        n_known = np.array([len(query.history) for query in people], dtype=np.int64)
        labels = np.array([self._labels.of(query) for query in people], dtype=object)
        for label in set(labels.tolist()):
            group = self._everybody if label is None else self._groups[label]
            members = np.flatnonzero(labels == label)
            for curve, some, users in group.of_many(places[members], n_known[members]):
                served = np.zeros(len(people), dtype=bool)
                served[members[some]] = True
                own[members[some]] = users
                rows = np.flatnonzero(served[owners])
                levels[rows] = curve.levels_of_many(entries[rows], own[owners[rows]])
        return levels
