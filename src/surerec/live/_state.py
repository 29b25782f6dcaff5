"""The state of a live model in memory, kept in step with its store."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from threading import RLock
from typing import TYPE_CHECKING, Final

from surerec.errors import InputError, StoreError
from surerec.live._growing import GrowingModel, check_can_live
from surerec.live._ledger import Ledger
from surerec.live._reports import now_text
from surerec.recommenders import load

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from surerec.live._folder import LiveFolder
    from surerec.live._store import Store, Transaction

_CHANCES: Final = 2  # to load a model that another process replaces


class _ModelError(StoreError):
    """The model that the store names cannot be read."""


class LiveState:
    """The growing model and the ledger; what other processes wrote is read before they are used.

    Parameters
    ----------
    folder : LiveFolder
        Where the models are.
    store : Store
        Where the events are.

    Attributes
    ----------
    growing : GrowingModel
        The model that was fitted last, with all events since.
    ledger : Ledger
        The adapted thresholds, and what was observed.
    seq : int
        The place of the last event that is in it.
    base : int
        The number of the model that was fitted last.
    counted : str
        When that was, as ISO text.
    lock : RLock
        Held by whoever reads or changes any of this.
    """

    growing: GrowingModel
    ledger: Ledger
    seq: int
    counted: str
    base = -1
    _is_stale = True

    def __init__(self, folder: LiveFolder, store: Store) -> None:
        self.folder = folder
        self.store = store
        self.lock = RLock()
        self.reload()

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        """Open a transaction, up to date; what fails in it leaves no trace."""
        with self.lock:
            try:
                with self.store.writing() as transaction:
                    self._refresh(transaction)
                    yield transaction
            except BaseException:
                self._is_stale = True  # drops what was ingested on the way
                raise

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """Open a transaction for reading, up to date; no event is ingested meanwhile."""
        with self.lock:
            self.catch_up()
            with self.store.reading() as transaction:
                yield transaction

    def catch_up(self) -> None:
        """Read what other processes wrote."""
        for chances in range(_CHANCES, -1, -1):
            try:
                with self.store.reading() as transaction:
                    self._refresh(transaction)
            except _ModelError:
                # Another process may have refitted, and removed the model since the look.
                if not chances:
                    raise
            else:
                return

    def reload(self) -> None:
        """Load the model that was fitted last, and remove those before it."""
        self._is_stale = True
        self.catch_up()
        self.folder.remove_before(self.base)

    def alerted(self, transaction: Transaction, ledger: Ledger, sentences: Sequence[str]) -> Ledger:
        """Write alerts, and return the ledger that counts them."""
        for place, sentence in enumerate(sentences, ledger.n_alarms):
            transaction.put(f"alarm {place:09d}", {"at": now_text(), "says": sentence})
        return replace(ledger, n_alarms=ledger.n_alarms + len(sentences))

    def alert(self, transaction: Transaction, sentence: str) -> None:
        """Write an alert, and the ledger that counts it."""
        self.ledger = self.alerted(transaction, self.ledger, [sentence])
        transaction.put("ledger", self.ledger.to_state())

    def _refresh(self, transaction: Transaction) -> None:
        with self._reading_stored():
            base = transaction.get("base")
            number, seq, counted = int(base["model"]), int(base["seq"]), str(base["counted"])
        if self._is_stale or number != self.base:
            self.growing = self._loaded(number)
            self.base, self.counted, self.seq = number, counted, seq
            self._is_stale = False
        if self.seq < transaction.last():
            self._replay(transaction)
        with self._reading_stored():
            self.ledger = Ledger.from_state(transaction.get("ledger"))

    @contextmanager
    def _reading_stored(self) -> Iterator[None]:
        """Raise StoreError for stored values that surerec did not write."""
        try:
            yield
        except (KeyError, TypeError, ValueError) as error:
            raise StoreError(
                f"{self.store.name} has no events of a live model, or damaged ones: restore it "
                "from a copy, or start again with surerec live init.",
                reason="damaged",
            ) from error

    def _loaded(self, number: int) -> GrowingModel:
        try:
            return GrowingModel(check_can_live(load(self.folder.model(number))))
        except (InputError, OSError) as error:
            raise _ModelError(str(error), reason="model cannot be read") from error

    def _replay(self, transaction: Transaction) -> None:
        """Ingest what is stored behind `seq`, in the order of commits."""
        forgotten = transaction.forgotten(self.seq)
        for event in transaction.events(self.seq):
            while forgotten and forgotten[0][0] < event.seq:
                self._forget_again(forgotten.pop(0)[1])
            with self._reading_stored():
                self.growing.statistics.add(event.person, event.item, event.time)
        for _, person in forgotten:
            self._forget_again(person)
        self.seq = transaction.last()

    def _forget_again(self, person: str) -> None:
        if person in self.growing.profiles.users:
            self.growing.forget(person)
