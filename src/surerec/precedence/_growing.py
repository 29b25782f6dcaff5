"""Precedence statistics that grow by events, identical to a full count.

Changes of rows are logged, and applied when rows are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from surerec._arguments import check_kind, check_whole
from surerec._memory import available_memory
from surerec.errors import InputError, NoUsersError
from surerec.interactions import GrowingInteractions
from surerec.precedence._kernels import add_logged, count_in_place, log_pairs, move_in_order
from surerec.precedence._rows import RowStore, check_fits, linear_budget, of_matrix, read_rows
from surerec.precedence._statistics import PrecedenceStatistics, count_precedence

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.interactions import Placed
    from surerec.precedence._rows import RowSource
    from surerec.precedence._spans import Direction, Ties

_FIRST_TIME, _LAST_TIME = -(2**63), 2**63 - 1
_CHUNK: Final = 32  # log entries of a row that are adjacent
_LEAST_CURRENT: Final = 1 << 26  # minimum bytes for current rows


class _Log:
    """Log of changes of the rows of one direction, in chunks that are linked backwards."""

    def __init__(self, n_items: int) -> None:
        self._entries = np.empty((64, _CHUNK), dtype=np.int32)
        self._previous = np.empty(64, dtype=np.int64)
        self._tails = np.full(n_items, -1, dtype=np.int64)
        self._filled = np.zeros(n_items, dtype=np.int64)
        self._n_chunks = 0

    @property
    def nbytes(self) -> int:
        """Used memory in bytes."""
        return self._n_chunks * _CHUNK * self._entries.itemsize

    def write(self, rows: NDArray[np.uint32], columns: NDArray[np.uint32], *, minus: bool) -> None:
        """Log pairs; either `rows` or `columns` has length one."""
        needed = self._n_chunks + max(len(rows), len(columns))
        if needed > len(self._previous):
            more = max(needed, 2 * len(self._previous)) - len(self._previous)
            self._entries = np.concatenate(
                (self._entries, np.empty((more, _CHUNK), dtype=np.int32))
            )
            self._previous = np.concatenate((self._previous, np.empty(more, dtype=np.int64)))
        parts = self._entries, self._previous, self._tails, self._filled
        self._n_chunks = log_pairs(*parts, self._n_chunks, rows, columns, minus)

    def add_to(self, items: NDArray[np.int64], matrix: NDArray[Any]) -> None:
        """Apply the logged changes of items to a matrix of their rows."""
        add_logged(self._entries, self._previous, self._tails, self._filled, items, matrix)


class _Current:
    """Current rows: built on first read and then updated in place.

    Rows have spare columns, filled with zeros, for new items.
    """

    def __init__(self, n_items: int, counter: np.dtype[Any], n_interactions: int) -> None:
        width = n_items + n_items // 4 + 64
        most = min(available_memory() // 16, linear_budget(n_interactions))
        most = max(_LEAST_CURRENT, most)
        n_rows = min(width, max(1, most // (width * counter.itemsize)))
        # Pages that are never written use no memory.
        self.matrix = np.empty((n_rows, width), dtype=counter)
        self._slots = np.full(width, -1, dtype=np.int64)
        self._n_used = 0

    def holds(self, n_items: int, counter: np.dtype[Any]) -> bool:
        """Return whether rows fit this number of items and this type of counts."""
        return bool(n_items <= self.matrix.shape[1] and counter == self.matrix.dtype)

    def slots(self, items: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the slots of the rows of items, and the items whose rows are missing."""
        found = self._slots[items]
        if found.min(initial=0) >= 0:
            return found, items[:0]
        missing = np.unique(items[found < 0])
        if len(missing) + self._n_used > len(self.matrix):  # start over with the requested rows
            self._slots[:] = -1
            self._n_used, missing = 0, np.unique(items)
        self._slots[missing] = self._n_used + np.arange(len(missing))
        self._n_used += len(missing)
        return self._slots[items], missing

    def count(self, rows: NDArray[np.uint32], columns: NDArray[np.uint32], *, minus: bool) -> None:
        """Count pairs in the rows that exist."""
        count_in_place(self.matrix, self._slots, rows, columns, minus)


class GrowingRows(RowStore):
    """Rows of a base store plus changes since; the base is not changed.

    A row is built on first use and then updated in place. Changes of base rows are logged. Rows of
    new items are counted from the profiles of their consumers, because a log would grow with the
    square of the profile length.

    Parameters
    ----------
    base : RowStore
        The initial rows.
    profiles : GrowingInteractions
        The profiles, without any added event.
    ties : {"order", "strict"}
        Whether items with equal times precede each other in the order of the source, or not at all.
    """

    def __init__(self, base: RowStore, profiles: GrowingInteractions, ties: Ties) -> None:
        n_items = profiles.n_items
        self.base = base
        self._profiles = profiles
        self._ties = ties
        self._consumers: dict[int, set[int]] = {}  # of each new item
        self._n_base = n_items
        self.n_items = n_items
        self.is_wide = False
        """Whether a count may exceed 16 bits."""
        self._logs: dict[Direction, _Log] = {
            "followers": _Log(n_items),
            "predecessors": _Log(n_items),
        }
        self._current: dict[Direction, _Current] = {}
        self._counters: dict[Direction, np.dtype[Any]] = {}

    @property
    def nbytes(self) -> int:
        """Memory of the changes in bytes."""
        return sum(log.nbytes for log in self._logs.values())

    def fit(self, n_items: int) -> None:
        """Set the number of items."""
        self.n_items = n_items
        self._current = {
            direction: current
            for direction, current in self._current.items()
            if current.holds(n_items, current.matrix.dtype)
        }

    def place(self, placed: Placed, *, minus: bool = False) -> None:
        """Add, or subtract, the pairs of an item with the other items of a profile."""
        item = np.array([placed.item], dtype=np.uint32)
        before, after = self._around(placed)
        if placed.item >= self._n_base:
            consumers = self._consumers.setdefault(placed.item, set())
            (consumers.discard if minus else consumers.add)(placed.user)
        self._count("followers", before, item, minus=minus)
        self._count("followers", item, after, minus=minus)
        self._count("predecessors", item, before, minus=minus)
        self._count("predecessors", after, item, minus=minus)

    def _around(self, placed: Placed) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        """Return the items before and after a placed item."""
        first = last = placed.place
        if self._ties == "strict":  # items with the same time neither precede nor follow
            first = int(np.searchsorted(placed.times, placed.time, side="left"))
            last = int(np.searchsorted(placed.times, placed.time, side="right"))
        return placed.items[:first], placed.items[last:]

    def _count(
        self,
        direction: Direction,
        rows: NDArray[np.uint32],
        columns: NDArray[np.uint32],
        *,
        minus: bool,
    ) -> None:
        if not (len(rows) and len(columns)):
            return
        in_base = rows[rows < self._n_base]
        if len(in_base):
            # Either rows or columns has length one, also after the filter.
            self._logs[direction].write(in_base, columns, minus=minus)
        if direction in self._current:
            self._current[direction].count(rows, columns, minus=minus)

    def block(
        self, direction: Direction, items: NDArray[np.integer]
    ) -> NDArray[np.unsignedinteger]:
        """Return a copy of the current rows of several items."""
        codes = np.asarray(items, dtype=np.int64)
        counter = self._counter(direction, codes)
        check_fits(len(codes), self.n_items, counter)
        matrix = np.empty((len(codes), self.n_items), dtype=counter)
        self._build(direction, codes, matrix)
        return matrix

    def source(self, direction: Direction, items: NDArray[np.int64]) -> RowSource:
        """Return the current rows of several items without a copy.

        Rows may be longer than the number of items; spare columns are zero.
        """
        codes = np.asarray(items, dtype=np.int64)
        counter = self._counter(direction, codes)
        current = self._current.get(direction)
        if current is None or not current.holds(self.n_items, counter):
            current = _Current(self.n_items, counter, self._profiles.n_rows)
            self._current[direction] = current
        if len(codes) > len(current.matrix) and len(np.unique(codes)) > len(current.matrix):
            return of_matrix(self.block(direction, codes))  # more rows than fit
        slots, missing = current.slots(codes)
        if len(missing):
            rows = np.empty((len(missing), current.matrix.shape[1]), dtype=counter)
            self._build(direction, missing, rows)
            current.matrix[current.slots(missing)[0]] = rows
        return of_matrix(current.matrix, slots)

    def _counter(self, direction: Direction, items: NDArray[np.int64]) -> np.dtype[Any]:
        if self.is_wide:
            return np.dtype(np.uint32)
        if direction not in self._counters:
            one = self.base.source(direction, np.minimum(items[:1], self._n_base - 1))
            self._counters[direction] = one.counter
        return self._counters[direction]

    def _build(self, direction: Direction, items: NDArray[np.int64], matrix: NDArray[Any]) -> None:
        """Write the current rows of items into a matrix."""
        in_base = items < self._n_base
        # New items have no base row: row 0 is read instead and cleared.
        base = self.base.source(direction, np.where(in_base, items, 0))
        read_rows(base, self._n_base, matrix)
        matrix[~in_base] = 0
        self._logs[direction].add_to(items, matrix)
        for place in np.flatnonzero(~in_base).tolist():
            self._add_new(direction, int(items[place]), matrix[place])

    def _add_new(self, direction: Direction, item: int, row: NDArray[Any]) -> None:
        """Count the row of a new item, which is empty."""
        for user in self._consumers.get(item, ()):
            before, after = self._around(self._profiles.placed(user, item))
            row[after if direction == "followers" else before] += 1  # profiles have no repeats


class GrowingStatistics(PrecedenceStatistics):
    """Precedence statistics that grow by events, identical to a count of all events.

    Counts, support and popularity ranks are exact; the base is neither copied nor changed. The time
    of an event is proportional to the length of its user's profile, that of forgetting a user to
    its square. Reading while another thread adds events is not safe.

    Parameters
    ----------
    base : PrecedenceStatistics
        Statistics counted from profiles.

    Examples
    --------
    >>> from surerec import Interactions, count_precedence
    >>> base = count_precedence(Interactions.from_profiles([0, 2, 4, 6], [0, 1, 0, 1, 1, 0]))
    >>> growing = GrowingStatistics(base)
    >>> growing.add("3", "1", time=5), growing.add(3, 0, time=7), growing.add(3, 0, time=9)
    (True, True, False)
    >>> growing.followers(0), growing.predecessors(0), growing.n_users
    (array([0, 2], dtype=uint32), array([0, 2], dtype=uint32), 4)
    >>> growing.forget(3)
    >>> growing.predecessors(0).tolist() == base.predecessors(0).tolist()
    True
    """

    base: PrecedenceStatistics
    interactions: GrowingInteractions
    rows: GrowingRows

    def __init__(self, base: PrecedenceStatistics) -> None:
        check_kind("base", base, PrecedenceStatistics, "counts (see surerec.count_precedence)")
        if base.n_users > base.interactions.n_users:
            raise NoUsersError(
                "Statistics built from counts cannot grow. Use count_precedence on interactions."
            )
        if not base.rows.has_counts:
            raise InputError(
                "These statistics have no precedence counts, so they cannot grow. Fit a precedence "
                "measure."
            )
        self.base = base
        self._room = base.n_items
        self._lost = set(np.flatnonzero(base.support == 0).tolist())  # items without consumers
        self._support = base.support.astype(np.uint32)
        self._order = np.argsort(-base.support.astype(np.int64), kind="stable")
        self._places = np.empty(base.n_items, dtype=np.int64)
        self._places[self._order] = np.arange(base.n_items)
        profiles = GrowingInteractions(base.interactions)
        super().__init__(
            base.n_users,
            self._support,
            GrowingRows(base.rows, profiles, base.ties),
            interactions=profiles,
            ties=base.ties,
            popularity=self._places,
        )
        self.has_profiles = True  # even without users
        self.n_added = 0
        self._widen()

    @property
    def n_user_codes(self) -> int:
        """Number of user codes; forgotten users keep theirs."""
        return self.interactions.n_users

    @property
    def _unconsumed(self) -> NDArray[np.int64]:
        """Codes of items without consumers."""
        return np.fromiter(self._lost, dtype=np.int64)

    def add(self, user: Any, item: Any, time: int) -> bool:
        """Add an interaction, by ids; return whether it changed the statistics.

        It does not if the user consumed the item before that time.

        Parameters
        ----------
        user, item : id
            Known or new ids.
        time : int
            Microseconds since 1970, in any order.
        """
        when = check_whole("time", time, lowest=_FIRST_TIME, highest=_LAST_TIME)
        self.interactions.items.check(item)
        known = self.interactions.users.find(user) >= 0
        who, what = self.interactions.users.add(user), self.interactions.items.add(item)
        self.n_users += not known
        self._fit_items()
        consumed = np.flatnonzero(self.interactions.consumed(who) == what)
        if len(consumed):
            if when >= self.interactions.times_of(who)[consumed[0]]:
                return False
            self._uncount(who, what)
        placed = self.interactions.insert(who, what, when)
        assert placed is not None  # noqa: S101  # it was removed
        self.rows.place(placed)
        move_in_order(self._order_now(), self.popularity, self.support, what, 1)
        self._lost.discard(what)
        self._widen()
        self.n_added += 1
        return True

    def forget(self, user: Any) -> None:
        """Remove a user, by id, with all interactions.

        Raises
        ------
        UnknownIdError
            If the user is unknown.
        """
        who = self.interactions.users.code(user)
        for item in self.interactions.consumed(who)[::-1].tolist():
            self._uncount(who, item)
        self.interactions.forget(who)
        self.n_users -= 1

    def settled(self) -> PrecedenceStatistics:
        """Recount the current interactions: the base of new growing statistics."""
        return count_precedence(self.interactions.settled(), ties=self.ties)

    def _uncount(self, user: int, item: int) -> None:
        self.rows.place(self.interactions.remove(user, item), minus=True)
        move_in_order(self._order_now(), self.popularity, self.support, item, -1)
        if not self.support[item]:
            self._lost.add(item)

    def _order_now(self) -> NDArray[np.int64]:
        return self._order[: self.n_items]

    def _widen(self) -> None:
        """Switch to 32 bits once two items have more consumers than 16 bits hold."""
        if self.n_items > 1 and self.support[self._order[1]] > np.iinfo(np.uint16).max:
            self.rows.is_wide = True

    def _fit_items(self) -> None:
        before, now = self.n_items, self.interactions.n_items
        if now == before:
            return
        if now > self._room:
            self._room = 2 * now
            self._support, self._order, self._places = (
                np.concatenate((array[:before], np.zeros(self._room - before, dtype=array.dtype)))
                for array in (self._support, self._order, self._places)
            )
        for item in range(before, now):  # no consumers yet, so it is last
            self._order[item] = self._places[item] = item
            self._support[item] = 0
        self.support, self.popularity = self._support[:now], self._places[:now]
        self.rows.fit(now)
