"""Exchangeable data, drifting data, and their audits, each built once."""

from functools import cache

import numpy as np
import polars as pl

import surerec as sr
from surerec.audit import audit


@cache
def exchangeable():
    """Histories of 64 items in random order: 19 calibrate, so that every ε is attained exactly."""
    return sr.datasets.synthetic(
        n_users=400, n_items=200, n_rows=400 * 64, length_spread=0, sequels=0, random_state=2
    )


@cache
def drifting():
    """Users who consume popular items first and rare items later, as on MovieLens."""
    made = sr.datasets.synthetic(
        n_users=400, n_items=200, n_rows=400 * 64, length_spread=0.5, drift=0.5, random_state=2
    )
    rng = np.random.default_rng(2)
    items = made.item_codes.astype(np.int64)  # the most popular item is 0
    owners = np.repeat(np.arange(made.n_users), np.diff(made.offsets))
    order = np.lexsort((items + rng.normal(0, 60, len(items)), owners))
    return sr.Interactions.from_profiles(made.offsets, items[order], made.times, name="drifting")


@cache
def audit_of_drifting():
    return audit(drifting(), n_users=400)


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
