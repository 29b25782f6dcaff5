"""Event stores: the same SQL for SQLite and PostgreSQL."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from abc import ABC, abstractmethod
from contextlib import ExitStack, contextmanager, suppress
from threading import RLock
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from surerec._lock import exclusive
from surerec.conformal import UserDay
from surerec.errors import InputError, StoreError
from surerec.interactions import driver_message, without_password

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

SCHEMA_VERSION: Final = 5

FORGOTTEN: Final = "forgotten"
"""Outcome of a row that is not an event but records that its user was forgotten."""

_TABLES: Final = (
    "TABLE IF NOT EXISTS surerec_meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    """TABLE IF NOT EXISTS surerec_events (seq BIGINT PRIMARY KEY, key TEXT NOT NULL UNIQUE,
    user_id TEXT NOT NULL, item TEXT NOT NULL, time BIGINT NOT NULL, outcome TEXT NOT NULL)""",
    "INDEX IF NOT EXISTS surerec_events_user ON surerec_events (user_id)",
    """TABLE IF NOT EXISTS surerec_user_days (day TEXT NOT NULL, user_id TEXT NOT NULL,
    n BIGINT NOT NULL, errors TEXT NOT NULL, PRIMARY KEY (day, user_id))""",
)
_KEYS_AT_ONCE: Final = 500
_ROWS_AT_ONCE: Final = 50_000
_SECONDS = 10  # timeout for the database and for locks of other servers
_IDLE: Final = 600  # seconds that a server may be idle inside a write transaction

_PRAGMAS: Final = (
    "journal_mode = WAL",
    "synchronous = FULL",  # a commit is durable
    "secure_delete = ON",  # overwrites deleted rows
)
_MAYBE_FULL: Final = (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)  # codes of a full disk
_LEAST_FREE: Final = 1 << 16  # bytes that the write-ahead log and its index need


class StoredEvent(NamedTuple):
    """A stored event."""

    seq: int
    """Sequence number in commit order."""
    key: str
    user: str
    item: str
    time: int
    outcome: str
    """"evaluated", or the reason why it was not evaluated."""


class Transaction:
    """The operations on a store; one transaction is committed completely or not at all.

    Parameters
    ----------
    connection : object
        Connection of sqlite3 or psycopg.
    mark : str
        Placeholder for a value in a statement of that database.
    """

    def __init__(self, connection: Any, mark: str) -> None:
        self._connection = connection
        self._mark = mark

    def _run(self, statement: str, *values: Any) -> Any:
        return self._connection.execute(statement.replace("?", self._mark), values)

    def _run_many(self, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
        self._connection.cursor().executemany(statement.replace("?", self._mark), rows)

    def _in(self, statement: str, texts: Sequence[str], *before: Any) -> Iterator[Any]:
        """Yield the rows of a statement that ends with IN, in batches of texts."""
        for start in range(0, len(texts), _KEYS_AT_ONCE):
            some = texts[start : start + _KEYS_AT_ONCE]
            marks = ", ".join("?" * len(some))
            yield from self._run(f"{statement} ({marks})", *before, *some).fetchall()

    def create_tables(self) -> None:
        """Create missing tables."""
        for each in _TABLES:
            self._run(f"CREATE {each}")

    def get(self, name: str) -> Any:
        """Return the value stored under a name, or None."""
        row = self._run("SELECT value FROM surerec_meta WHERE name = ?", name).fetchone()
        return None if row is None else json.loads(row[0])

    def put(self, name: str, value: Any) -> None:
        """Store a JSON value, or an object with JSON attributes, under a name."""
        self._run(
            "INSERT INTO surerec_meta (name, value) VALUES (?, ?) "
            "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            name,
            json.dumps(value, default=vars),
        )

    def named(self, prefix: str) -> list[Any]:
        """Return all values whose names have this prefix, ordered by name."""
        rows = self._run(
            "SELECT value FROM surerec_meta WHERE name LIKE ? ORDER BY name", f"{prefix}%"
        )
        return [json.loads(row[0]) for row in rows.fetchall()]

    def last(self) -> int:
        """Return the last sequence number, or 0."""
        return int(self.get("last") or 0)

    def known_keys(self, keys: Sequence[str]) -> set[str]:
        """Return which of the keys belong to stored events."""
        return {key for (key,) in self._in("SELECT key FROM surerec_events WHERE key IN", keys)}

    def append(self, events: Sequence[StoredEvent]) -> None:
        """Append events."""
        if events:
            self._run_many("INSERT INTO surerec_events VALUES (?, ?, ?, ?, ?, ?)", events)
            self.put("last", events[-1].seq)

    def user_days(self, day: str, users: Sequence[str]) -> dict[str, UserDay]:
        """Return the evaluated events of users on a day; users without any are left out."""
        statement = "SELECT user_id, n, errors FROM surerec_user_days WHERE day = ? AND user_id IN"
        return {
            user: UserDay(int(n), tuple(json.loads(errors)))
            for user, n, errors in self._in(statement, users, day)
        }

    def put_user_days(self, day: str, counts: Mapping[str, UserDay]) -> None:
        """Insert or replace the evaluated events of users on a day."""
        if counts:
            self._run_many(
                "INSERT INTO surerec_user_days (day, user_id, n, errors) VALUES (?, ?, ?, ?) "
                "ON CONFLICT (day, user_id) DO UPDATE SET n = excluded.n, errors = excluded.errors",
                [(day, each, n, json.dumps(errors)) for each, (n, errors) in counts.items()],
            )

    def drop_user_days(self, before: str) -> None:
        """Delete the counts of earlier days."""
        self._run("DELETE FROM surerec_user_days WHERE day < ?", before)

    def heaviest(self, day: str, most: int) -> list[tuple[str, int]]:
        """Return the users with the most evaluated events of a day, with their counts."""
        statement = "SELECT user_id, n FROM surerec_user_days WHERE day = ?"
        return list(
            self._run(f"{statement} ORDER BY n DESC, user_id LIMIT ?", day, most).fetchall()
        )

    def events(self, after: int = 0) -> Iterator[StoredEvent]:
        """Yield the events and deletions after a sequence number, in order."""
        while True:
            rows = self._run(
                "SELECT seq, key, user_id, item, time, outcome FROM surerec_events "
                "WHERE seq > ? ORDER BY seq LIMIT ?",
                after,
                _ROWS_AT_ONCE,
            ).fetchall()
            yield from (StoredEvent(*row) for row in rows)
            if len(rows) < _ROWS_AT_ONCE:
                return
            after = rows[-1][0]

    def count(self) -> int:
        """Return the number of stored events."""
        statement = "SELECT COUNT(*) FROM surerec_events WHERE outcome <> ?"
        return int(self._run(statement, FORGOTTEN).fetchone()[0])

    def forget(self, user: str) -> int:
        """Delete the events of a user, and record the deletion until the next refit."""
        self._run("DELETE FROM surerec_events WHERE user_id = ? AND outcome = ?", user, FORGOTTEN)
        deleted = self._run("DELETE FROM surerec_events WHERE user_id = ?", user).rowcount
        self._run("DELETE FROM surerec_user_days WHERE user_id = ?", user)
        seq = self.last() + 1
        self.append([StoredEvent(seq, f"{FORGOTTEN} {seq}", user, "", 0, FORGOTTEN)])
        return int(deleted)

    def forget_names(self, until: int) -> None:
        """Delete the ids of users forgotten up to a sequence number, after a refit without them."""
        self._run("DELETE FROM surerec_events WHERE outcome = ? AND seq <= ?", FORGOTTEN, until)


class Store(ABC):
    """A database of events and of the state derived from them.

    Write transactions are atomic, and one process writes at a time.

    Attributes
    ----------
    name : str
        Name in error messages, without a password.
    """

    _mark = "?"
    _begin = ("BEGIN", "BEGIN IMMEDIATE")  # to read, to write
    _error: type[Exception] = sqlite3.Error

    def __init__(self, name: str) -> None:
        self.name = name
        self._connection: Any = None
        self._lock = RLock()  # threads share one connection

    @abstractmethod
    def _connect(self) -> Any:
        """Return a new connection."""

    @abstractmethod
    def _explained(self, error: Any) -> StoreError:
        """Convert an error of the database to a StoreError."""

    def check(self) -> None:  # noqa: B027  # PostgreSQL manages its files
        """Check, without blocking, that the store was not damaged or removed since it was opened.

        Raises
        ------
        StoreError
            If it was, as events would be lost.
        """

    def compact(self) -> None:  # noqa: B027  # PostgreSQL has autovacuum
        """Overwrite deleted rows on disk, including the write-ahead log."""

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            if self._connection is not None:
                with suppress(self._error):
                    self._connection.close()

    def _prepare(self) -> None:
        """Create missing tables, and check the schema version."""
        with ExitStack() as stack:
            stack.callback(self.close)
            with self.writing() as transaction:
                transaction.create_tables()
                version = transaction.get("schema")
                if version not in (None, SCHEMA_VERSION):
                    raise InputError(
                        f"{self.name} has schema version {version}, but this surerec reads version "
                        f"{SCHEMA_VERSION}. Use the surerec that wrote it, or export the events "
                        "with that one and create a new live model."
                    )
                transaction.put("schema", SCHEMA_VERSION)
            stack.pop_all()

    def writing(self) -> AbstractContextManager[Transaction]:
        """Open an exclusive write transaction, which is durable when the block ends.

        Raises
        ------
        StoreError
            If the database is unavailable or full. The transaction is rolled back, and no
            earlier data are lost.
        """
        return self._transaction(write=True)

    def reading(self) -> AbstractContextManager[Transaction]:
        """Open a read-only transaction on a consistent snapshot."""
        return self._transaction(write=False)

    @contextmanager
    def _transaction(self, *, write: bool) -> Iterator[Transaction]:
        with self._lock:
            try:
                self.check()
                if self._connection is None:
                    self._connection = self._connect()
                try:
                    self._connection.execute(self._begin[write])
                    yield Transaction(self._connection, self._mark)
                    if write:
                        self.check()
                        self._connection.commit()
                finally:
                    with suppress(self._error):  # a full disk may already have caused a rollback
                        self._connection.rollback()
            except self._error as error:
                raise self._explained(error) from error


class SqliteStore(Store):
    """An SQLite file of events; acknowledged events are on disk.

    Parameters
    ----------
    path : Path
        The file, created if missing and readable by its owner only.
    hold : bool, default=True
        Lock the file against other processes; the workers of one server pass False.

    Raises
    ------
    InputError
        If another process has the file open, or it has another schema version.
    """

    def __init__(self, path: Path, *, hold: bool = True) -> None:
        super().__init__(str(path))
        self._path = path
        self._files: dict[Path, tuple[int, int]] = {}
        self._is_damaged = False
        self._holding = ExitStack()
        if hold:
            self._holding.enter_context(locked(path))
        self._prepare()
        # These files exist as long as one connection is open.
        paths = [path.with_name(path.name + end) for end in ("", "-wal", "-shm")]
        self._files = {each: _identity(each) for each in paths if each.exists()}

    def _connect(self) -> Any:
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
        connection = sqlite3.connect(
            self._path, isolation_level=None, check_same_thread=False, timeout=_SECONDS
        )
        for pragma in _PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
        return connection

    def check(self) -> None:
        """Check that no damage was found and that the files are those that were opened.

        This process could still write to a deleted file, but its data would be lost at the end.
        """
        if self._is_damaged:
            raise self._damaged()
        if any(_identity(path) != known for path, known in self._files.items()):
            raise StoreError(
                f"{self._path} was removed or replaced while it was open; these events were not "
                "stored. Stop the server, restore the file from a backup, and start again.",
                reason="file removed or replaced",
            )

    def _damaged(self) -> StoreError:
        return StoreError(
            f"{self._path} is not a readable event store. Restore it from a backup.",
            reason="damaged",
        )

    def _explained(self, error: Any) -> StoreError:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
            self._is_damaged = True  # no further event is acknowledged
            return self._damaged()
        state = "these events were not stored; acknowledged events are safe"
        if code == sqlite3.SQLITE_FULL or (code in _MAYBE_FULL and self._is_disk_full()):
            return StoreError(
                f"{self._path}: the disk is full; {state}. Free disk space and send them again.",
                reason="disk full",
            )
        return StoreError(
            f"{self._path} cannot be read or written ({error}); {state}. Send them again."
        )

    def _is_disk_full(self) -> bool:
        """Return whether the disk has no space left."""
        with suppress(OSError):
            return shutil.disk_usage(self._path.parent).free < _LEAST_FREE
        return False

    def compact(self) -> None:
        """Overwrite deleted rows on disk, including the write-ahead log."""
        with self._lock:
            try:
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            except sqlite3.Error as error:
                raise self._explained(error) from error

    def close(self) -> None:
        """Close the file and release the lock."""
        super().close()
        self._holding.close()


def _identity(path: Path) -> tuple[int, int]:
    """Return the device and inode of a file; (-1, -1) if it is missing."""
    try:
        found = path.stat()
    except OSError:
        return -1, -1
    return found.st_dev, found.st_ino


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lock a store against other processes; the system releases the lock if this one dies.

    Raises
    ------
    InputError
        If another process has the store open.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(exclusive(path.with_name(f"{path.name}.lock"), wait=False))
        except BlockingIOError:
            raise InputError(
                f"Another process has {path} open. Run one server at a time, or store events in "
                "PostgreSQL, which several servers can share."
            ) from None
        yield


class PostgresStore(Store):
    """Events in a PostgreSQL database; one transaction of all servers writes at a time.

    Parameters
    ----------
    address : str
        Address such as ``postgresql://surerec@db.example/shop``.

    Raises
    ------
    InputError
        If psycopg is not installed, the address cannot be parsed, or the database has another
        schema version.
    StoreError
        If the database is unavailable.
    """

    _mark = "%s"
    _begin = (
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY",
        # Writers wait here for each other, and then see all earlier commits.
        "SELECT pg_advisory_xact_lock(hashtext('surerec events'))",
    )

    def __init__(self, address: str) -> None:
        super().__init__(without_password(address))
        try:
            import psycopg  # noqa: PLC0415  # an extra
        except ModuleNotFoundError:
            raise InputError(
                "Events in PostgreSQL need psycopg, which is not installed. Install it with "
                "`pip install 'surerec[postgres]'`."
            ) from None
        self._psycopg, self._error = psycopg, psycopg.Error
        self._address = address
        self._prepare()

    def _connect(self) -> Any:
        connection = self._psycopg.connect(self._address, connect_timeout=_SECONDS)
        # Commits are durable whatever the server's default. The timeouts end waits for a server
        # that hangs inside a write transaction.
        connection.execute("SET synchronous_commit TO on")
        connection.execute(f"SET lock_timeout TO '{_SECONDS}s'")
        connection.execute(f"SET idle_in_transaction_session_timeout TO '{_IDLE}s'")
        connection.commit()
        return connection

    def _explained(self, error: Any) -> StoreError:
        self.close()
        self._connection = None  # the next transaction reconnects
        reason = driver_message(error, self._address)
        return StoreError(
            f"The database {self.name} cannot be reached or written ({reason}); these events were "
            "not stored, acknowledged events are safe. Send them again."
        )
