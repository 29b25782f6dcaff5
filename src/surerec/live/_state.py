"""The folder of a live model, its in-memory state and its background refits."""

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
from surerec.live._events import GrowingModel, check_supports_live
from surerec.live._ledger import Ledger, LiveTerms, now_text
from surerec.live._store import FORGOTTEN, PostgresStore, SqliteStore, locked
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
_RETRIES: Final = 2  # of loading a model that another process replaces

_LOGGER: Final = logging.getLogger("surerec.live")
_LOGGER.addHandler(logging.NullHandler())  # silent unless the application configures logging

RETRY_SECONDS: Final = 600
"""Seconds between a failed background refit and the next attempt."""


@dataclass(frozen=True)
class LiveFolder:
    """The folder of a live model.

    Attributes
    ----------
    path : Path
        Path of the folder.
    terms : LiveTerms
        Confidence levels and alert settings.
    store : str
        "sqlite", or the address of a PostgreSQL database.
    """

    path: Path
    terms: LiveTerms
    store: str

    @classmethod
    def create(cls, path: Path, terms: LiveTerms, store: str) -> Self:
        """Create a folder, which is complete after `finish`."""
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise InputError(f"{path} exists and is not empty. Use a new folder.")
        if store != SQLITE and not store.startswith(("postgresql://", "postgres://")):
            given = "an unsupported address" if "://" in store else repr(store)  # maybe a password
            raise InputError(
                f"store is {given}. Use {SQLITE!r} or a PostgreSQL address such as "
                "postgresql://surerec@db.example/shop."
            )
        check_utf8(path)
        path.mkdir(_PRIVATE, parents=True, exist_ok=True)
        (path / "models").mkdir(_PRIVATE)
        return cls(path, terms, store)

    def finish(self) -> None:
        """Write the description, readable by its owner only, so that the folder can be opened."""
        about = {"format": _FORMAT, "version": _VERSION, "store": self.store} | asdict(self.terms)
        with file_aside(self.path / _ABOUT, mode=0o600) as aside:
            aside.write_text(json.dumps(about, indent=2) + "\n")

    @staticmethod
    def is_live(path: Path) -> bool:
        """Return whether a folder contains a live model."""
        return (path / _ABOUT).is_file()

    @classmethod
    def open(cls, path: Path) -> Self:
        """Read the description of a folder.

        Raises
        ------
        InputError
            If the folder contains no live model, or one of an unknown version.
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
                f"{path} is not a live model: it has no {_ABOUT}. Create one with "
                f"`surerec live init {path} MODEL`."
            ) from None
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{path / _ABOUT} is damaged. Restore it from a backup.") from error
        if version != _VERSION:
            raise InputError(
                f"{path} is a live model of version {version}, but this surerec reads version "
                f"{_VERSION}. Upgrade surerec."
            )
        return found

    def open_store(self, *, hold: bool = True) -> Store:
        """Open the event store; `hold` locks an SQLite store against other processes."""
        if self.store == SQLITE:
            return SqliteStore(self._file, hold=hold)
        return PostgresStore(self.store)

    @property
    def _file(self) -> Path:
        return self.path / "events.sqlite"

    def locked(self) -> AbstractContextManager[None]:
        """Return a context that locks an SQLite store against other processes."""
        return locked(self._file) if self.store == SQLITE else nullcontext()

    def model(self, number: int) -> Path:
        """Return the path of a numbered model."""
        return self.path / "models" / f"{number:06d}"

    def create_model(self, number: int) -> Path:
        """Create the folder of a model, readable by its owner only, as it contains histories."""
        folder = self.model(number)
        folder.mkdir(_PRIVATE)
        return folder

    def numbers(self) -> list[int]:
        """Return the numbers of all models in the folder, including incomplete ones."""
        return sorted(
            int(each.name) for each in (self.path / "models").iterdir() if each.name.isdigit()
        )

    def remove_before(self, number: int) -> None:
        """Delete all models before this number, because they contain user histories."""
        for each in self.numbers():
            if each < number:
                shutil.rmtree(self.model(each), ignore_errors=True)


class _ModelError(StoreError):
    """The model that the store refers to cannot be read."""


class LiveState:
    """The growing model and the ledger, synchronised with other processes before each use.

    Parameters
    ----------
    folder : LiveFolder
        Folder of the fitted models.
    store : Store
        Event store.

    Attributes
    ----------
    growing : GrowingModel
        The last fitted model with all events since.
    ledger : Ledger
        Adapted thresholds and observed coverage.
    seq : int
        Sequence number of the last ingested event.
    base : int
        Number of the last fitted model.
    fitted_at : str
        When that model was fitted, as ISO text.
    lock : RLock
        Must be held to read or change any of these.
    """

    growing: GrowingModel
    ledger: Ledger
    seq: int
    fitted_at: str
    base = -1
    _is_stale = True

    def __init__(self, folder: LiveFolder, store: Store) -> None:
        self.folder = folder
        self.store = store
        self.lock = RLock()
        self.reload()

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        """Open a write transaction on the latest state; a failure rolls everything back."""
        with self.lock:
            try:
                with self.store.writing() as transaction:
                    self._refresh(transaction)
                    yield transaction
            except BaseException:
                self._is_stale = True  # reload: the memory may hold events that were rolled back
                raise

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """Open a read transaction on the latest state; no event is ingested inside the block."""
        with self.lock:
            self.catch_up()
            with self.store.reading() as transaction:
                yield transaction

    def catch_up(self) -> None:
        """Read the changes of other processes."""
        for retries in range(_RETRIES, -1, -1):
            try:
                with self.store.reading() as transaction:
                    self._refresh(transaction)
            except _ModelError:
                # Another process may have refitted and deleted this model in the meantime.
                if not retries:
                    raise
            else:
                return

    def reload(self) -> None:
        """Load the last fitted model and delete the earlier ones."""
        self._is_stale = True
        self.catch_up()
        self.folder.remove_before(self.base)

    def keep(self, transaction: Transaction, alerts: Sequence[str] = ()) -> None:
        """Write the ledger and new alerts."""
        for message in alerts:
            alert = {"at": now_text(), "message": message}
            transaction.put(f"alert {self.ledger.n_alerts:09d}", alert)
            self.ledger.n_alerts += 1
        transaction.put("ledger", self.ledger)

    def _refresh(self, transaction: Transaction) -> None:
        try:
            base = transaction.get("base")
            number, seq, fitted_at = int(base["model"]), int(base["seq"]), str(base["fitted_at"])
            if self._is_stale or number != self.base:
                self.growing = self._loaded(number)
                self.base, self.fitted_at, self.seq = number, fitted_at, seq
                self._is_stale = False
            if self.seq < transaction.last():
                self._replay(transaction)
            self.ledger = Ledger.from_state(transaction.get("ledger"))
        except (KeyError, TypeError, ValueError) as error:  # values that surerec did not write
            raise StoreError(
                f"{self.store.name} does not contain the events of a live model, or is damaged. "
                "Restore it from a backup, or create a new model with `surerec live init`.",
                reason="damaged",
            ) from error

    def _loaded(self, number: int) -> GrowingModel:
        try:
            return GrowingModel(check_supports_live(load(self.folder.model(number))))
        except (InputError, OSError) as error:
            raise _ModelError(str(error), reason="model cannot be read") from error

    def _replay(self, transaction: Transaction) -> None:
        """Ingest the stored events after `seq`, in commit order."""
        for event in transaction.events(self.seq):
            if event.outcome != FORGOTTEN:
                self.growing.statistics.add(event.user, event.item, event.time)
            elif event.user in self.growing.profiles.users:
                self.growing.forget(event.user)
        self.seq = transaction.last()


class RefitJob:
    """A refit in a background thread; at most one runs at a time.

    Parameters
    ----------
    lock_file : Path
        Lock file that prevents simultaneous refits by several processes.
    """

    def __init__(self, lock_file: Path) -> None:
        self._lock_file = lock_file
        self._starting = Lock()
        self._pool = ThreadPoolExecutor(1, "surerec-refit")
        self._running: Future[None] | None = None
        self._not_before = 0.0

    @property
    def may_start(self) -> bool:
        """Whether the last failure of a background refit is long enough ago."""
        return monotonic() >= self._not_before

    def start(
        self, refit: Callable[[], None], report: Callable[[str], None], *, wait: bool
    ) -> None:
        """Start a refit, unless one is running.

        Parameters
        ----------
        refit : callable
            Refits and replaces the model.
        report : callable
            Called with the reason when a background refit fails.
        wait : bool
            Wait for the end and raise any error.
        """
        with self._starting:
            running = self._running
            if running is None or running.done():
                running = self._pool.submit(self._run, refit, None if wait else report)
            self._running = running
        if wait:
            running.result()

    def close(self) -> None:
        """Wait for a running refit and accept no further one."""
        self._pool.shutdown()

    def _run(self, refit: Callable[[], None], report: Callable[[str], None] | None) -> None:
        try:
            with exclusive(self._lock_file, wait=False):
                refit()
        except BlockingIOError:
            raise InputError("Another process is refitting this model. Try again later.") from None
        except BaseException as error:
            if report is not None:
                self._not_before = monotonic() + RETRY_SECONDS
                _LOGGER.exception("refit failed", extra={"fields": {"reason": str(error)}})
                # An alert must not show the message, which may contain paths and addresses.
                reason = error.reason if isinstance(error, StoreError) else ""
                report(reason or getattr(error, "strerror", None) or type(error).__name__)
            raise
