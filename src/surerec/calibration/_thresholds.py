"""From calibration users to the levels of items, in one group of people or in several."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from surerec.calibration._promises import Promise
    from surerec.calibration._stored import CalibrationUsers
    from surerec.conformal import RiskCurve
    from surerec.interactions import UserGroups
    from surerec.measures import Query


_NAMED: Final = 8  # of the groups


@dataclass(frozen=True)
class Labels:
    """The groups by a column of people's own; None where there are none.

    Examples
    --------
    >>> from surerec.measures import Query
    >>> Labels(None).members(np.array([3, 5])), Labels(None).gap(Query(np.array([1])))
    ({}, '')
    """

    people: UserGroups | None

    def members(self, users: NDArray[np.int64]) -> dict[str, NDArray[np.bool_]]:
        """Give for each group which of some users are in it; users by code, −1 for nobody."""
        if self.people is None:
            return {}
        codes = np.where(users >= 0, self.people.codes[users], -1)
        return {name: codes == code for code, name in enumerate(self.people.names)}

    def of(self, query: Query) -> str | None:
        """Give the group of a person; None if it is not known, or nobody of it calibrated."""
        label = self._said(query)
        known = self.people is not None and self.people.code(label) is not None
        return label if known else None

    def in_words(self, label: str | None) -> str:
        """Say which people a group is, such as "country 'DE'"; empty for everybody."""
        return "" if self.people is None or label is None else f"{self.people.column} {label!r}"

    def gap(self, query: Query) -> str:
        """Say why no group promises a person anything; empty if one does."""
        if self.people is None:
            return ""
        label, column = self._said(query), self.people.column
        if label is None:
            return (
                f"the {column} of this user is not known, and each {column} is calibrated by itself"
            )
        if self.people.code(label) is None:
            return f"nobody of {column} {label!r} calibrated; {_listed(self.people.names)} did"
        return ""

    def _said(self, query: Query) -> str | None:
        if query.segment is not None or self.people is None or query.user is None:
            return query.segment
        return self.people.label(query.user)


def _listed(names: tuple[str, ...]) -> str:
    few = ", ".join(repr(name) for name in names[:_NAMED])
    return few if len(names) <= _NAMED else f"{few} and {len(names) - _NAMED:,} others"


@dataclass(frozen=True)
class LengthGroups:
    """Groups by the number of known items; ``edges[g]`` is the smallest of group g + 1.

    Examples
    --------
    >>> groups = LengthGroups.equal(np.array([5, 6, 7, 20, 30, 40]), 2)
    >>> groups.of(np.array([7, 8, 100])).tolist(), groups.in_words(0), groups.in_words(1)
    ([0, 0, 1], 'fewer than 20 known items', '20 or more known items')
    >>> LengthGroups.equal(np.array([9, 9, 9]), 3).n
    1
    """

    edges: NDArray[np.int64]

    @classmethod
    def equal(cls, lengths: NDArray[np.int64], n_groups: int) -> LengthGroups:
        """Cut the lengths into groups of about equal size; fewer where many are alike."""
        if not lengths.size:
            return cls(np.empty(0, dtype=np.int64))
        n_groups = min(n_groups, len(lengths))  # more would be the same
        shares = np.arange(1, n_groups) / n_groups
        edges = np.unique(np.quantile(lengths, shares, method="higher"))
        # No group without people: the first edge lies above somebody.
        return cls(edges[edges > lengths.min()].astype(np.int64))

    @property
    def n(self) -> int:
        """How many groups there are."""
        return len(self.edges) + 1

    def of(self, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        """Give the group of each length."""
        return np.searchsorted(self.edges, lengths, side="right").astype(np.int64)

    def in_words(self, group: int) -> str:
        """Say who is in a group."""
        if self.n == 1:
            return "any number of known items"
        if group == 0:
            return f"fewer than {self.edges[0]:,} known items"
        if group == self.n - 1:
            return f"{self.edges[-1]:,} or more known items"
        return f"{self.edges[group - 1]:,} to {self.edges[group] - 1:,} known items"


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
