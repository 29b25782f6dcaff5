"""Counting a live model anew in the background, and taking that over in one step."""

from __future__ import annotations

import logging
from contextlib import suppress
from threading import Thread
from time import monotonic
from typing import Final

from surerec._memory import available_memory
from surerec.errors import InputError, StoreError
from surerec.live._ledger import Ledger
from surerec.live._new_items import NewItems
from surerec.live._sqlite import sole
from surerec.live._synced import Synced
from surerec.live._told import now_text
from surerec.live._usual import usual_levels, usual_limit
from surerec.precedence import count_precedence, linear_budget

_LOGGER: Final = logging.getLogger("surerec.live")
_LOGGER.addHandler(logging.NullHandler())  # silent, unless an application wants to hear of it

_GROWN: Final = 0.1  # of the base, at which it is counted anew
_LEAST_GROWN: Final = 1000
_PAUSE: Final = 600  # seconds, after a recount in the background that failed


class Recounting(Synced):
    """What is known, counted anew when it has grown."""

    _recounts = True
    _counting: Thread | None = None
    _failed: BaseException | None = None
    _not_before = 0.0  # of the monotonic clock, at which it counts anew by itself

    def recount(self, *, wait: bool = True) -> None:
        """Count and calibrate anew on all that is known, and serve that from then on.

        Events and questions go on meanwhile; it is taken over in one step, and whatever interrupts
        it, the old one or the new one serves.

        Parameters
        ----------
        wait : bool, default=True
            Return when it is taken over; else at once, and it goes on in the background.
        """
        with self._lock:
            if self._counting is None or not self._counting.is_alive():
                self._failed = None
                self._counting = Thread(
                    target=self._recount, args=(not wait,), name="surerec-recount"
                )
                self._counting.start()
            counting = self._counting
        if wait:
            counting.join()
            if self._failed is not None:
                raise self._failed

    def check_store(self) -> None:
        """Check, without waiting, that the store can keep events; see :meth:`Store.check`."""
        self._store.check()

    def _recount_if_due(self) -> None:
        with self._lock:
            counts = self._served.counts
        grown = max(_LEAST_GROWN, _GROWN * counts.base.interactions.n_rows)
        if self._recounts and counts.n_added >= grown and monotonic() >= self._not_before:
            self.recount(wait=False)

    def _recount(self, tells: bool) -> None:  # noqa: FBT001  # a thread's
        try:
            with sole(self._folder.path / "recount.lock") as is_sole:
                if is_sole:
                    self._count_anew()
                else:
                    self._failed = InputError("Another process counts this model anew already.")
        except BaseException as error:  # noqa: BLE001  # raised where it is waited for
            self._failed = error
            if tells:
                self._not_before = monotonic() + _PAUSE
                with suppress(StoreError):  # which whoever comes next is told of
                    self._tell_of(error)

    def _tell_of(self, error: BaseException) -> None:
        """Raise the alarm that counting anew failed, as nobody waits for it."""
        _LOGGER.error("counting anew failed", exc_info=error, extra={"fields": {"why": str(error)}})
        says = (
            f"Counting anew failed ({_reason(error)}; the log has the details): the counts of "
            f"{self._counted[:10]}, with all events since then, are served on, and it is tried "
            f"again in {_PAUSE // 60} minutes."
        )
        with self._lock, self._writing() as transaction:
            ledger = Ledger.from_state(transaction.get("ledger"))
            ledger = self._with_alerts(transaction, ledger, [says])
            transaction.put("ledger", ledger.to_state())

    def _count_anew(self) -> None:
        with self._lock:
            self._catch_up()
            seq, counts = self._seq, self._served.counts
            old = self._served.recommender
            profiles = counts.interactions.settled()
            with self._store.reading() as transaction:
                n_new = NewItems.from_state(transaction.get("new items")).total
        lists = {
            name: [item for item in items if item in profiles.items]
            for name, items in old.lists_.items()
        }
        # Dense counts would let new items fill the disk with the square of their number.
        budget = linear_budget(profiles.n_rows, max(profiles.n_items - n_new, 0))
        memory = max(min(available_memory() // 2, budget), 2 * profiles.n_items)
        counted = count_precedence(profiles, ties=counts.ties, memory=memory)
        fresh = type(old)(**old.get_params()).fit(
            counted, lists={name: items for name, items in lists.items() if items}
        )
        usual, limit = usual_levels(fresh).tolist(), usual_limit(fresh)
        number = self._folder.numbers()[-1] + 1
        place = self._folder.make_model(number)
        try:
            fresh.save(place, old.name_)
        except BaseException:
            with suppress(OSError):
                place.rmdir()
            raise
        with self._lock:
            with self._writing() as transaction:
                ledger = Ledger.from_state(transaction.get("ledger"))
                ledger = ledger.watching_anew(self._folder.terms, usual)
                ledger = ledger.with_heaviest(limit=limit)
                transaction.put("ledger", ledger.to_state())
                transaction.put("base", {"model": number, "seq": seq, "counted": now_text()})
                transaction.forget_names(until=seq)
            self._reload()
            self._store.compact()

    def _end_recount(self) -> None:
        """Wait for the end of a recount that is under way."""
        if self._counting is not None:
            self._counting.join()


def _reason(error: BaseException) -> str:
    """Return why something failed, without the paths and addresses of an error's message.

    Examples
    --------
    >>> _reason(OSError(28, "No space left on device", "/srv/shop/models/000002"))
    'No space left on device'
    """
    if isinstance(error, StoreError):
        return error.reason
    return getattr(error, "strerror", None) or type(error).__name__
