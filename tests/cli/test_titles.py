"""Titles on the command line: named once at the fit, and in every answer."""

import json
import re
import sqlite3

import polars as pl
import pytest

import surerec as sr


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """Orders with names, a file of titles, and groups of customers."""
    at = tmp_path_factory.mktemp("shop")
    taken = sr.datasets.synthetic(n_users=150, n_items=40, n_rows=3_000, seed=3).to_frame()
    orders = taken.rename({"user_id": "customer", "item_id": "sku", "datetime": "bought_at"})
    even = pl.when(pl.col("sku") % 2 == 0).then(pl.format("Thing {}", pl.col("sku")))
    orders.with_columns(product_name=even).write_csv(at / "orders.csv")
    products = orders.select("sku").unique().with_columns(name=pl.format("Ware {}", pl.col("sku")))
    pl.concat([products, pl.DataFrame({"sku": [10**6], "name": ["New"]})]).write_csv(
        at / "products.csv"
    )
    first = orders["customer"].unique(maintain_order=True).to_list()
    pl.DataFrame({"user_id": first[:6], "group": ["a", "a", "b", "b", "c", "c"]}).write_csv(
        at / "groups.csv"
    )
    return at


@pytest.fixture(scope="module")
def model(shop):
    taken = sr.read_interactions(shop / "orders.csv", title="product_name")
    sr.PopulationConformal("CM12").fit(taken).save(shop / "model")
    return shop / "model"


def check_titles(frame):
    assert frame["title"].null_count() not in (0, len(frame))
    for row in frame.iter_rows(named=True):
        expected = None if row["item_id"] % 2 else f"Thing {row['item_id']}"
        assert row["title"] == expected


def test_describe_counts_titles_and_repeats_the_options(cli, shop):
    done = cli("describe", shop / "orders.csv", "--titles", shop / "products.csv")
    assert "of titles has no interactions and was skipped" in done.out
    assert "took Ware" in done.out
    assert f"--titles {shop / 'products.csv'}" in done.err


def test_fit_keeps_the_titles(cli, shop, model, tmp_path):
    done = cli("fit", shop / "orders.csv", tmp_path / "model", "--title", "product_name")
    assert done.code == 0, done.err
    assert re.search(r"Titles +[0-9]+ of 40 items have one", done.err)
    assert (
        sr.load(tmp_path / "model").model_.titles.to_list()
        == sr.load(model).model_.titles.to_list()
    )


def test_recommendations_have_titles(cli, model):
    user = sr.load(model).statistics_.interactions.users[0]
    done = cli("recommend", model, "--user", user, "--format", "json")
    check_titles(pl.DataFrame(json.loads(done.out)["items"]))
    assert "Thing" in cli("recommend", model, "--user", user).out
    item = json.loads(done.out)["items"][0]["item_id"]
    assert "Thing" in cli("explain", model, "--user", user, "--item", item).out


@pytest.mark.parametrize("kind", ["parquet", "csv", "sqlite"])
@pytest.mark.parametrize("hits", [(), ("--hits",)])
def test_batch_output_has_titles(cli, model, tmp_path, kind, hits):
    asked = ("recommend", model, "--all", "--k", "5", *hits, "--output")
    if kind == "sqlite":
        done = cli(*asked, f"sqlite:///{tmp_path}/out.db", "--table", "picks")
        with sqlite3.connect(tmp_path / "out.db") as database:
            rows = database.execute("SELECT item_id, title FROM picks").fetchall()
        database.close()
        frame = pl.DataFrame(rows, schema=["item_id", "title"], orient="row")
    else:
        done = cli(*asked, tmp_path / f"out.{kind}")
        read = pl.read_parquet if kind == "parquet" else pl.read_csv
        frame = read(tmp_path / f"out.{kind}")
    assert done.code == 0, done.err
    check_titles(frame)


def test_groups_have_titles(cli, shop, model, tmp_path):
    asked = ("recommend", model, "--group-file", shop / "groups.csv", "--k", "9")
    done = cli(*asked, "--format", "parquet", "--output", tmp_path / "g.parquet")
    assert done.code == 0, done.err
    check_titles(pl.read_parquet(tmp_path / "g.parquet"))


def test_spark_reads_titles_from_a_file_only(cli, shop, tmp_path):
    spark = ("--engine", "spark", "--title", "product_name", "--ties", "strict")
    done = cli("fit", shop / "orders.csv", tmp_path / "m", *spark)
    assert done.code == 2
    assert "pass --titles FILE" in done.err


def test_cells_that_look_like_formulas_are_not_altered(cli, shop, tmp_path):
    taken = sr.read_interactions(shop / "orders.csv")
    titles = {one: f"={one}+1" for one in taken.items.ids}
    taken = sr.read_interactions(shop / "orders.csv", titles=titles)
    sr.InductiveConformal("CM12").fit(taken).save(tmp_path / "model")
    done = cli(
        "recommend", tmp_path / "model", "--all", "--k", "3", "--output", tmp_path / "out.csv"
    )
    assert done.code == 0, done.err
    rows = pl.read_csv(tmp_path / "out.csv")
    assert all(title == titles[one] for one, title in rows.select("item_id", "title").iter_rows())
