"""What the documents hold: pages, blocks of code, commands."""

import re
import shlex
import sqlite3
from contextlib import closing
from pathlib import Path

import polars as pl

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def groups_file(folder):
    """Write a file of two groups of users, as the page on groups has it."""
    path = folder / "groups.csv"
    path.write_text("user_id,group\n196,a\n22,a\n7,b\n9,b\n")
    return path


def shop_orders(folder, taken):
    """Write the interactions as the file of the page on a shop's CSV."""
    frame = taken.to_frame().with_columns(
        user_id=pl.format("c{}", pl.col("user_id") + 1000),
        item_id=pl.format("p{}", pl.col("item_id")),
        product_name=pl.format("Product {}", pl.col("item_id")),
    )
    columns = {"user_id": "customer", "item_id": "product", "datetime": "purchased_at"}
    frame.rename(columns).write_csv(folder / "orders.csv")
    products = frame.select(product="item_id", name="product_name").unique(maintain_order=True)
    products.write_csv(folder / "products.csv")


def shop_database(folder, taken):
    """Write the interactions into the database that the page on data reads."""
    with closing(sqlite3.connect(folder / "shop.db")) as connection, connection:
        connection.execute("CREATE TABLE orders (customer, sku, bought_at)")
        rows = taken.to_frame().with_columns(pl.col("datetime").dt.epoch("s")).iter_rows()
        connection.executemany("INSERT INTO orders VALUES (?, ?, ?)", rows)


def blocks(page, language):
    """Give the blocks of a language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


def commands(page):
    """Give every call of surerec in a page's shell blocks, as words."""
    found = []
    for block in blocks(page, "sh"):
        for line in block.replace("\\\n", "").splitlines():
            for part in re.split(r"&&", line):
                words = shlex.split(part, comments=True)
                if words[:1] == ["surerec"]:
                    found.append(words[1:])
    return found
