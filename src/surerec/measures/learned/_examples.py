"""What the trees are trained on: other users' pasts, and what they took next or did not.

A user is left out of all counts. So an item that they took is counted by one taker less than if
they had not, and trees that can tell items apart by their counts would learn just that: one less
than usual, taken. Therefore each item that they did not take is counted without one of its takers,
drawn at random, and both kinds of items are counted alike. (On small data, trees that were trained
without this measured worse than the best of the formulas.)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from surerec._threads import run_blocks
from surerec.interactions import IdMap, Interactions

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from surerec.measures.learned._features import Features
    from surerec.measures.learned._futures import TrainedFuture


_USERS_AT_ONCE = 16
_HELD_OUT = 0.2
MOST_HELD_OUT = 400
"""Users who are set aside, about: more tell little more, and cost as much as those learned from."""


@dataclass(frozen=True)
class Sampling:
    """How examples are drawn."""

    future: TrainedFuture
    """What the trees learn to foresee."""
    n_cuts: int
    """How often each profile is cut: once before the future, then at random before that."""
    negatives: int
    """Items for each cut that the user did not take in that future."""
    seed: int
    held_out: float = _HELD_OUT
    """The share of users who are set aside."""

    def among(self, n_users: int) -> Sampling:
        """Give the same for so many users: of many a smaller share is set aside."""
        return replace(self, held_out=min(self.held_out, MOST_HELD_OUT / max(n_users, 1)))

    def sets_aside(self, key: int) -> bool:
        """Tell whether the user of a key is: trees are compared by them, and not grown on them."""
        return bool(np.random.default_rng((self.seed, key)).random() < self.held_out)


class Examples(NamedTuple):
    """Features of items for pasts, and whether each was taken next."""

    features: NDArray[np.float32]
    """One row an item."""
    taken: NDArray[np.float32]
    offset: NDArray[np.float64]
    """What the log-odds would be among the examples of that past if all items were alike.

    Given to the trees, it leaves them to learn what tells items apart, and nothing of how many
    items a user takes or how many were sampled.
    """
    held_out: NDArray[np.bool_]
    """Those of users on whom training is stopped, so that it ends before it learns by heart."""
    owners: NDArray[np.int64]
    """Whose they are, by code."""


def log_odds(n_taken: float, n_others: float) -> float:
    """Give the log-odds of an item to be one of those taken, if all are alike."""
    return float(np.log((n_taken + 0.5) / (n_others + 0.5)))


def without_users(interactions: Interactions, left_out: NDArray[np.bool_]) -> Interactions:
    """Give the profiles of the other users; items keep their codes."""
    users = np.flatnonzero(~left_out)
    lengths = np.diff(interactions.offsets)
    rows = np.repeat(~left_out, lengths)
    return Interactions(
        IdMap(interactions.users.ids.gather(users), noun="user"),
        interactions.items,
        np.concatenate(([0], np.cumsum(lengths[users]))),
        interactions.items_taken[rows],
        interactions.times[rows],
        popularity=interactions.popularity,
    )


def make_examples(
    features: Features,
    users: NDArray[np.int64],
    keys: NDArray[np.int64],
    sampling: Sampling,
    advance: Callable[[float], None],
) -> Examples:
    """Draw examples from some users, each with their own contribution left out.

    Parameters
    ----------
    features : Features
        Over the statistics that the users are part of.
    users : array of int
        Their codes there.
    keys : array of int
        A number for each that seeds their draws, whoever else is drawn.
    sampling : Sampling
        How to draw.
    advance : callable
        Hears of the users done.
    """

    def some(start: int) -> list[Examples]:
        stop = start + _USERS_AT_ONCE
        pairs = zip(users[start:stop].tolist(), keys[start:stop].tolist(), strict=True)
        return [each for user, key in pairs for each in _of_user(features, user, key, sampling)]

    parts: list[Examples] = []
    for found in run_blocks(some, range(0, len(users), _USERS_AT_ONCE)):
        parts += found
        advance(_USERS_AT_ONCE)
    return Examples(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _of_user(features: Features, user: int, key: int, sampling: Sampling) -> list[Examples]:
    interactions = features.statistics.interactions
    assert interactions is not None  # noqa: S101  # features are made from profiles
    profile = interactions.taken(user).astype(np.int64)
    chance = np.random.default_rng((sampling.seed, key))
    held_out = chance.random() < sampling.held_out
    examples = []
    times = interactions.times_of(user)
    ever = np.zeros(features.statistics.n_items, np.bool_)
    ever[profile] = True
    for length in _cuts(times, sampling, chance):
        stop = sampling.future.stop(times, length)
        after = profile[length:stop]
        # What is taken later still is not taken in this future.
        not_then = features.statistics.items_outside(profile[:stop])
        n_negatives = min(sampling.negatives, len(not_then))
        if not n_negatives:
            continue
        others = chance.choice(not_then, n_negatives, replace=False)
        columns = np.concatenate((after, others))
        nobody = np.full(len(after), -1)  # as there it is the user who is left out
        later = ever[others]  # and there as well
        found = features.of(
            profile[:length],
            without=(user,),
            columns=columns,
            stand_ins=np.concatenate(
                (nobody, np.where(later, -1, features.takers(others, chance)))
            ),
            moment=int(times[length - 1]),  # never that of what came next
        )
        taken = np.zeros(len(columns), np.float32)
        taken[: len(after)] = 1.0
        offset = np.full(len(columns), log_odds(len(after), n_negatives))
        owners = np.full(len(columns), user)
        examples.append(Examples(found.T, taken, offset, np.full(len(columns), held_out), owners))
    return examples


def _cuts(times: NDArray[np.int64], sampling: Sampling, chance: np.random.Generator) -> list[int]:
    """Give the length of each past: all but the future, then shorter ones, down to one item."""
    longest = sampling.future.longest_past(times)
    shorter = (longest * chance.random(sampling.n_cuts - 1)).astype(int)
    return [longest, *np.maximum(shorter, 1).tolist()]
