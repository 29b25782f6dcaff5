"""Where events are kept: one body of SQL for SQLite and PostgreSQL."""

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

SCHEMA_VERSION: Final = 4

FORGOTTEN: Final = "forgotten"
"""The verdict of a row that is no event: its user was forgotten at this place."""

_TABLES: Final = (
    "TABLE IF NOT EXISTS surerec_meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    """TABLE IF NOT EXISTS surerec_events (seq BIGINT PRIMARY KEY, key TEXT NOT NULL UNIQUE,
    person TEXT NOT NULL, item TEXT NOT NULL, time BIGINT NOT NULL, verdict TEXT NOT NULL)""",
    "INDEX IF NOT EXISTS surerec_events_person ON surerec_events (person)",
    """TABLE IF NOT EXISTS surerec_user_days (day TEXT NOT NULL, person TEXT NOT NULL,
    n BIGINT NOT NULL, errors TEXT NOT NULL, PRIMARY KEY (day, person))""",
)
_ASKED_AT_ONCE: Final = 500
_ROWS_AT_ONCE: Final = 50_000
_SECONDS = 10  # to wait for the database, or for another server that writes
_STILL: Final = 600  # seconds for which a server may do nothing in the midst of writing

_PRAGMAS: Final = (
    "journal_mode = WAL",
    "synchronous = FULL",  # a commit is on the disk
    "secure_delete = ON",  # what is deleted is overwritten
)
_NO_ROOM: Final = (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)  # what may come of a full disk
_LEAST_ROOM: Final = 1 << 16  # bytes, that the log of changes and its index need at the least


class StoredEvent(NamedTuple):
    """An event as it is kept."""

    seq: int
    """Its place in the order of commits."""
    key: str
    person: str
    item: str
    time: int
    verdict: str
    """What it was judged: "judged", or why it was not."""


class Transaction:
    """What can be done with a store as one: all of it is kept, or nothing.

    Parameters
    ----------
    connection : object
        Of sqlite3 or psycopg.
    mark : str
        What stands for a value in a statement of that database.
    """

    def __init__(self, connection: Any, mark: str) -> None:
        self._connection = connection
        self._mark = mark

    def _run(self, statement: str, *values: Any) -> Any:
        return self._connection.execute(statement.replace("?", self._mark), values)

    def _run_many(self, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
        self._connection.cursor().executemany(statement.replace("?", self._mark), rows)

    def _among(self, statement: str, texts: Sequence[str], *before: Any) -> Iterator[Any]:
        """Return the rows of a statement that ends with IN, for some texts at a time."""
        for start in range(0, len(texts), _ASKED_AT_ONCE):
            some = texts[start : start + _ASKED_AT_ONCE]
            marks = ", ".join("?" * len(some))
            yield from self._run(f"{statement} ({marks})", *before, *some).fetchall()

    def make_tables(self) -> None:
        """Make the tables that are not there."""
        for each in _TABLES:
            self._run(f"CREATE {each}")

    def get(self, name: str) -> Any:
        """Return what is kept under a name; None if nothing is."""
        row = self._run("SELECT value FROM surerec_meta WHERE name = ?", name).fetchone()
        return None if row is None else json.loads(row[0])

    def put(self, name: str, value: Any) -> None:
        """Keep something that JSON holds, or an object of such attributes, under a name."""
        self._run(
            "INSERT INTO surerec_meta (name, value) VALUES (?, ?) "
            "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            name,
            json.dumps(value, default=vars),
        )

    def named(self, beginning: str) -> list[Any]:
        """Return all that is kept under names that begin so, by name."""
        rows = self._run(
            "SELECT value FROM surerec_meta WHERE name LIKE ? ORDER BY name", f"{beginning}%"
        )
        return [json.loads(row[0]) for row in rows.fetchall()]

    def last(self) -> int:
        """Return the place of the last event or forgetting; 0 if there is none yet."""
        return int(self.get("last") or 0)

    def known_keys(self, keys: Sequence[str]) -> set[str]:
        """Return those of some keys that events are kept under."""
        return {key for (key,) in self._among("SELECT key FROM surerec_events WHERE key IN", keys)}

    def append(self, events: Sequence[StoredEvent]) -> None:
        """Keep events behind those that are there."""
        if events:
            self._run_many("INSERT INTO surerec_events VALUES (?, ?, ?, ?, ?, ?)", events)
            self.put("last", events[-1].seq)

    def user_days(self, day: str, persons: Sequence[str]) -> dict[str, UserDay]:
        """Return the judged events of a day of those of some users who had one."""
        statement = "SELECT person, n, errors FROM surerec_user_days WHERE day = ? AND person IN"
        return {
            person: UserDay(int(n), tuple(json.loads(errors)))
            for person, n, errors in self._among(statement, persons, day)
        }

    def put_user_days(self, day: str, counts: Mapping[str, UserDay]) -> None:
        """Write the judged events of users on a day over those that are there."""
        if counts:
            self._run_many(
                "INSERT INTO surerec_user_days (day, person, n, errors) VALUES (?, ?, ?, ?) "
                "ON CONFLICT (day, person) DO UPDATE SET n = excluded.n, errors = excluded.errors",
                [(day, each, n, json.dumps(errors)) for each, (n, errors) in counts.items()],
            )

    def drop_user_days(self, before: str) -> None:
        """Delete the counts of the days before one."""
        self._run("DELETE FROM surerec_user_days WHERE day < ?", before)

    def heaviest(self, day: str, most: int) -> list[tuple[str, int]]:
        """Return the users with the most judged events of a day, and how many these are."""
        statement = "SELECT person, n FROM surerec_user_days WHERE day = ?"
        return list(self._run(f"{statement} ORDER BY n DESC, person LIMIT ?", day, most).fetchall())

    def events(self, after: int = 0) -> Iterator[StoredEvent]:
        """Return the events and forgettings behind a place, in order, some at a time."""
        while True:
            rows = self._run(
                "SELECT seq, key, person, item, time, verdict FROM surerec_events "
                "WHERE seq > ? ORDER BY seq LIMIT ?",
                after,
                _ROWS_AT_ONCE,
            ).fetchall()
            yield from (StoredEvent(*row) for row in rows)
            if len(rows) < _ROWS_AT_ONCE:
                return
            after = rows[-1][0]

    def count(self) -> int:
        """Return how many events are kept."""
        statement = "SELECT COUNT(*) FROM surerec_events WHERE verdict <> ?"
        return int(self._run(statement, FORGOTTEN).fetchone()[0])

    def forget(self, person: str) -> int:
        """Delete the events of a user, and remember until a refit that they are gone."""
        self._run("DELETE FROM surerec_events WHERE person = ? AND verdict = ?", person, FORGOTTEN)
        gone = self._run("DELETE FROM surerec_events WHERE person = ?", person).rowcount
        self._run("DELETE FROM surerec_user_days WHERE person = ?", person)
        seq = self.last() + 1
        self.append([StoredEvent(seq, f"{FORGOTTEN} {seq}", person, "", 0, FORGOTTEN)])
        return int(gone)

    def forget_names(self, until: int) -> None:
        """Keep no more who was forgotten up to a place: a refit has left them out."""
        self._run("DELETE FROM surerec_events WHERE verdict = ? AND seq <= ?", FORGOTTEN, until)


class Store(ABC):
    """A database of events, with what is known from them.

    Everything in one `writing` is kept, or nothing of it; one process writes at a time, in the
    order in which they commit.

    Attributes
    ----------
    name : str
        What errors call it; without a password.
    """

    _mark = "?"
    _begin = ("BEGIN", "BEGIN IMMEDIATE")  # to read, to write
    _error: type[Exception] = sqlite3.Error

    def __init__(self, name: str) -> None:
        self.name = name
        self._connection: Any = None
        self._lock = RLock()  # one connection, which threads take in turn

    @abstractmethod
    def _connect(self) -> Any:
        """Return a new connection."""

    @abstractmethod
    def _explained(self, error: Any) -> StoreError:
        """Return an error of the database as a sentence."""

    def check(self) -> None:  # noqa: B027  # a database of its own looks after its files
        """Check, without waiting, that the store was not damaged or removed since it was opened.

        Raises
        ------
        StoreError
            If it was: events would be lost.
        """

    def compact(self) -> None:  # noqa: B027  # PostgreSQL does it by itself (VACUUM)
        """Overwrite what was deleted, in the log of changes too, so that no disk holds it."""

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            if self._connection is not None:
                with suppress(self._error):
                    self._connection.close()

    def _prepare(self) -> None:
        """Make the tables, unless they are there; refuse those of another version."""
        with ExitStack() as stack:
            stack.callback(self.close)
            with self.writing() as transaction:
                transaction.make_tables()
                version = transaction.get("schema")
                if version not in (None, SCHEMA_VERSION):
                    raise InputError(
                        f"{self.name} has events of schema {version}, and this surerec knows "
                        f"{SCHEMA_VERSION}: use the surerec that wrote it, or export with that one "
                        "and begin anew with this."
                    )
                transaction.put("schema", SCHEMA_VERSION)
            stack.pop_all()

    def writing(self) -> AbstractContextManager[Transaction]:
        """Open a transaction in which nobody else writes; it is durable when the block has ended.

        Raises
        ------
        StoreError
            If the database is away or full: nothing of the block is kept then, and nothing that
            was kept before is lost.
        """
        return self._transaction(write=True)

    def reading(self) -> AbstractContextManager[Transaction]:
        """Open a transaction that sees one state of the store; nothing is to be written in it."""
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
                    with suppress(self._error):  # a full disk may have rolled back already
                        self._connection.rollback()
            except self._error as error:
                raise self._explained(error) from error


class SqliteStore(Store):
    """Events in one file; what was acknowledged is on the disk.

    Parameters
    ----------
    path : Path
        The file; it is made if it is not there, and can be read by its owner only.
    hold : bool, default=True
        Keep other processes out; the workers of one server do not, as it does so for them.

    Raises
    ------
    InputError
        If another process has it open, or it is no store of this version.
    """

    def __init__(self, path: Path, *, hold: bool = True) -> None:
        super().__init__(str(path))
        self._path = path
        self._files: dict[Path, tuple[int, int]] = {}
        self._is_damaged = False
        self._holding = ExitStack()
        if hold:
            self._holding.enter_context(held(path))
        self._prepare()
        # Each stays while one connection is open.
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
        """Check that the files are whole as far as was seen, and those that were opened.

        A removed file would be written on by this process, and lost when it ends.
        """
        if self._is_damaged:
            raise self._damaged()
        if any(_identity(path) != known for path, known in self._files.items()):
            raise StoreError(
                f"{self._path} was removed or replaced while it was open, and nothing of this was "
                "kept: stop what has it open, restore it from a copy, and start again.",
                reason="file removed or replaced",
            )

    def _damaged(self) -> StoreError:
        return StoreError(
            f"{self._path} is no event store that can be read; restore it from a copy.",
            reason="damaged",
        )

    def _explained(self, error: Any) -> StoreError:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
            self._is_damaged = True  # nothing is acknowledged into it any more
            return self._damaged()
        kept = "nothing of this was kept, and nothing that was acknowledged is lost"
        if code == sqlite3.SQLITE_FULL or (code in _NO_ROOM and self._is_disk_full()):
            return StoreError(
                f"{self._path}: the disk is full; {kept}: make room and send it again.",
                reason="disk full",
            )
        return StoreError(
            f"{self._path} cannot be read or written ({error}); {kept}: send it again."
        )

    def _is_disk_full(self) -> bool:
        """Return whether that is why a file could not be made or lengthened."""
        with suppress(OSError):
            return shutil.disk_usage(self._path.parent).free < _LEAST_ROOM
        return False

    def compact(self) -> None:
        """Overwrite what was deleted, in the log of changes too, so that no disk holds it."""
        with self._lock:
            try:
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            except sqlite3.Error as error:
                raise self._explained(error) from error

    def close(self) -> None:
        """Close the file; another process may open it then."""
        super().close()
        self._holding.close()


def _identity(path: Path) -> tuple[int, int]:
    """Return what tells a file from another of its name; of a missing one, what no file has."""
    try:
        found = path.stat()
    except OSError:
        return -1, -1
    return found.st_dev, found.st_ino


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Keep other processes out of a store; the system lets go when this one ends, however.

    Raises
    ------
    InputError
        If another process has it open.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(exclusive(path.with_name(f"{path.name}.lock"), wait=False))
        except BlockingIOError:
            raise InputError(
                f"Another process has {path} open: one server at a time, or keep events in "
                "PostgreSQL, which several may share."
            ) from None
        yield


class PostgresStore(Store):
    """Events in a PostgreSQL database; one transaction writes at a time, whoever's it is.

    Parameters
    ----------
    address : str
        Such as ``postgresql://surerec@db.example/shop``.

    Raises
    ------
    InputError
        If psycopg is not installed, the address cannot be parsed, or the database has a store of
        another version.
    StoreError
        If the database is away.
    """

    _mark = "%s"
    _begin = (
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY",
        # Writers wait here for each other, and then see all that was committed before.
        "SELECT pg_advisory_xact_lock(hashtext('surerec events'))",
    )

    def __init__(self, address: str) -> None:
        super().__init__(without_password(address))
        try:
            import psycopg  # noqa: PLC0415  # an extra
        except ModuleNotFoundError:
            raise InputError(
                "Events in PostgreSQL need psycopg, which is not installed; install it with: "
                "pip install 'surerec[postgres]'"
            ) from None
        self._psycopg, self._error = psycopg, psycopg.Error
        self._address = address
        self._prepare()

    def _connect(self) -> Any:
        connection = self._psycopg.connect(self._address, connect_timeout=_SECONDS)
        # A commit is on the disk, whatever the server's default; and nobody waits for ever for
        # a server that stands still in the midst of writing, nor can it do so for ever.
        connection.execute("SET synchronous_commit TO on")
        connection.execute(f"SET lock_timeout TO '{_SECONDS}s'")
        connection.execute(f"SET idle_in_transaction_session_timeout TO '{_STILL}s'")
        connection.commit()
        return connection

    def _explained(self, error: Any) -> StoreError:
        self.close()
        self._connection = None  # the next transaction makes another
        reason = driver_message(error, self._address)
        return StoreError(
            f"The database {self.name} cannot be reached or written ({reason}); this was not "
            "acknowledged, and nothing that was is lost: send it again."
        )
