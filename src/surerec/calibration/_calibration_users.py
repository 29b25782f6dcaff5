"""What a model stores of its calibration users, and the thresholds of each segment."""

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

    from surerec.calibration._guarantee import GuaranteeKind
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
_NAMED: Final = 8  # segments in a message
_OF_KIND: Final = {None: "", True: "a history in the fit", False: "no history in the fit"}


@dataclass(frozen=True)
class CalibrationUsers:
    """The thresholds at which calibration users' held-out items enter sets.

    Attributes
    ----------
    users : array of int
        Code of each calibration user in the model's data; −1 for unknown users.
    n_before : array of int
        Number of interactions before the held-out ones.
    n_known : array of int
        Number of these items that other users consumed.
    entries, owners : array
        The threshold at which each held-out item enters the set, and its user.
    first_ranks : array of float
        The rank of each user's best-ranked held-out item.
    values, masses : array of float32
        For each user, the mean value of the k best items and their share of all scores, for k up
        to 100.
    period : array of int
        First and last time of the held-out interactions, in microseconds since 1970.
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
        cls, outcomes: Outcomes, entries: NDArray[np.float64], statistics: PrecedenceStatistics
    ) -> CalibrationUsers:
        """Build it from outcomes and entries; users get their codes in these statistics."""
        cases = outcomes.cases
        return cls(
            users=codes_in(statistics, cases.interactions)[0][cases.users],
            n_before=cases.n_known,
            n_known=outcomes.n_known,
            entries=entries,
            owners=outcomes.owners,
            first_ranks=RiskCurve.of_first(outcomes.ranks, outcomes.owners, len(cases)).entries,
            values=outcomes.values,
            masses=outcomes.masses,
            period=np.array(cases.period()),
        )

    def __len__(self) -> int:
        return len(self.users)

    def curve(self, guarantee: str | GuaranteeKind) -> RiskCurve:
        """Return the risk curve of the calibration users."""
        return find_guarantee(guarantee).curve(self.entries, self.owners, len(self))

    def place_of(self, user: int | None) -> int | None:
        """Return the place of a user among the calibration users; None if absent."""
        return None if user is None else self._places.get(user)

    def places_of(self, queries: Sequence[Query]) -> NDArray[np.int64]:
        """Return the places of several users; −1 if absent."""
        found = (-1 if query.user is None else query.user for query in queries)
        return np.array([self._places.get(user, -1) for user in found], dtype=np.int64)

    def without(self, place: int | None) -> CalibrationUsers:
        """Return the calibration users without one of them; all for None."""
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
        """Mean share, over calibration users, of held-out items that no set contains."""
        return self.curve("recall").unknown_loss

    def state(self) -> State:
        """Return all arrays by name."""
        return State.of(self)

    @classmethod
    def from_state(cls, state: State, n_users: int) -> CalibrationUsers:
        """Load it; raise KeyError or ValueError if an array is invalid.

        `n_users` is the number of users of the data.
        """
        n = check_arrays("a calibration", _SCHEMAS, state.arrays, n_users=n_users)["n_calibration"]
        found = cls(**state.arrays)
        every = np.array_equal(np.unique(found.owners), np.arange(n))
        if found.period[0] > found.period[1] or not every:
            raise ValueError("its calibration users are incomplete")
        return found


@dataclass(frozen=True, eq=False)
class NamedItems:
    """The items of a list, by code, and its name.

    Examples
    --------
    >>> NamedItems("in stock", np.array([1, 4]))
    Traceback (most recent call last):
    surerec.errors.InputError: 'in stock' is not a valid name of an item list. Use up to 100
    letters (a to z), digits, '.', '_' and '-', not only dots.
    """

    name: str
    codes: NDArray[np.int64]
    """Ascending, each once."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise InputError(
                f"{self.name!r} is not a valid name of an item list. Use up to 100 letters (a to "
                "z), digits, '.', '_' and '-', not only dots."
            )

    def within(self, now: IdMap, then: IdMap) -> NamedItems:
        """Return the list with the codes of other data, without items unknown there."""
        codes = then.codes(now.ids.gather(self.codes))
        return NamedItems(self.name, np.unique(codes[codes >= 0]))

    def state(self) -> State:
        """Return the codes and the name."""
        return State({"codes": self.codes}, {"name": self.name})

    @classmethod
    def from_state(cls, state: State, n_items: int) -> NamedItems:
        """Load it; raise KeyError or ValueError if it is not a valid list."""
        n = check_arrays("an item list", _LIST_SCHEMAS, state.arrays, n_items=n_items)["n_listed"]
        found = cls(state.texts["name"], state.arrays["codes"])
        if state.texts.keys() != {"name"} or not n or not (np.diff(found.codes) > 0).all():
            raise ValueError("its item list is not sorted, or empty")
        return found


@dataclass(frozen=True)
class LengthSegments:
    """Segments by history length; ``edges[s]`` is the smallest length of segment s + 1.

    Examples
    --------
    >>> groups = LengthSegments.equal(np.array([5, 6, 7, 20, 30, 40]), 2)
    >>> groups.of(np.array([7, 8, 100])).tolist(), groups.describe(0), groups.describe(1)
    ([0, 0, 1], 'fewer than 20 known items', '20 or more known items')
    >>> LengthSegments.equal(np.array([9, 9, 9]), 3).n
    1
    """

    edges: NDArray[np.int64]

    @classmethod
    def equal(cls, lengths: NDArray[np.int64], n_groups: int) -> LengthSegments:
        """Split lengths into segments of about equal size; fewer if many lengths are equal."""
        if not lengths.size:
            return cls(np.empty(0, dtype=np.int64))
        n_groups = min(n_groups, len(lengths))  # more would be the same
        shares = np.arange(1, n_groups) / n_groups
        edges = np.unique(np.quantile(lengths, shares, method="higher"))
        # No segment is empty, as the first edge exceeds the smallest length.
        return cls(edges[edges > lengths.min()].astype(np.int64))

    @property
    def n(self) -> int:
        """Number of segments."""
        return len(self.edges) + 1

    def of(self, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the segment of each length."""
        return np.searchsorted(self.edges, lengths, side="right").astype(np.int64)

    def describe(self, group: int) -> str:
        """Return the lengths of a segment as text."""
        if self.n == 1:
            return "any number of known items"
        if group == 0:
            return f"fewer than {self.edges[0]:,} known items"
        if group == self.n - 1:
            return f"{self.edges[-1]:,} or more known items"
        return f"{self.edges[group - 1]:,} to {self.edges[group] - 1:,} known items"


class UserSegments:
    """Segments of users by a column, within each by history length, and by the fit (Mondrian).

    Each segment has its own risk curve.

    Parameters
    ----------
    calibration : CalibrationUsers
        The calibration users.
    guarantee : GuaranteeKind
        Defines a user's loss.
    n_groups : int
        Number of segments by history length.
    segmentation : Segmentation or None
        The segments by column.
    calibrates : array of bool
        The users who calibrate thresholds; the others learned them.
    in_fit : array of bool or None
        Whether each user was in the fit, by code, if users of the fit and new users are segments.

    Attributes
    ----------
    words, members : list
        Each segment as text, and a mask of its calibration users. The first segments are for users
        with an unknown value of the column, and hold all who calibrate.
    stated : range
        The segments that have a guarantee.
    """

    def __init__(
        self,
        calibration: CalibrationUsers,
        guarantee: GuaranteeKind,
        n_groups: int,
        segmentation: Segmentation | None,
        calibrates: NDArray[np.bool_],
        in_fit: NDArray[np.bool_] | None = None,
    ) -> None:
        self._calibration, self._guarantee, self.segmentation = calibration, guarantee, segmentation
        self.words: list[str] = []
        self.members: list[NDArray[np.bool_]] = []
        self._lengths: dict[tuple[str | None, bool | None], tuple[int, LengthSegments]] = {}
        self._in_fit = in_fit
        self._add(None, calibrates, n_groups)
        n_unknown = len(self.words)
        if segmentation is not None:
            codes = np.where(calibration.users >= 0, segmentation.codes[calibration.users], -1)
            for code, name in enumerate(segmentation.names):
                self._add(name, calibrates & (codes == code), n_groups)
        self.stated = range(0 if segmentation is None else n_unknown, len(self.words))

    def _add(self, label: str | None, some: NDArray[np.bool_], n_groups: int) -> None:
        n_known, users = self._calibration.n_known, self._calibration.users
        column = "" if self.segmentation is None else self.segmentation.column
        value = "" if label is None else f"{column} {label!r}"
        kinds: dict[bool | None, NDArray[np.bool_]] = {None: some}
        if self._in_fit is not None:
            there = (users >= 0) & self._in_fit[users]
            kinds = {True: some & there, False: some & ~there}
        for kind, chosen in kinds.items():
            lengths = LengthSegments.equal(n_known[chosen], n_groups)
            self._lengths[label, kind] = len(self.words), lengths
            of = lengths.of(n_known)
            for group in range(lengths.n):
                known = lengths.describe(group) if lengths.n > 1 else ""
                self.words.append(" and ".join(filter(None, (_OF_KIND[kind], value, known))))
                self.members.append(chosen & (of == group))

    def of(self, query: Query) -> int:
        """Return the segment of a user; one of all users if the value is unknown."""
        label, kind = self._label(query), None
        if self._in_fit is not None:
            kind = query.user is not None and bool(self._in_fit[query.user])
        known = (label, kind) in self._lengths
        first, lengths = self._lengths[label if known else None, kind]
        return first + int(np.searchsorted(lengths.edges, len(query.history), side="right"))

    def gap(self, query: Query) -> str:
        """Return why no segment covers a user; empty if one does."""
        if self.segmentation is None:
            return ""
        label, column = self._label(query), self.segmentation.column
        if label is None:
            return f"the {column} of this user is unknown, and each {column} has its own thresholds"
        names = self.segmentation.names
        if label in names:
            return ""
        few = ", ".join(repr(name) for name in names[:_NAMED])
        others = f" and {len(names) - _NAMED:,} others" if len(names) > _NAMED else ""
        return f"no calibration user has {column} {label!r}, only {few}{others}"

    def _label(self, query: Query) -> str | None:
        if query.segment is not None or self.segmentation is None or query.user is None:
            return query.segment
        return self.segmentation.label(query.user)

    @cached_property
    def _curves(self) -> list[RiskCurve]:
        whole = self._calibration.curve(self._guarantee)
        return [whole.of_owners(some) for some in self.members]

    @cached_property
    def _places(self) -> list[NDArray[np.int64]]:
        """Each calibration user's place in each curve, or −1; the last is for other users."""
        return [np.append(np.where(some, np.cumsum(some) - 1, -1), -1) for some in self.members]

    def curve_of(self, query: Query) -> tuple[RiskCurve, int | None, str]:
        """Return the risk curve of a user's segment, their place in it, and the segment's text."""
        segment, place = self.of(query), self._calibration.place_of(query.user)
        own = int(self._places[segment][-1 if place is None else place])
        return self._curves[segment], None if own < 0 else own, self.words[segment]

    def most(self, significance: float, n_items: int) -> int:
        """Return the largest number of ranks in a set at ε, whichever user is left out."""
        ranks = np.arange(1.0, n_items + 1)
        sums = [
            (curve.levels(ranks) * (curve.n_users + 1), curve.n_users) for curve in self._curves
        ]
        return max(int(np.count_nonzero(left > significance * n)) for left, n in sums)

    def levels(
        self, queries: Sequence[Query], owners: NDArray[np.int64], entries: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the ε below which items of several users are in their sets.

        Parameters
        ----------
        queries : sequence of Query
            The users.
        owners : array of int
            The user of each entry, ascending.
        entries : array of float
            The thresholds at which the items enter.
        """
        levels, places = np.empty(len(entries)), self._calibration.places_of(queries)
        segments = np.array([self.of(query) for query in queries], dtype=np.int64)
        for segment in np.unique(segments):
            own = self._places[segment][places]
            rows = np.flatnonzero(segments[owners] == segment)
            levels[rows] = self._curves[segment].levels(entries[rows], without=own[owners[rows]])
        return levels
