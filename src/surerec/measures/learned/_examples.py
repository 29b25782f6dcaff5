"""What the trees are trained on: the pasts of users whom the features do not know.

Features come from other users alone, so that an example looks as it will for a new user. Leaving a
user out of counts that include them is not the same for training: an item that they consumed would
be counted by one user less than one that they did not, and trees would learn just that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from surerec._threads import one_thread, run_blocks
from surerec._words import DAY
from surerec.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from surerec.interactions import Interactions
    from surerec.measures.learned._features import Features


@dataclass(frozen=True)
class TrainedFuture:
    """A share of the profile, a number of next items, or the days of a window.

    Examples
    --------
    >>> times = np.array([0, 1, 2, 3, 10, 11]) * DAY
    >>> TrainedFuture(0.4).longest_past(times), TrainedFuture(2).longest_past(times)
    (4, 4)
    >>> [TrainedFuture(0.4).stop(times, length) for length in (1, 3, 4)]
    [2, 5, 6]
    >>> window = TrainedFuture(0.4, window=3)
    >>> window.longest_past(times), window.stop(times, 1)
    (4, 4)
    """

    horizon: float | int = 0.4
    window: float | None = None

    def __post_init__(self) -> None:
        share = isinstance(self.horizon, (float, np.floating)) and 0 < self.horizon < 1
        whole = isinstance(self.horizon, (int, np.integer)) and self.horizon > 0
        if isinstance(self.horizon, bool) or not (share or whole):
            raise InputError(
                f"horizon is {self.horizon!r}; it must be between 0 and 1, or a whole number of "
                "next items."
            )

    @property
    def is_share(self) -> bool:
        """Whether the future is the rest of the profile."""
        return self.window is None and isinstance(self.horizon, (float, np.floating))

    def longest_past(self, times: NDArray[np.int64]) -> int:
        """Return how much of a profile is known if the future ends with it; at least one item."""
        n_items = len(times)
        if self.window is not None:
            past = int(np.searchsorted(times, times[-1] - int(self.window * DAY), side="right"))
        elif self.is_share:
            past = round((1 - self.horizon) * n_items)
        else:
            past = n_items - int(self.horizon)
        return min(max(past, 1), n_items - 1)

    def stop(self, times: NDArray[np.int64], length: int) -> int:
        """Return where the future ends that begins after so many items.

        A window begins with the next item: whoever took nothing in it has no future there. The
        future of a share is ``horizon / (1 − horizon)`` of what is known, as it is where the
        promise is made: all that follows a short past would teach what comes in the end.
        """
        stop = len(times)
        if self.is_share and length < self.longest_past(times):
            stop = min(stop, length + round(length * self.horizon / (1 - self.horizon)))
        if self.window is not None:
            end = int(times[length]) + int(self.window * DAY)
            stop = int(np.searchsorted(times, end, side="left"))
        if isinstance(self.horizon, (int, np.integer)):
            stop = min(stop, length + int(self.horizon))
        return max(stop, length + 1)

    def mean_length(self, interactions: Interactions, users: NDArray[np.int64]) -> float:
        """Return how many items a future has on average, over those of the users who have one."""
        if self.window is None and not self.is_share:
            return float(self.horizon)
        lengths = []
        for user in users[np.diff(interactions.offsets)[users] > 1]:
            times = interactions.times_of(int(user))
            past = self.longest_past(times)
            lengths.append(self.stop(times, past) - past)
        return float(np.mean(lengths)) if lengths else 1.0


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
    random_state: int
    held_out: float = _HELD_OUT
    """The share of users who are set aside."""

    def among(self, n_users: int) -> Sampling:
        """Return the same for so many users: of many a smaller share is set aside."""
        return replace(self, held_out=min(self.held_out, MOST_HELD_OUT / max(n_users, 1)))

    def sets_aside(self, user: int) -> bool:
        """Return whether a user is set aside: trees are compared by them, and not grown on them."""
        return bool(np.random.default_rng((self.random_state, user)).random() < self.held_out)


class Examples(NamedTuple):
    """Features of items for pasts, and whether each was taken next."""

    features: NDArray[np.float32]
    """One row an item."""
    consumed: NDArray[np.float32]
    offset: NDArray[np.float64]
    """What the log-odds would be among the examples of that past if all items were alike.

    Given to the trees, it leaves them to learn what tells items apart, and nothing of how many
    items a user takes or how many were sampled.
    """
    held_out: NDArray[np.bool_]
    """Those of users on whom training is stopped, so that it ends before it learns by heart."""
    owners: NDArray[np.int64]
    """Whose they are, by code."""

    @classmethod
    def joined(cls, parts: list[Examples]) -> Examples:
        """Put examples end to end."""
        return cls(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def log_odds(n_consumed: float, n_others: float) -> float:
    """Return the log-odds of an item to be one of those taken, if all are alike."""
    return float(np.log((n_consumed + 0.5) / (n_others + 0.5)))


@dataclass(frozen=True)
class Strangers:
    """Users whom the features do not know, with what they consumed in the features' codes."""

    features: Features
    interactions: Interactions
    codes: NDArray[np.int64]
    """Of each of their items the code that the features have for it, −1 for none."""

    @classmethod
    def of(cls, features: Features, interactions: Interactions) -> Strangers:
        """Look up the items of interactions that are not behind the features."""
        profiles = features.statistics.interactions
        return cls(features, interactions, profiles.items.codes(interactions.items.ids))

    def cut(
        self, user: int, length: int, future: TrainedFuture
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        """Return a user's first items and what followed, as far as the features know them.

        None where they know nothing of the one or of the other.
        """
        stop = future.stop(self.interactions.times_of(user), length)
        profile = self.codes[self.interactions.consumed(user)]
        known, after = (part[part >= 0] for part in (profile[:length], profile[length:stop]))
        return (known, after) if len(known) and len(after) else None


def make_examples(
    strangers: Strangers,
    users: NDArray[np.int64],
    sampling: Sampling,
    advance: Callable[[float], None],
) -> list[Examples]:
    """Draw examples from some users, whose codes also seed their draws.

    Parameters
    ----------
    strangers : Strangers
        The users, and the features that do not know them.
    users : array of int
        Their codes.
    sampling : Sampling
        How to draw.
    advance : callable
        Hears of the users done.
    """

    def some(start: int) -> list[Examples]:
        block = users[start : start + _USERS_AT_ONCE].tolist()
        with one_thread():
            return [each for user in block for each in _of_user(strangers, user, sampling)]

    parts: list[Examples] = []
    for found in run_blocks(some, range(0, len(users), _USERS_AT_ONCE)):
        parts += found
        advance(_USERS_AT_ONCE)
    return parts


def _of_user(strangers: Strangers, user: int, sampling: Sampling) -> list[Examples]:
    features, times = strangers.features, strangers.interactions.times_of(user)
    chance = np.random.default_rng((sampling.random_state, user))
    held_out = chance.random() < sampling.held_out
    examples = []
    for length in _cuts(times, sampling, chance):
        parts = strangers.cut(user, length, sampling.future)
        if parts is None:
            continue
        known, after = parts
        # What is taken later still is not taken in this future.
        not_then = features.statistics.items_outside(np.concatenate((known, after)))
        n_negatives = min(sampling.negatives, len(not_then))
        if not n_negatives:
            continue
        others = chance.choice(not_then, n_negatives, replace=False)
        columns = np.concatenate((after, others))
        consumed = np.zeros(len(columns), np.float32)
        consumed[: len(after)] = 1.0
        examples.append(
            Examples(
                features.of(known, columns=columns).T,
                consumed,
                np.full(len(columns), log_odds(len(after), n_negatives)),
                np.full(len(columns), held_out),
                np.full(len(columns), user),
            )
        )
    return examples


def _cuts(times: NDArray[np.int64], sampling: Sampling, chance: np.random.Generator) -> list[int]:
    """Return the length of each past: all but the future, then shorter ones, down to one item."""
    longest = sampling.future.longest_past(times)
    shorter = (longest * chance.random(sampling.n_cuts - 1)).astype(int)
    return [longest, *np.maximum(shorter, 1).tolist()]
