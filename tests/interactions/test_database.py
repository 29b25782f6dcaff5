"""Rows of databases: by address and query, from files and from a server that is really started."""

import sqlite3

import polars as pl
import pytest

import surerec as sr

ROWS = [("ann", 10, 200), ("ann", 20, 300), ("bob", 20, 100), ("bob", 10, 150)]
MAKE = "CREATE TABLE orders (customer TEXT, sku INTEGER, bought_at INTEGER, paid INTEGER)"
QUERY = "SELECT customer, sku, bought_at FROM orders WHERE paid > 0"


def fill(execute, mark):
    execute(MAKE)
    for row in ROWS:
        execute(f"INSERT INTO orders VALUES ({mark}, {mark}, {mark}, 1)", row)  # noqa: S608
    execute("INSERT INTO orders VALUES ('eve', 30, 400, 0)")


@pytest.fixture(params=["sqlite", "duckdb", "postgresql"])
def address(request, tmp_path):
    if request.param == "sqlite":
        with sqlite3.connect(tmp_path / "shop.db") as connection:
            fill(connection.execute, "?")
        connection.close()
        return f"sqlite:///{tmp_path}/shop.db"
    if request.param == "duckdb":
        duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
        with duckdb.connect(str(tmp_path / "shop.duckdb")) as connection:
            fill(connection.execute, "?")
        return f"duckdb:///{tmp_path}/shop.duckdb"
    place = request.getfixturevalue("postgres")()
    import psycopg  # noqa: PLC0415

    with psycopg.connect(place) as connection:
        fill(connection.execute, "%s")
    return place


def test_a_query_gives_the_same_as_a_frame(address):
    found = sr.read_interactions(address, query=QUERY)
    frame = pl.DataFrame(ROWS, schema=["customer", "sku", "bought_at"], orient="row")
    assert found.to_frame().equals(sr.read_interactions(frame).to_frame())
    assert found.origin.startswith(address.partition("://")[0])


def test_the_command_line_reads_it_too(address, cli):
    done = cli("describe", address, "--query", QUERY, "--pairs", "0")
    assert done.code == 0, done.err
    assert "Users" in done.out
    lacking = cli("describe", address)
    assert lacking.code == 2
    assert "say what to read" in lacking.err
    assert "--query" in lacking.err


def test_nothing_can_be_written(address):
    with pytest.raises(sr.InputError, match="the query failed"):
        sr.read_interactions(address, query="DELETE FROM orders")
    assert sr.read_interactions(address, query=QUERY).n_rows == 4


def test_a_wrong_query_is_a_sentence(address):
    with pytest.raises(sr.InputError, match=r"the query failed .*nowhere") as caught:
        sr.read_interactions(address, query="SELECT * FROM nowhere")
    assert "\n" not in str(caught.value)
    with pytest.raises(sr.InputError, match="no user column among 'sku', 'bought_at'"):
        sr.read_interactions(address, query="SELECT sku, bought_at FROM orders")


def test_what_cannot_be_opened_is_named_without_its_password(tmp_path):
    with pytest.raises(sr.InputError, match="there is no such file; an absolute path has four"):
        sr.read_interactions(f"sqlite:///{tmp_path}/nowhere.db", query=QUERY)
    (tmp_path / "other.db").write_text("this is no database, whatever its name may be\n" * 9)
    with pytest.raises(sr.InputError, match=r"other\.db: the query failed"):
        sr.read_interactions(f"sqlite:///{tmp_path}/other.db", query=QUERY)
    pytest.importorskip("psycopg", reason="psycopg is not installed: surerec[postgres]")
    hidden = "postgresql://shop:hush-hush@127.0.0.1:9/orders"
    with pytest.raises(sr.InputError, match=r"shop@127\.0\.0\.1:9/orders: cannot be opened") as it:
        sr.read_interactions(hidden, query=QUERY)
    assert "hush" not in str(it.value)


def test_a_query_is_for_databases(write):
    path = write("log.csv", "user,item,time\n1,2,3\n")
    with pytest.raises(sr.InputError, match="query is for databases"):
        sr.read_interactions(path, query=QUERY)
