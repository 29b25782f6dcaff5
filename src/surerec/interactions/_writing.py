"""Frames into a table of a database, in one transaction: others see all of it, or the old."""

from __future__ import annotations

import json
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from surerec.errors import InputError
from surerec.interactions._database import file_of, in_a_few_words, without_password

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

_LONGEST: Final = 63  # bytes of a name in PostgreSQL


def write_table(
    frames: Iterable[pl.DataFrame],
    address: str,
    table: str | None,
    *,
    overwrite: bool = False,
    about: Mapping[str, str] | None = None,
) -> int:
    """Write frames of one schema into a new table, and give their rows.

    Parameters
    ----------
    frames : iterable of polars.DataFrame
        Ids, numbers and texts; what is not a number is NULL.
    address : str
        Of a database, as :func:`surerec.read_interactions` takes it.
    table : str
        Its name.
    overwrite : bool, default=False
        Replace a table of that name.
    about : mapping of str to str, optional
        What the table says of itself: its comment, as JSON, in PostgreSQL and DuckDB. SQLite has no
        place for it.
    """
    shown = without_password(address)
    if not table or "\0" in table or len(table.encode()) > _LONGEST:
        raise InputError(f"{shown}: name the table to write, with --table picks.")
    scheme = address.partition("://")[0]
    try:
        with _OPEN[scheme](address) as database:
            return database.write(frames, table, shown, overwrite=overwrite, about=about)
    except ModuleNotFoundError as error:
        raise InputError(f"{shown}: writing to it needs {error.name}; install that.") from error
    except InputError:
        raise
    except Exception as error:  # each library has its own
        if type(error).__module__.partition(".")[0] not in _LIBRARIES:
            raise  # ours, of what is written
        said = in_a_few_words(error, address)
        raise InputError(f"{shown}: nothing was written ({said}).") from None


class _Database:
    """A database within a transaction."""

    def __init__(
        self,
        run: Callable[..., Any],
        insert: Callable[..., None],
        exists: str,
        *,
        comments: bool = True,
    ) -> None:
        self._run, self._insert, self._exists, self._comments = run, insert, exists, comments

    def write(
        self,
        frames: Iterable[pl.DataFrame],
        table: str,
        shown: str,
        *,
        overwrite: bool,
        about: Mapping[str, str] | None,
    ) -> int:
        name = _quoted(table)
        if self._run(self._exists, (table,)).fetchone() is not None:
            if not overwrite:
                raise InputError(f"{shown}: there is a table {table} already; add --overwrite.")
            self._run(f"DROP TABLE {name}")
        n_rows = 0
        for number, frame in enumerate(frames):
            if number == 0:
                columns = (f"{_quoted(c)} {_type(t)}" for c, t in frame.schema.items())
                self._run(f"CREATE TABLE {name} ({', '.join(columns)})")
                if about and self._comments:
                    words = json.dumps(dict(about), ensure_ascii=False).replace("'", "''")
                    self._run(f"COMMENT ON TABLE {name} IS '{words}'")
            floats = pl.selectors.float()
            self._insert(name, frame.with_columns(floats.fill_nan(None)))
            n_rows += len(frame)
        return n_rows


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _type(kind: pl.DataType) -> str:
    if kind.is_float():
        return "DOUBLE PRECISION"
    if kind == pl.Boolean:
        return "BOOLEAN"
    if kind == pl.UInt64:
        return "NUMERIC(20)"
    return "BIGINT" if kind.is_integer() else "TEXT"


@contextmanager
def _postgresql(address: str) -> Iterator[_Database]:
    import psycopg  # noqa: PLC0415  # an extra

    with psycopg.connect(address, connect_timeout=20) as connection:  # a transaction

        def insert(name: str, frame: pl.DataFrame) -> None:
            statement: Any = f"COPY {name} FROM STDIN"
            with connection.cursor() as cursor, cursor.copy(statement) as copy:
                for row in frame.iter_rows():
                    copy.write_row(row)

        found = "SELECT 1 FROM pg_tables WHERE tablename = %s AND schemaname = current_schema()"
        yield _Database(connection.execute, insert, found)


@contextmanager
def _sqlite(address: str) -> Iterator[_Database]:
    import sqlite3  # noqa: PLC0415  # needed here alone

    connection = sqlite3.connect(file_of(address), isolation_level=None)
    with closing(connection):
        connection.execute("BEGIN IMMEDIATE")

        def insert(name: str, frame: pl.DataFrame) -> None:
            marks = ", ".join("?" * frame.width)
            connection.executemany(f"INSERT INTO {name} VALUES ({marks})", frame.iter_rows())  # noqa: S608

        found = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
        yield _Database(connection.execute, insert, found, comments=False)
        connection.execute("COMMIT")  # not reached by an error, and closing forgets the rest


@contextmanager
def _duckdb(address: str) -> Iterator[_Database]:
    import duckdb  # noqa: PLC0415  # not a dependency

    with duckdb.connect(file_of(address)) as connection:
        connection.execute("BEGIN")

        def insert(name: str, frame: pl.DataFrame) -> None:
            connection.register("surerec_frame", frame.to_arrow())
            connection.execute(f"INSERT INTO {name} SELECT * FROM surerec_frame")  # noqa: S608

        found = "SELECT 1 FROM information_schema.tables WHERE table_name = ?"
        yield _Database(connection.execute, insert, found)
        connection.execute("COMMIT")


_LIBRARIES: Final = frozenset(("psycopg", "sqlite3", "duckdb", "_duckdb"))
_OPEN: Final = {
    "postgresql": _postgresql,
    "postgres": _postgresql,
    "sqlite": _sqlite,
    "duckdb": _duckdb,
}
