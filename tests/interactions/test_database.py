"""Rows of databases: by address and query, from files and from a server that is really started."""

import sqlite3

import polars as pl
import pytest

import surerec as sr
from surerec.interactions import write_table

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


PICKS = pl.DataFrame(
    {
        "user_id": ["ann", "bob"],
        "item_id": [7, 8],
        "score": [0.5, -1.5],
        "p_value": [0.1, float("nan")],
    }
)


def rows(address, table):
    from surerec.interactions._database import read_query  # noqa: PLC0415

    return read_query(address, f'SELECT * FROM "{table}" ORDER BY user_id').rows()  # noqa: S608


def test_a_table_is_written_whole_and_replaced_when_asked(address):
    picks = [PICKS, PICKS.with_columns(user_id=pl.col("user_id") + "2")]
    assert write_table(picks, address, "the picks") == 4
    expected = [("ann", 7, 0.5, 0.1), ("ann2", 7, 0.5, 0.1)]
    expected += [("bob", 8, -1.5, None), ("bob2", 8, -1.5, None)]
    assert rows(address, "the picks") == expected
    with pytest.raises(sr.InputError, match="there is a table the picks already; add --overwrite"):
        write_table(picks, address, "the picks")
    assert write_table([PICKS], address, "the picks", overwrite=True) == 2
    assert len(rows(address, "the picks")) == 2


def test_what_fails_half_way_leaves_the_old_table(address):
    write_table([PICKS], address, "picks")

    def failing():
        yield PICKS.head(1)
        raise sr.InputError("no more")

    with pytest.raises(sr.InputError, match="no more"):
        write_table(failing(), address, "picks", overwrite=True)
    assert len(rows(address, "picks")) == 2
    with pytest.raises(sr.InputError, match="name the table to write"):
        write_table([PICKS], address, None)


def test_recommend_all_writes_a_table(address, cli, tmp_path):
    taken = sr.datasets.synthetic(n_users=40, n_items=20, n_rows=500, seed=2)
    model = sr.InductiveConformal("CM12").fit(taken)
    model.save(tmp_path / "model")
    asked = ("recommend-all", tmp_path / "model", "--confidence", "0.5", "--output", address)
    done = cli(*asked, "--table", "picks")
    assert done.code == 0, done.err
    expected = model.recommend_many(confidence=0.5)
    assert f"Wrote {len(expected)} recommendations by icrs12 to the table picks of" in done.err
    found = sorted((row[0], row[1]) for row in rows(address, "picks"))
    assert found == sorted(zip(expected["user_id"], expected["item_id"], strict=True))
    covered = sorted((row[0], row[1], bool(row[-1])) for row in rows(address, "picks"))
    assert covered == sorted(expected.select("user_id", "item_id", "covered").rows())
    assert "true" not in {row[-1] for row in rows(address, "picks")}
    assert "add --overwrite" in cli(*asked, "--table", "picks").err
    assert "name the table" in cli(*asked).err
    wrong = cli("recommend-all", tmp_path / "model", "--output", "x.csv", "--table", "picks")
    assert "are for databases" in wrong.err


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
