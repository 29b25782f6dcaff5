"""Data that are exchangeable by construction, data that drift, and their audits; made once."""

from functools import cache

import numpy as np

import surerec as sr
from surerec.audit import audit


@cache
def exchangeable():
    """Profiles of 64 items in random order: 19 calibrate, so that every ε is attained exactly."""
    return sr.datasets.synthetic(
        n_users=400, n_items=200, n_rows=400 * 64, length_spread=0, sequels=0, drift=0, seed=2
    )


@cache
def drifting():
    """People who take what is popular first, and what is rare later, as on MovieLens."""
    made = sr.datasets.synthetic(
        n_users=400, n_items=200, n_rows=400 * 64, length_spread=0.5, drift=0.5, seed=2
    )
    rng = np.random.default_rng(2)
    items = made.items_taken.astype(np.int64)  # the most popular item is 0
    owners = np.repeat(np.arange(made.n_users), np.diff(made.offsets))
    order = np.lexsort((items + rng.normal(0, 60, len(items)), owners))
    return sr.Interactions.from_profiles(made.offsets, items[order], made.times, name="drifting")


@cache
def calm():
    return audit(exchangeable(), n_users=400)


@cache
def moved():
    return audit(drifting(), n_users=400)


def with_users(data, profiles):
    """Give data with more users, each of them items and times."""
    items = [data.items_taken, *(items for items, _ in profiles)]
    times = [data.times, *(times for _, times in profiles)]
    lengths = [*np.diff(data.offsets), *(len(items) for items, _ in profiles)]
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    taken = np.concatenate(items).astype(np.int64)
    return sr.Interactions.from_profiles(offsets, taken, np.concatenate(times))


def with_duplicates(data, share, *, kept=1.0):
    """Give data in which a share of the users has a second account with most of their items."""
    rng = np.random.default_rng(1)
    profiles = []
    for user in rng.permutation(data.n_users)[: int(share * data.n_users)]:
        rows = rng.random(len(data.taken(user))) < kept
        profiles.append((data.taken(user)[rows], data.times_of(user)[rows]))
    return with_users(data, profiles)


def with_bots(data, n_bots, n_items):
    """Give data with users who consume items at random."""
    rng = np.random.default_rng(1)
    start, stop = data.times.min(), data.times.max()
    return with_users(
        data,
        [
            (rng.permutation(data.n_items)[:n_items], np.sort(rng.integers(start, stop, n_items)))
            for _ in range(n_bots)
        ],
    )
