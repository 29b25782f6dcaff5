"""What data are like, and what breaks the assumption of exchangeable users in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from scipy import sparse, stats

from surerec._words import DAY, shown
from surerec.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.interactions import Interactions

_SHORTEST: Final = 10
"""Shorter profiles are alike, or odd, by chance."""
_SIMILAR: Final = 0.8
"""The Jaccard similarity of near-duplicates."""
_MOST_OF_ALL: Final = 0.25
"""Profiles with a larger share of the catalogue are not compared: they are alike anyway."""
_BANDS: Final = 16
_ROWS: Final = 4
"""Of a band: at a similarity of 0.8 a pair shares the key of some band with 99.98%."""
_PRIME: Final = 0x9E3779B97F4A7C15  # spreads the keys of a band
_NEIGHBOURS: Final = 4
"""With how many users of the same key each is compared: time grows with users, not with pairs."""
_BY_CHANCE: Final = 0.01
"""How many pairs as similar as this may be expected in these data by chance."""
_MANY: Final = 0.01
"""The share of users from which on guarantees are affected by more than noise."""
_LONG: Final = 10.0
"""Times the median length, from which on a profile that follows no popularity is a bot's."""
_UNIFORM: Final = 0.52
"""The mean place of random items, where 1 is the most popular: half, and a bot's own part in it."""
_LARGE: Final = 1000
"""The items of a catalogue that no human consumes whole."""
_FAR: Final = 6.0
"""Robust standard deviations of the logarithm of lengths that no other profile explains."""
_NAMED: Final = 5
_ENOUGH_WINDOWS: Final = 6
_BEFORE: Final = 3  # windows that the oldest model needs before the one that is tested
_LENGTHS: Final = (365, 180, 90, 60, 30, 14, 7, 3, 2, 1)


class Finding(NamedTuple):
    """Something about the data, or what was audited, that the reader must know."""

    sentence: str
    limits: str = ""
    """For whom a guarantee that was kept here need not hold, in words; empty for nobody."""
    about: str = ""
    """What its users are, in a table of groups; empty if they are no group."""
    users: NDArray[np.int64] | None = None


def profile_findings(interactions: Interactions, random_state: int = 0) -> list[Finding]:
    """Return what stands against exchangeable users in these profiles.

    Examples
    --------
    >>> import surerec as sr
    >>> films = sr.datasets.synthetic(n_users=300, n_items=200, n_rows=9000, random_state=1)
    >>> profile_findings(films)
    []
    """
    found = []
    n_long = int((np.diff(interactions.offsets) >= _SHORTEST).sum())
    alike, bots = near_duplicates(interactions, random_state), bot_like(interactions)
    if len(alike) >= max(2, _MANY * n_long):
        found.append(
            Finding(
                f"{_counted(alike, n_long, interactions)} share at least {_SIMILAR:.0%} of their "
                "items with another user, far more than by chance. Such a near-duplicate reveals "
                "what the user consumes next, so calibration looks better than it is for users "
                "without one. Merge duplicate accounts, then fit and audit again.",
                "users without a near-duplicate in the data",
                "near-duplicate",
                alike,
            )
        )
    if len(bots):
        found.append(
            Finding(
                f"{_counted(bots, n_long, interactions)} look like bots: their profiles are far "
                "longer than those of others, and most of these follow no popularity. They "
                "distort counts and calibrate thresholds. Remove them, then fit and audit again.",
                "users who are not bots" if len(bots) >= _MANY * n_long else "",
                "bot",
                bots,
            )
        )
    return found


def known_of(interactions: Interactions) -> list[str]:
    """Return what a reader must know of times and repeats, in sentences."""
    ties, read = interactions.tie_share, interactions.rows_read
    found = [f"{read.about_repeats()}."] if read.repeats else []
    if ties:
        found.append(f"{ties:.0%} of a user's items share their instant: the file orders them.")
    return found


def default_window(interactions: Interactions) -> float:
    """Return the longest usual length, in days, of which the data have six windows to test.

    Examples
    --------
    >>> import surerec as sr
    >>> default_window(sr.datasets.synthetic(n_users=300, n_items=60, n_rows=6000, random_state=1))
    60.0
    """
    days = (int(interactions.times.max()) - int(interactions.times.min())) / DAY
    for length in _LENGTHS:
        if days // length >= _ENOUGH_WINDOWS + _BEFORE:
            return float(length)
    raise InputError(
        f"{days:,.1f} days from the first to the last item are too few for "
        f"{_ENOUGH_WINDOWS} windows with {_BEFORE} before them"
    )


def near_duplicates(interactions: Interactions, random_state: int = 0) -> NDArray[np.int64]:
    """Return the codes of users with a near-duplicate, by MinHash and banding.

    A pair counts if it has a Jaccard similarity of at least 0.8, and if the popularity of the items
    does not explain it. Users with fewer than 10 items, or with more than a quarter of the
    catalogue, are not compared.
    """
    lengths = np.diff(interactions.offsets)
    comparable = (lengths >= _SHORTEST) & (lengths <= _MOST_OF_ALL * interactions.n_items)
    users = np.flatnonzero(comparable)
    if not len(users):
        return users
    items = interactions.item_codes[np.repeat(comparable, lengths)]
    lengths = lengths[users]
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    shape = len(users), interactions.n_items
    consumed = sparse.csr_array((np.ones(len(items)), items, offsets), shape=shape)
    support = np.bincount(interactions.item_codes, minlength=interactions.n_items)
    rng = np.random.default_rng((random_state, 8))
    least_probability = np.log(_BY_CHANCE) - 2 * np.log(len(users))  # over all pairs
    is_alike = np.zeros(len(users), dtype=bool)
    for _ in range(_BANDS):
        keys = np.zeros(len(users), dtype=np.uint64)
        for _ in range(_ROWS):  # users share the first item of a random order with their Jaccard
            place = rng.permutation(interactions.n_items).astype(np.uint64)
            keys = keys * np.uint64(_PRIME) + np.minimum.reduceat(place[items], offsets[:-1])
        order = np.argsort(keys, kind="stable")
        for step in range(1, _NEIGHBOURS + 1):
            same = np.flatnonzero(keys[order[step:]] == keys[order[:-step]])
            pairs = np.stack((order[same], order[same + step]))
            first, second = pairs[:, ~is_alike[pairs].all(axis=0)]
            both = lengths[first] + lengths[second]
            shared = (consumed[first] * consumed[second]).sum(axis=1)
            similar = shared >= _SIMILAR * (both - shared)
            if not similar.any():
                continue
            first, second, shared = first[similar], second[similar], shared[similar]
            # By chance, a user consumes items in proportion to support and to their length.
            own, length = consumed[first], np.repeat(lengths[second], lengths[first])
            probabilities = np.minimum(support[own.indices] * length / interactions.n_rows, 1)
            chance = np.add.reduceat(probabilities, own.indptr[:-1]) / lengths[first]
            likely = stats.binom.logsf(shared - 1, lengths[first], chance)
            is_alike[np.append(first, second)[np.tile(likely < least_probability, 2)]] = True
    return users[is_alike]


def bot_like(interactions: Interactions) -> NDArray[np.int64]:
    """Return the codes of users whose profiles are too long, or too uniform for their length.

    A bot's items are as popular as items drawn at random from the catalogue. Users with long
    profiles consume popular items more often, unless they consumed a small catalogue whole.
    """
    lengths = np.diff(interactions.offsets)
    users = np.flatnonzero(lengths >= _SHORTEST)
    if not len(users):
        return users
    support = np.bincount(interactions.item_codes, minlength=interactions.n_items)
    consumed = np.flatnonzero(support)
    place = np.zeros(len(support))
    # Items with the same number of users share the middle of their places.
    _, group, sizes = np.unique(support[consumed], return_inverse=True, return_counts=True)
    place[consumed] = ((np.cumsum(sizes) - sizes / 2) / len(consumed))[group]
    sums = np.concatenate(([0.0], np.cumsum(place[interactions.item_codes])))
    long = lengths[users]
    mean = (sums[interactions.offsets[users + 1]] - sums[interactions.offsets[users]]) / long
    uniform = mean < _UNIFORM + 3 / np.sqrt(12 * long)  # three standard errors of random items
    # A small catalogue can be consumed nearly whole, which leaves nothing to choose.
    uniform &= (long <= len(consumed) / 2) | (len(consumed) >= _LARGE)
    middle = np.median(long)
    logs = np.log(long / middle)
    far = logs > _FAR * max(1.4826 * float(np.median(np.abs(logs))), 0.5)
    found: NDArray[np.int64] = users[((long >= _LONG * middle) & uniform) | far]
    return found


def _counted(users: NDArray[np.int64], n_long: int, interactions: Interactions) -> str:
    ids = interactions.users.ids.gather(users[:_NAMED]).to_list()
    named = ", ".join(map(shown, ids)) + (", …" if len(users) > _NAMED else "")
    return f"{len(users):,} of {n_long:,} users with {_SHORTEST} items or more ({named})"
