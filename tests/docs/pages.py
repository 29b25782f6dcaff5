"""What the documents hold: pages, blocks of code, commands."""

import re
import shlex
import sqlite3
from contextlib import closing
from pathlib import Path

import polars as pl

from checks.site import commands as all_commands

ROOT = Path(__file__).parents[2]
_DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    *sorted(page for page in _DOCS.rglob("*.md") if page.parent != _DOCS / "reference"),
]


def name_of(page):
    """Return the path of a page below ``docs``, such as ``how-to/groups.md``."""
    return str(page.relative_to(_DOCS if page.is_relative_to(_DOCS) else ROOT))


def write_files(folder, consumed):
    """Write the files that the documents name."""
    frame = consumed.to_frame()
    frame.write_csv(folder / "ratings.csv")
    columns = {"user_id": "who", "item_id": "what", "datetime": "seen"}
    frame.rename(columns).write_csv(folder / "log.csv")
    early = pl.col("datetime") < frame["datetime"].sort()[len(frame) * 2 // 3]
    frame.filter(early).write_csv(folder / "before.csv")
    frame.filter(~early).write_csv(folder / "later.csv")
    users, items = frame["user_id"].unique().sort(), frame["item_id"].unique().sort()
    lands = ["AT" if number % 2 else "DE" for number in range(len(users))]
    of_users = pl.DataFrame({"user_id": users, "country": lands})
    of_users.write_csv(folder / "users.csv")
    (folder / "stock.txt").write_text("\n".join(map(str, items[:200])) + "\n")
    best = users.to_frame().join(items.head(100).to_frame(), how="cross")
    best.with_columns(score=pl.int_range(pl.len()) % 97).write_parquet(folder / "top100.parquet")
    people = pl.DataFrame({"user": ["x"] * 5, "item": items[:5], "time": range(5)})
    people.write_csv(folder / "visitors.csv")


def write_shop(folder, consumed):
    """Write the groups, the orders and the database that the pages name."""
    (folder / "groups.csv").write_text("user_id,group\n196,a\n22,a\n7,b\n9,b\n")
    frame = consumed.to_frame().with_columns(
        user_id=pl.format("c{}", pl.col("user_id") + 1000),
        item_id=pl.format("p{}", pl.col("item_id")),
        product_name=pl.format("Product {}", pl.col("item_id")),
    )
    columns = {"user_id": "customer", "item_id": "product", "datetime": "purchased_at"}
    frame.rename(columns).write_csv(folder / "orders.csv")
    products = frame.select(product="item_id", name="product_name").unique(maintain_order=True)
    products.write_csv(folder / "products.csv")
    with closing(sqlite3.connect(folder / "shop.db")) as connection, connection:
        connection.execute("CREATE TABLE orders (customer, sku, bought_at)")
        rows = consumed.to_frame().with_columns(pl.col("datetime").dt.epoch("s")).iter_rows()
        connection.executemany("INSERT INTO orders VALUES (?, ?, ?)", rows)


def check_understood(words):
    """Check that the command line knows a command and all its options; nothing is run."""
    known = dict(all_commands())
    names = tuple(words[:2]) if tuple(words[:2]) in known else tuple(words[:1])
    with known[names].make_context(names[-1], list(words[len(names) :])) as context:
        assert context.params is not None


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
