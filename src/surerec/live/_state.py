"""What a live model is made of: its folder, its state in step with the store, and refits."""

from __future__ import annotations

import json
import logging
import shutil
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, fields
from threading import Lock, RLock
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Self

from surerec._files import check_utf8, file_aside
from surerec._lock import exclusive
from surerec.errors import InputError, StoreError
from surerec.live._events import GrowingModel, check_can_live
from surerec.live._ledger import Ledger, LiveTerms, now_text
from surerec.live._store import FORGOTTEN, PostgresStore, SqliteStore, held
from surerec.recommenders import load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from surerec.live._store import Store, Transaction

SQLITE: Final = "sqlite"

_ABOUT: Final = "live.json"
_FORMAT: Final = "surerec live"
_VERSION: Final = 1
_PRIVATE: Final = 0o700
_PROBABILITIES: Final = 2  # to load a model that another process replaces

_LOGGER: Final = logging.getLogger("surerec.live")
_LOGGER.addHandler(logging.NullHandler())  # silent, unless an application wants to hear of it

PAUSE: Final = 600
"""Seconds after a background refit that failed, in which none is started."""


@dataclass(frozen=True)
class LiveFolder:
    """A folder that a live model was made in.

    Attributes
    ----------
    path : Path
        Where.
    terms : LiveTerms
        What is guaranteed.
    store : str
        "sqlite", or the address of a PostgreSQL database.
    """

    path: Path
    terms: LiveTerms
    store: str

    @classmethod
    def make(cls, path: Path, terms: LiveTerms, store: str) -> Self:
        """Begin a folder; it is one when `finish` has been called."""
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise InputError(f"{path} is there and not empty: name a new folder.")
        if store != SQLITE and not store.startswith(("postgresql://", "postgres://")):
            given = "an address of another kind" if "://" in store else repr(store)
            raise InputError(
                f"The store is {given}; it must be {SQLITE!r} or an address such as "
                "postgresql://surerec@db.example/shop."
            )
        check_utf8(path)
        path.mkdir(_PRIVATE, parents=True, exist_ok=True)
        (path / "models").mkdir(_PRIVATE)
        return cls(path, terms, store)

    def finish(self) -> None:
        """Write what it is, so that it can be opened; its owner only can read it."""
        about = {"format": _FORMAT, "version": _VERSION, "store": self.store} | asdict(self.terms)
        with file_aside(self.path / _ABOUT, mode=0o600) as aside:
            aside.write_text(json.dumps(about, indent=2) + "\n")

    @staticmethod
    def is_one(path: Path) -> bool:
        """Return whether a folder is a live model's."""
        return (path / _ABOUT).is_file()

    @classmethod
    def open(cls, path: Path) -> Self:
        """Read what a folder is.

        Raises
        ------
        InputError
            If it is no live model's, or of a version that is not known.
        """
        try:
            about: Any = json.loads((path / _ABOUT).read_text())
            version = about["version"]
            known = {
                each.name: about[each.name] for each in fields(LiveTerms) if version == _VERSION
            }
            found = cls(path, LiveTerms(**known), str(about["store"]))
        except (FileNotFoundError, NotADirectoryError):
            raise InputError(
                f"{path} is no live model, for it has no {_ABOUT}: make one with "
                f"surerec live init {path} MODEL."
            ) from None
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{path / _ABOUT} is damaged; restore it from a copy.") from error
        if version != _VERSION:
            raise InputError(
                f"{path} is a live model of version {version}, and this surerec knows {_VERSION}: "
                "upgrade surerec."
            )
        return found

    def open_store(self, *, hold: bool = True) -> Store:
        """Open the store of its events; keep other processes out of it, unless that is done."""
        if self.store == SQLITE:
            return SqliteStore(self._file, hold=hold)
        return PostgresStore(self.store)

    @property
    def _file(self) -> Path:
        return self.path / "events.sqlite"

    def held(self) -> AbstractContextManager[None]:
        """Return a context in which no other process has the store, if it is of one process."""
        return held(self._file) if self.store == SQLITE else nullcontext()

    def model(self, number: int) -> Path:
        """Return the folder of a model by number."""
        return self.path / "models" / f"{number:06d}"

    def make_model(self, number: int) -> Path:
        """Make the folder of a model, which its owner only can read: it will hold histories."""
        folder = self.model(number)
        folder.mkdir(_PRIVATE)
        return folder

    def numbers(self) -> list[int]:
        """Return the numbers of the models that are there, whole or not."""
        return sorted(
            int(each.name) for each in (self.path / "models").iterdir() if each.name.isdigit()
        )

    def remove_before(self, number: int) -> None:
        """Remove the models before one: they hold people's histories."""
        for each in self.numbers():
            if each < number:
                shutil.rmtree(self.model(each), ignore_errors=True)


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
        for probabilities in range(_PROBABILITIES, -1, -1):
            try:
                with self.store.reading() as transaction:
                    self._refresh(transaction)
            except _ModelError:
                # Another process may have refitted, and removed the model since the look.
                if not probabilities:
                    raise
            else:
                return

    def reload(self) -> None:
        """Load the model that was fitted last, and remove those before it."""
        self._is_stale = True
        self.catch_up()
        self.folder.remove_before(self.base)

    def keep(self, transaction: Transaction, alerts: Sequence[str] = ()) -> None:
        """Write the ledger, and alarms, which it counts."""
        for sentence in alerts:
            says = {"at": now_text(), "says": sentence}
            transaction.put(f"alarm {self.ledger.n_alerts:09d}", says)
            self.ledger.n_alerts += 1
        transaction.put("ledger", self.ledger)

    def _refresh(self, transaction: Transaction) -> None:
        try:
            base = transaction.get("base")
            number, seq, counted = int(base["model"]), int(base["seq"]), str(base["counted"])
            if self._is_stale or number != self.base:
                self.growing = self._loaded(number)
                self.base, self.counted, self.seq = number, counted, seq
                self._is_stale = False
            if self.seq < transaction.last():
                self._replay(transaction)
            self.ledger = Ledger.from_state(transaction.get("ledger"))
        except (KeyError, TypeError, ValueError) as error:  # of values that surerec did not write
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
        for event in transaction.events(self.seq):
            if event.verdict != FORGOTTEN:
                self.growing.statistics.add(event.person, event.item, event.time)
            elif event.person in self.growing.profiles.users:
                self.growing.forget(event.person)
        self.seq = transaction.last()


class RefitJob:
    """A refit that runs in a thread; while it runs, starting it again waits for the same one.

    Parameters
    ----------
    lock_file : Path
        Keeps other processes from refitting at the same time.
    """

    def __init__(self, lock_file: Path) -> None:
        self._lock_file = lock_file
        self._starting = Lock()
        self._pool = ThreadPoolExecutor(1, "surerec-refit")
        self._running: Future[None] | None = None
        self._not_before = 0.0

    @property
    def may_start(self) -> bool:
        """Whether no background refit failed a short while ago."""
        return monotonic() >= self._not_before

    def start(
        self, refit: Callable[[], None], report: Callable[[str], None], *, wait: bool
    ) -> None:
        """Start a refit, unless one is running.

        Parameters
        ----------
        refit : callable
            Refits, and replaces the model in one step.
        report : callable
            Is told why a refit failed that nobody waits for.
        wait : bool
            Wait until it has ended, and raise its error.
        """
        with self._starting:
            running = self._running
            if running is None or running.done():
                running = self._pool.submit(self._run, refit, None if wait else report)
            self._running = running
        if wait:
            running.result()

    def close(self) -> None:
        """Wait for the end of a refit that is running; start none any more."""
        self._pool.shutdown()

    def _run(self, refit: Callable[[], None], report: Callable[[str], None] | None) -> None:
        try:
            with exclusive(self._lock_file, wait=False):
                refit()
        except BlockingIOError:
            raise InputError("Another process refits this model already.") from None
        except BaseException as error:
            if report is not None:
                self._not_before = monotonic() + PAUSE
                _LOGGER.exception("refitting failed", extra={"fields": {"why": str(error)}})
                # Without the paths and addresses of an error's message.
                reason = error.reason if isinstance(error, StoreError) else ""
                report(reason or getattr(error, "strerror", None) or type(error).__name__)
            raise
