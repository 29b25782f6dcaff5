"""Precedence statistics: support and precedence counts, counted from interactions."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from surerec._arguments import (
    check_choice,
    check_code,
    check_codes,
    check_kind,
    check_whole,
    check_wholes,
)
from surerec._memory import available_memory
from surerec._progress import progress, stage
from surerec._words import in_bytes, shown
from surerec.errors import InputError, NoUsersError
from surerec.interactions import Interactions, as_interactions
from surerec.precedence._bounded import BoundedRows, divide_budget, hold_rows
from surerec.precedence._lanes import lanes
from surerec.precedence._rows import DenseRows, LeftOutRows, NoRows
from surerec.precedence._spans import Ties, narrow_codes, narrowest, spans

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import ArrayLike, NDArray

    from surerec.precedence._bounded import HeldRows
    from surerec.precedence._lanes import GroupedSpans
    from surerec.precedence._rows import RowStore
    from surerec.precedence._spans import Direction, Spans

Strategy = Literal["auto", "dense", "bounded"]

_MOST_ITEMS, _MOST_USERS = 2**31 - 1, 2**32 - 1
_MIX = np.uint64(0x9E3779B97F4A7C15)  # 2⁶⁴ / golden ratio: codes in pseudo-random order
_NO_ITEMS = np.empty(0, dtype=np.uint32)
_NO_TIMES = _NO_CODES = np.empty(0, dtype=np.int64)


def places_by_support(support: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the popularity rank of each item, 0 for the most popular.

    Codes that are sorted by support keep their order. Otherwise items of equal support are in
    pseudo-random order: the codes of a larger data set would leak which became popular later.

    Examples
    --------
    >>> places_by_support(np.array([5, 3, 3])), places_by_support(np.array([1, 2, 5]))
    (array([0, 1, 2]), array([2, 1, 0]))
    """
    n_items = len(support)
    consumed = support.astype(np.int64)
    if (consumed[1:] <= consumed[:-1]).all():
        return np.arange(n_items)
    places = np.empty(n_items, dtype=np.int64)
    places[np.lexsort((_mixed(np.arange(n_items)), -consumed))] = np.arange(n_items)
    return places


def places_without(
    places: NDArray[np.int64], support: NDArray[np.integer], own: NDArray[np.integer]
) -> NDArray[np.int64]:
    """Return the popularity ranks without the consumers of `own`, one per occurrence.

    An item moves to a pseudo-random rank among those of its reduced support. The first of these
    ranks would leak that it was consumed.

    Parameters
    ----------
    places : array of int
        Popularity rank of each item with all users.
    support : array of int
        Number of consumers of each item, of all users.
    own : array of int
        Item codes of the users to leave out.

    Examples
    --------
    >>> support = np.array([4, 3, 3, 2, 2, 2])
    >>> places_without(np.arange(6), support, np.array([1]))
    array([0, 4, 1, 2, 3, 5])
    """
    items, times = np.unique(own.astype(np.int64), return_counts=True)
    consumed = support.astype(np.int64)
    ordered = np.empty(len(places), dtype=np.int64)
    ordered[places] = -consumed
    smaller = times - consumed[items]
    begin = np.searchsorted(ordered, smaller, side="left")
    end = np.searchsorted(ordered, smaller, side="right")
    keys = places.astype(np.float64)
    keys[items] = begin - 0.5 + _mixed(places[items]) * 2.0**-64 * (end - begin)
    moved = np.empty(len(places), dtype=np.int64)
    moved[np.argsort(keys, kind="stable")] = np.arange(len(places))
    return moved


def _mixed(codes: NDArray[np.int64]) -> NDArray[np.uint64]:
    return codes.astype(np.uint64) * _MIX


class PrecedenceStatistics:
    """Precedence statistics: support, number of users, and precedence counts, by item code.

    ``Sup(i)`` is the number of users who consumed item i, and ``PC(i, h)`` the number of users who
    consumed i before h (paper, section 3.2). Create them with :func:`count_precedence` or
    :meth:`from_counts`.

    Attributes
    ----------
    n_users : int
        Number of users.
    support : array of uint32
        ``Sup`` by item code.
    rows : RowStore
        Store of the rows of counts.
    ties : {"order", "strict"}
        Whether items with equal times precede each other in the order of the source, or not at all.
    interactions : Interactions
        Profiles of the counts; without users for :meth:`from_counts`.
    has_profiles : bool
        Whether there are profiles of users.
    popularity : array of int64
        Popularity rank of each item, 0 for the most popular; the code for :meth:`from_counts`.

    Examples
    --------
    Two users consumed item 0 before item 1, and a third user the other way round:

    >>> from surerec import Interactions
    >>> statistics = count_precedence(Interactions.from_profiles([0, 2, 4, 6], [0, 1, 0, 1, 1, 0]))
    >>> statistics.followers(0), statistics.predecessors(0)
    (array([0, 2], dtype=uint32), array([0, 1], dtype=uint32))
    >>> statistics.without_user(0).followers(0)
    array([0, 1], dtype=uint32)
    """

    base: PrecedenceStatistics | None = None
    """Statistics from which these have grown, if any."""
    memory: int | None = None
    """Memory budget of the rows in bytes; None for half of the free memory."""
    counts_profiles: bool = True
    """Whether the support was counted from the profiles."""

    def __init__(
        self,
        n_users: int,
        support: NDArray[np.uint32],
        rows: RowStore,
        *,
        interactions: Interactions,
        ties: Ties = "order",
        popularity: NDArray[np.int64] | None = None,
    ) -> None:
        self.n_users = n_users
        self.support = support
        self.rows = rows
        self.ties = ties
        self.interactions = interactions
        self.has_profiles = interactions.n_users > 0
        self.popularity = places_by_support(support) if popularity is None else popularity

    @classmethod
    def from_counts(
        cls, counts: ArrayLike, support: ArrayLike, n_users: int
    ) -> PrecedenceStatistics:
        """Build statistics from known counts, such as the paper's examples.

        Parameters
        ----------
        counts : array-like of int, (n_items, n_items)
            ``counts[i][h]`` is ``PC(i, h)``.
        support : array-like of int, n_items
            ``Sup(i)`` of each item.
        n_users : int
            Number of users.

        Examples
        --------
        >>> PrecedenceStatistics.from_counts([[0, 2], [1, 0]], [3, 3], n_users=3)
        PrecedenceStatistics(3 users, 2 items)
        """
        n_all = check_whole("n_users", n_users, lowest=0, highest=_MOST_USERS)
        consumed = check_wholes("support", support)
        n_items = len(consumed)
        matrix = (
            check_wholes("counts", counts, n_dimensions=2) if n_items else np.zeros((0, 0), int)
        )
        if matrix.shape != (n_items, n_items):
            raise InputError(
                f"counts has shape {matrix.shape}; for {n_items} items in support it must be "
                f"({n_items}, {n_items})."
            )
        # Before the cast: −1 would become 4,294,967,295.
        if min(matrix.min(initial=0), consumed.min(initial=0)) < 0 or matrix.diagonal().any():
            raise InputError("counts has a negative value or an item that precedes itself.")
        both = matrix + matrix.T
        if consumed.max(initial=0) > n_all or (both > np.minimum.outer(consumed, consumed)).any():
            raise InputError("counts must not exceed support, and support must not exceed n_users.")
        counter = narrowest(int(matrix.max(initial=0)))
        rows = DenseRows(*(np.array(each, dtype=counter, order="C") for each in (matrix, matrix.T)))
        return cls(
            n_all,
            consumed.astype(np.uint32),
            rows,
            interactions=Interactions.no_users(n_items),
            popularity=np.arange(n_items),
        )

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.support)

    @property
    def n_user_codes(self) -> int:
        """Number of user codes; larger than `n_users` if users were forgotten."""
        return self.n_users

    def require_profiles(self, without: str) -> Interactions:
        """Return the profiles, or raise NoUsersError with the consequence `without`."""
        if not self.has_profiles:
            raise NoUsersError(f"These statistics have no users: {without}. Fit on interactions.")
        return self.interactions

    @property
    def counted(self) -> PrecedenceStatistics:
        """The statistics of the last full count: these, unless they have grown since."""
        return self.base or self

    def grown_from(self, earlier: PrecedenceStatistics) -> PrecedenceStatistics:
        """Return the same counts, marked as grown from earlier ones under the same codes."""
        if self.base is earlier.counted:
            return self
        same = copy(self)
        same.base = earlier.counted
        return same

    def __repr__(self) -> str:
        return f"PrecedenceStatistics({self.n_users:,} users, {self.n_items:,} items)"

    def followers(self, item: int) -> NDArray[np.uint32]:
        """Return ``PC(item, ·)``: the number of users who consumed each item after this one."""
        return _as_given(self.rows.followers(check_code("item", item, self.n_items)))

    def predecessors(self, item: int) -> NDArray[np.uint32]:
        """Return ``PC(·, item)``: the number of users who consumed each item before this one."""
        return _as_given(self.rows.predecessors(check_code("item", item, self.n_items)))

    def items_outside(
        self, known: NDArray[np.integer], users: Sequence[int] = ()
    ) -> NDArray[np.int64]:
        """Return the codes of the candidates, ascending.

        These are all items outside `known` with a consumer other than the given users.

        Parameters
        ----------
        known : array of int
            Item codes.
        users : sequence of int, optional
            Users to leave out; items that only they consumed are not candidates.
        """
        known = check_codes("known", known, self.n_items)
        if not isinstance(users, (tuple, list)):
            users = tuple(self._each(users))
        outside = np.ones(self.n_items, dtype=bool)
        outside[known] = False
        outside[self.unknown_without(users)] = False
        return np.flatnonzero(outside)

    def unknown_without(self, users: Sequence[int]) -> NDArray[np.int64]:
        """Return the codes of the items without a consumer other than the given users."""
        if len(users) == 0 or not self.counts_profiles:
            return self._unconsumed
        if len(users) == 1:
            own, times = self.consumed_by(users[0])[0], np.ones(1, dtype=np.int64)
        else:
            own, times = np.unique(self._consumed_by(users), return_counts=True)
        only = own[self.support[own] == times].astype(np.int64)
        return np.concatenate((self._unconsumed, only)) if len(only) else self._unconsumed

    def popularity_without(
        self, users: Sequence[int], known: NDArray[np.integer] = _NO_ITEMS
    ) -> NDArray[np.int64]:
        """Return the popularity ranks of items without some users.

        Items of `known`, and items that only they consumed, may keep their ranks, because they are
        not candidates.
        """
        if len(users) == 0 or not self.counts_profiles:
            return self.popularity
        own = self._consumed_by(users)
        own = own[self.support[own] > 1]
        if np.array_equal(own, known):
            return self.popularity
        own = own[~np.isin(own, known)]
        return places_without(self.popularity, self.support, own) if len(own) else self.popularity

    def _consumed_by(self, users: Iterable[int]) -> NDArray[np.uint32]:
        return np.concatenate(
            [_NO_ITEMS, *(self.consumed_by(user)[0] for user in self._each(users))]
        )

    def _each(self, users: Iterable[int]) -> dict[int, None]:
        """Return distinct user codes, or raise InputError."""
        n_users = self.require_profiles("no user can be left out").n_users
        if not np.iterable(users):
            raise InputError(f"users is {shown(users)}; it must be a list of codes.")
        return dict.fromkeys(check_code("user", user, n_users) for user in users)

    @cached_property
    def _unconsumed(self) -> NDArray[np.int64]:
        """Codes of items without consumers; in known counts they stay candidates."""
        return np.flatnonzero(self.support == 0) if self.has_profiles else _NO_CODES

    def without_user(self, user: int) -> PrecedenceStatistics:
        """Return the statistics without one user (leave-one-out), exact and without a recount.

        The user's contribution is subtracted from each row on demand.
        """
        return self.without_users((user,))

    def without_users(self, users: Iterable[int]) -> PrecedenceStatistics:
        """Return the statistics without several users, exact and without a recount.

        See :meth:`without_user`. Repeated users are left out once.

        Examples
        --------
        >>> from surerec import Interactions
        >>> profiles = Interactions.from_profiles([0, 2, 4, 6], [0, 1, 0, 1, 1, 0])
        >>> statistics = count_precedence(profiles).without_users([0, 1])
        >>> statistics.n_users, statistics.followers(0).tolist(), statistics.followers(1).tolist()
        (1, [0, 0], [1, 0])
        """
        profiles = [self.profile_of(user) for user in self._each(users)]
        items = np.concatenate([_NO_ITEMS, *(consumed for consumed, _ in profiles)])
        instants = np.concatenate([_NO_TIMES, *(when for _, when in profiles)])
        offsets = np.concatenate(([0], np.cumsum([len(consumed) for consumed, _ in profiles])))
        support = self.support - np.bincount(items, minlength=self.n_items).astype(np.uint32)
        rows = LeftOutRows(self.rows, offsets.astype(np.int64), items, instants)
        return PrecedenceStatistics(
            self.n_users - len(profiles),
            support,
            rows,
            interactions=Interactions.no_users(self.n_items),
            ties=self.ties,
            popularity=places_without(self.popularity, self.support, items),
        )

    def consumed_by(self, user: int | None) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """Return a user's item codes in time order and their times; empty for None."""
        if user is None:
            return _NO_ITEMS, _NO_TIMES
        profiles = self.require_profiles("no user can be left out")
        return profiles.consumed(user), profiles.times_of(user)

    def profile_of(self, user: int) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """Return a user's item codes and their instants.

        An item precedes another if its instant is smaller, under the tie rule of these counts.
        """
        items, times = self.consumed_by(user)
        instants = np.unique(times, return_inverse=True)[1] if self.ties == "strict" else (
            np.arange(len(items))
        )  # fmt: skip
        by_code = np.argsort(items)
        return items[by_code], instants[by_code].astype(np.int64)


def _as_given(row: NDArray[np.unsignedinteger]) -> NDArray[np.uint32]:
    """Return a row as read-only uint32."""
    same = row.astype(np.uint32, copy=False)
    same.flags.writeable = False
    return same


def count_precedence(
    interactions: Interactions,
    *,
    ties: Ties = "order",
    strategy: Strategy = "auto",
    memory: int | None = None,
) -> PrecedenceStatistics:
    """Count, for each pair of items, the users who consumed one before the other.

    Parameters
    ----------
    interactions : Interactions
        The profiles.
    ties : {"order", "strict"}, default="order"
        Whether items with equal times precede each other in the order of the source, or not at all.
    strategy : {"auto", "dense", "bounded"}, default="auto"
        Store all rows ("dense"), or the most expensive rows within `memory` ("bounded"). Other rows
        are counted on demand. "auto" is dense if that fits, else bounded. The counts are the same.
    memory : int, optional
        Bytes for rows; by default half of the free memory. It affects only the speed.

    Raises
    ------
    InputError
        If the rows would not fit in memory; the message has the memory they need.

    Examples
    --------
    >>> import surerec as sr
    >>> films = sr.datasets.synthetic(n_users=50, n_items=20, n_rows=400, random_state=1)
    >>> sr.count_precedence(films)
    PrecedenceStatistics(50 users, 20 items)
    """
    check_kind(
        "interactions", interactions, Interactions, "Interactions (see surerec.read_interactions)"
    )
    check_choice("ties", ties, get_args(Ties))
    check_choice("strategy", strategy, get_args(Strategy))
    if interactions.n_items > _MOST_ITEMS:
        row = narrowest(0).itemsize * interactions.n_items
        raise InputError(
            f"{interactions.n_items:,} items are more than the limit of {_MOST_ITEMS:,}; a row of "
            f"counts would need {in_bytes(row)}. Use fewer items."
        )
    free = available_memory() // 2
    budget = free if memory is None else check_budget(memory, interactions.n_items)
    if strategy == "dense":
        _check_dense(interactions.n_items, narrowest(0))  # lower bound, before the work
    _check_index(interactions.n_rows, directions=1 if strategy == "dense" else 2)
    with stage("counting"):
        support, rows = _rows(interactions, ties, strategy, budget)
    counted = PrecedenceStatistics(
        interactions.n_users, support.astype(np.uint32), rows, interactions=interactions, ties=ties
    )
    counted.memory = memory
    return counted


def count_like(
    statistics: PrecedenceStatistics, interactions: Interactions
) -> PrecedenceStatistics:
    """Count other profiles with the tie rule and memory budget of some statistics.

    Examples
    --------
    >>> import surerec as sr
    >>> films = sr.datasets.synthetic(n_users=50, n_items=20, n_rows=400, random_state=1)
    >>> count_like(sr.count_precedence(films, memory=0), films.without_users([0])).rows.kind
    'bounded'
    """
    return count_precedence(interactions, ties=statistics.ties, memory=statistics.memory)


def as_statistics(who: str, data: object) -> PrecedenceStatistics:
    """Return statistics unchanged, or count interactions, a frame or a file.

    Examples
    --------
    >>> from surerec import Interactions
    >>> as_statistics("fit", Interactions.from_profiles([0, 2], [0, 1]))
    PrecedenceStatistics(1 users, 2 items)
    """
    if isinstance(data, PrecedenceStatistics):
        return data
    return count_precedence(as_interactions(who, data))


def without_counts(
    interactions: Interactions, support: NDArray[np.integer] | None = None
) -> PrecedenceStatistics:
    """Return statistics of profiles without precedence counts.

    Parameters
    ----------
    interactions : Interactions
        The profiles.
    support : array of int, optional
        Number of consumers of each item in the data of a model; by default in these profiles.

    Examples
    --------
    >>> from surerec import Interactions
    >>> statistics = without_counts(Interactions.from_profiles([0, 2, 3], [1, 0, 1]))
    >>> statistics.support.tolist(), statistics.rows.kind
    ([2, 1], 'none')
    """
    consumed = support
    if consumed is None:
        consumed = np.bincount(interactions.item_codes, minlength=interactions.n_items)
    made = PrecedenceStatistics(
        interactions.n_users, consumed.astype(np.uint32), NoRows(), interactions=interactions
    )
    made.counts_profiles = support is None
    return made


def _rows(
    interactions: Interactions, ties: Ties, strategy: Strategy, budget: int
) -> tuple[NDArray[np.int64], RowStore]:
    """Return the number of consumers of each item, and the rows."""
    narrow = DenseRows.bytes_needed(interactions.n_items, narrowest(0))
    if strategy == "dense" or (strategy == "auto" and narrow <= budget):
        index = lanes(interactions, ties)
        rows = _dense(index, None if strategy == "dense" else budget)
        if rows is not None:
            return index.support, rows
        del index
    following = spans(interactions, "followers", ties)
    preceding = spans(interactions, "predecessors", ties)
    support = np.diff(following.offsets)
    codes = narrow_codes(interactions.item_codes, interactions.n_items)
    following, preceding = replace(following, items=codes), replace(preceding, items=codes)
    return support, _bounded(following, preceding, budget)


def check_budget(memory: int, n_items: int) -> int:
    """Return a memory budget; raise InputError if it is above 0 but below one row."""
    budget, row = check_whole("memory", memory, lowest=0), narrowest(0).itemsize * n_items
    if 0 < budget < row:
        raise InputError(
            f"memory is {budget:,} bytes, less than one row of {n_items:,} items ({row:,} bytes). "
            "Pass more, or 0 to store no rows."
        )
    return budget


def _check_dense(n_items: int, counter: np.dtype[Any]) -> None:
    needed, free = DenseRows.bytes_needed(n_items, counter), available_memory()
    if needed > free:
        raise InputError(
            f"Dense counts of {n_items:,} items need {in_bytes(needed)}, and {in_bytes(free)} is "
            "free. Use strategy='bounded', or fewer items."
        )


def _check_index(n_rows: int, directions: int) -> None:
    """Raise InputError if the index of the profiles does not fit in memory."""
    width = 4 if n_rows < 2**32 else 8
    # The final starts and stops, temporary ones by position, and the order of the rows.
    needed, free = (2 * directions * width + 2 * width + 8) * n_rows, available_memory()
    if needed > free:
        raise InputError(
            f"Indexing {n_rows:,} interactions needs {in_bytes(needed)}, and {in_bytes(free)} is "
            "free. Use a larger machine, or fewer interactions."
        )


def _bounded(following: Spans, preceding: Spans, budget: int) -> BoundedRows:
    for_each, cache_bytes = divide_budget(budget)
    with progress("Counting precedence of popular items", total=None) as advance:
        held: dict[Direction, HeldRows] = {
            "followers": hold_rows(following, for_each, advance),
            "predecessors": hold_rows(preceding, for_each, advance),
        }
    return BoundedRows(following, preceding, held, cache_bytes)


def _dense(index: GroupedSpans, budget: int | None) -> DenseRows | None:
    """Count all rows; return None if they do not fit into the budget."""
    with progress("Counting precedence", total=int(index.work.sum())) as advance:
        popular = index.count_popular()
        if budget is None:
            _check_dense(index.n_items, popular.counter)
        elif DenseRows.bytes_needed(index.n_items, popular.counter) > budget:
            return None
        return DenseRows(*index.count_both(advance, popular))
