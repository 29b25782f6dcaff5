"""Interactions that grow by single events; the base is never copied or changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl

from surerec._arguments import check_code, check_list
from surerec._words import shown
from surerec.errors import InputError
from surerec.interactions._ids import IdMap
from surerec.interactions._interactions import Interactions, RowsRead
from surerec.interactions._profiles import popular_first

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

_NO_ITEMS, _NO_TIMES = np.empty(0, dtype=np.uint32), np.empty(0, dtype=np.int64)
for _array in (_NO_ITEMS, _NO_TIMES):
    _array.flags.writeable = False


class GrowingIds(IdMap):
    """Ids that can grow: new ids get the next codes, and no code ever changes.

    Parameters
    ----------
    base : IdMap
        The initial ids.

    Examples
    --------
    >>> ids = GrowingIds(IdMap(pl.Series([196, 22]), noun="user"))
    >>> ids.add(7), ids.add("22"), len(ids), ids[2]
    (2, 1, 3, 7)
    >>> ids.remove(1)
    >>> ids.codes([7, 22]).tolist()
    [2, -1]
    """

    def __init__(self, base: IdMap) -> None:
        self._base = base
        self.noun = base.noun
        self._codes: dict[Any, int] = {}
        self._more: list[Any] = []
        self._removed: set[int] = set()
        self._all = base.ids
        self._found: dict[str, int] = {}  # codes in the base of earlier lookups of texts

    @property
    def ids(self) -> pl.Series:  # type: ignore[override]  # built on demand
        """All ids, that with code ``c`` at position ``c``; removed ids keep their positions."""
        if len(self._all) < len(self):
            more = pl.Series(self._base.ids.name, self._more, dtype=self._base.ids.dtype)
            self._all = pl.concat([self._base.ids, more], rechunk=False)
        return self._all

    def __len__(self) -> int:
        return len(self._base) + len(self._more)

    def __getitem__(self, code: int) -> Any:
        place = int(code) - len(self._base)
        return self._base[code] if place < 0 else self._more[place]

    def codes(self, values: Iterable[Any]) -> NDArray[np.int64]:
        """Return the code of each id, −1 where it is unknown or removed."""
        given = check_list(f"{self.noun}s", values, "ids")
        found = self._base.codes(given)
        for place in np.flatnonzero(found < 0) if self._more else ():
            found[place] = self._codes.get(self._base.as_stored(given[place]), -1)
        if self._removed:
            found[np.isin(found, list(self._removed))] = -1
        return found

    def code(self, value: Any) -> int:
        """Return the code of an id; see :meth:`IdMap.code`."""
        found = self.find(value)
        return int(self.require([value])[0]) if found < 0 else found

    def find(self, value: Any) -> int:
        """Return the code of one id, −1 if it is unknown or removed; fast, for single events."""
        code = self._code_in_base(value)
        if code < 0 and self._more:
            code = self._codes.get(self._base.as_stored(value), -1)
        return -1 if code in self._removed else code

    def _code_in_base(self, value: Any) -> int:
        if type(value) is not str:  # as a dictionary key True would equal 1
            return int(self._base.codes([value])[0])
        code = self._found.get(value)
        if code is None:
            code = int(self._base.codes([value])[0])
            if code >= 0:
                self._found[value] = code
        return code

    def check(self, value: Any) -> Any:
        """Return an id as it would be stored.

        Raises
        ------
        InputError
            If the ids are integers and this one is not, or if it is not a valid text.
        """
        stored = None if value is None else self._base.as_stored(value)
        if stored is None or stored == "":
            kind = "text" if self._base.ids.dtype == pl.String else "integers"
            raise InputError(
                f"The {self.noun} {shown(value)} is not a valid id. {self.noun.capitalize()} ids "
                f"of this model are {kind}."
            )
        return stored

    def add(self, value: Any) -> int:
        """Return the code of an id; a new id gets the next code. See :meth:`check`."""
        code = self._code_in_base(value)
        if code < 0:
            stored = self.check(value)
            code = self._codes.setdefault(stored, len(self))
            if code == len(self):
                self._more.append(stored)
        self._removed.discard(code)
        return code

    def remove(self, code: int) -> None:
        """Remove an id until it is added again."""
        self._removed.add(check_code(self.noun, code, len(self)))

    def suggested(self, n: int) -> pl.Series:
        """Return the first ids that are not removed, for messages."""
        first = self.ids.head(n + len(self._removed))
        there = np.array([self.is_there(code) for code in range(len(first))], dtype=bool)
        return first.filter(pl.Series(there)).head(n)

    def is_there(self, code: int) -> bool:
        """Return whether an id code is not removed."""
        return code not in self._removed


class Placed(NamedTuple):
    """Position of an item in a profile, with the other items and their times."""

    user: int
    item: int
    items: NDArray[np.uint32]
    """Codes of the other items in time order."""
    times: NDArray[np.int64]
    place: int
    """Number of other items before it."""
    time: int


class GrowingInteractions(Interactions):
    """Interactions that grow by events; codes never change, and new users and items get new codes.

    The profiles equal those of :func:`surerec.read_interactions` on all events in order of arrival:
    sorted by time, ties in order of arrival, and only the first interaction with each item.

    Parameters
    ----------
    base : Interactions
        The initial interactions, which are not changed.

    Examples
    --------
    >>> log = Interactions.from_profiles([0, 2, 3], [1, 0, 1], times=[10, 30, 20])
    >>> growing = GrowingInteractions(log)
    >>> growing.insert(1, 1, 15).place
    0
    >>> growing.profile(1)["item_id"].to_list(), growing.n_rows
    ([0, 1], 4)
    """

    def __init__(self, base: Interactions) -> None:
        self.base = base
        self.users = GrowingIds(base.users)
        self.items = GrowingIds(base.items)
        self.name = base.name
        self.origin = base.origin
        self.rows_read = RowsRead(rows=base.n_rows)
        self._changed: dict[int, tuple[NDArray[np.uint32], NDArray[np.int64]]] = {}
        self._n_rows = base.n_rows
        self._flat: Interactions | None = None
        self._titles = base.titles
        self._genres = base.genres

    users: GrowingIds
    items: GrowingIds

    @property
    def n_rows(self) -> int:
        """Number of interactions."""
        return self._n_rows

    def consumed(self, user: int) -> NDArray[np.uint32]:
        """Return the item codes of a user's history, by user code, in time order."""
        return self._profile(check_code("user", user, self.n_users))[0]

    def times_of(self, user: int) -> NDArray[np.int64]:
        """Return the times of a user's history, by user code."""
        return self._profile(check_code("user", user, self.n_users))[1]

    def _profile(self, user: int) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        found = self._changed.get(user)
        if found is not None:
            return found
        if user < self.base.n_users:
            return self.base.consumed(user), self.base.times_of(user)
        return _NO_ITEMS, _NO_TIMES

    def insert(self, user: int, item: int, time: int) -> Placed | None:
        """Insert an interaction, by codes; return None if the user has consumed the item before.

        To move an item to an earlier time, remove it first.
        """
        items, times = self._profile(user)
        if (items == item).any():
            return None
        place = int(np.searchsorted(times, time, side="right"))  # ties in order of arrival
        self._keep(user, np.insert(items, place, item), np.insert(times, place, time))
        self._n_rows += 1
        return Placed(user, item, items, times, place, time)

    def remove(self, user: int, item: int) -> Placed:
        """Remove an item from the profile of a user who consumed it, by codes."""
        placed = self.placed(user, item)
        self._keep(user, placed.items, placed.times)
        self._n_rows -= 1
        return placed

    def placed(self, user: int, item: int) -> Placed:
        """Return the position of an item in the profile of a user who consumed it, by codes."""
        items, times = self._profile(user)
        place = int(np.flatnonzero(items == item)[0])
        rest = np.delete(items, place), np.delete(times, place)
        return Placed(user, item, *rest, place, int(times[place]))

    def forget(self, user: int) -> None:
        """Remove a user, by code: both the profile and the id."""
        self._n_rows -= len(self._profile(user)[0])
        self._keep(user, _NO_ITEMS, _NO_TIMES)
        self.users.remove(user)

    def _keep(self, user: int, items: NDArray[np.uint32], times: NDArray[np.int64]) -> None:
        self._changed[user] = items, times
        self._flat = None

    def _flattened(self) -> Interactions:
        """Return all profiles under the same codes; expensive, so cached until the next change."""
        if self._flat is None:
            profiles = [self._profile(user) for user in range(self.n_users)]
            lengths = [len(items) for items, _ in profiles]
            self._flat = Interactions(
                IdMap(self.users.ids, noun=self.users.noun),
                IdMap(self.items.ids, noun=self.items.noun),
                np.concatenate(([0], np.cumsum(lengths))).astype(np.int64),
                np.concatenate([_NO_ITEMS, *(items for items, _ in profiles)]),
                np.concatenate([_NO_TIMES, *(times for _, times in profiles)]),
                name=self.name,
                origin=self.origin,
            )
            self._flat.titles = self.titles
            self._flat.genres = self.genres
        return self._flat

    @property
    def offsets(self) -> NDArray[np.int64]:  # type: ignore[override]  # built on demand
        """Start of each profile."""
        return self._flattened().offsets

    @property
    def item_codes(self) -> NDArray[np.uint32]:  # type: ignore[override]
        """Item codes of all profiles, concatenated."""
        return self._flattened().item_codes

    @property
    def times(self) -> NDArray[np.int64]:  # type: ignore[override]
        """Times in microseconds since 1970."""
        return self._flattened().times

    @property
    def titles(self) -> pl.Series | None:  # type: ignore[override]
        """Title of each item by code, null where unknown."""
        self._titles = _lengthened(self._titles, self.n_items)
        return self._titles

    @property
    def genres(self) -> pl.Series | None:  # type: ignore[override]
        """Genres of each item by code, null where unknown."""
        self._genres = _lengthened(self._genres, self.n_items)
        return self._genres

    def keeping(self, rows: NDArray[np.bool_]) -> Interactions:
        """Return some of the rows, under the same codes."""
        return self._flattened().keeping(rows)

    def settled(self) -> Interactions:
        """Return the current state as plain interactions, with items numbered by popularity.

        Removed users and items without any interaction are left out.
        """
        flat = self._flattened()
        there = np.array([self.users.is_there(code) for code in range(self.n_users)], dtype=bool)
        consumed, kept = popular_first(flat.item_codes, self.n_items)
        offsets = np.concatenate((flat.offsets[:-1][there], flat.offsets[-1:]))
        settled = Interactions(
            IdMap(flat.users.ids.gather(np.flatnonzero(there)).rechunk(), noun=self.users.noun),
            IdMap(flat.items.ids.gather(kept).rechunk(), noun=self.items.noun),
            offsets,
            consumed,
            flat.times,
            name=self.name,
            origin=self.origin,
        )
        settled.titles = None if flat.titles is None else flat.titles.gather(kept).rechunk()
        settled.genres = None if flat.genres is None else flat.genres.gather(kept).rechunk()
        return settled


def _lengthened(texts: pl.Series | None, n_items: int) -> pl.Series | None:
    """Return texts padded with nulls for new items."""
    if texts is None or len(texts) == n_items:
        return texts
    lacking = pl.Series([None] * (n_items - len(texts)), dtype=pl.String)
    return pl.concat([texts, lacking], rechunk=False)
