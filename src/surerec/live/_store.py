"""Where events are kept: one body of SQL for SQLite and PostgreSQL."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from contextlib import contextmanager
from threading import RLock
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from surerec.conformal import UserDay
from surerec.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

SCHEMA_VERSION: Final = 2

_TABLES: Final = (
    "CREATE TABLE surerec_meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    """CREATE TABLE surerec_events (seq BIGINT PRIMARY KEY, key TEXT NOT NULL UNIQUE,
    person TEXT NOT NULL, item TEXT NOT NULL, time BIGINT NOT NULL, verdict TEXT NOT NULL)""",
    "CREATE INDEX surerec_events_person ON surerec_events (person)",
    "CREATE TABLE surerec_forgotten (seq BIGINT PRIMARY KEY, person TEXT NOT NULL)",
    """CREATE TABLE surerec_user_days (day TEXT NOT NULL, person TEXT NOT NULL,
    n BIGINT NOT NULL, errors TEXT NOT NULL, PRIMARY KEY (day, person))""",
)
_ASKED_AT_ONCE: Final = 500
_ROWS_AT_ONCE: Final = 50_000


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
    run : callable
        Runs a statement with ``?`` for its values, and gives a cursor.
    run_many : callable
        Runs a statement for many rows of values.
    """

    def __init__(self, run: Any, run_many: Any) -> None:
        self._run = run
        self._run_many = run_many

    def get(self, name: str) -> Any:
        """Give what is kept under a name; None if nothing is."""
        row = self._run("SELECT value FROM surerec_meta WHERE name = ?", (name,)).fetchone()
        return None if row is None else json.loads(row[0])

    def put(self, name: str, value: Any) -> None:
        """Keep something, in a form that JSON holds, under a name."""
        self._run(
            "INSERT INTO surerec_meta (name, value) VALUES (?, ?) "
            "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            (name, json.dumps(value)),
        )

    def named(self, beginning: str) -> list[Any]:
        """Give all that is kept under names that begin so, by name."""
        rows = self._run(
            "SELECT value FROM surerec_meta WHERE name LIKE ? ORDER BY name", (f"{beginning}%",)
        )
        return [json.loads(row[0]) for row in rows.fetchall()]

    def last(self) -> int:
        """Give the place of the last event or forgetting; 0 if there is none yet."""
        return int(self.get("last") or 0)

    def known_keys(self, keys: Sequence[str]) -> set[str]:
        """Give those of some keys that events are kept under."""
        found: set[str] = set()
        for start in range(0, len(keys), _ASKED_AT_ONCE):
            some = list(keys[start : start + _ASKED_AT_ONCE])
            marks = ", ".join("?" * len(some))
            rows = self._run(f"SELECT key FROM surerec_events WHERE key IN ({marks})", some)  # noqa: S608  # marks only
            found.update(row[0] for row in rows.fetchall())
        return found

    def append(self, events: Sequence[StoredEvent]) -> None:
        """Keep events behind those that are there."""
        if not events:
            return
        self._run_many(
            "INSERT INTO surerec_events (seq, key, person, item, time, verdict) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            [tuple(event) for event in events],
        )
        self.put("last", events[-1].seq)

    def user_days(self, day: str, persons: Sequence[str]) -> dict[str, UserDay]:
        """Return the judged events of a day of those of some users who had one."""
        found: dict[str, UserDay] = {}
        for start in range(0, len(persons), _ASKED_AT_ONCE):
            some = list(persons[start : start + _ASKED_AT_ONCE])
            marks = ", ".join("?" * len(some))
            which = f"day = ? AND person IN ({marks})"
            statement = f"SELECT person, n, errors FROM surerec_user_days WHERE {which}"  # noqa: S608  # marks only
            for person, n, errors in self._run(statement, [day, *some]).fetchall():
                found[person] = UserDay(int(n), tuple(json.loads(errors)))
        return found

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
        self._run("DELETE FROM surerec_user_days WHERE day < ?", (before,))

    def heaviest(self, day: str, most: int) -> list[tuple[str, int]]:
        """Return the users with the most judged events of a day, and how many these are."""
        rows = self._run(
            "SELECT person, n FROM surerec_user_days WHERE day = ? ORDER BY n DESC, person LIMIT ?",
            (day, most),
        )
        return [(person, int(n)) for person, n in rows.fetchall()]

    def events(self, after: int = 0) -> Iterator[StoredEvent]:
        """Give the events behind a place, in the order of commits, some at a time."""
        while True:
            rows = self._run(
                "SELECT seq, key, person, item, time, verdict FROM surerec_events "
                "WHERE seq > ? ORDER BY seq LIMIT ?",
                (after, _ROWS_AT_ONCE),
            ).fetchall()
            yield from (StoredEvent(*row) for row in rows)
            if len(rows) < _ROWS_AT_ONCE:
                return
            after = rows[-1][0]

    def count(self) -> int:
        """Give how many events are kept."""
        return int(self._run("SELECT COUNT(*) FROM surerec_events", ()).fetchone()[0])

    def forget(self, person: str) -> int:
        """Delete the events of a person, and remember until a recount that they are gone."""
        gone = self._run("DELETE FROM surerec_events WHERE person = ?", (person,)).rowcount
        self._run("DELETE FROM surerec_user_days WHERE person = ?", (person,))
        seq = self.last() + 1
        self._run("INSERT INTO surerec_forgotten (seq, person) VALUES (?, ?)", (seq, person))
        self.put("last", seq)
        return int(gone)

    def forgotten(self, after: int = 0) -> list[tuple[int, str]]:
        """Give who was forgotten behind a place, with the place of each."""
        rows = self._run(
            "SELECT seq, person FROM surerec_forgotten WHERE seq > ? ORDER BY seq", (after,)
        )
        return [(int(seq), person) for seq, person in rows.fetchall()]

    def forget_names(self, until: int) -> None:
        """Keep no more who was forgotten up to a place: a recount has left them out."""
        self._run("DELETE FROM surerec_forgotten WHERE seq <= ?", (until,))


class Store(ABC):
    """A database of events, with what is known from them.

    Everything in one `writing` is kept, or nothing of it; one process writes at a time, in the
    order in which they commit.
    """

    def __init__(self) -> None:
        self._lock = RLock()  # one connection, which threads take in turn

    @property
    @abstractmethod
    def name(self) -> str:
        """What errors call it; without a password."""

    @abstractmethod
    def _begin(self, *, write: bool) -> Any:
        """Begin a transaction and give what runs its statements."""

    @abstractmethod
    def _run_many(self, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Run a statement for many rows of values, in the transaction that was begun."""

    @abstractmethod
    def _commit(self) -> None: ...

    @abstractmethod
    def _rollback(self) -> None: ...

    @abstractmethod
    def _errors(self) -> Any:
        """Give a context in which the database's errors become sentences."""

    @abstractmethod
    def _has_tables(self, run: Any) -> bool: ...

    @abstractmethod
    def compact(self) -> None:
        """Leave nothing on the disk of what was deleted, as far as the database can."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the database."""

    def check(self) -> None:  # noqa: B027  # a database of its own looks after its files
        """Check, without waiting, that the store was not damaged or removed since it was opened.

        Raises
        ------
        StoreError
            If it was: events would be lost.
        """

    def _prepare(self) -> None:
        """Make the tables, unless they are there; refuse those of another version."""
        with self._lock, self._errors():
            run = self._begin(write=True)
            try:
                transaction = Transaction(run, self._run_many)
                if not self._has_tables(run):
                    for statement in _TABLES:
                        run(statement, ())
                    transaction.put("schema", SCHEMA_VERSION)
                version = transaction.get("schema")
            except BaseException:
                self._rollback()
                raise
            self._commit()
        if version != SCHEMA_VERSION:
            raise InputError(
                f"{self.name} has events of schema {version}, and this surerec knows "
                f"{SCHEMA_VERSION}: use the surerec that wrote it, or export with that one "
                "and begin anew with this."
            )

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        """Give a transaction in which nobody else writes; it is durable when the block has ended.

        Raises
        ------
        StoreError
            If the database is away or full: nothing of the block is kept then, and nothing that
            was kept before is lost.
        """
        with self._transaction(write=True) as transaction:
            yield transaction

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """Give a transaction that sees one state of the store; nothing is to be written in it."""
        with self._transaction(write=False) as transaction:
            yield transaction

    @contextmanager
    def _transaction(self, *, write: bool) -> Iterator[Transaction]:
        with self._lock, self._errors():
            run = self._begin(write=write)
            try:
                yield Transaction(run, self._run_many)
            except BaseException:
                self._rollback()
                raise
            if write:
                self._commit()
            else:
                self._rollback()
