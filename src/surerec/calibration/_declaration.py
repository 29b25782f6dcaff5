"""Checks whether a scorer leaves users out, as it declares.

The first check refits the measure on data in which one user consumed other items. With that user
left out, scores must not change. It is exact, and uses a sample of users to limit its cost.

The second check looks at rankings, and also works for a fitted scorer. With the user left out, an
item that few others consumed ranks about as high as other items with that number of users. A scorer
that knows the user's own interactions ranks it above nearly all of them.
"""

from __future__ import annotations

import warnings
from copy import deepcopy
from time import monotonic
from typing import TYPE_CHECKING, Final

import numpy as np

from surerec.errors import InputError
from surerec.interactions import Interactions
from surerec.measures import OwnScorer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.measures import Measure, Scorer
    from surerec.precedence import PrecedenceStatistics

_MOST_USERS: Final = 400
"""Number of users in a refit."""
_REFITS: Final = 4
"""Number of users who get other items, each in a separate refit."""
_SECONDS: Final = 10.0
"""No further refit starts after this time."""
_TOLERANCE: Final = 1e-6
"""Smaller differences, relative to the largest score, may be single-precision rounding."""
_RANKED: Final = 30
"""Number of users whose rankings are checked."""
_FEWEST_RANKED: Final = 10
_POOL: Final = 20_000
"""Number of users that are searched for rare held-out items."""
_SHORTEST: Final = 10
_KNOWN: Final = 0.6
_RARE: Final = 5
"""An item is rare if at most this many other users consumed it."""
_COMPARED: Final = 20
"""Number of items of equal popularity that a held-out item is compared with."""
_TOO_HIGH: Final = 0.9
"""Scorers that leave users out rank rare held-out items above 50 to 80% of those items."""
_ERRORS: Final = 3.0
"""The mean must exceed that by this many standard errors."""
_TWINS: Final = 0.8
"""Users with a neighbour this similar (Jaccard) are skipped, as the neighbour reveals them."""


def refuse_false_declaration(
    measure: Measure, scorer: Scorer, statistics: PrecedenceStatistics, random_state: int = 0
) -> None:
    """Raise InputError if a scorer declares ``leaves_users_out = True`` and does not do so."""
    if why := false_declaration(measure, scorer, statistics, random_state):
        raise InputError(
            f"{why}. Fix score(history, without_user=…), or declare leaves_users_out = False."
        )


def false_declaration(
    measure: Measure, scorer: Scorer, statistics: PrecedenceStatistics, random_state: int = 0
) -> str:
    """Return why a declared ``leaves_users_out = True`` is false; empty if no check fails.

    Built-in scorers are not checked here, as contract tests check them.

    Parameters
    ----------
    measure : Measure
        Fits such scorers.
    scorer : Scorer
        The scorer that it fitted on the statistics.
    statistics : PrecedenceStatistics
        Statistics with the histories of users.
    random_state : int, default=0
        Seed of the sample of users.

    Examples
    --------
    >>> import surerec as sr
    >>> from surerec.measures import as_measure
    >>> class Popular:
    ...     leaves_users_out = True
    ...
    ...     def __init__(self, statistics):
    ...         self.support = statistics.support
    ...
    ...     def score(self, history, *, without_user=None):
    ...         return self.support
    >>> counts = sr.count_precedence(sr.datasets.synthetic(n_users=50, n_items=30, n_rows=600))
    >>> measure = as_measure(Popular)
    >>> false_declaration(measure, measure.fit(counts), counts).partition(":")[0]
    'Popular declares leaves_users_out = True, which is false'
    """
    profiles = statistics.interactions
    is_own = isinstance(scorer, OwnScorer) and scorer.leaves_users_out
    if not statistics.has_profiles or not is_own:
        return ""
    random = np.random.default_rng((random_state, 29))
    found = _by_ranking(scorer, profiles, random)
    if not found and measure.refits:
        found = _by_refitting(measure, statistics, profiles, random)
    return found and f"{scorer.name} declares leaves_users_out = True, which is false: {found}"


def _by_refitting(
    measure: Measure,
    statistics: PrecedenceStatistics,
    profiles: Interactions,
    random: np.random.Generator,
) -> str:
    """Compare scores with those of a fit in which the left-out user consumed other items."""
    lengths = np.diff(profiles.offsets)
    users = random.permutation(np.flatnonzero((lengths > 1) & (lengths < profiles.n_items)))
    others = np.ones(profiles.n_users, dtype=bool)
    others[users[:_MOST_USERS]] = False
    sample = profiles.without_users(np.flatnonzero(others))
    own, end = deepcopy(measure), monotonic() + _SECONDS  # as a fit may change it

    def fitted(data: Interactions) -> Scorer:
        return own.fit(own.count(data, statistics.ties))

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a model may warn about little data
            here = fitted(sample)
            for user in users[:_REFITS].tolist():
                history = sample.consumed(user)[: max(1, lengths[user] // 2)].astype(np.int64)
                scores = here.score(history, without_user=user)
                there = fitted(with_other_items(sample, user, random))
                n_changed = _n_changed(scores, there.score(history, without_user=user))
                if not n_changed and monotonic() < end:
                    continue
                if not n_changed:
                    break
                if _n_changed(scores, fitted(sample).score(history, without_user=user)):
                    return ""  # not deterministic, so not comparable
                return (
                    f"refitted with other items for user {profiles.users[user]!r}, "
                    f"score(history, without_user=…) of that user changed for {n_changed:,} of "
                    f"{len(scores):,} items"
                )
    except Exception:  # noqa: BLE001  # a model may reject few users, which is no leak
        return ""
    return ""


def _n_changed(one: NDArray[np.float64], other: NDArray[np.float64]) -> int:
    with np.errstate(over="ignore"):
        largest = max(np.abs(one).max(), np.abs(other).max())
        return int((np.abs(one - other) > _TOLERANCE * largest).sum())


def with_other_items(data: Interactions, user: int, random: np.random.Generator) -> Interactions:
    """Return the data with other items for one user: as many, at the same times."""
    own: NDArray[np.uint32] = data.consumed(user)
    others = np.setdiff1d(np.arange(data.n_items), own)
    instead = random.permutation(np.concatenate((random.permutation(others), own)))[: len(own)]
    items = data.item_codes.copy()
    items[data.offsets[user] : data.offsets[user + 1]] = instead
    return Interactions(data.users, data.items, data.offsets, items, data.times)


def _by_ranking(scorer: Scorer, profiles: Interactions, random: np.random.Generator) -> str:
    """Compare held-out items, preferably rare ones, with others of equal popularity."""
    support = np.bincount(profiles.item_codes, minlength=profiles.n_items)
    above = []
    for user, items in _held_out(profiles, support, random):
        own = profiles.consumed(user).astype(np.int64)
        without = support.copy()
        without[own] -= 1
        candidates = without > 0
        candidates[own] = False
        codes = np.flatnonzero(candidates)
        if len(codes) < _COMPARED or _has_twin(profiles, user):
            continue
        scores = scorer.score(own[: _n_known(len(own))], without_user=user)
        above.append(np.mean([_share_below(scores, without, codes, item) for item in items]))
        if len(above) == _RANKED:
            break
    if len(above) < _FEWEST_RANKED:
        return ""
    mean, error = np.mean(above), np.std(above) / np.sqrt(len(above))
    if mean - _ERRORS * error <= _TOO_HIGH:
        return ""
    return (
        f"with the user left out, items that {len(above)} sampled users consumed next rank above "
        f"{mean:.0%} of the items that equally many other users consumed, as if their own "
        "interactions were known"
    )


def _share_below(
    scores: NDArray[np.float64],
    support: NDArray[np.int64],
    candidates: NDArray[np.int64],
    item: np.integer,
) -> float:
    """Return the share of the candidates nearest in support that an item ranks above."""
    nearest = np.argsort(np.abs(support[candidates] - support[item]), kind="stable")[:_COMPARED]
    others = scores[candidates[nearest]]
    return float(np.mean(others < scores[item]) + np.mean(others == scores[item]) / 2)


def _held_out(
    profiles: Interactions, support: NDArray[np.int64], random: np.random.Generator
) -> list[tuple[int, NDArray[np.uint32]]]:
    """Return users and items of their last 40%: the rare items, or all if none is rare.

    Users with the rarest items come first. Items without other users are skipped.
    """
    lengths = np.diff(profiles.offsets)
    users = random.permutation(np.flatnonzero(lengths >= _SHORTEST))[:_POOL]
    found = []
    for user in users.tolist():
        held_out = profiles.consumed(user)[_n_known(lengths[user]) :]
        others = support[held_out] - 1
        held_out, others = held_out[others > 0], others[others > 0]
        if len(others):
            rare = others <= _RARE
            chosen = held_out[rare] if rare.any() else held_out
            found.append((min(int(others.min()), _RARE + 1), user, chosen))
    found.sort(key=lambda each: each[0])
    return [(user, items) for _, user, items in found[: 4 * _RANKED]]


def _n_known(length: int) -> int:
    return int(np.ceil(_KNOWN * length))


def _has_twin(profiles: Interactions, user: int) -> bool:
    """Return whether another user consumed nearly the same items."""
    own = np.zeros(profiles.n_items, dtype=bool)
    own[profiles.consumed(user)] = True
    ends = np.concatenate(([0], np.cumsum(own[profiles.item_codes])))[profiles.offsets]
    shared, lengths = np.diff(ends), np.diff(profiles.offsets)
    similar = shared >= _TWINS * (lengths + lengths[user] - shared)
    similar[user] = False
    return bool((similar & (lengths > 0)).any())
