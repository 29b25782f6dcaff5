"""Counts that grow with every event, exactly as if all had been counted together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from surerec._arguments import check_kind
from surerec._checks import check_whole
from surerec.errors import InputError
from surerec.interactions import GrowingInteractions
from surerec.precedence._kernels import add_logged, log_pairs, move_in_order
from surerec.precedence._rows import Block, RowStore, check_fits
from surerec.precedence._sources import read_rows
from surerec.precedence._statistics import PrecedenceStatistics, count_precedence

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.interactions import Placed
    from surerec.precedence._spans import Direction, Ties

_CHUNK: Final = 32  # columns that a row gains, side by side
_FIRST_TIME, _LAST_TIME = -(2**63), 2**63 - 1


class _Log:
    """What the rows of one direction gained and lost, in chunks that are linked backwards."""

    def __init__(self, n_items: int) -> None:
        self._entries = np.empty((64, _CHUNK), dtype=np.int32)
        self._previous = np.empty(64, dtype=np.int64)
        self._tails = np.full(n_items + 16, -1, dtype=np.int64)
        self._filled = np.zeros(n_items + 16, dtype=np.int64)
        self._n_chunks = 0

    @property
    def nbytes(self) -> int:
        """Memory that is in use."""
        return self._n_chunks * _CHUNK * self._entries.itemsize

    def fit(self, n_items: int) -> None:
        """Have room for so many rows."""
        more = n_items - len(self._tails)
        if more > 0:
            more += n_items
            self._tails = np.concatenate((self._tails, np.full(more, -1)))
            self._filled = np.concatenate((self._filled, np.zeros(more, dtype=np.int64)))

    def write(self, rows: NDArray[np.uint32], columns: NDArray[np.uint32], *, minus: bool) -> None:
        """Write down pairs, one of the two being the same for all."""
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
        """Add what the rows of some items gained to a matrix of these rows."""
        add_logged(self._entries, self._previous, self._tails, self._filled, items, matrix)


class GrowingRows(RowStore):
    """Another store's rows, which stay as they are, with what was added as rows are read.

    Parameters
    ----------
    base : RowStore
        The rows to begin with.
    n_items : int
        How many items they have.
    """

    def __init__(self, base: RowStore, n_items: int) -> None:
        self.base = base
        self._n_base = n_items
        self.n_items = n_items
        self.is_wide = False
        """Whether a count may be too large for 16 bits."""
        self._logs: dict[Direction, _Log] = {
            "followers": _Log(n_items),
            "predecessors": _Log(n_items),
        }

    @property
    def nbytes(self) -> int:
        """Memory that what was added takes."""
        return sum(log.nbytes for log in self._logs.values())

    def fit(self, n_items: int) -> None:
        """Have rows and columns for so many items."""
        self.n_items = n_items
        for log in self._logs.values():
            log.fit(n_items)

    def place(self, placed: Placed, ties: Ties, *, minus: bool = False) -> None:
        """Count, or uncount, an item at its place among the others of a profile."""
        item = np.array([placed.item], dtype=np.uint32)
        first = last = placed.place
        if ties == "strict":  # what shares its instant neither precedes it nor follows
            first = int(np.searchsorted(placed.times, placed.time, side="left"))
            last = int(np.searchsorted(placed.times, placed.time, side="right"))
        before, after = placed.items[:first], placed.items[last:]
        followers, predecessors = self._logs["followers"], self._logs["predecessors"]
        followers.write(before, item, minus=minus)
        followers.write(item, after, minus=minus)
        predecessors.write(item, before, minus=minus)
        predecessors.write(after, item, minus=minus)

    def followers(self, item: int) -> NDArray[np.unsignedinteger]:
        """Give ``PC(item, ·)``."""
        row: NDArray[np.unsignedinteger] = self.block("followers", np.array([item])).matrix[0]
        return row

    def predecessors(self, item: int) -> NDArray[np.unsignedinteger]:
        """Give ``PC(·, item)``."""
        row: NDArray[np.unsignedinteger] = self.block("predecessors", np.array([item])).matrix[0]
        return row

    def block(self, direction: Direction, items: NDArray[np.integer]) -> Block:
        """Give the rows of several items as they are now, in a matrix of their own."""
        wanted = np.asarray(items, dtype=np.int64)
        in_base = wanted < self._n_base
        # New items have no row yet: any other's is read in its place, and emptied.
        base = self.base.source(direction, np.where(in_base, wanted, 0))
        counter = np.dtype(np.uint32) if self.is_wide else np.promote_types(
            base.matrix.dtype, np.promote_types(base.counted.dtype, base.counts.dtype)
        )  # fmt: skip
        check_fits(len(wanted), self.n_items, counter)
        matrix = np.empty((len(wanted), self.n_items), dtype=counter)
        read_rows(base, self._n_base, matrix)
        matrix[~in_base] = 0
        self._logs[direction].add_to(wanted, matrix)
        matrix.flags.writeable = False
        return Block(matrix, np.arange(len(wanted)))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Give none: what grows is counted anew before it is stored."""
        return {}


class GrowingStatistics(PrecedenceStatistics):
    """Precedence statistics that take in events, and are then as if counted with them.

    Counts, support and the order of popularity are those of a count of all events, to the last
    one; the base is neither copied nor changed. An event costs time in proportion to its user's
    profile, forgetting a user in proportion to its square. Nothing here is safe for several threads
    if one of them adds.

    Parameters
    ----------
    base : PrecedenceStatistics
        Counts of profiles.

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

    interactions: GrowingInteractions
    rows: GrowingRows

    def __init__(self, base: PrecedenceStatistics) -> None:
        check_kind("base", base, PrecedenceStatistics, "counts (see surerec.count_precedence)")
        if base.interactions is None:
            raise InputError("Counts that were given without profiles cannot grow: count profiles.")
        if not base.rows.has_counts:
            raise InputError(
                "Who took what before what was not counted here, so that no counts can grow: fit a "
                "measure of precedence."
            )
        self.base = base
        self._room = base.n_items
        self._lost = set[int]()  # items that nobody takes any more
        self._support = base.support.astype(np.uint32)
        self._order = np.argsort(-base.support.astype(np.int64), kind="stable")
        self._places = np.empty(base.n_items, dtype=np.int64)
        self._places[self._order] = np.arange(base.n_items)
        super().__init__(
            base.n_users,
            self._support,
            GrowingRows(base.rows, base.n_items),
            ties=base.ties,
            interactions=GrowingInteractions(base.interactions),
            popularity=self._places,
        )
        self.n_added = 0
        self._widen()

    @property
    def n_user_codes(self) -> int:
        """How many codes users have: forgotten ones keep theirs, and count no more."""
        return self.interactions.n_users

    def items_outside(self, known: NDArray[np.integer]) -> NDArray[np.int64]:
        """Give the codes of all items but the known ones and those that nobody takes any more."""
        outside = super().items_outside(known)
        if not self._lost:
            return outside
        lost = np.fromiter(self._lost, dtype=np.int64)
        return outside[~np.isin(outside, lost)]

    def add(self, user: Any, item: Any, time: int) -> bool:
        """Take in that somebody took something, by id; tell whether that changed anything.

        It does not if they had taken it before that time.

        Parameters
        ----------
        user, item : id
            Known ones or new.
        time : int
            In microseconds since 1970; later or earlier than what is known.
        """
        when = check_whole("time", time, lowest=_FIRST_TIME, highest=_LAST_TIME)
        self.interactions.users.check(user)
        self.interactions.items.check(item)
        known = self.interactions.users.codes([user])[0] >= 0
        who, what = self.interactions.users.add(user), self.interactions.items.add(item)
        self.n_users += not known
        self._fit_items()
        taken = np.flatnonzero(self.interactions.taken(who) == what)
        if len(taken):
            if when >= self.interactions.times_of(who)[taken[0]]:
                return False
            self._uncount(who, what)
        placed = self.interactions.insert(who, what, when)
        assert placed is not None  # noqa: S101  # it was taken out
        self.rows.place(placed, self.ties)
        move_in_order(self._order_now(), self.popularity, self.support, what, 1)
        self._lost.discard(what)
        self._widen()
        self.n_added += 1
        return True

    def forget(self, user: Any) -> None:
        """Be as if a user, by id, had never been there.

        Raises
        ------
        UnknownId
            If nobody is known by that id.
        """
        who = self.interactions.users.code(user)
        for item in self.interactions.taken(who)[::-1].tolist():
            self._uncount(who, item)
        self.interactions.forget(who)
        self.n_users -= 1

    def settled(self) -> PrecedenceStatistics:
        """Count all that is known now from the beginning: a base for the next."""
        return count_precedence(self.interactions.settled(), ties=self.ties)

    def _uncount(self, user: int, item: int) -> None:
        self.rows.place(self.interactions.take_out(user, item), self.ties, minus=True)
        move_in_order(self._order_now(), self.popularity, self.support, item, -1)
        if not self.support[item]:
            self._lost.add(item)

    def _order_now(self) -> NDArray[np.int64]:
        return self._order[: self.n_items]

    def _widen(self) -> None:
        """Count in 32 bits as soon as two items have more takers than 16 bits hold."""
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
        for item in range(before, now):  # nobody took it yet, and it comes last
            self._order[item] = self._places[item] = item
            self._support[item] = 0
        self.support, self.popularity = self._support[:now], self._places[:now]
        self.rows.fit(now)
