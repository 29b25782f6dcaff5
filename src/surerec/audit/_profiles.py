"""Notes on the data, and findings against the assumption of exchangeable users."""

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
"""Shorter histories can be similar, or unusual, by coincidence."""
_SIMILAR: Final = 0.8
"""The smallest Jaccard similarity of near-duplicates."""
_MOST_OF_ALL: Final = 0.25
"""Histories with a larger share of the catalogue are similar anyway, and are not compared."""
_BANDS: Final = 16
_ROWS: Final = 4
"""Rows of a band: a pair of similarity 0.8 shares a band's key with probability 99.98%."""
_PRIME: Final = 0x9E3779B97F4A7C15  # spreads the keys of a band
_NEIGHBOURS: Final = 4
"""Users of the same key that each user is compared with, so that time is linear in users."""
_COINCIDENCES: Final = 0.01
"""Expected number of pairs that are as similar by coincidence."""
_MANY: Final = 0.01
"""The smallest share of users that affects a guarantee by more than noise."""
_LONG: Final = 10.0
"""Multiple of the median length above which a history that ignores popularity is a bot's."""
_UNIFORM: Final = 0.52
"""Mean popularity rank of random items (1 is the most popular), with a bot's own effect on it."""
_LARGE: Final = 1000
"""Size of a catalogue that no human consumes completely."""
_FAR: Final = 6.0
"""Robust standard deviations of the log length above which a history is an outlier."""
_NAMED: Final = 5
_ENOUGH_WINDOWS: Final = 6
_BEFORE: Final = 3  # windows that the oldest model needs before the tested window
_LENGTHS: Final = (365, 180, 90, 60, 30, 14, 7, 3, 2, 1)


class Finding(NamedTuple):
    """A property of the data or the scorer that limits the guarantees."""

    sentence: str
    limits: str = ""
    """Users for whom a guarantee that holds here may fail; empty without such users."""
    about: str = ""
    """Label of its users in the segment table; empty if it has no users."""
    users: NDArray[np.int64] | None = None


def profile_findings(interactions: Interactions, random_state: int = 0) -> list[Finding]:
    """Return the findings against exchangeable users in these data.

    Examples
    --------
    >>> import surerec as sr
    >>> films = sr.datasets.synthetic(n_users=300, n_items=200, n_rows=9000, random_state=1)
    >>> profile_findings(films)
    []
    """
    found = []
    n_long = int((np.diff(interactions.offsets) >= _SHORTEST).sum())
    similar, bots = near_duplicates(interactions, random_state), bot_like(interactions)
    if len(similar) >= max(2, _MANY * n_long):
        found.append(
            Finding(
                f"{_describe(similar, n_long, interactions)} share at least {_SIMILAR:.0%} of "
                "their items with another user, far more than expected by coincidence. A "
                "near-duplicate reveals what the user consumes next, so the observed recall is too "
                "high for other users. Merge duplicate accounts, then fit and audit again.",
                "users without a near-duplicate in the data",
                "near-duplicate",
                similar,
            )
        )
    if len(bots):
        found.append(
            Finding(
                f"{_describe(bots, n_long, interactions)} look like bots: their histories are far "
                "longer than those of other users, and most ignore popularity. They distort counts "
                "and thresholds. Remove them, then fit and audit again.",
                "users who are not bots" if len(bots) >= _MANY * n_long else "",
                "bot",
                bots,
            )
        )
    return found


def data_notes(interactions: Interactions) -> list[str]:
    """Return notes on repeated rows and equal times."""
    ties, read = interactions.tie_share, interactions.rows_read
    found = [f"{read.about_repeats()}."] if read.repeats else []
    if ties:
        found.append(
            f"{ties:.0%} of a user's items share a time with another. File order breaks ties."
        )
    return found


def default_window(interactions: Interactions) -> float:
    """Return the longest common window length, in days, that gives six test windows.

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
        f"{days:,.1f} days of data are too few for {_ENOUGH_WINDOWS} test windows with {_BEFORE} "
        "before them"
    )


def near_duplicates(interactions: Interactions, random_state: int = 0) -> NDArray[np.int64]:
    """Return the codes of users with a near-duplicate, by MinHash and banding.

    A pair has a Jaccard similarity of at least 0.8 that the popularity of the items does not
    explain. Users with fewer than 10 items, or with more than a quarter of the catalogue, are not
    compared.
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
    least_probability = np.log(_COINCIDENCES) - 2 * np.log(len(users))  # over all pairs
    has_similar = np.zeros(len(users), dtype=bool)
    for _ in range(_BANDS):
        keys = np.zeros(len(users), dtype=np.uint64)
        for _ in range(_ROWS):  # P(same first item of a random order) is the Jaccard similarity
            place = rng.permutation(interactions.n_items).astype(np.uint64)
            keys = keys * np.uint64(_PRIME) + np.minimum.reduceat(place[items], offsets[:-1])
        order = np.argsort(keys, kind="stable")
        for step in range(1, _NEIGHBOURS + 1):
            same = np.flatnonzero(keys[order[step:]] == keys[order[:-step]])
            pairs = np.stack((order[same], order[same + step]))
            first, second = pairs[:, ~has_similar[pairs].all(axis=0)]
            both = lengths[first] + lengths[second]
            shared = (consumed[first] * consumed[second]).sum(axis=1)
            similar = shared >= _SIMILAR * (both - shared)
            if not similar.any():
                continue
            first, second, shared = first[similar], second[similar], shared[similar]
            # A random user consumes items in proportion to support and history length.
            own, length = consumed[first], np.repeat(lengths[second], lengths[first])
            probabilities = np.minimum(support[own.indices] * length / interactions.n_rows, 1)
            expected = np.add.reduceat(probabilities, own.indptr[:-1]) / lengths[first]
            likely = stats.binom.logsf(shared - 1, lengths[first], expected)
            has_similar[np.append(first, second)[np.tile(likely < least_probability, 2)]] = True
    return users[has_similar]


def bot_like(interactions: Interactions) -> NDArray[np.int64]:
    """Return the codes of users whose histories are too long, or too uniform for their length.

    A bot's items are as popular as items drawn at random from the catalogue. A user with a long
    history consumes popular items more often, unless the catalogue is small.
    """
    lengths = np.diff(interactions.offsets)
    users = np.flatnonzero(lengths >= _SHORTEST)
    if not len(users):
        return users
    support = np.bincount(interactions.item_codes, minlength=interactions.n_items)
    consumed = np.flatnonzero(support)
    place = np.zeros(len(support))
    # Items with the same support share their mean rank.
    _, group, sizes = np.unique(support[consumed], return_inverse=True, return_counts=True)
    place[consumed] = ((np.cumsum(sizes) - sizes / 2) / len(consumed))[group]
    sums = np.concatenate(([0.0], np.cumsum(place[interactions.item_codes])))
    long = lengths[users]
    mean = (sums[interactions.offsets[users + 1]] - sums[interactions.offsets[users]]) / long
    uniform = mean < _UNIFORM + 3 / np.sqrt(12 * long)  # plus three standard errors
    # A user who consumes nearly all of a small catalogue does not choose.
    uniform &= (long <= len(consumed) / 2) | (len(consumed) >= _LARGE)
    middle = np.median(long)
    logs = np.log(long / middle)
    far = logs > _FAR * max(1.4826 * float(np.median(np.abs(logs))), 0.5)
    found: NDArray[np.int64] = users[((long >= _LONG * middle) & uniform) | far]
    return found


def _describe(users: NDArray[np.int64], n_long: int, interactions: Interactions) -> str:
    ids = interactions.users.ids.gather(users[:_NAMED]).to_list()
    named = ", ".join(map(shown, ids)) + (", …" if len(users) > _NAMED else "")
    return f"{len(users):,} of {n_long:,} users with {_SHORTEST} items or more ({named})"
