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
    from surerec.calibration._stored import CalibrationUsers
    from surerec.calibration.promises import Promise
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
        levels = np.empty(len(entries))
        of_people = [self.of(query) for query in people]
        own = np.array([-1 if each.own_place is None else each.own_place for each in of_people])
        for curve in {id(each.curve): each.curve for each in of_people}.values():
            members = np.array([each.curve is curve for each in of_people])
            rows = np.flatnonzero(members[owners])
            levels[rows] = curve.levels_of_many(entries[rows], own[owners[rows]])
        return levels
