"""Counts that grow with every event, exactly as if all had been counted together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from surerec._arguments import check_kind
from surerec._checks import check_whole
from surerec.errors import InputError, NoUsers
from surerec.interactions import GrowingInteractions
from surerec.precedence._growing_rows import GrowingRows
from surerec.precedence._kernels import move_in_order
from surerec.precedence._statistics import PrecedenceStatistics, count_precedence

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FIRST_TIME, _LAST_TIME = -(2**63), 2**63 - 1


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

    base: PrecedenceStatistics
    interactions: GrowingInteractions
    rows: GrowingRows

    def __init__(self, base: PrecedenceStatistics) -> None:
        check_kind("base", base, PrecedenceStatistics, "counts (see surerec.count_precedence)")
        if base.n_users > base.interactions.n_users:
            raise NoUsers("Counts that were given without profiles cannot grow: count profiles.")
        if not base.rows.has_counts:
            raise InputError(
                "Who took what before what was not counted here, so that no counts can grow: fit a "
                "measure of precedence."
            )
        self.base = base
        self._room = base.n_items
        self._lost = set(np.flatnonzero(base.support == 0).tolist())  # nobody takes them
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
        self.has_profiles = True  # even if nobody is there yet
        self.n_added = 0
        self._widen()

    @property
    def n_user_codes(self) -> int:
        """How many codes users have: forgotten ones keep theirs, and count no more."""
        return self.interactions.n_users

    @property
    def _unconsumed(self) -> NDArray[np.int64]:
        """Items that nobody consumes any more."""
        return np.fromiter(self._lost, dtype=np.int64)

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
        self.interactions.items.check(item)
        known = self.interactions.users.find(user) >= 0
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
        self.rows.place(placed)
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
        self.rows.place(self.interactions.take_out(user, item), minus=True)
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
