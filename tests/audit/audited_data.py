"""Data with duplicated users, or with bots."""

import numpy as np
import polars as pl

import surerec as sr


def with_users(data, more):
    """Return data with the rows of more users."""
    rows = data.to_frame().select("user_id", "item_id", "datetime")
    return sr.read_interactions(pl.concat([rows, more.cast(rows.schema)]), time="datetime")


def with_duplicates(data, share, *, kept=1.0):
    """Return data in which a share of the users has a second account with most of the items."""
    rng, rows = np.random.default_rng(1), data.to_frame().select("user_id", "item_id", "datetime")
    chosen = rng.permutation(data.users.ids.to_numpy())[: int(share * data.n_users)]
    same = rows.filter(pl.col("user_id").is_in(chosen), pl.Series(rng.random(len(rows)) < kept))
    return with_users(data, same.with_columns(pl.col("user_id") + 1_000_000))


def with_bots(data, n_bots, n_items):
    """Return data with users who consume items at random."""
    rng, ids = np.random.default_rng(1), data.items.ids.to_numpy()
    items = np.concatenate([rng.permutation(ids)[:n_items] for _ in range(n_bots)])
    times = rng.integers(data.times.min(), data.times.max(), len(items))
    users = np.repeat(data.users.ids.max() + 1 + np.arange(n_bots), n_items)
    more = pl.DataFrame({"user_id": users, "item_id": items, "datetime": times})
    return with_users(data, more.with_columns(pl.col("datetime").cast(pl.Datetime("us"))))
