"""Reading from and writing to SQLite, DuckDB and a real PostgreSQL server."""

import json
import sqlite3
from urllib.parse import quote

import polars as pl
import pytest

import surerec as sr
from surerec.interactions import driver_message, without_password, write_table

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
        connection.execute("CREATE SEQUENCE numbers")
    return place


def test_a_query_gives_the_same_as_a_frame(address, cli):
    found = sr.read_interactions(address, query=QUERY)
    frame = pl.DataFrame(ROWS, schema=["customer", "sku", "bought_at"], orient="row")
    assert found.to_frame().equals(sr.read_interactions(frame).to_frame())
    assert found.origin.startswith(address.partition("://")[0])
    done = cli("describe", address, "--query", QUERY)
    assert done.code == 0, done.err
    cli("describe", address).assert_refused("a database needs a query. Pass --query")
    with pytest.raises(sr.InputError, match="query= is for databases"):
        sr.read_interactions(frame, query=QUERY)


def test_nothing_can_be_written(address, tmp_path):
    kind = address.partition("://")[0]
    writes = [
        "DELETE FROM orders",
        "COMMIT; DELETE FROM orders",
        QUERY + "; COMMIT; DELETE FROM orders",  # noqa: S608
        f"{QUERY}; {QUERY}",
        "CREATE TABLE more AS SELECT * FROM orders",
        "CREATE TEMPORARY TABLE more AS SELECT * FROM orders",
        "WITH gone AS (DELETE FROM orders RETURNING *) SELECT customer, sku, bought_at FROM gone",
        "DELETE FROM orders RETURNING customer, sku, bought_at",
    ]
    other = tmp_path / "other"
    writes += {
        "sqlite": [f"ATTACH '{other}' AS o", f"VACUUM INTO '{other}'", "PRAGMA user_version = 3"],
        "duckdb": [
            f"COPY orders TO '{other}'",
            f"ATTACH '{other}' AS o",
            f"EXPORT DATABASE '{other}'",
            "EXPLAIN ANALYZE DELETE FROM orders",
            "SELECT * FROM read_csv('/etc/hosts')",
        ],
        "postgresql": [
            "COMMIT; SET default_transaction_read_only = off; DELETE FROM orders; COMMIT",
            "DO $$ BEGIN SET transaction_read_only = off; DELETE FROM orders; END $$",
            f"COPY orders TO PROGRAM 'cat > {other}'",
            "SELECT set_config('transaction_read_only', 'off', false)",
            "SELECT * FROM nextval('numbers')",
        ],
    }[kind]
    for query in writes:
        with pytest.raises(sr.InputError, match=r"the query failed .* Use one statement"):
            sr.read_interactions(address, query=query)
    assert not list(tmp_path.glob("other*"))
    for query in (QUERY, f"{QUERY};", "WITH o AS (" + QUERY + ") SELECT * FROM o -- all"):  # noqa: S608
        assert sr.read_interactions(address, query=query).n_rows == 4


def test_a_wrong_query_is_a_one_line_error(address):
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


def test_a_table_is_written_completely_and_replaced_on_request(address):
    picks = [PICKS, PICKS.with_columns(user_id=pl.col("user_id") + "2")]
    assert write_table(picks, address, "the picks") == 4
    expected = [("ann", 7, 0.5, 0.1), ("ann2", 7, 0.5, 0.1)]
    expected += [("bob", 8, -1.5, None), ("bob2", 8, -1.5, None)]
    assert rows(address, "the picks") == expected
    with pytest.raises(sr.InputError, match=r"the table the picks exists\. Pass --overwrite"):
        write_table(picks, address, "the picks")
    assert write_table([PICKS], address, "the picks", overwrite=True) == 2
    assert len(rows(address, "the picks")) == 2


def test_a_failed_write_keeps_the_old_table(address):
    write_table([PICKS], address, "picks")

    def failing():
        yield PICKS.head(1)
        raise sr.InputError("no more")

    with pytest.raises(sr.InputError, match="no more"):
        write_table(failing(), address, "picks", overwrite=True)
    assert len(rows(address, "picks")) == 2
    with pytest.raises(sr.InputError, match="is not a table name"):
        write_table([PICKS], address, None)


def table_comment(address, table):
    """Return the comment of a table; None in SQLite, which has no comments."""
    if address.startswith("duckdb"):
        duckdb = pytest.importorskip("duckdb")
        with duckdb.connect(address.removeprefix("duckdb:///")) as connection:
            asked = "SELECT comment FROM duckdb_tables() WHERE table_name = ?"
            return connection.execute(asked, (table,)).fetchone()[0]
    if address.startswith("postgresql"):
        import psycopg  # noqa: PLC0415

        with psycopg.connect(address) as connection:
            asked = "SELECT obj_description(%s::regclass)"
            return connection.execute(asked, (table,)).fetchone()[0]
    return None


def test_recommend_all_writes_a_table(address, cli, tmp_path):
    consumed = sr.datasets.synthetic(n_users=40, n_items=20, n_rows=500, random_state=2)
    model = sr.InductiveConformal("CM12").fit(consumed)
    model.save(tmp_path / "model")
    asked = ("recommend", tmp_path / "model", "--all", "--confidence", "0.5", "--output", address)
    done = cli(*asked, "--table", "picks")
    assert done.code == 0, done.err
    expected = model.recommend_many(confidence=0.5)
    assert f"Wrote {len(expected)} recommendations by icrs12 to the table picks of" in done.err
    at = expected.columns.index("covered")
    covered = sorted((row[0], row[1], bool(row[at])) for row in rows(address, "picks"))
    assert covered == sorted(expected.select("user_id", "item_id", "covered").rows())
    if (comment := table_comment(address, "picks")) is not None:
        said = {"surerec.recommender": "icrs12"}
        said["surerec.guarantee"] = str(
            model.model_.guarantee_to_all(model.model_.options(confidence=0.5))
        )
        assert json.loads(comment) == said
    assert "Pass --overwrite" in cli(*asked, "--table", "picks").err
    assert "is not a table name" in cli(*asked).err
    wrong = cli("recommend", tmp_path / "model", "--all", "--output", "x.csv", "--table", "picks")
    assert "--overwrite apply to databases; pass a database address as --output" in wrong.err


def test_a_failed_connection_is_reported_without_the_password(tmp_path):
    with pytest.raises(sr.InputError, match=r"no such file\. Use four slashes"):
        sr.read_interactions(f"sqlite:///{tmp_path}/nowhere.db", query=QUERY)
    (tmp_path / "other.db").write_text("not a database\n" * 9)
    with pytest.raises(sr.InputError, match=r"other\.db: the query failed"):
        sr.read_interactions(f"sqlite:///{tmp_path}/other.db", query=QUERY)
    pytest.importorskip("psycopg", reason="psycopg is not installed: surerec[postgres]")
    hidden = "postgresql://shop:hush-hush@127.0.0.1:9/orders"
    with pytest.raises(sr.InputError, match=r"shop@127\.0\.0\.1:9/orders: cannot connect") as it:
        sr.read_interactions(hidden, query=QUERY)
    assert "hush" not in str(it.value)


SECRETS = ["hush#hush", "hush?hush", "hush:hush", "hush@hush", "hush/hush", "42/hush", "hush%hush"]
SECRETS += ["hush hush", "@hush", "x@hush?application_name=y", "hush%40x", "[hush", "hush&user=x"]
SHOWN = "postgresql://shop@db.example/orders"


@pytest.mark.parametrize("secret", SECRETS)
def test_an_address_shows_user_host_and_database_only(secret):
    pytest.importorskip("psycopg", reason="psycopg is not installed: surerec[postgres]")
    encoded = quote(secret, safe="")
    for end in ("", "?sslmode=require&sslpassword=hush"):
        assert without_password(f"postgresql://shop:{encoded}@db.example/orders{end}") == SHOWN
    as_typed = f"postgresql://shop:{secret}@db.example/orders"
    if any(c in secret for c in "@/ ") or "%h" in secret:
        with pytest.raises(sr.InputError, match="cannot be parsed") as caught:
            without_password(as_typed)
        assert "hush" not in str(caught.value)
    else:
        assert without_password(as_typed) == SHOWN


def test_hosts_are_shown_as_they_are_written():
    pytest.importorskip("psycopg", reason="psycopg is not installed: surerec[postgres]")
    for address in ("postgres://u@[::1]:5433/db", "postgresql://a:1,b:2/db", "postgresql://u@h"):
        assert without_password(address) == address
    assert without_password("postgresql://u@/db?host=/run/pg") == "postgresql://u@%2Frun%2Fpg/db"
    assert without_password("sqlite:////tmp/a.db?key=hush") == "sqlite:////tmp/a.db"


UNUSABLE = ["postgresql://shop:hush@[::1/db", "postgresql://shop:hush@h:port/db"]
UNUSABLE += ["postgresql://shop:hu/hush@h/db", "mysql://shop:hush@h/db", "PostgreSQL://a:hush@h/b"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    consumed = sr.datasets.synthetic(n_users=30, n_items=9, n_rows=150, random_state=2)
    path = tmp_path_factory.mktemp("models") / "model"
    sr.PopulationConformal("CM12", n_calibration=10).fit(consumed).save(path)
    return path


@pytest.mark.parametrize("address", UNUSABLE)
def test_an_unusable_address_is_one_message_without_the_password(address, cli, tmp_path, model):
    pytest.importorskip("psycopg", reason="psycopg is not installed: surerec[postgres]")
    for asked in (
        ("describe", address, "--query", QUERY),
        ("audit", address, "--recommender", "x"),
        ("recommend", model, "--all", "--output", address, "--table", "picks"),
        ("live", "init", tmp_path / "live", model, "--store", address),
    ):
        done = cli(*asked)
        done.assert_refused("address")
        assert "hush" not in done.err
    for read in (sr.read_interactions, sr.InductiveConformal("CM12").fit):
        with pytest.raises(sr.InputError, match="address") as caught:
            read(address)
        assert "hush" not in str(caught.value)


@pytest.mark.parametrize("secret", ["hush#hush", "hush?hush", "hush:hush", "hush%2F%40%25hush"])
def test_no_password_is_kept_or_printed(secret, postgres, cli, tmp_path):
    import psycopg  # noqa: PLC0415

    place = postgres()
    consumed = sr.datasets.synthetic(n_users=40, n_items=12, n_rows=300, random_state=2).to_frame()
    write_table([consumed.with_columns(pl.col("datetime").dt.epoch("s"))], place, "log")
    address = place.replace("surerec@", f"surerec:{secret}@")
    query = ("--query", "SELECT * FROM log")
    model, live = tmp_path / "model", tmp_path / "live"
    done = [
        cli("describe", address, *query),
        cli("fit", address, model, *query),
        cli("describe", address, "--query", "SELECT 1 FROM nowhere"),
        cli("live", "init", live, model, "--store", address),
        cli("live", "init", tmp_path / "again", model, "--store", address),
        cli("live", "status", live, "--json"),
    ]
    assert [each.code for each in done] == [0, 0, 2, 0, 2, 0], done
    for each in done:
        assert "hush" not in each.out + each.err
    for path in model.rglob("*"):
        assert path.is_dir() or b"hush" not in path.read_bytes()
    name = psycopg.conninfo.conninfo_to_dict(place)["dbname"]
    assert name in (model / "manifest.json").read_text()  # which GET /v1/model answers from


def test_driver_messages_never_quote_the_password():
    pytest.importorskip("psycopg", reason="psycopg is not installed: surerec[postgres]")
    error = ValueError('invalid token: "hush"')
    assert driver_message(error, "postgresql://a:hush@h/b") == "ValueError"
    assert driver_message(error, "postgresql://a:other@h/b") == 'invalid token: "hush"'
