"""What is kept of calibration users, and the thresholds that they give each segment of users."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from surerec._state import ArraySchema, State, check_arrays
from surerec.calibration._guarantee import find_guarantee
from surerec.calibration._held_out import codes_in
from surerec.calibration._ranking import LIST_MOST
from surerec.conformal import RiskCurve
from surerec.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from surerec.calibration._guarantee import GuaranteeKind, ThresholdUnit
    from surerec.calibration._ranking import Outcomes
    from surerec.interactions import IdMap, Segmentation
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
_NAME: Final = re.compile(r"(?!\.+$)[A-Za-z0-9._-]{1,100}")
_LIST_SCHEMAS: Final = {"codes": ArraySchema("int64", ("n_listed",), low=0, below="n_items")}
_NAMED: Final = 8  # of the segments


@dataclass(frozen=True)
class CalibrationUsers:
    """Calibration users' futures as they entered sets of growing size.

    Attributes
    ----------
    users : array of int
        Each calibration user's code in the model's data; −1 for a user it does not know.
    n_before : array of int
        How many of their interactions came before the held-out ones.
    n_known : array of int
        How many of these items others consumed.
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
    def of(
        cls, outcomes: Outcomes, threshold: ThresholdUnit, statistics: PrecedenceStatistics
    ) -> CalibrationUsers:
        """Build it from outcomes; users by their code in these statistics."""
        cases = outcomes.cases
        return cls(
            users=codes_in(statistics, cases.interactions)[0][cases.users],
            n_before=cases.n_known,
            n_known=outcomes.n_known,
            entries=outcomes.entries(threshold),
            owners=outcomes.owners,
            first_ranks=RiskCurve.of_first(outcomes.ranks, outcomes.owners, len(cases)).entries,
            values=outcomes.values,
            masses=outcomes.masses,
            period=np.array(cases.period()),
        )

    def __len__(self) -> int:
        return len(self.users)

    def curve(self, guarantee: str | GuaranteeKind) -> RiskCurve:
        """Return what they lose as sets grow."""
        return find_guarantee(guarantee).curve(self.entries, self.owners, len(self))

    def place_of(self, user: int | None) -> int | None:
        """Return which calibration user this user of the data is, if any."""
        return None if user is None else self._places.get(user)

    def places_of(self, people: Sequence[Query]) -> NDArray[np.int64]:
        """Return the same for several users; −1 for whoever is none of them."""
        found = [-1 if query.user is None else self._places.get(query.user, -1) for query in people]
        return np.array(found, dtype=np.int64)

    def without(self, place: int | None) -> CalibrationUsers:
        """Return the others, as if that calibration user had never been one; all for None."""
        if place is None:
            return self
        stays = np.arange(len(self)) != place
        kept = stays[self.owners]
        by_user = ("users", "n_before", "n_known", "first_ranks", "values", "masses")
        return replace(
            self,
            entries=self.entries[kept],
            owners=(np.cumsum(stays) - 1)[self.owners[kept]],
            **{name: getattr(self, name)[stays] for name in by_user},
        )

    @cached_property
    def _places(self) -> dict[int, int]:
        return {int(user): place for place, user in enumerate(self.users) if user >= 0}

    @property
    def unknown_share(self) -> float:
        """Mean over calibration users of the share of their held-out items that no set holds."""
        return self.curve("recall").unknown_loss

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


@dataclass(frozen=True, eq=False)
class NamedItems:
    """The items of a list, by code, and its name.

    Examples
    --------
    >>> NamedItems("in stock", np.array([1, 4]))
    Traceback (most recent call last):
    surerec.errors.InputError: 'in stock' cannot name a list; use up to 100 letters (a to z),
    digits, '.', '_' and '-', not dots alone.
    """

    name: str
    codes: NDArray[np.int64]
    """Ascending, each once."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise InputError(
                f"{self.name!r} cannot name a list; use up to 100 letters (a to z), digits, '.', "
                "'_' and '-', not dots alone."
            )

    def within(self, now: IdMap, then: IdMap) -> NamedItems:
        """Return the same list by the codes of other data, without what they do not know."""
        codes = then.codes(now.ids.gather(self.codes))
        return NamedItems(self.name, np.unique(codes[codes >= 0]))

    def state(self) -> State:
        """Return the codes and the name."""
        return State({"codes": self.codes}, {"name": self.name})

    @classmethod
    def from_state(cls, state: State, n_items: int) -> NamedItems:
        """Read it back; KeyError or ValueError if it is no such list."""
        n = check_arrays("an item list", _LIST_SCHEMAS, state.arrays, n_items=n_items)["n_listed"]
        found = cls(state.texts["name"], state.arrays["codes"])
        if state.texts.keys() != {"name"} or not n or not (np.diff(found.codes) > 0).all():
            raise ValueError("its item list is not sorted, or empty")
        return found


@dataclass(frozen=True)
class LengthSegments:
    """Groups by the number of known items; ``edges[g]`` is the smallest of group g + 1.

    Examples
    --------
    >>> groups = LengthSegments.equal(np.array([5, 6, 7, 20, 30, 40]), 2)
    >>> groups.of(np.array([7, 8, 100])).tolist(), groups.in_words(0), groups.in_words(1)
    ([0, 0, 1], 'fewer than 20 known items', '20 or more known items')
    >>> LengthSegments.equal(np.array([9, 9, 9]), 3).n
    1
    """

    edges: NDArray[np.int64]

    @classmethod
    def equal(cls, lengths: NDArray[np.int64], n_groups: int) -> LengthSegments:
        """Cut the lengths into groups of about equal size; fewer where many are alike."""
        if not lengths.size:
            return cls(np.empty(0, dtype=np.int64))
        n_groups = min(n_groups, len(lengths))  # more would be the same
        shares = np.arange(1, n_groups) / n_groups
        edges = np.unique(np.quantile(lengths, shares, method="higher"))
        # No group without users: the first edge lies above somebody.
        return cls(edges[edges > lengths.min()].astype(np.int64))

    @property
    def n(self) -> int:
        """How many groups there are."""
        return len(self.edges) + 1

    def of(self, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the group of each length."""
        return np.searchsorted(self.edges, lengths, side="right").astype(np.int64)

    def in_words(self, group: int) -> str:
        """Return who is in a group, in words."""
        if self.n == 1:
            return "any number of known items"
        if group == 0:
            return f"fewer than {self.edges[0]:,} known items"
        if group == self.n - 1:
            return f"{self.edges[-1]:,} or more known items"
        return f"{self.edges[group - 1]:,} to {self.edges[group] - 1:,} known items"


class UserSegments:
    """Users by a column of their own, and each of these by the number of known items (Mondrian).

    Each segment has a risk curve of its own.

    Parameters
    ----------
    calibration : CalibrationUsers
        Who calibrates.
    guarantee : Promise
        What they lose as sets grow.
    n_groups : int
        How many groups by the number of known items.
    people : Segmentation or None
        The column.

    Attributes
    ----------
    words, members : list
        Each segment in words, and which of the calibration users are in it. First come those of
        users whose value of the column is not known, who are compared with everybody.
    stated : range
        The segments that a guarantee is about.
    """

    def __init__(
        self,
        calibration: CalibrationUsers,
        guarantee: GuaranteeKind,
        n_groups: int,
        people: Segmentation | None,
    ) -> None:
        self._calibration, self._promise, self.people = calibration, guarantee, people
        self.words: list[str] = []
        self.members: list[NDArray[np.bool_]] = []
        self._lengths: dict[str | None, tuple[int, LengthSegments]] = {}
        n_known = calibration.n_known
        self._add(None, np.ones(len(calibration), dtype=bool), n_known, n_groups)
        n_everybody = len(self.words)
        if people is not None:
            codes = np.where(calibration.users >= 0, people.codes[calibration.users], -1)
            for code, name in enumerate(people.names):
                self._add(name, codes == code, n_known, n_groups)
        self.stated = range(0 if people is None else n_everybody, len(self.words))

    def _add(
        self, label: str | None, some: NDArray[np.bool_], n_known: NDArray[np.int64], n_groups: int
    ) -> None:
        lengths = LengthSegments.equal(n_known[some], n_groups)
        self._lengths[label] = len(self.words), lengths
        value = "" if self.people is None or label is None else f"{self.people.column} {label!r}"
        of = lengths.of(n_known)
        for group in range(lengths.n):
            known = lengths.in_words(group) if lengths.n > 1 else ""
            self.words.append(" and ".join(filter(None, (value, known))))
            self.members.append(some & (of == group))

    def of(self, query: Query) -> int:
        """Return the segment of a user; one of everybody's if their value is not known."""
        label = self._label(query)
        first, lengths = self._lengths[label if label in self._lengths else None]
        return first + int(np.searchsorted(lengths.edges, len(query.history), side="right"))

    def gap(self, query: Query) -> str:
        """Return why no segment covers a user; empty if one does."""
        if self.people is None:
            return ""
        label, column = self._label(query), self.people.column
        if label is None:
            return (
                f"the {column} of this user is not known, and each {column} is calibrated by itself"
            )
        if label in self._lengths:
            return ""
        names = self.people.names
        few = ", ".join(repr(name) for name in names[:_NAMED])
        others = f" and {len(names) - _NAMED:,} others" if len(names) > _NAMED else ""
        return f"nobody of {column} {label!r} calibrated; {few}{others} did"

    def _label(self, query: Query) -> str | None:
        if query.segment is not None or self.people is None or query.user is None:
            return query.segment
        return self.people.label(query.user)

    @cached_property
    def _curves(self) -> list[RiskCurve]:
        whole = self._calibration.curve(self._promise)
        return [whole.of_owners(some) for some in self.members]

    @cached_property
    def _places(self) -> list[NDArray[np.int64]]:
        """Each calibration user's place in each curve, or −1; at last that of everybody else."""
        return [np.append(np.where(some, np.cumsum(some) - 1, -1), -1) for some in self.members]

    def curve_of(self, query: Query) -> tuple[RiskCurve, int | None, str]:
        """Return the risk curve of a user's segment, their own place in it, and its words."""
        segment, place = self.of(query), self._calibration.place_of(query.user)
        own = int(self._places[segment][-1 if place is None else place])
        return self._curves[segment], None if own < 0 else own, self.words[segment]

    def most(self, significance: float, n_items: int) -> int:
        """Return how many ranks are in a set at ε at the most, whoever is left out."""
        ranks = np.arange(1.0, n_items + 1)
        sums = [
            (curve.levels(ranks) * (curve.n_users + 1), curve.n_users) for curve in self._curves
        ]
        return max(int(np.count_nonzero(left > significance * n)) for left, n in sums)

    def levels(
        self, people: Sequence[Query], owners: NDArray[np.int64], entries: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the ε below which items of several users are in their sets.

        Parameters
        ----------
        people : sequence of Query
            Whom it is about.
        owners : array of int
            Which of them each entry is about, in ascending order.
        entries : array of float
            The cuts at which the items enter.
        """
        levels, places = np.empty(len(entries)), self._calibration.places_of(people)
        segments = np.array([self.of(query) for query in people], dtype=np.int64)
        for segment in np.unique(segments):
            own = self._places[segment][places]
            rows = np.flatnonzero(segments[owners] == segment)
            levels[rows] = self._curves[segment].levels(entries[rows], without=own[owners[rows]])
        return levels
