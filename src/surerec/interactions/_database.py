"""Databases: read the rows of a query, and write frames into a table."""

from __future__ import annotations

import json
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import quote, unquote

import polars as pl

from surerec.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping


_Writer: TypeAlias = "tuple[Callable[..., Any], Callable[[str, pl.DataFrame], None], str]"
_LONGEST: Final = 63  # bytes of a name in PostgreSQL
_EXAMPLE: Final = "SELECT user_id, item_id, bought_at FROM orders"
_POSTGRESQL: Final = frozenset(("postgresql", "postgres"))
_PRAGMAS: Final = frozenset(("data_version", "table_info", "table_xinfo"))  # for full-text tables


def is_address(source: object) -> bool:
    """Check whether a text is the address of a database, such as ``sqlite:///shop.db``.

    Examples
    --------
    >>> is_address("postgresql://shop@db.example/orders"), is_address("orders.csv")
    (True, False)
    """
    return isinstance(source, str) and source.partition("://")[0] in _OPEN and "://" in source


def refuse_unknown_address(source: object) -> None:
    """Check that a text is not the address of an unsupported database or server.

    The message names the scheme only: the rest may hold a password.

    Examples
    --------
    >>> refuse_unknown_address("mysql://shop:secret@db.example/orders")
    Traceback (most recent call last):
    surerec.errors.InputError: mysql://…: not a supported address. Use postgresql://user@host/...
    """
    if isinstance(source, str) and "://" in source and not is_address(source):
        scheme = source.partition("://")[0]
        named = f"{scheme}://…" if scheme.isascii() and scheme.isidentifier() else "The source"
        raise InputError(
            f"{named}: not a supported address. Use postgresql://user@host/database, "
            "sqlite:///FILE or duckdb:///FILE, or the path of a local file."
        )


def without_password(address: str) -> str:
    """Return an address as it may be shown and stored: user, host and database, nothing else.

    Raises
    ------
    InputError
        If the address cannot be parsed, or if part of the password would become another field.

    Examples
    --------
    >>> without_password("postgresql://shop:secret@db.example/orders?sslmode=require")
    'postgresql://shop@db.example/orders'
    """
    scheme, _, rest = address.partition("://")
    if scheme not in _POSTGRESQL:
        host, slash, path = rest.partition("/")
        return f"{scheme}://{host.rpartition('@')[2]}{slash}{path.partition('?')[0]}"
    try:
        parts = _parse(address)
    except ImportError:  # psycopg is an extra; connecting reports that it is missing
        return f"{scheme}://…"
    hosts = (parts.get("host") or parts.get("hostaddr") or "").split(",")
    ports = (parts.get("port") or "").split(",")
    ports = ports * len(hosts) if len(ports) == 1 else ports
    places = []
    for host, port in zip(hosts, ports, strict=False):
        named = f"[{host}]" if ":" in host else host.replace("/", "%2F")  # IPv6; a socket's folder
        places.append(f"{named}:{port}" if port else named)
    user = f"{parts['user']}@" if parts.get("user") else ""
    database = f"/{parts['dbname']}" if parts.get("dbname") else ""
    shown = f"{scheme}://{user}{','.join(places)}{database}"
    return "".join(c if c.isprintable() else "?" for c in shown)


def _parse(address: str) -> Mapping[str, str]:
    """Return the fields of a PostgreSQL address as the driver reads them.

    An @ or / that is not percent-encoded ends the password early, and the rest would become the
    host or the database. Such addresses are refused.
    """
    from psycopg import Error  # noqa: PLC0415  # an extra
    from psycopg.conninfo import conninfo_to_dict  # noqa: PLC0415

    before, _, after = address.partition("://")[2].partition("@")
    try:
        parts = {name: str(value) for name, value in conninfo_to_dict(address).items()}
    except (Error, ValueError):  # its message may quote the password
        parts = None
    ports = "".join((parts or {}).get("port", "").split(","))
    split_early = "@" in after or ("@" in address and "/" in before)
    if parts is None or split_early or "\0" in address or (ports and not ports.isdigit()):
        raise InputError(
            f"{address.partition('://')[0]}://…: the address cannot be parsed. Percent-encode "
            "special characters in the user name and password (@ as %40, / as %2F, % as %25, a "
            "space as %20), and write an IPv6 host in brackets, such as [::1]."
        ) from None
    return parts


def read_query(address: str, query: str | None) -> pl.DataFrame:
    """Return the rows of one read-only statement as a frame.

    The database is opened for reading only. Several statements, statements that write, and access
    to other files (SQLite's ``ATTACH``, DuckDB's ``COPY``) are refused.

    Parameters
    ----------
    address : str
        ``postgresql://user:password@host/database``, ``sqlite:///file.db`` or
        ``duckdb:///file.duckdb``; four slashes for an absolute path.
    query : str
        One ``SELECT``, in the database's own SQL.
    """
    shown = without_password(address)
    if not query or not query.strip():
        raise InputError(f'{shown}: a database needs a query. Pass query="{_EXAMPLE}".')
    scheme = address.partition("://")[0]
    try:
        connection = _OPEN[scheme](address)
    except ModuleNotFoundError as error:
        package = {"duckdb": "duckdb"}.get(scheme, "'surerec[postgres]'")
        raise InputError(
            f"{shown}: reading it needs {error.name}. Run pip install {package}."
        ) from error
    except InputError:
        raise
    except Exception as error:  # noqa: BLE001  # each library has its own
        raise InputError(
            f"{shown}: cannot connect ({driver_message(error, address)}). Check the address, the "
            "password and whether the server runs."
        ) from None
    with closing(connection):
        try:
            return _rows(scheme, connection, query)
        except Exception as error:  # noqa: BLE001
            message = driver_message(error, address)
            raise InputError(
                f"{shown}: the query failed ({message}). Use one statement that only reads."
            ) from None


def _rows(scheme: str, connection: Any, query: str) -> pl.DataFrame:
    source = connection
    if scheme in _POSTGRESQL:  # the server allows a cursor for one SELECT only
        source = connection.cursor(name="surerec")
    elif scheme == "duckdb":
        kinds = [each.type.name for each in connection.extract_statements(query)]
        if kinds != ["SELECT"]:
            raise ValueError(f"this is {' and '.join(kinds) or 'no statement'}")
    with closing(source):
        return pl.read_database(query, source, infer_schema_length=None)


def driver_message(error: Exception, address: str) -> str:
    """Return the first line of a driver's error, or its type if the line quotes a password."""
    message = (str(error).strip().splitlines() or [type(error).__name__])[0][:200].rstrip(". ")
    parts = _parse(address) if address.partition("://")[0] in _POSTGRESQL else {}
    secrets = [value for name, value in parts.items() if "password" in name and value]
    return type(error).__name__ if any(secret in message for secret in secrets) else message


def _postgresql(address: str) -> Any:
    import psycopg  # noqa: PLC0415  # an extra

    connection = psycopg.connect(address, connect_timeout=20)
    try:
        connection.read_only = True
        connection.execute("SELECT 1")  # after its first snapshot, a transaction stays read-only
    except BaseException:
        connection.close()
        raise
    return connection


def _sqlite(address: str) -> Any:
    import sqlite3  # noqa: PLC0415  # needed here alone

    connection = sqlite3.connect(f"file:{quote(_file(address))}?mode=ro", uri=True)
    actions = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION)
    reads = {*actions, sqlite3.SQLITE_RECURSIVE}

    def authorize(action: int, name: str | None, *_: str | None) -> int:
        about_tables = action == sqlite3.SQLITE_PRAGMA and name in _PRAGMAS
        return sqlite3.SQLITE_OK if action in reads or about_tables else sqlite3.SQLITE_DENY

    connection.set_authorizer(authorize)
    return connection


def _duckdb(address: str) -> Any:
    import duckdb  # noqa: PLC0415  # not a dependency

    return duckdb.connect(
        _file(address), read_only=True, config={"enable_external_access": "false"}
    )


def _file(address: str, *, must_exist: bool = True) -> str:
    """Return the path of an address: relative after three slashes, absolute after four."""
    path = unquote(address.partition("://")[2].removeprefix("/"))
    if must_exist and not Path(path).is_file():
        raise InputError(
            f"{without_password(address)}: no such file. Use four slashes for an absolute path."
        )
    return path


_OPEN: Final[dict[str, Callable[[str], Any]]] = {
    **dict.fromkeys(_POSTGRESQL, _postgresql), "sqlite": _sqlite, "duckdb": _duckdb,
}  # fmt: skip


def write_table(
    frames: Iterable[pl.DataFrame],
    address: str,
    table: str | None,
    *,
    overwrite: bool = False,
    about: Mapping[str, str] | None = None,
) -> int:
    """Write frames of one schema into a new table, and return the number of rows.

    Parameters
    ----------
    frames : iterable of polars.DataFrame
        Ids, numbers and texts; NaN becomes NULL.
    address : str
        Address of a database; see :func:`surerec.read_interactions`.
    table : str
        Name of the table.
    overwrite : bool, default=False
        Replace an existing table.
    about : mapping of str to str, optional
        Metadata, stored as a JSON comment on the table in PostgreSQL and DuckDB. SQLite has no
        comments.
    """
    shown = without_password(address)
    if not table or "\0" in table or len(table.encode()) > _LONGEST:
        raise InputError(f"{shown}: {table!r} is not a table name. Pass one with --table NAME.")
    scheme, name, n_rows = address.partition("://")[0], _quoted(table), 0
    try:
        with _WRITE[scheme](address) as (run, insert, exists):
            is_there = run(exists, (table,)).fetchone() is not None
            if is_there and not overwrite:
                message = f"{shown}: the table {table} exists. Pass --overwrite to replace it."
                raise InputError(message)  # noqa: TRY301  # closes the transaction
            if is_there:
                run(f"DROP TABLE {name}")
            for number, frame in enumerate(frames):
                if number == 0:
                    columns = (f"{_quoted(c)} {_type(t)}" for c, t in frame.schema.items())
                    run(f"CREATE TABLE {name} ({', '.join(columns)})")
                    if about and scheme != "sqlite":
                        words = json.dumps(dict(about), ensure_ascii=False).replace("'", "''")
                        run(f"COMMENT ON TABLE {name} IS '{words}'")
                insert(name, frame.with_columns(pl.selectors.float().fill_nan(None)))
                n_rows += len(frame)
    except ModuleNotFoundError as error:
        raise InputError(
            f"{shown}: writing to it needs {error.name}. Run pip install {error.name}."
        ) from error
    except Exception as error:  # each library has its own
        if type(error).__module__.partition(".")[0] not in _LIBRARIES:
            raise  # an error of surerec
        message = driver_message(error, address)
        raise InputError(f"{shown}: nothing was written ({message}).") from None
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
def _write_postgresql(address: str) -> Iterator[_Writer]:
    import psycopg  # noqa: PLC0415  # an extra

    with psycopg.connect(address, connect_timeout=20) as connection:  # a transaction

        def insert(name: str, frame: pl.DataFrame) -> None:
            statement: Any = f"COPY {name} FROM STDIN"
            with connection.cursor() as cursor, cursor.copy(statement) as copy:
                for row in frame.iter_rows():
                    copy.write_row(row)

        found = "SELECT 1 FROM pg_tables WHERE tablename = %s AND schemaname = current_schema()"
        yield connection.execute, insert, found


@contextmanager
def _write_sqlite(address: str) -> Iterator[_Writer]:
    import sqlite3  # noqa: PLC0415  # needed here alone

    connection = sqlite3.connect(_file(address, must_exist=False), isolation_level=None)
    with closing(connection):
        connection.execute("BEGIN IMMEDIATE")

        def insert(name: str, frame: pl.DataFrame) -> None:
            marks = ", ".join("?" * frame.width)
            connection.executemany(f"INSERT INTO {name} VALUES ({marks})", frame.iter_rows())  # noqa: S608

        found = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
        yield connection.execute, insert, found
        connection.execute("COMMIT")  # not reached after an error; closing rolls back


@contextmanager
def _write_duckdb(address: str) -> Iterator[_Writer]:
    import duckdb  # noqa: PLC0415  # not a dependency

    with duckdb.connect(_file(address, must_exist=False)) as connection:
        connection.execute("BEGIN")

        def insert(name: str, frame: pl.DataFrame) -> None:
            connection.register("surerec_frame", frame.to_arrow())
            connection.execute(f"INSERT INTO {name} SELECT * FROM surerec_frame")  # noqa: S608

        found = "SELECT 1 FROM information_schema.tables WHERE table_name = ?"
        yield connection.execute, insert, found
        connection.execute("COMMIT")


_LIBRARIES: Final = frozenset(("psycopg", "sqlite3", "duckdb", "_duckdb"))
_WRITE: Final = dict.fromkeys(_POSTGRESQL, _write_postgresql) | {
    "sqlite": _write_sqlite, "duckdb": _write_duckdb,
}  # fmt: skip
