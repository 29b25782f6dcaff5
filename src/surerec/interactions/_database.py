"""Rows of a database, by its address and a query."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote, urlsplit

import polars as pl

from surerec.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

_EXAMPLE: Final = "SELECT user_id, item_id, bought_at FROM orders"


def is_address(source: object) -> bool:
    """Tell whether a text is the address of a database, such as ``sqlite:///shop.db``.

    Examples
    --------
    >>> is_address("postgresql://shop@db.example/orders"), is_address("orders.csv")
    (True, False)
    """
    return isinstance(source, str) and source.partition("://")[0] in _OPEN and "://" in source


def without_password(address: str) -> str:
    """Give an address as it may be shown and kept.

    Examples
    --------
    >>> without_password("postgresql://shop:secret@db.example/orders?password=secret")
    'postgresql://shop@db.example/orders'
    """
    parts = urlsplit(address)
    people, at, host = parts.netloc.rpartition("@")
    return f"{parts.scheme}://{people.partition(':')[0]}{at}{host}{parts.path}"


def read_query(address: str, query: str | None) -> pl.DataFrame:
    """Give the rows of a query as a frame; the database is opened for reading only.

    Parameters
    ----------
    address : str
        ``postgresql://user:password@host/database``, ``sqlite:///file.db`` or
        ``duckdb:///file.duckdb``; four slashes for an absolute path.
    query : str
        What to read, in the database's own SQL.
    """
    shown = without_password(address)
    if not query or not query.strip():
        raise InputError(
            f'{shown}: say what to read, with query="{_EXAMPLE}" in Python or '
            f'--query "{_EXAMPLE}" on the command line.'
        )
    scheme = address.partition("://")[0]
    try:
        connection = _OPEN[scheme](address)
    except ModuleNotFoundError as error:
        package = {"duckdb": "duckdb"}.get(scheme, "'surerec[postgres]'")
        raise InputError(
            f"{shown}: reading it needs {error.name}: pip install {package}."
        ) from error
    except InputError:
        raise
    except Exception as error:  # noqa: BLE001  # each library has its own
        raise InputError(f"{shown}: cannot be opened ({in_a_few_words(error, address)}).") from None
    with closing(connection):
        try:
            return pl.read_database(query, connection, infer_schema_length=None)
        except Exception as error:  # noqa: BLE001
            said = in_a_few_words(error, address)
            raise InputError(f"{shown}: the query failed ({said}).") from None


def in_a_few_words(error: Exception, address: str) -> str:
    """Give an error in a few words, of which none is a password."""
    said = (str(error).strip().splitlines() or [type(error).__name__])[0][:200].rstrip(". ")
    password = urlsplit(address).password
    return said.replace(unquote(password), "…") if password else said


def _postgresql(address: str) -> Any:
    import psycopg  # noqa: PLC0415  # an extra

    connection = psycopg.connect(address, connect_timeout=20)
    connection.read_only = True
    return connection


def _sqlite(address: str) -> Any:
    import sqlite3  # noqa: PLC0415  # needed here alone

    return sqlite3.connect(f"file:{quote(_file(address))}?mode=ro", uri=True)


def _duckdb(address: str) -> Any:
    import duckdb  # noqa: PLC0415  # not a dependency

    return duckdb.connect(_file(address), read_only=True)


def file_of(address: str) -> str:
    """Give the path of an address: relative after three slashes, absolute after four."""
    return unquote(address.partition("://")[2].removeprefix("/"))


def _file(address: str) -> str:
    path = file_of(address)
    if not path or not Path(path).is_file():
        raise InputError(f"{address}: there is no such file; an absolute path has four slashes.")
    return path


_OPEN: Final[dict[str, Callable[[str], Any]]] = {
    "postgresql": _postgresql,
    "postgres": _postgresql,
    "sqlite": _sqlite,
    "duckdb": _duckdb,
}
