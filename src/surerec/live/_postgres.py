"""Events in PostgreSQL, where several servers share one stream."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from surerec.errors import InputError, StoreError
from surerec.interactions import in_a_few_words, without_password
from surerec.live._store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_SECONDS = 10  # to wait for the database, or for another server that writes
_STILL = 600  # seconds for which a server may do nothing in the midst of writing


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

    def __init__(self, address: str) -> None:
        super().__init__()
        try:
            import psycopg  # noqa: PLC0415  # an extra
        except ModuleNotFoundError:
            raise InputError(
                "Events in PostgreSQL need psycopg, which is not installed; install it with: "
                "pip install 'surerec[postgres]'"
            ) from None
        self._psycopg = psycopg
        self._address, self._name = address, without_password(address)
        self._connection: Any = None
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    @property
    def name(self) -> str:
        """User, host and database of the address."""
        return self._name

    def _connected(self) -> Any:
        if self._connection is None or self._connection.closed:
            self._connection = self._psycopg.connect(self._address, connect_timeout=_SECONDS)
            # A commit is on the disk, whatever the server's default; and nobody waits for ever for
            # a server that stands still in the midst of writing, nor can it do so for ever.
            self._connection.execute("SET synchronous_commit TO on")
            self._connection.execute(f"SET lock_timeout TO '{_SECONDS}s'")
            self._connection.execute(f"SET idle_in_transaction_session_timeout TO '{_STILL}s'")
            self._connection.commit()
        return self._connection

    def _begin(self, *, write: bool) -> Any:
        connection = self._connected()
        if write:
            # Writers wait here for each other, and then see all that was committed before.
            connection.execute("SELECT pg_advisory_xact_lock(hashtext('surerec events'))")
        else:
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")

        def run(statement: str, values: Any) -> Any:
            return connection.execute(statement.replace("?", "%s"), values)

        return run

    def _run_many(self, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
        with self._connection.cursor() as cursor:
            cursor.executemany(statement.replace("?", "%s"), rows)

    def _commit(self) -> None:
        self._connection.commit()

    def _rollback(self) -> None:
        with suppress(self._psycopg.Error):
            self._connection.rollback()

    def _has_tables(self, run: Any) -> bool:
        return run("SELECT to_regclass('surerec_meta')", ()).fetchone()[0] is not None

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except self._psycopg.Error as error:
            broken = self._connection is None or self._connection.broken
            if broken or isinstance(error, self._psycopg.OperationalError):
                self.close()
            reason = in_a_few_words(error, self._address)
            raise StoreError(
                f"The database {self.name} cannot be reached or written ({reason}); this was not "
                "acknowledged, and nothing that was is lost: send it again."
            ) from error

    def compact(self) -> None:
        """Do nothing: the database clears away what was deleted by itself (VACUUM)."""

    def close(self) -> None:
        """Let go of the connection; the next transaction makes another."""
        with self._lock:
            if self._connection is not None:
                with suppress(self._psycopg.Error):
                    self._connection.close()
