import json
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

import surerec as sr


@pytest.fixture(scope="package")
def shop(tmp_path_factory):
    """A folder with orders with titles, earlier and later ones, groups, and models of them."""
    at = tmp_path_factory.mktemp("shop")
    data = sr.datasets.synthetic(n_users=200, n_items=50, n_rows=4_000, days=400, random_state=3)
    even = pl.when(pl.col("item_id") % 2 == 0).then(pl.format("Thing {}", pl.col("item_id")))
    now = data.to_frame().with_columns(product_name=even)
    now.write_csv(at / "now.csv")
    now.filter(pl.col("datetime") < now["datetime"].quantile(0.7)).write_csv(at / "then.csv")
    then = sr.read_interactions(at / "then.csv", title="product_name")
    counts = sr.count_precedence(then)
    models = {
        "mining": sr.PrecedenceMining(),
        "icrs3": sr.InductiveConformal("CM3"),
        "precise": sr.PopulationConformal("CM12", guarantee="precision"),
        "hit": sr.PopulationConformal("CM8", guarantee="hit", horizon=5),
        "model": sr.PopulationConformal("CM12"),
    }
    for name, each in models.items():
        each.fit(counts).save(at / name)
        each.save(at / "all", name)
    lengths = np.diff(then.offsets)
    users = [then.users[int(u)] for u in np.flatnonzero((lengths > 9) & (lengths < 30))][:6]
    groups = {"user_id": users, "group": ["ab"[place % 2] for place in range(6)]}
    pl.DataFrame(groups).write_csv(at / "groups.csv")
    items = then.items.ids.to_list()[::2]
    (at / "ids.txt").write_text("".join(f"{item}\n" for item in items))
    return SimpleNamespace(at=at, then=then, users=[str(user) for user in users], items=items)


@pytest.fixture
def run(cli, shop, monkeypatch):
    """Run ``surerec`` in the shop's folder."""
    monkeypatch.chdir(shop.at)
    return cli


@pytest.fixture
def answer(run):
    """Run ``surerec`` with ``--format json`` and return the answer."""

    def ask(*words):
        done = run(*words, "--format", "json")
        assert done.code == 0, done.err
        return json.loads(done.out)

    return ask
