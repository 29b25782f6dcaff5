"""Interactions: users' histories (profiles) in time order."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from surerec._arguments import (
    check_code,
    check_codes,
    check_offsets,
    check_optional_text,
    check_whole,
    check_wholes,
)
from surerec._columns import Columns
from surerec._kernels import first_bad_profile
from surerec._memory import available_memory
from surerec._words import in_bytes, shown
from surerec.errors import InputError
from surerec.interactions._cells import whole_floats
from surerec.interactions._ids import IdMap
from surerec.interactions._profiles import popular_first
from surerec.interactions._titles import TitlesRead, read_titles, titles_by_code

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


_MOST_CODES = 2**32 - 2
_PER_ITEM = 40  # bytes of peak memory per item


def given_ids(name: str, ids: Any, n: int | None = None) -> pl.Series:
    """Return ids as a column of distinct integers or texts; by default 0 to n − 1."""
    if ids is None:
        return pl.Series(np.arange(n or 0))
    refused = InputError(f"{name} is {shown(ids)}; it must be a list of integers or of strings.")
    if isinstance(ids, (str, bytes)) or not hasattr(ids, "__len__"):
        raise refused
    try:
        column = ids if isinstance(ids, pl.Series) else pl.Series(np.asarray(ids))
        if column.dtype == pl.Object:  # a column of pandas
            column = pl.Series(list(ids), strict=True)
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
        raise refused from None
    column = whole_floats(column)
    if not (column.dtype.is_integer() or column.dtype == pl.String) or column.null_count():
        if len(column):
            raise refused
        column = pl.Series(np.arange(0))
    if n is not None and len(column) != n:
        raise InputError(f"{name} has {len(column):,} ids; pass {n:,}, one for each profile.")
    if column.n_unique() != len(column):
        raise InputError(f"{name} has duplicates; pass each id once.")
    return column


def check_profiles(
    offsets: NDArray[np.int64], items: Any, n_items: int | None
) -> NDArray[np.uint32]:
    """Return the item codes of profiles without repeats; `n_items=None` allows any code."""
    codes = check_wholes("items", items, 0, _MOST_CODES if n_items is None else n_items - 1)
    try:
        check_offsets(offsets, len(codes))
    except (ValueError, IndexError):
        raise InputError(
            f"offsets must ascend from 0 to the number of items, {len(codes):,}."
        ) from None
    n_codes = int(codes.max(initial=-1)) + 1 if n_items is None else n_items
    if _PER_ITEM * n_codes > available_memory():
        raise InputError(
            f"{n_codes:,} items need {in_bytes(_PER_ITEM * n_codes)}, more than the free memory. "
            "Number them from 0 without gaps."
        )
    consumed = codes.astype(np.uint32)
    repeat = first_bad_profile(offsets, consumed, n_codes)
    if repeat >= 0:
        raise InputError(f"Profile {repeat:,} repeats an item. Keep the first interaction only.")
    return consumed


def check_times(offsets: NDArray[np.int64], times: Any, n_rows: int) -> NDArray[np.int64]:
    """Return times, which must ascend within each profile."""
    found = check_wholes("times", times)
    if len(found) != n_rows:
        raise InputError(f"times has {len(found):,} values; pass {n_rows:,}, one for each item.")
    goes_back = found[1:] < found[:-1]
    inner = offsets[(offsets > 0) & (offsets < n_rows)]
    goes_back[inner - 1] = False  # from one profile to the next
    if goes_back.any():
        raise InputError(
            f"times decrease at position {int(np.argmax(goes_back)) + 1:,}. Sort each profile by "
            "time."
        )
    return found


@dataclass(frozen=True)
class RowsRead:
    """Number of rows of a source, and of those left out by reason."""

    rows: int = 0
    """Rows in the source without blank lines."""
    bad: int = 0
    """Rows dropped because a cell is invalid."""
    below_threshold: int = 0
    """Rows whose rating is not above the threshold."""
    repeats: int = 0
    """Rows of an item that the user had consumed before."""
    short_profiles: int = 0
    """Users left out because they consumed too few items."""

    @property
    def repeat_share(self) -> float:
        """Share of interactions with an item that the user had consumed before.

        Examples
        --------
        >>> RowsRead(rows=12, bad=2, repeats=4).repeat_share
        0.4
        """
        return self.repeats / max(self.rows - self.bad - self.below_threshold, 1)

    def about_repeats(self) -> str:
        """Return the share of repeats as text; repeats are outside every guarantee.

        Examples
        --------
        >>> print(RowsRead(rows=10, repeats=4).about_repeats())
        40% of the interactions are repeats: they count once, are not recommended, and no
        guarantee covers them
        """
        return (
            f"{self.repeat_share:.0%} of the interactions are repeats: they count once, are not "
            "recommended, and no guarantee covers them"
        )


class Interactions:
    """Interactions of users with items: one profile per user, in time order.

    Create them with :func:`surerec.read_interactions`, :func:`surerec.load_dataset` or
    :func:`surerec.datasets.synthetic`. Internally, users and items have codes ``0 … n − 1``, and
    items are numbered by popularity, which is fast. The user with code ``u`` consumed
    ``item_codes[offsets[u]:offsets[u + 1]]``, in that order: see :meth:`consumed`.

    Attributes
    ----------
    users, items : IdMap
        Ids and codes.
    offsets : array of int64, n_users + 1
        Start of each profile.
    item_codes : array of uint32
        Item codes of all profiles, concatenated; a profile has no repeated item.
    times : array of int64
        Times in microseconds since 1970.
    titles : polars.Series or None
        Title of each item by code, null where unknown.
    genres : polars.Series or None
        Genres of each item by code, such as ``"Comedy, Drama"``, null where unknown.
    name, origin : str or None
        Name and origin of the data.
    rows_read : RowsRead
        Numbers of rows that were read and left out.
    titles_read : TitlesRead or None
        Number of items with titles, if titles were read.

    Examples
    --------
    >>> import polars as pl
    >>> import surerec as sr
    >>> ratings = {"user": ["ann", "ann", "bob"], "item": [7, 9, 9], "time": [5, 3, 1]}
    >>> interactions = sr.read_interactions(pl.DataFrame(ratings))
    >>> interactions
    Interactions(2 users, 2 items, 3 rows)
    >>> interactions.profile("ann")["item_id"].to_list()
    [9, 7]
    """

    titles_read: TitlesRead | None = None

    def __init__(
        self,
        users: IdMap,
        items: IdMap,
        offsets: NDArray[np.int64],
        item_codes: NDArray[np.uint32],
        times: NDArray[np.int64],
        *,
        titles: Any = None,
        name: str | None = None,
        origin: str | None = None,
        rows_read: RowsRead | None = None,
    ) -> None:
        self.users = users
        self.items = items
        self.offsets = offsets
        self.item_codes = item_codes
        self.times = times
        known: dict[str, pl.Series] = {}
        if titles is not None:
            known, self.titles_read = titles_by_code(read_titles(titles), items)
        self.titles = known.get(Columns.Title)
        self.genres = known.get(Columns.Genres)
        self.name = name
        self.origin = origin
        self.rows_read = rows_read or RowsRead(rows=len(item_codes))

    @classmethod
    def from_profiles(
        cls,
        offsets: ArrayLike,
        items: ArrayLike,
        times: ArrayLike | None = None,
        *,
        user_ids: Any = None,
        item_ids: Any = None,
        titles: Any = None,
        name: str | None = None,
        origin: str | None = None,
    ) -> Interactions:
        """Build interactions from profiles that are already in time order.

        Parameters
        ----------
        offsets : array-like of int, n_users + 1
            Start of each profile.
        items : array-like of int
            Positions in `item_ids`, profile after profile, without repeats in a profile.
        times : array-like of int, optional
            Microseconds since 1970; by default the position in the profile, without ties.
        user_ids, item_ids : sequence, optional
            Ids; by default the integers from 0.
        titles : path, frame, mapping or pandas Series, optional
            As in :func:`surerec.read_interactions`.
        name, origin : str, optional
            Name and origin of the data.

        Examples
        --------
        >>> Interactions.from_profiles([0, 2, 3], [1, 0, 1])
        Interactions(2 users, 2 items, 3 rows)
        """
        starts = check_wholes("offsets", offsets)
        n_users = max(len(starts) - 1, 0)
        user_map = IdMap(given_ids("user_ids", user_ids, n_users), noun="user")
        all_items = None if item_ids is None else given_ids("item_ids", item_ids)
        consumed = check_profiles(starts, items, None if all_items is None else len(all_items))
        n_items = len(all_items) if all_items is not None else int(consumed.max(initial=0)) + 1
        if times is None:
            times = np.arange(len(consumed)) - np.repeat(starts[:-1], np.diff(starts))
        consumed, kept = popular_first(consumed, n_items)
        item_ids = pl.Series(kept) if all_items is None else all_items.gather(kept)
        return cls(
            user_map,
            IdMap(item_ids, noun="item"),
            starts,
            consumed,
            check_times(starts, times, len(consumed)),
            titles=titles,
            name=check_optional_text("name", name),
            origin=check_optional_text("origin", origin),
        )

    @classmethod
    def no_users(cls, n_items: int) -> Interactions:
        """Return interactions without users, for a catalogue of items with ids 0 … n − 1.

        Examples
        --------
        >>> Interactions.no_users(3)
        Interactions(0 users, 3 items, 0 rows)
        """
        ids = pl.Series(np.arange(check_whole("n_items", n_items, lowest=0)))
        maps = IdMap(ids.head(0), noun="user"), IdMap(ids, noun="item")
        items, times = np.empty(0, dtype=np.uint32), np.empty(0, dtype=np.int64)
        return cls(*maps, np.zeros(1, dtype=np.int64), items, times)

    @property
    def n_users(self) -> int:
        """Number of users."""
        return len(self.users)

    @property
    def n_items(self) -> int:
        """Number of items with interactions."""
        return len(self.items)

    @property
    def n_rows(self) -> int:
        """Number of interactions; repeats count once."""
        return len(self.item_codes)

    def __repr__(self) -> str:
        named = f"{self.name!r}, " if self.name else ""
        return (
            f"Interactions({named}{self.n_users:,} users, {self.n_items:,} items, "
            f"{self.n_rows:,} rows)"
        )

    def consumed(self, user: int) -> NDArray[np.uint32]:
        """Return the item codes of a user's history, by user code, in time order.

        Examples
        --------
        >>> Interactions.from_profiles([0, 2, 3], [1, 0, 1]).consumed(0)
        array([0, 1], dtype=uint32)
        """
        code = check_code("user", user, self.n_users)
        return self.item_codes[self.offsets[code] : self.offsets[code + 1]]

    def times_of(self, user: int) -> NDArray[np.int64]:
        """Return the times of a user's history, by user code: microseconds since 1970, ascending.

        Examples
        --------
        >>> Interactions.from_profiles([0, 2, 3], [1, 0, 1], times=[10, 30, 20]).times_of(0)
        array([10, 30])
        """
        code = check_code("user", user, self.n_users)
        return self.times[self.offsets[code] : self.offsets[code + 1]]

    @property
    def tie_share(self) -> float:
        """Share of interactions that have the same time as another one of the same user."""
        owners = np.repeat(np.arange(self.n_users), np.diff(self.offsets))
        same = (owners[1:] == owners[:-1]) & (self.times[1:] == self.times[:-1])
        tied = np.zeros(self.n_rows, dtype=bool)
        tied[1:] |= same
        tied[:-1] |= same
        return float(tied.mean())

    def profile(self, user: Any) -> pl.DataFrame:
        """Return a user's history: ``item_id``, ``datetime`` and, if known, ``title``."""
        code = self.users.code(user)
        codes = self.consumed(code)
        frame = pl.DataFrame(
            {
                Columns.Item: self.items.ids.gather(codes),
                Columns.Datetime: pl.Series(self.times_of(code)).cast(pl.Datetime("us")),
            }
        )
        if self.titles is None:
            return frame
        return frame.with_columns(self.titles.gather(codes).alias(Columns.Title))

    def until(self, time: int) -> Interactions:
        """Return the interactions before a time, under the same codes.

        Users and items without earlier interactions stay in the id maps.

        Parameters
        ----------
        time : int
            Microseconds since 1970; interactions at this time or later are left out.

        Examples
        --------
        >>> log = Interactions.from_profiles([0, 2, 3], [1, 0, 1], times=[10, 30, 20])
        >>> log.until(30)
        Interactions(2 users, 2 items, 2 rows)
        """
        if isinstance(time, bool) or not isinstance(time, (int, np.integer)):
            raise InputError(
                f"time is {shown(time)}; it must be an integer, in microseconds since 1970."
            )
        return self.keeping(self.times < time)

    def keeping(self, rows: NDArray[np.bool_]) -> Interactions:
        """Return a subset of the rows, under the same codes.

        Parameters
        ----------
        rows : array of bool, n_rows
            Mask of the rows to keep.

        Examples
        --------
        >>> log = Interactions.from_profiles([0, 2, 3], [1, 0, 1])
        >>> log.keeping(np.array([True, False, True]))
        Interactions(2 users, 2 items, 2 rows)
        """
        some = copy(self)  # with its id maps, titles and genres
        some.offsets = np.concatenate(([0], np.cumsum(rows)))[self.offsets]
        some.item_codes = self.item_codes[rows]
        some.times = self.times[rows]
        return some

    def only(self, rows: NDArray[np.bool_]) -> Interactions:
        """Return a subset of the rows under new codes, as if no other rows had been read.

        Unlike :meth:`keeping`, codes do not leak the other rows: they rank items by popularity in
        the subset, and ties are shuffled.

        Parameters
        ----------
        rows : array of bool, n_rows
            Mask of the rows to keep.

        Examples
        --------
        >>> log = Interactions.from_profiles([0, 2, 3], [1, 0, 1])
        >>> log.only(np.array([False, False, True]))
        Interactions(1 users, 1 items, 1 rows)
        """
        some = self.keeping(rows)
        users = np.flatnonzero(np.diff(some.offsets))
        shuffled = np.random.default_rng(0).permutation(self.n_items)
        places = np.empty_like(shuffled)
        places[shuffled] = np.arange(len(shuffled))
        return Interactions.from_profiles(
            some.offsets[np.append(users, self.n_users)],  # users between have no rows
            places[some.item_codes],
            some.times,
            user_ids=self.users.ids.gather(users),
            item_ids=self.items.ids.gather(shuffled),
            name=self.name,
        )

    def without_users(self, users: NDArray[np.integer]) -> Interactions:
        """Return the interactions of the other users, under the same codes.

        The excluded users stay in the id map.

        Parameters
        ----------
        users : array of int
            Codes of the users to exclude.

        Examples
        --------
        >>> log = Interactions.from_profiles([0, 2, 3], [1, 0, 1])
        >>> others = log.without_users(np.array([0]))
        >>> others.consumed(0).tolist(), others.consumed(1).tolist()
        ([], [0])
        """
        kept = np.ones(self.n_users, dtype=bool)
        kept[check_codes("users", users, self.n_users)] = False
        return self.keeping(np.repeat(kept, np.diff(self.offsets)))

    def title(self, code: int) -> str:
        """Return the title of an item, or its id if it has none."""
        place = check_code("code", code, self.n_items)
        title = self.titles[place] if self.titles is not None else None
        return title if title is not None else str(self.items[place])

    def to_frame(self) -> pl.DataFrame:
        """Return all rows by user and time: ``user_id``, ``item_id``, ``datetime``."""
        owners = np.repeat(np.arange(self.n_users), np.diff(self.offsets))
        return pl.DataFrame(
            {
                Columns.User: self.users.ids.gather(owners),
                Columns.Item: self.items.ids.gather(self.item_codes),
                Columns.Datetime: pl.Series(self.times).cast(pl.Datetime("us")),
            }
        )
