"""One state of a live model in memory and in its store: what others write is taken in."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from threading import RLock
from typing import TYPE_CHECKING, Final

from surerec.errors import InputError, StoreError
from surerec.live._ledger import Ledger
from surerec.live._served import Served, check_can_live
from surerec.live._told import now_text
from surerec.recommenders import load

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from surerec.live._folder import LiveFolder
    from surerec.live._store import Store, Transaction

_CHANCES: Final = 2  # to load a model that another process renews


class _ModelError(StoreError):
    """The model that the store names cannot be read."""


class Synced:
    """What is known in memory, brought up to what is stored before it is used.

    Parameters
    ----------
    folder : LiveFolder
        Where the models are.
    store : Store
        Where the events are.
    """

    _served: Served
    _ledger: Ledger
    _seq: int
    _counted: str
    _base = -1
    _is_stale = True

    def __init__(self, folder: LiveFolder, store: Store) -> None:
        self._folder = folder
        self._store = store
        self._lock = RLock()
        self._reload()

    @contextmanager
    def _writing(self) -> Iterator[Transaction]:
        """Give a transaction that knows what others wrote; what fails in it leaves no trace."""
        try:
            with self._store.writing() as transaction:
                self._refresh(transaction)
                yield transaction
        except BaseException:
            self._is_stale = True  # what was taken in on the way is dropped
            raise

    @staticmethod
    def _write_alarms(transaction: Transaction, n_before: int, sentences: Sequence[str]) -> None:
        """Keep alarms behind so many."""
        for place, sentence in enumerate(sentences, n_before):
            transaction.put(f"alarm {place:09d}", {"at": now_text(), "says": sentence})

    def _with_alerts(
        self, transaction: Transaction, ledger: Ledger, sentences: Sequence[str]
    ) -> Ledger:
        """Write alerts that no watch raised, and return the ledger that counts them."""
        self._write_alarms(transaction, ledger.n_alarms, sentences)
        return replace(ledger, n_alarms=ledger.n_alarms + len(sentences))

    def _catch_up(self) -> None:
        """Take in what other servers wrote since."""
        for chances in range(_CHANCES, -1, -1):
            try:
                with self._store.reading() as transaction:
                    self._refresh(transaction)
            except _ModelError:
                # Another process may have counted anew, and removed the model since the look.
                if not chances:
                    raise
            else:
                return

    def _reload(self) -> None:
        self._is_stale = True
        self._catch_up()
        self._folder.remove_before(self._base)

    def _refresh(self, transaction: Transaction) -> None:
        with self._reading_stored():
            base = transaction.get("base")
            number, seq, counted = int(base["model"]), int(base["seq"]), str(base["counted"])
        if self._is_stale or number != self._base:
            self._served = self._loaded(number)
            self._base, self._counted, self._seq = number, counted, seq
            self._is_stale = False
        if self._seq < transaction.last():
            self._replay(transaction)
        with self._reading_stored():
            self._ledger = Ledger.from_state(transaction.get("ledger"))

    @contextmanager
    def _reading_stored(self) -> Iterator[None]:
        """Raise StoreError for stored values that surerec did not write."""
        try:
            yield
        except (KeyError, TypeError, ValueError) as error:
            raise StoreError(
                f"{self._store.name} has no events of a live model, or damaged ones: restore it "
                "from a copy, or start again with surerec live init.",
                reason="damaged",
            ) from error

    def _loaded(self, number: int) -> Served:
        try:
            return Served(check_can_live(load(self._folder.model(number))))
        except (InputError, OSError) as error:
            raise _ModelError(str(error), reason="model cannot be read") from error

    def _replay(self, transaction: Transaction) -> None:
        """Take in what is stored behind what is known, in the order of commits."""
        forgotten = transaction.forgotten(self._seq)
        for event in transaction.events(self._seq):
            while forgotten and forgotten[0][0] < event.seq:
                self._forget_again(forgotten.pop(0)[1])
            with self._reading_stored():
                self._served.add(event.person, event.item, event.time)
        for _, person in forgotten:
            self._forget_again(person)
        self._seq = transaction.last()

    def _forget_again(self, person: str) -> None:
        if person in self._served.profiles.users:
            self._served.forget(person)
